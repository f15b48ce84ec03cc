//! Reading a database of records: search, tail, proof.

use std::{collections::BTreeMap, io, ops::RangeInclusive, path::Path, thread};

use rusqlite::{Connection, OptionalExtension as _};

use super::{OpenSqliteError, Place, database, seal};
use crate::{
    chain::Head,
    log::{
        ChainProof, Log, LogVerdict, ReadLogError,
        in_chain::{self, InChain, Known},
        indexed,
    },
    record::ChainHash,
    search::{
        Found, Marks, Page, Position, Query,
        posting::{BLOCK, Places},
        walk::{self, Block, Chain, Shelf, between, key_of},
    },
    store::StoreError,
    verify::Expected,
};

/// A database that is read.
#[derive(Debug)]
pub struct SqliteLog {
    pub(super) connection: Connection,
    pub(super) place: Place,
    /// More of them, once a search went through many blocks.
    pub(super) beside: Option<Vec<Connection>>,
}

impl SqliteLog {
    /// Opens the database at `path`; another process may write to it meanwhile.
    ///
    /// # Errors
    /// When it is not there or holds something other than audit records.
    pub fn open(path: &Path) -> Result<Self, OpenSqliteError> {
        let place = Place::of(path).map_err(|source| OpenSqliteError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::over(database::open_to_read(path)?, place))
    }

    /// More connections to the very same file, as many as there are; what they read is not read again soon.
    fn readers(&self) -> Vec<Connection> {
        let mut readers = Vec::with_capacity(BESIDE);
        for _ in 0..BESIDE {
            let Ok(reader) = database::open_to_read(&self.place.path) else {
                break;
            };
            let small = reader.pragma_update(None, "cache_size", SMALL_CACHE);
            if small.is_err() || !self.place.is_there().unwrap_or(false) {
                break;
            }
            readers.push(reader);
        }
        readers
    }

    /// Reads by this connection, which may write, too.
    pub(super) const fn over(connection: Connection, place: Place) -> Self {
        Self {
            connection,
            place,
            beside: None,
        }
    }

    /// Records that a search still reads line by line: usually less than a block of 4,096.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn unindexed(&mut self) -> Result<u64, StoreError> {
        indexed::unindexed(self)
    }

    /// From here on the database is read as it is now, until the transaction ends.
    pub(super) fn hold_moment(&self) -> Result<(), StoreError> {
        if !self.connection.is_autocommit() {
            return Ok(());
        }
        self.told("read", self.connection.execute_batch("BEGIN DEFERRED"))
    }

    pub(super) fn told<T>(
        &self,
        attempted: &'static str,
        outcome: Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        outcome.map_err(|e| self.place.error(attempted, io::Error::other(e)))
    }

    /// Lines with their places, by a statement that takes two bounds and a limit.
    fn lines(
        &self,
        statement: &str,
        bounds: (i64, i64),
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        let read = || {
            self.connection
                .prepare_cached(statement)?
                .query_map((bounds.0, bounds.1, most), |row| {
                    Ok((walk::position_of(row.get(0)?).seq, row.get(1)?))
                })?
                .collect()
        };
        self.told("read", read())
    }
}

pub(super) fn chains(connection: &Connection) -> Result<Vec<Chain>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT chain, node, seq, hash FROM chain ORDER BY chain")?
        .query_map([], |row| {
            Ok(Chain {
                chain: row.get(0)?,
                node: row.get(1)?,
                head: Head {
                    seq: row.get(2)?,
                    hash: ChainHash(row.get(3)?),
                },
            })
        })?
        .collect()
}

fn counted(connection: &Connection, keys: (i64, i64)) -> Result<u64, rusqlite::Error> {
    connection
        .prepare_cached("SELECT count(*) FROM record WHERE position BETWEEN ?1 AND ?2")?
        .query_row(keys, |row| row.get(0))
}

