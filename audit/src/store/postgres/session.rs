//! One writer's connection: whose chain it writes, where that ends, and that nobody else serves by its name.
//!
//! A node that serves holds a lock of the server's for as long as its connection lasts. Commands on the same
//! machine write to the same chain without it, and show by their key that they belong to its data directory.

use std::{sync::Arc, time::Duration};

use gig_postgres::{Link, LinkError};
use tokio_postgres::Statement;

use super::{OpenRecordError, PostgresRecord};
use crate::{chain::Head, record::ChainHash, store::postgres::rows::hash_of};

/// Who writes.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) node: Arc<str>,
    /// The public key of the data directory.
    pub(super) key: String,
    /// Serves: nobody else may by this name.
    pub(super) serves: bool,
}

/// A connection that writes to one chain.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) chain: u32,
    insert: Statement,
    /// By which the server knows it: process and start.
    pub(super) known_as: (i32, String),
}

/// Why there is no session.
pub(super) enum NoSession {
    /// Another one has the name; of the same data directory it can only be one that is gone, of which the
    /// server does not know yet.
    Taken {
        ours: bool,
    },
    Link(LinkError),
}

impl From<LinkError> for NoSession {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl Session {
    /// Connects and takes the chain of `writer`, which is begun if need be. `before`: a session of this very
    /// process, which may still hold it: nobody speaks by that any more.
    pub(super) fn open(
        record: &PostgresRecord,
        writer: &Writer,
        before: Option<&(i32, String)>,
    ) -> Result<Self, NoSession> {
        let link = record.connect(PATIENCE)?;
        link.run(SESSION)?;
        if let Some((process, started)) = before {
            let end = "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
                       WHERE pid = $1 AND backend_start::text = $2 AND usename = current_user";
            link.asked(link.client().query(end, &[process, started]))?;
        }
        let node = &*writer.node;
        let begin = "INSERT INTO audit_chain (node, seq, hash, key) SELECT $1, 0, $2, $3
                     WHERE NOT EXISTS (SELECT FROM audit_chain WHERE node = $1)
                     ON CONFLICT (node) DO NOTHING";
        let none = ChainHash::NONE.0.to_vec();
        link.asked(link.client().execute(begin, &[&node, &none, &writer.key]))?;
        let look = "SELECT chain, key FROM audit_chain WHERE node = $1";
        let row = link.asked(link.client().query_one(look, &[&node]))?;
        let (chain, key): (i32, String) = (get(&link, &row, 0)?, get(&link, &row, 1)?);
        if !hold(&link, chain, writer, &key)? {
            let ours = key == writer.key;
            return Err(NoSession::Taken { ours });
        }
        let insert = link.asked(link.client().prepare(APPEND))?;
        let known =
            "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let row = link.asked(link.client().query_one(known, &[]))?;
        let known_as = (get(&link, &row, 0)?, get(&link, &row, 1)?);
        Ok(Self {
            chain: u32::try_from(chain).unwrap_or_default(),
            insert,
            known_as,
            link,
        })
    }

    /// Where the chain ends.
    pub(super) fn end(&self) -> Result<Head, LinkError> {
        let look = "SELECT seq, hash FROM audit_chain WHERE chain = $1";
        let chain = self.chain.cast_signed();
        let found = self
            .link
            .asked(self.link.client().query_opt(look, &[&chain]))?;
        let Some(row) = found else {
            return Ok(Head::START);
        };
        let seq: i64 = get(&self.link, &row, 0)?;
        Ok(Head {
            seq: seq.cast_unsigned(),
            hash: hash_of(get(&self.link, &row, 1)?),
        })
    }

    /// The line at a place, if there is one.
    pub(super) fn line(&self, position: i64) -> Result<Option<String>, LinkError> {
        let look = "SELECT line FROM audit_record WHERE position = $1";
        let found = self
            .link
            .asked(self.link.client().query_opt(look, &[&position]))?;
        found.map(|row| get(&self.link, &row, 0)).transpose()
    }

    /// The place and line of the chain's last record.
    pub(super) fn last(&self) -> Result<Option<(i64, String)>, LinkError> {
        let look = "SELECT position, line FROM audit_record WHERE position BETWEEN $1 AND $2
                    ORDER BY position DESC LIMIT 1";
        let (first, last) = super::rows::range_of(self.chain);
        let found = self
            .link
            .asked(self.link.client().query_opt(look, &[&first, &last]))?;
        let read = |row| Ok((get(&self.link, &row, 0)?, get(&self.link, &row, 1)?));
        found.map(read).transpose()
    }

