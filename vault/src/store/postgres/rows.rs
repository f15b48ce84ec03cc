//! Rows to and from tables.

use std::error::Error;

use gig_postgres::{Link, LinkError};
use tokio_postgres::{Row, types::FromSql, types::ToSql};

use crate::{
    cipher::Sealed,
    master_key::KeyId,
    store::{Change, CustodyRow, KeyRow, KeyState, SecretRow, Snapshot, VersionRow},
};

type Read<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How far commits have counted.
pub(super) fn generation(link: &Link) -> Result<u64, LinkError> {
    let look = "SELECT generation FROM secret_generation WHERE one = 1";
    let row = link.asked(link.client().query_one(look, &[]))?;
    number(&row, 0).map_err(LinkError::Failed)
}

/// Everything, as of one moment.
pub(super) fn snapshot(link: &Link) -> Result<Snapshot, LinkError> {
    // Whoever asks next gets this connection only when the moment is over.
    link.doubt();
    link.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let snapshot = Snapshot {
        generation: generation(link)?,
        secrets: all(
            link,
            "SELECT owner, name, definition, created, removed, key_id, tag, given FROM secrets
             ORDER BY owner, name",
            secret,
        )?,
        versions: all(
            link,
            "SELECT owner, name, version, created, expires, retires, revoked, custody, format,
             key_id, wrapped, value, tag FROM secret_versions ORDER BY owner, name, version",
            version,
        )?,
        custodies: all(
            link,
            "SELECT owner, salt, memory, passes, lanes, check_value, key_id, tag
             FROM secret_custodies ORDER BY owner",
            custody,
        )?,
        keys: all(
            link,
            "SELECT id, created, state, other, other_id, until FROM secret_keys
             ORDER BY created, id",
            key,
        )?,
    };
    link.run("COMMIT")?;
    link.trust();
    Ok(snapshot)
}

fn all<T>(link: &Link, sql: &str, read: fn(&Row) -> Read<T>) -> Result<Vec<T>, LinkError> {
    let rows = link.asked(link.client().query(sql, &[]))?;
    let read = rows.iter().map(read).collect::<Read<Vec<T>>>();
    read.map_err(LinkError::Failed)
}

fn secret(row: &Row) -> Read<SecretRow> {
    Ok(SecretRow {
        owner: text(row, 0)?.into(),
        name: text(row, 1)?.into(),
        definition: text(row, 2)?,
        created: row.try_get(3)?,
        removed: row.try_get(4)?,
        key: KeyId::from_row(text(row, 5)?),
        tag: row.try_get(6)?,
        given: number(row, 7)?,
    })
}

fn version(row: &Row) -> Read<VersionRow> {
    Ok(VersionRow {
        owner: text(row, 0)?.into(),
        name: text(row, 1)?.into(),
        version: number(row, 2)?,
        created: row.try_get(3)?,
        expires: row.try_get(4)?,
        retires: row.try_get(5)?,
        revoked: row.try_get(6)?,
        custody: row.try_get(7)?,
        format: number(row, 8)?,
        key: KeyId::from_row(text(row, 9)?),
        wrapped: sealed(row, 10)?,
        value: sealed(row, 11)?,
        tag: row.try_get(12)?,
    })
}

fn custody(row: &Row) -> Read<CustodyRow> {
    Ok(CustodyRow {
        owner: text(row, 0)?.into(),
        salt: row.try_get(1)?,
        memory: number(row, 2)?,
        passes: number(row, 3)?,
        lanes: number(row, 4)?,
        check: sealed(row, 5)?,
        key: KeyId::from_row(text(row, 6)?),
        tag: row.try_get(7)?,
    })
}

fn key(row: &Row) -> Read<KeyRow> {
    let other: Option<Vec<u8>> = row.try_get(3)?;
    let other = other.map(|octets| Sealed::from_row(&octets).ok_or(DAMAGED));
    let other_id: Option<String> = row.try_get(4)?;
    Ok(KeyRow {
        id: KeyId::from_row(text(row, 0)?),
        created: row.try_get(1)?,
        state: KeyState::from_row(row.try_get(2)?).ok_or(DAMAGED)?,
        other: other.transpose()?,
        other_id: other_id.map(KeyId::from_row),
        until: row.try_get(5)?,
    })
}

fn text(row: &Row, column: usize) -> Read<String> {
    Ok(row.try_get(column)?)
}

/// A number that is never negative.
fn number<T: TryFrom<i64>>(row: &Row, column: usize) -> Read<T> {
    let number: i64 = get(row, column)?;
    T::try_from(number).map_err(|_| DAMAGED.into())
}