/// For each block the places that have a term of every group.
fn met(
    connection: &Connection,
    blocks: &[i64],
    groups: &[Vec<i64>],
) -> Result<Vec<Places>, rusqlite::Error> {
    let mut look =
        connection.prepare_cached("SELECT places FROM posting WHERE block = ?1 AND term = ?2")?;
    let mut met = Vec::with_capacity(blocks.len());
    for block in blocks {
        let mut places = Places::ALL;
        for group in groups {
            let mut any = Places::NONE;
            for term in group {
                let found = look.query_row((block, term), |row| {
                    Ok(Places::decode(row.get_ref(0)?.as_blob()?))
                });
                any.join(&found.optional()?.unwrap_or(Places::NONE));
            }
            places.meet(&any);
            if places.is_empty() {
                break;
            }
        }
        met.push(places);
    }
    Ok(met)
}

/// The same by several at once: where a term is in a block is a page of its own, which is on the disk in
/// a database that is larger than the memory, and who waits for one can wait for eight.
fn met_beside(
    (own, beside): (&Connection, &mut [Connection]),
    blocks: &[i64],
    groups: &[Vec<i64>],
) -> Result<Vec<Places>, rusqlite::Error> {
    let share = blocks.len().div_ceil(beside.len() + 1);
    let (first, rest) = blocks.split_at(share);
    thread::scope(|scope| {
        let begun: Vec<_> = rest
            .chunks(share)
            .zip(beside)
            .map(|(part, connection)| {
                let reads = move || met(connection, part, groups);
                (part, thread::Builder::new().spawn_scoped(scope, reads))
            })
            .collect();
        let mut all = met(own, first, groups)?;
        for (part, begun) in begun {
            // Without a thread, or with one that ended, it is read here.
            let read = begun.ok().and_then(|thread| thread.join().ok());
            all.extend(read.unwrap_or_else(|| met(own, part, groups))?);
        }
        Ok(all)
    })
}

/// Blocks that are worth more than one reader, and how many read beside the first.
const MANY: usize = 32;
pub(super) const BESIDE: usize = 7;
/// 2 MiB, as SQLite counts it.
const SMALL_CACHE: i32 = -2_048;

impl Shelf for SqliteLog {
    fn place(&self) -> String {
        self.place.path.display().to_string()
    }

    fn chains(&mut self) -> Result<Vec<Chain>, StoreError> {
        self.told("read", chains(&self.connection))
    }

    fn checkpoints(&mut self, chain: u32) -> Result<Vec<String>, StoreError> {
        self.told("read", seal::lines(&self.connection, chain))
    }

    fn newest_checkpoints(
        &mut self,
        chain: u32,
        ends: RangeInclusive<u64>,
        most: u32,
    ) -> Result<Vec<String>, StoreError> {
        let found = seal::newest(&self.connection, chain, ends, most);
        self.told("read", found)
    }

    fn checkpoint(&mut self, chain: u32, number: u64) -> Result<Option<String>, StoreError> {
        self.told("read", seal::line(&self.connection, chain, number))
    }

    fn strays(&mut self, most: u32) -> Result<(u64, Vec<i64>), StoreError> {
        let read = || {
            let mut count = 0;
            let mut first = Vec::new();
            for range in between(&chains(&self.connection)?) {
                let counted = counted(&self.connection, range)?;
                count += counted;
                let left = u64::from(most).saturating_sub(first.len() as u64);
                if counted > 0 && left > 0 {
                    let mut look = self.connection.prepare_cached(
                        "SELECT position FROM record WHERE position BETWEEN ?1 AND ?2
                         ORDER BY position LIMIT ?3",
                    )?;
                    let keys = look.query_map((range.0, range.1, left), |row| row.get(0))?;
                    for key in keys {
                        first.push(key?);
                    }
                }
            }
            for chain in seal::without_chain(&self.connection)? {
                count += 1;
                first.push(key_of(chain, 0));
            }
            Ok((count, first))
        };
        self.told("read", read())
    }

    fn count(&mut self, keys: (i64, i64)) -> Result<u64, StoreError> {
        self.told("read", counted(&self.connection, keys))
    }

    fn blocks(&mut self, chain: u32, before: u64, most: u32) -> Result<Vec<Block>, StoreError> {
        let size = i64::from(BLOCK);
        let first = key_of(chain, 0) / size;
        let before = before.min(walk::BLOCKS_OF_CHAIN).cast_signed();
        let read = || {
            self.connection
                .prepare_cached(
                    "SELECT block, first_time, last_time FROM block
                     WHERE block >= ?1 AND block < ?2 ORDER BY block DESC LIMIT ?3",
                )?
                .query_map((first, first + before, most), |row| {
                    Ok(Block {
                        key: row.get(0)?,
                        first_time: row.get(1)?,
                        last_time: row.get(2)?,
                    })
                })?
                .collect()
        };
        self.told("read", read())
    }

