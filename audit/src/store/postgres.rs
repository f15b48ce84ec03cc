//! Records as rows of a PostgreSQL that the nodes of a fleet share, where one search sees all of them.
//!
//! An answer means that the server's disk has the record: a node that is lost with its disk takes nothing
//! with it that was acknowledged, and a server that is slow, full or gone refuses egress. Each node has a
//! chain of its own, signed by its own key, so that nodes never wait for each other; a group is one
//! statement, one round trip, one transaction, and whoever comes meanwhile is in the next group. The rest is
//! as in SQLite: the same lines, the same blocks of terms, written beside by `upkeep`, the same checkpoints.
//!
//! A lost connection is found again by whoever records next, within what callers wait anyway. Whether the
//! group that was lost with it was written is looked up then: the chain's end tells.

use std::{sync::Arc, time::Duration};

use crate::{
    chain::{self, Head},
    checkpoint::{Began, Segments},
    clock::Moment,
    search::{posting::BLOCK, walk::key_of},
    signing::SigningKey,
    store::{Appended, Group, Store, StoreError, Syncer, Tail, upkeep::Upkeep},
};
use gig_postgres::LinkError;

mod chores;
mod copy;
mod counts;
mod database;
mod drawer;
mod prune;
mod rows;
mod seal;
mod session;
mod shelf;
#[cfg(test)]
mod tests;

use self::{
    chores::PostgresChores,
    session::{NoSession, Session, Writer},
};
pub use copy::CopyRecordError;
pub use database::{OpenRecordError, PostgresRecord};
pub use shelf::PostgresLog;

/// How a node writes to the database.
#[derive(Debug)]
pub struct PostgresStore {
    record: PostgresRecord,
    writer: Writer,
    key: Arc<SigningKey>,
    session: Option<Session>,
    /// The session before that, until a new one is there.
    before: Option<(i32, String)>,
    /// Since when there is none.
    lost: Option<Moment>,
    chain: u32,
    /// The end of what was written.
    head: Head,
    /// What the database says is the end.
    found: Head,
    began: Began,
    /// Both are the same, and nobody else has written since, as far as is known.
    settled: bool,
    wrote: bool,
    upkeep: Upkeep,
}

impl PostgresRecord {
    /// Opens the chain of `node` to continue it, signed by `key`, and starts the thread that indexes.
    /// `serves`: as the one appliance of that name; otherwise beside it, for a command.
    ///
    /// # Errors
    /// When somebody else has the name, or the chain's end is not the record it should be.
    pub fn write(
        &self,
        node: &str,
        key: Arc<SigningKey>,
        serves: bool,
    ) -> Result<PostgresStore, OpenRecordError> {
        let writer = Writer {
            node: node.into(),
            key: key.public().to_string(),
            serves,
        };
        let session = self.first_session(&writer)?;
        let head = whole_end(&session).map_err(|e| self.error("read", e))?;
        let Some(head) = head else {
            return Err(OpenRecordError::Continue {
                node: node.to_owned(),
                place: self.0.place().clone(),
            });
        };
        let chain = session.chain;
        let began = Began {
            behind: head.seq,
            beside: !serves,
        };
        let whose = (chain, Arc::clone(&writer.node));
        let chores = PostgresChores::new(self, whose, Arc::clone(&key), began);
        let upkeep = Upkeep::start(Box::new(chores)).map_err(OpenRecordError::Thread)?;
        upkeep.appended(head.seq);
        Ok(PostgresStore {
            record: self.clone(),
            writer,
            key,
            session: Some(session),
            before: None,
            lost: None,
            chain,
            head,
            began,
            found: head,
            settled: true,
            wrote: false,
            upkeep,
        })
    }
}

impl PostgresRecord {
    /// A node that was killed a moment ago is waited for: its server may not know yet.
    fn first_session(&self, writer: &Writer) -> Result<Session, OpenRecordError> {
        let begun = Moment::now();
        loop {
            match Session::open(self, writer, None) {
                Ok(session) => return Ok(session),
                Err(NoSession::Taken { ours: true }) if begun.elapsed() < FORGOTTEN => {
                    std::thread::sleep(BETWEEN);
                }
                Err(none) => return Err(none.told(self, writer)),
            }
        }
    }
}

/// The end of the chain; `None` where the last record is not the one that the chain names.
fn whole_end(session: &Session) -> Result<Option<Head>, LinkError> {
    // Beside who writes: the record that the chain names is there, and the one behind it may be.
    let head = session.end()?;
    if head == Head::START {
        return Ok(session.last()?.is_none().then_some(head));
    }
    let line = session.line(key_of(session.chain, head.seq))?;
    let record = line.and_then(|line| chain::open(format!("{line}\n").as_bytes()).ok());
    let holds = record.is_some_and(|record| record.seq == head.seq && record.hash == head.hash);
    let behind = session.last()?.is_some_and(|(position, _)| {
        position > key_of(session.chain, head.seq) && session.end().is_ok_and(|now| now == head)
    });
    Ok((holds && !behind).then_some(head))
}