fn sealed(row: &Row, column: usize) -> Read<Sealed> {
    let octets: Vec<u8> = get(row, column)?;
    Ok(Sealed::from_row(&octets).ok_or(DAMAGED)?)
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Read<T> {
    Ok(row.try_get(column)?)
}

/// Makes one change, within a transaction.
pub(super) fn apply(link: &Link, change: &Change) -> Result<(), LinkError> {
    match change {
        Change::PutSecret(row) => put_secret(link, row),
        Change::PutVersion(row) => put_version(link, row),
        Change::PutCustody(row) => put_custody(link, row),
        Change::PutKey(row) => put_key(link, row),
        Change::DeleteSecret { owner, name } => {
            let which: [&(dyn ToSql + Sync); 2] = [&&**owner, &&**name];
            run(
                link,
                "DELETE FROM secret_versions WHERE owner = $1 AND name = $2",
                &which,
            )?;
            run(
                link,
                "DELETE FROM secrets WHERE owner = $1 AND name = $2",
                &which,
            )
        }
        Change::DeleteVersion {
            owner,
            name,
            version,
        } => run(
            link,
            "DELETE FROM secret_versions WHERE owner = $1 AND name = $2 AND version = $3",
            &[&&**owner, &&**name, &version.cast_signed()],
        ),
        Change::DeleteCustody { owner } => run(
            link,
            "DELETE FROM secret_custodies WHERE owner = $1",
            &[&&**owner],
        ),
        Change::DeleteKey(id) => run(
            link,
            "DELETE FROM secret_keys WHERE id = $1",
            &[&id.as_str()],
        ),
    }
}

fn put_secret(link: &Link, row: &SecretRow) -> Result<(), LinkError> {
    run(
        link,
        "INSERT INTO secrets VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (owner, name) DO UPDATE SET
         (definition, created, removed, key_id, tag, given) =
         (excluded.definition, excluded.created, excluded.removed, excluded.key_id, excluded.tag,
          excluded.given)",
        &[
            &&*row.owner,
            &&*row.name,
            &row.definition,
            &row.created,
            &row.removed,
            &row.key.as_str(),
            &row.tag,
            &row.given.cast_signed(),
        ],
    )
}

fn put_version(link: &Link, row: &VersionRow) -> Result<(), LinkError> {
    run(
        link,
        "INSERT INTO secret_versions VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (owner, name, version) DO UPDATE SET
         (created, expires, retires, revoked, custody, format, key_id, wrapped, value, tag) =
         (excluded.created, excluded.expires, excluded.retires, excluded.revoked, excluded.custody,
          excluded.format, excluded.key_id, excluded.wrapped, excluded.value, excluded.tag)",
        &[
            &&*row.owner,
            &&*row.name,
            &row.version.cast_signed(),
            &row.created,
            &row.expires,
            &row.retires,
            &row.revoked,
            &row.custody,
            &i64::from(row.format),
            &row.key.as_str(),
            &row.wrapped.to_row(),
            &row.value.to_row(),
            &row.tag,
        ],
    )
}

fn put_custody(link: &Link, row: &CustodyRow) -> Result<(), LinkError> {
    run(
        link,
        "INSERT INTO secret_custodies VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (owner) DO UPDATE SET
         (salt, memory, passes, lanes, check_value, key_id, tag) =
         (excluded.salt, excluded.memory, excluded.passes, excluded.lanes, excluded.check_value,
          excluded.key_id, excluded.tag)",
        &[
            &&*row.owner,
            &row.salt,
            &i64::from(row.memory),
            &i64::from(row.passes),
            &i64::from(row.lanes),
            &row.check.to_row(),
            &row.key.as_str(),
            &row.tag,
        ],
    )
}

fn put_key(link: &Link, row: &KeyRow) -> Result<(), LinkError> {
    run(
        link,
        "INSERT INTO secret_keys VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (id) DO UPDATE SET (created, state, other, other_id, until) =
         (excluded.created, excluded.state, excluded.other, excluded.other_id, excluded.until)",
        &[
            &row.id.as_str(),
            &row.created,
            &row.state.as_str(),
            &row.other.as_ref().map(Sealed::to_row),
            &row.other_id.as_ref().map(KeyId::as_str),
            &row.until,
        ],
    )
}

fn run(link: &Link, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), LinkError> {
    link.asked(link.client().execute(sql, values)).map(drop)
}

const DAMAGED: &str = "the row is damaged";