    fn meet(&mut self, blocks: &[i64], groups: &[Vec<i64>]) -> Result<Vec<Places>, StoreError> {
        if blocks.len() < MANY || !self.connection.is_autocommit() {
            let met = met(&self.connection, blocks, groups);
            return self.told("read", met);
        }
        if self.beside.is_none() {
            self.beside = Some(self.readers());
        }
        let beside = self.beside.as_deref_mut().unwrap_or_default();
        let met = met_beside((&self.connection, beside), blocks, groups);
        self.told("read", met)
    }

    fn lines_at(&mut self, chain: u32, places: &[u64]) -> Result<Vec<(u64, String)>, StoreError> {
        let read = || {
            let mut look = self
                .connection
                .prepare_cached("SELECT line FROM record WHERE position = ?1")?;
            let mut lines = Vec::with_capacity(places.len());
            for seq in places {
                let line = look.query_row([key_of(chain, *seq)], |row| row.get(0));
                lines.extend(line.optional()?.map(|line| (*seq, line)));
            }
            Ok(lines)
        };
        self.told("read", read())
    }

    fn lines_before(
        &mut self,
        chain: u32,
        before: u64,
        from: u64,
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        self.lines(
            "SELECT position, line FROM record WHERE position >= ?1 AND position < ?2
             ORDER BY position DESC LIMIT ?3",
            (key_of(chain, from), key_of(chain, before)),
            most,
        )
    }

    fn lines_after(
        &mut self,
        chain: u32,
        after: u64,
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        self.lines(
            "SELECT position, line FROM record WHERE position > ?1 AND position <= ?2
             ORDER BY position LIMIT ?3",
            (key_of(chain, after), key_of(chain, u64::MAX)),
            most,
        )
    }
}

impl Log for SqliteLog {
    fn search_until(
        &mut self,
        query: &Query,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page, ReadLogError> {
        walk::search(self, query, stop)
    }

    fn after(&mut self, marks: &Marks, most: usize) -> Result<Vec<Found>, ReadLogError> {
        indexed::after(self, marks, most)
    }

    fn found_at(&mut self, at: Position) -> Result<Option<Found>, ReadLogError> {
        indexed::found_at(self, at)
    }

    fn unindexed(&mut self) -> Result<u64, ReadLogError> {
        Ok(indexed::unindexed(self)?)
    }

    fn in_chain(
        &mut self,
        at: Position,
        known: &Known,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<InChain>, ReadLogError> {
        // A neighbour is not missing where one was removed meanwhile.
        self.hold_moment()?;
        let found = in_chain::of(self, at, known, stop);
        let given_back = self.connection.execute_batch("ROLLBACK");
        self.told("read", given_back)?;
        found
    }

    fn end(&mut self) -> Result<Marks, ReadLogError> {
        Ok(indexed::end(self)?)
    }

    fn kept_until(&mut self, marks: &Marks) -> Result<BTreeMap<u32, u64>, ReadLogError> {
        Ok(indexed::kept_until(self, marks)?)
    }

    fn verify(&mut self, expected: Expected<'_>) -> Result<LogVerdict, ReadLogError> {
        // A record is not behind the end of a chain that grew meanwhile, nor missing where one was
        // removed meanwhile.
        self.hold_moment()?;
        let verdict = indexed::verify(self, expected);
        let given_back = self.connection.execute_batch("ROLLBACK");
        self.told("read", given_back)?;
        Ok(verdict?)
    }

    fn proof(&mut self) -> Result<Vec<ChainProof>, ReadLogError> {
        self.hold_moment()?;
        Ok(indexed::proof(self)?)
    }

    fn replaced(&mut self, marks: &Marks) -> Result<bool, ReadLogError> {
        match self.place.is_there() {
            Ok(true) => Ok(indexed::is_shorter(self, marks)?),
            Ok(false) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.place.error("find", error).into()),
        }
    }
}
