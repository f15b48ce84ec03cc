//! Rows to and from tables.

use std::sync::Arc;

use rusqlite::{Connection, Row, ToSql, params, types::Type};

use crate::{
    cipher::Sealed,
    master_key::KeyId,
    store::{Change, CustodyRow, KeyRow, KeyState, SecretRow, Snapshot, VersionRow},
};

type Result<T> = std::result::Result<T, rusqlite::Error>;

pub(super) fn generation(connection: &Connection) -> Result<u64> {
    connection
        .prepare_cached("SELECT generation FROM secret_generation")?
        .query_row([], |row| row.get(0))
}

pub(super) fn snapshot(connection: &mut Connection) -> Result<Snapshot> {
    let moment = connection.transaction()?;
    Ok(Snapshot {
        generation: generation(&moment)?,
        secrets: all(
            &moment,
            "SELECT owner, name, definition, created, removed, key_id, tag, given FROM secrets \
             ORDER BY owner, name",
            secret,
        )?,
        versions: all(
            &moment,
            "SELECT owner, name, version, created, expires, retires, revoked, custody, format, \
             key_id, wrapped, value, tag FROM secret_versions ORDER BY owner, name, version",
            version,
        )?,
        custodies: all(
            &moment,
            "SELECT owner, salt, memory, passes, lanes, check_value, key_id, tag \
             FROM secret_custodies ORDER BY owner",
            custody,
        )?,
        keys: all(
            &moment,
            "SELECT id, created, state, other, other_id, until FROM secret_keys \
             ORDER BY created, id",
            key,
        )?,
    })
}

fn all<T>(connection: &Connection, sql: &str, read: fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], read)?;
    rows.collect()
}

fn secret(row: &Row<'_>) -> Result<SecretRow> {
    Ok(SecretRow {
        owner: row.get(0)?,
        name: row.get(1)?,
        definition: row.get(2)?,
        created: row.get(3)?,
        removed: row.get(4)?,
        key: KeyId::from_row(row.get(5)?),
        tag: row.get(6)?,
        given: row.get(7)?,
    })
}

fn version(row: &Row<'_>) -> Result<VersionRow> {
    Ok(VersionRow {
        owner: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        created: row.get(3)?,
        expires: row.get(4)?,
        retires: row.get(5)?,
        revoked: row.get(6)?,
        custody: row.get(7)?,
        format: row.get(8)?,
        key: KeyId::from_row(row.get(9)?),
        wrapped: sealed(row, 10)?,
        value: sealed(row, 11)?,
        tag: row.get(12)?,
    })
}

fn custody(row: &Row<'_>) -> Result<CustodyRow> {
    Ok(CustodyRow {
        owner: row.get(0)?,
        salt: row.get(1)?,
        memory: row.get(2)?,
        passes: row.get(3)?,
        lanes: row.get(4)?,
        check: sealed(row, 5)?,
        key: KeyId::from_row(row.get(6)?),
        tag: row.get(7)?,
    })
}

fn key(row: &Row<'_>) -> Result<KeyRow> {
    let state: String = row.get(2)?;
    let other: Option<Vec<u8>> = row.get(3)?;
    let other_id: Option<String> = row.get(4)?;
    Ok(KeyRow {
        id: KeyId::from_row(row.get(0)?),
        created: row.get(1)?,
        state: KeyState::from_row(&state).ok_or_else(|| damaged(2, Type::Text))?,
        other: match other {
            Some(octets) => Some(Sealed::from_row(&octets).ok_or_else(|| damaged(3, Type::Blob))?),
            None => None,
        },
        other_id: other_id.map(KeyId::from_row),
        until: row.get(5)?,
    })
}

fn sealed(row: &Row<'_>, column: usize) -> Result<Sealed> {
    let octets: Vec<u8> = row.get(column)?;
    Sealed::from_row(&octets).ok_or_else(|| damaged(column, Type::Blob))
}

fn damaged(column: usize, kind: Type) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, "the row is damaged".into())
}

pub(super) fn apply(connection: &Connection, change: &Change) -> Result<()> {
    match change {
        Change::PutSecret(row) => put_secret(connection, row),
        Change::PutVersion(row) => put_version(connection, row),
        Change::PutCustody(row) => put_custody(connection, row),
        Change::PutKey(row) => put_key(connection, row),
        Change::DeleteSecret { owner, name } => {
            let which: [&Arc<str>; 2] = [owner, name];
            connection.execute(
                "DELETE FROM secret_versions WHERE owner = ? AND name = ?",
                which,
            )?;
            connection.execute("DELETE FROM secrets WHERE owner = ? AND name = ?", which)?;
            Ok(())
        }
        Change::DeleteVersion {
            owner,
            name,
            version,
        } => run(
            connection,
            "DELETE FROM secret_versions WHERE owner = ? AND name = ? AND version = ?",
            params![owner, name, version],
        ),
        Change::DeleteCustody { owner } => run(
            connection,
            "DELETE FROM secret_custodies WHERE owner = ?",
            params![owner],
        ),
        Change::DeleteKey(id) => run(
            connection,
            "DELETE FROM secret_keys WHERE id = ?",
            params![id.as_str()],
        ),
    }
}

fn put_secret(connection: &Connection, row: &SecretRow) -> Result<()> {
    run(
        connection,
        "REPLACE INTO secrets VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            row.owner,
            row.name,
            row.definition,
            row.created,
            row.removed,
            row.key.as_str(),
            row.tag,
            row.given
        ],
    )
}

fn put_version(connection: &Connection, row: &VersionRow) -> Result<()> {
    run(
        connection,
        "REPLACE INTO secret_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            row.owner,
            row.name,
            row.version,
            row.created,
            row.expires,
            row.retires,
            row.revoked,
            row.custody,
            row.format,
            row.key.as_str(),
            row.wrapped.to_row(),
            row.value.to_row(),
            row.tag
        ],
    )
}

fn put_custody(connection: &Connection, row: &CustodyRow) -> Result<()> {
    run(
        connection,
        "REPLACE INTO secret_custodies VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            row.owner,
            row.salt,
            row.memory,
            row.passes,
            row.lanes,
            row.check.to_row(),
            row.key.as_str(),
            row.tag
        ],
    )
}

fn put_key(connection: &Connection, row: &KeyRow) -> Result<()> {
    run(
        connection,
        "REPLACE INTO secret_keys VALUES (?, ?, ?, ?, ?, ?)",
        params![
            row.id.as_str(),
            row.created,
            row.state.as_str(),
            row.other.as_ref().map(Sealed::to_row),
            row.other_id.as_ref().map(KeyId::as_str),
            row.until
        ],
    )
}

fn run(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<()> {
    connection.prepare_cached(sql)?.execute(values).map(drop)
}