impl PostgresStore {
    fn error(&self, attempted: &'static str, source: LinkError) -> StoreError {
        self.record.error(attempted, source)
    }

    /// The connection, a new one if it was lost. Just after it was lost a server that is started anew is
    /// waited for; later whoever records is refused at once.
    fn session(&mut self) -> Result<&Session, StoreError> {
        if let Some(lost) = self.session.take_if(|session| session.link.is_broken()) {
            self.before = Some(lost.known_as);
        }
        let session = match self.session.take() {
            Some(session) => session,
            None => {
                // What somebody else wrote meanwhile is looked for.
                self.settled = false;
                self.reopen()?
            }
        };
        (self.before, self.lost) = (None, None);
        Ok(self.session.insert(session))
    }

    fn reopen(&mut self) -> Result<Session, StoreError> {
        let lost = *self.lost.get_or_insert_with(Moment::now);
        loop {
            match Session::open(&self.record, &self.writer, self.before.as_ref()) {
                Ok(session) if session.chain == self.chain => return Ok(session),
                // Places are counted by the chain's number: ours would be among another chain's.
                Ok(_) => {
                    return Err(self.cannot_continue(
                        "the database no longer has this node's chain: look into it and start gig anew",
                    ));
                }
                // By our own key: a session of ours that the server has yet to miss.
                Err(NoSession::Link(_) | NoSession::Taken { ours: true })
                    if lost.elapsed() < GRACE =>
                {
                    std::thread::sleep(BETWEEN);
                }
                Err(NoSession::Taken { .. }) => {
                    return Err(self.cannot_continue(
                        "another gig records by this node's name now: give one of them another \
                         (GIG_NODE)",
                    ));
                }
                Err(NoSession::Link(error)) => return Err(self.error("reach", error)),
            }
        }
    }

    fn cannot_continue(&self, why: &'static str) -> StoreError {
        StoreError {
            attempted: "continue",
            place: self.record.place().to_owned(),
            source: std::io::Error::other(why),
        }
    }

    /// Asks the database; once more where its connection was lost.
    fn ask<T>(
        &mut self,
        attempted: &'static str,
        ask: impl Fn(&Session) -> Result<T, LinkError>,
    ) -> Result<T, StoreError> {
        match ask(self.session()?) {
            Err(LinkError::Lost(_)) => {
                let asked = ask(self.session()?);
                asked.map_err(|e| self.error(attempted, e))
            }
            answer => answer.map_err(|e| self.error(attempted, e)),
        }
    }

    /// What is wrong with the end that was found. Our own chain is continued then: a database that lost
    /// records or got a stranger's must not verify.
    fn judge(&mut self, found: Head) -> Result<Option<String>, StoreError> {
        let own = self.head;
        if found == own || own.seq == 0 {
            return Ok(None);
        }
        if found.seq < own.seq {
            return Ok(Some(format!(
                "the database lost {} records that were written before",
                own.seq - found.seq
            )));
        }
        let position = key_of(self.chain, own.seq);
        let line = self.ask("read", |session| session.line(position))?;
        if line.is_none() && found.seq > own.seq && self.was_pruned(own.seq)? {
            return Ok(None);
        }
        let record = line.and_then(|line| chain::open(format!("{line}\n").as_bytes()).ok());
        let ours = found.seq > own.seq && record.is_some_and(|record| record.hash == own.hash);
        Ok((!ours).then(|| {
            format!(
                "record {}, which was written before, is another now",
                own.seq
            )
        }))
    }

    /// Whether a checkpoint of ours lists a place as removed.
    fn was_pruned(&mut self, seq: u64) -> Result<bool, StoreError> {
        let chain = self.chain;
        let lines = self.ask("read", |session| seal::lines(&session.link, chain))?;
        let mut segments = Segments::new(&[self.key.public()]);
        let sound = lines.iter().all(|line| segments.take(line).is_ok());
        Ok(sound && segments.has_pruned(seq))
    }