    /// Moves the end of the chain from `from` to `to` and adds the lines, both or neither; false where the
    /// chain ends elsewhere. When this returns they are on the server's disk.
    pub(super) fn append(
        &self,
        (from, to): (Head, Head),
        (positions, lines): (&[i64], &[&str]),
    ) -> Result<bool, LinkError> {
        let seq = |head: Head| head.seq.cast_signed();
        let hash = |head: Head| head.hash.0.to_vec();
        let client = self.link.client();
        let added = self.link.asked(client.execute(
            &self.insert,
            &[
                &self.chain.cast_signed(),
                &seq(from),
                &hash(from),
                &seq(to),
                &hash(to),
                &positions,
                &lines,
            ],
        ))?;
        Ok(added > 0)
    }

    /// Whether the chain ends with `end`. When this returns, whatever was committed before is where a commit
    /// has to be: it is one itself.
    pub(super) fn confirm(&self, end: Head) -> Result<bool, LinkError> {
        let confirm =
            "UPDATE audit_chain SET hash = hash WHERE chain = $1 AND seq = $2 AND hash = $3";
        let (seq, hash) = (end.seq.cast_signed(), end.hash.0.to_vec());
        let (client, chain) = (self.link.client(), self.chain.cast_signed());
        let found = self
            .link
            .asked(client.execute(confirm, &[&chain, &seq, &hash]))?;
        Ok(found > 0)
    }

    /// A commit that leaves the chain as it was.
    pub(super) fn touch(&self) -> Result<(), LinkError> {
        let touch = "UPDATE audit_chain SET hash = hash WHERE chain = $1";
        let (client, chain) = (self.link.client(), self.chain.cast_signed());
        self.link.asked(client.execute(touch, &[&chain])).map(drop)
    }
}

/// Whether the chain is this writer's to write to.
fn hold(link: &Link, chain: i32, writer: &Writer, key: &str) -> Result<bool, LinkError> {
    let take = "SELECT pg_try_advisory_lock($1, $2)";
    let row = link.asked(link.client().query_one(take, &[&HELD, &chain]))?;
    let free: bool = get(link, &row, 0)?;
    if writer.serves && free {
        let ours = "UPDATE audit_chain SET key = $2 WHERE chain = $1 AND key <> $2";
        link.asked(link.client().execute(ours, &[&chain, &writer.key]))?;
    } else if free {
        // A command holds nothing: an appliance may start meanwhile.
        let give = "SELECT pg_advisory_unlock($1, $2)";
        link.asked(link.client().query_one(give, &[&HELD, &chain]))?;
    }
    Ok(free || (!writer.serves && key == writer.key))
}

/// A cell of a row.
pub(super) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
    link: &Link,
    row: &'a tokio_postgres::Row,
    column: usize,
) -> Result<T, LinkError> {
    row.try_get(column).map_err(|error| link.judge(error))
}

impl NoSession {
    /// For who opens a record.
    pub(super) fn told(self, record: &PostgresRecord, writer: &Writer) -> OpenRecordError {
        match self {
            Self::Taken { .. } => OpenRecordError::SameName {
                node: writer.node.to_string(),
                place: record.0.place().clone(),
            },
            Self::Link(error) => record.error("open", error).into(),
        }
    }
}

/// One round trip and one transaction. What it waits for is the chain's own row, which is another node's
/// never.
const APPEND: &str = "
    WITH moved AS (
        UPDATE audit_chain SET seq = $4, hash = $5 WHERE chain = $1 AND seq = $2 AND hash = $3
        RETURNING chain)
    INSERT INTO audit_record (position, line)
    SELECT added.position, added.line FROM unnest($6::int8[], $7::text[]) AS added (position, line)
    WHERE EXISTS (SELECT FROM moved)";
/// A node that is gone without a word is missed within a quarter of a minute: its name can be taken again.
const SESSION: &str = "
    SET statement_timeout TO '4s';
    SET lock_timeout TO '4s';
    SET tcp_keepalives_idle TO 5;
    SET tcp_keepalives_interval TO 5;
    SET tcp_keepalives_count TO 2";
/// Of the locks with two numbers those of nodes that record: `giga`.
const HELD: i32 = 0x6769_6761;
/// Less than whoever records waits.
const PATIENCE: Duration = Duration::from_millis(4500);