    /// Writes a part of a group, in one transaction. A connection that is lost over it leaves open whether
    /// it was written: the chain's end tells, and it is written once more if not.
    fn write(&mut self, part: &Group<'_>) -> Result<Appended, StoreError> {
        let Some(last) = part.records.last() else {
            return Ok(Appended::Written);
        };
        let (from, to) = (
            self.found,
            Head {
                seq: last.seq,
                hash: last.hash,
            },
        );
        let chain = self.chain;
        let positions = part.records.iter().map(|record| key_of(chain, record.seq));
        let positions: Vec<i64> = positions.collect();
        let text = std::str::from_utf8(part.lines).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let write = |session: &Session| session.append((from, to), (&positions, &lines));
        let written = match write(self.session()?) {
            Err(LinkError::Lost(_)) => {
                let end = self.ask("read", Session::end)?;
                if end == to {
                    // Seen is not kept: a synchronous standby may not have it yet. A commit behind it waits
                    // for both.
                    Ok(self.ask("write", |session| session.confirm(to))?)
                } else {
                    write(self.session()?)
                }
            }
            written => written,
        };
        if !written.map_err(|e| self.error("write", e))? {
            return Ok(Appended::Moved);
        }
        (self.head, self.found, self.wrote) = (to, to, true);
        Ok(Appended::Written)
    }

    /// Everything that was appended is to be indexed and signed.
    fn tell_upkeep(&self, group: &Group<'_>) {
        self.upkeep.wrote(self.head);
        let ends = |record: &&crate::Record| (record.seq + 1).is_multiple_of(u64::from(BLOCK));
        for record in group.records.iter().filter(ends) {
            self.upkeep.seal(Head {
                seq: record.seq,
                hash: record.hash,
            });
        }
    }
}

impl Store for PostgresStore {
    fn begin(&mut self) -> Result<Tail, StoreError> {
        self.session()?;
        let mut repaired = None;
        if !self.settled {
            let found = self.ask("read", Session::end)?;
            repaired = self.judge(found)?;
            self.found = found;
            match repaired {
                None => self.head = found,
                // Behind the strangers' records, whose places are taken.
                Some(_) => self.head.seq = self.head.seq.max(found.seq),
            }
        }
        Ok(Tail {
            head: self.head,
            repaired,
        })
    }

    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError> {
        self.settled = false;
        for (place, part) in parts(group).iter().enumerate() {
            match self.write(part)? {
                Appended::Written => {}
                Appended::Moved if place == 0 => return Ok(Appended::Moved),
                // Somebody writes beside us in the middle of a large group: it is not begun again.
                Appended::Moved => {
                    return Err(StoreError {
                        attempted: "write",
                        place: self.record.place().to_owned(),
                        source: std::io::Error::other("somebody else wrote to the chain meanwhile"),
                    });
                }
            }
        }
        self.settled = true;
        self.tell_upkeep(&group);
        Ok(Appended::Written)
    }

    fn try_out(&mut self) -> Option<Result<(), StoreError>> {
        Some(self.ask("write", Session::touch))
    }

    /// What was answered is on the server's disk.
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn close(&mut self) {
        if !self.wrote {
            return;
        }
        let mut ends = self.upkeep.end();
        ends.push(self.head);
        let (chain, node, key, began) = (
            self.chain,
            Arc::clone(&self.writer.node),
            Arc::clone(&self.key),
            self.began,
        );
        let signed = ends.into_iter().try_for_each(|end| {
            self.ask("sign", |session| {
                seal::seal(&session.link, (chain, &node), &key, (end, began))
            })
        });
        if let Err(error) = signed {
            tracing::warn!(%error, "the end of the record is not signed; the next checkpoint covers it");
        }
    }

    fn syncer(&self) -> Option<Box<dyn Syncer>> {
        None
    }
}

/// A group in parts, each of which is quickly written.
fn parts(group: Group<'_>) -> Vec<Group<'_>> {
    let mut parts = Vec::new();
    let (mut records, mut lines) = (group.records, group.lines);
    while !records.is_empty() {
        let (mut count, mut octets) = (0, 0);
        for line in lines
            .split_inclusive(|octet| *octet == b'\n')
            .take(records.len())
        {
            if count > 0 && octets + line.len() > MOST_OCTETS {
                break;
            }
            (count, octets) = (count + 1, octets + line.len());
        }
        // Never none: a record has a line.
        let (some, left) = records.split_at(count.clamp(1, records.len()));
        let (text, rest) = lines.split_at(octets.min(lines.len()));
        parts.push(Group {
            records: some,
            lines: text,
        });
        (records, lines) = (left, rest);
    }
    parts
}

/// A server that is started anew is back by then; callers wait for five seconds.
const GRACE: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_millis(50);
/// A server misses a client that is gone after fifteen seconds.
const FORGOTTEN: Duration = Duration::from_secs(20);
/// What a server takes in some tens of milliseconds.
const MOST_OCTETS: usize = 4 * 1024 * 1024;
