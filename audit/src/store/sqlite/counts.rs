//! The counts of an SQLite database.

use std::collections::BTreeMap;

use rusqlite::{
    Connection, OptionalExtension as _, Transaction, TransactionBehavior, params, params_from_iter,
    types::Value,
};

use super::SqliteLog;
use crate::{
    counts::{
        CountedLog, Decided, HostCount, HourCount, Tried, TriedAsked,
        counting::{Counted, Ledger, Line, Most, Step},
        newest_of, reading,
        removing::{Kept, MOST_DROPPED, Old},
        shares::Shares,
        tally::{Known, Tally},
    },
    log::ReadLogError,
    retention::Class,
    store::StoreError,
};

impl SqliteLog {
    /// Reads as of one moment; the database is given back afterwards.
    fn at_once<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.hold_moment()?;
        let answer = read(self);
        let given_back = self.connection.execute_batch("ROLLBACK");
        self.told("read", given_back)?;
        answer
    }
}

impl CountedLog for SqliteLog {
    fn decided(&mut self, since_hour: &str, since_day: &str) -> Result<Decided, ReadLogError> {
        Ok(self.at_once(|log| reading::decided(log, since_hour, since_day))?)
    }

    fn tried(&mut self, asked: &TriedAsked) -> Result<Tried, ReadLogError> {
        Ok(self.at_once(|log| reading::tried(log, asked))?)
    }

    fn removed(&mut self, classes: &[Class]) -> Result<Option<String>, ReadLogError> {
        let read = || {
            // One that is older than this has never said.
            if !has_table(&self.connection, "removed")? {
                return Ok(None);
            }
            let look = "SELECT class, max(newest) FROM removed GROUP BY class";
            let mut look = self.connection.prepare_cached(look)?;
            let each = look.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let each: Vec<(String, String)> = each.collect::<Result<_, _>>()?;
            Ok(newest_of(each, classes))
        };
        let read = read();
        Ok(self.told("read", read)?)
    }
}

impl Ledger for SqliteLog {
    fn marks(&mut self) -> Result<BTreeMap<u32, Counted>, StoreError> {
        let read = || {
            // One that is older than counts are has none.
            if !has_table(&self.connection, "counted")? {
                return Ok(BTreeMap::new());
            }
            self.connection
                .prepare_cached("SELECT chain, first, next FROM counted")?
                .query_map([], |row| {
                    let (first, next) = (row.get(1)?, row.get(2)?);
                    Ok((row.get(0)?, Counted { first, next }))
                })?
                .collect()
        };
        self.told("count", read())
    }

    fn known(
        &mut self,
        chain: u32,
        (day, server): &(String, String),
        known: &mut Known,
    ) -> Result<(), StoreError> {
        let place = (day.clone(), server.clone());
        let read = || {
            let mut look = self.connection.prepare_cached(
                "SELECT host, class FROM count_host
                 WHERE day = ?1 AND chain = ?2 AND server = ?3 AND host <> ''",
            )?;
            let hosts =
                look.query_map((day, chain, server), |row| Ok((row.get(0)?, row.get(1)?)))?;
            let hosts = hosts.collect::<Result<_, _>>()?;
            known.hosts.insert(place, hosts);
            let mut look = self.connection.prepare_cached(
                "SELECT id, what FROM count_attempt WHERE day = ?1 AND chain = ?2 AND server = ?3
                 AND denied = ?4 AND what <> ''",
            )?;
            for denied in [false, true] {
                let mut kept = Shares::default();
                let mut rows = look.query((day, chain, server, denied))?;
                while let Some(row) = rows.next()? {
                    kept.note(row.get(0)?, denied, row.get_ref(1)?.as_str()?);
                }
                let place = (day.clone(), server.clone(), denied);
                known.attempts.insert(place, kept);
            }
            Ok(())
        };
        let done = read();
        self.told("count", done)
    }

    fn add(&mut self, step: &Step, tally: &Tally) -> Result<bool, StoreError> {
        let behaviour = TransactionBehavior::Immediate;
        let done = self.connection.transaction_with_behavior(behaviour);
        let done = done.and_then(|transaction| {
            if !move_mark(&transaction, step)? {
                return Ok(false);
            }
            add(&transaction, step.chain, tally)?;
            transaction.commit()?;
            Ok(true)
        });
        self.told("count", done)
    }

    fn drop_some(
        &mut self,
        kept: Kept,
        old: &Old<'_>,
        from: &str,
    ) -> Result<Option<String>, StoreError> {
        let done = drop_some(&mut self.connection, kept, old, from);
        self.told("prune", done)
    }

    fn hours(&mut self, since: &str) -> Result<Vec<HourCount>, StoreError> {
        let read = || {
            if !has_table(&self.connection, "counted")? {
                return Ok(Vec::new());
            }
            self.connection
                .prepare_cached(
                    "SELECT hour, server, verdict, sum(count) FROM count_hour WHERE hour >= ?1
                     GROUP BY hour, server, verdict",
                )?
                .query_map([since], |row| {
                    Ok(HourCount {
                        hour: row.get(0)?,
                        server: row.get(1)?,
                        verdict: row.get(2)?,
                        count: row.get(3)?,
                    })
                })?
                .collect()
        };
        self.told("read", read())
    }

    fn hosts(&mut self, since: &str) -> Result<Vec<HostCount>, StoreError> {
        let read = || {
            if !has_table(&self.connection, "counted")? {
                return Ok(Vec::new());
            }
            // `+`: sorted here, not read by name, which is a look at every day that is kept.
            self.connection
                .prepare_cached(
                    "SELECT host, sum(allowed), sum(denied), sum(would_deny), min(first), max(last),
                            EXISTS (SELECT 1 FROM count_host o WHERE o.host = h.host AND o.day < ?1),
                            min(server)
                     FROM count_host h WHERE day >= ?1 GROUP BY +host",
                )?
                .query_map([since], |row| {
                    Ok(HostCount {
                        host: row.get(0)?,
                        allowed: row.get(1)?,
                        denied: row.get(2)?,
                        would_deny: row.get(3)?,
                        first: row.get(4)?,
                        last: row.get(5)?,
                        known_before: row.get(6)?,
                        server: row.get(7)?,
                    })
                })?
                .collect()
        };
        self.told("read", read())
    }

    fn known_before(&mut self, day: &str, hosts: &[String]) -> Result<Vec<String>, StoreError> {
        let read = || {
            if !has_table(&self.connection, "counted")? {
                return Ok(Vec::new());
            }
            let mut look = self
                .connection
                .prepare_cached("SELECT 1 FROM count_host WHERE host = ?1 AND day < ?2 LIMIT 1")?;
            let mut known = Vec::new();
            for host in hosts {
                if look.exists((host, day))? {
                    known.push(host.clone());
                }
            }
            Ok(known)
        };
        self.told("read", read())
    }

    fn attempts(&mut self, asked: &TriedAsked, most: Most) -> Result<Vec<Line>, StoreError> {
        let read = || {
            if !has_table(&self.connection, "counted")? {
                return Ok(Vec::new());
            }
            let mut look = self.connection.prepare_cached(
                "SELECT server, what, count, first, last, newest FROM count_attempt
                     WHERE day >= substr(?1, 1, 10) AND last >= ?1 AND (?2 IS NULL OR server = ?2)
                     AND (denied OR NOT ?3) ORDER BY day DESC LIMIT ?4",
            )?;
            let mut rows = look.query((&asked.since, &asked.server, asked.denied, most.rows))?;
            let (mut lines, mut octets) = (Vec::new(), 0);
            while octets < most.octets
                && let Some(row) = rows.next()?
            {
                let what: String = row.get(1)?;
                octets += what.len();
                lines.push(Line {
                    server: row.get(0)?,
                    what,
                    count: row.get(2)?,
                    first: row.get(3)?,
                    last: row.get(4)?,
                    newest: row.get(5)?,
                });
            }
            Ok(lines)
        };
        self.told("read", read())
    }
}

/// Whether the mark was where the step says; then it is moved.
fn move_mark(transaction: &Transaction<'_>, step: &Step) -> Result<bool, rusqlite::Error> {
    let mark = transaction
        .prepare_cached("SELECT first, next FROM counted WHERE chain = ?1")?
        .query_row([step.chain], |row| {
            let (first, next) = (row.get(0)?, row.get(1)?);
            Ok(Counted { first, next })
        })
        .optional()?;
    if mark != step.from {
        return Ok(false);
    }
    let (first, next) = step.to.signed();
    transaction
        .prepare_cached("INSERT OR REPLACE INTO counted (chain, first, next) VALUES (?1, ?2, ?3)")?
        .execute((step.chain, first, next))?;
    Ok(true)
}

fn add(transaction: &Transaction<'_>, chain: u32, tally: &Tally) -> Result<(), rusqlite::Error> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO count_hour (hour, chain, server, class, verdict, count)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET count = count + excluded.count",
    )?;
    for (at, count) in &tally.hours {
        insert.execute((&at.hour, chain, &at.server, at.class, at.verdict, count))?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO count_host
             (day, chain, server, host, class, allowed, denied, would_deny, first, last)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT DO UPDATE SET allowed = allowed + excluded.allowed,
             denied = denied + excluded.denied, would_deny = would_deny + excluded.would_deny,
             first = min(first, excluded.first), last = max(last, excluded.last)",
    )?;
    for (at, one) in &tally.hosts {
        insert.execute(params![
            at.day,
            chain,
            at.server,
            at.host,
            at.class,
            one.allowed,
            one.denied,
            one.would_deny,
            one.first,
            one.last,
        ])?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO count_attempt
             (day, chain, server, denied, id, class, what, count, first, last, newest)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT DO UPDATE SET count = count + excluded.count,
             first = min(first, excluded.first), last = max(last, excluded.last),
             newest = max(newest, excluded.newest)",
    )?;
    for (at, one) in &tally.attempts {
        insert.execute(params![
            at.day, chain, at.server, at.denied, at.id, one.class, one.what, one.count, one.first,
            one.last, one.newest,
        ])?;
    }
    Ok(())
}

/// Looks for them before it takes the lock: others may have much that stays between.
fn drop_some(
    connection: &mut Connection,
    kept: Kept,
    old: &Old<'_>,
    from: &str,
) -> Result<Option<String>, rusqlite::Error> {
    let (table, columns) = match kept {
        Kept::Hours => ("count_hour", "hour, chain, server, class, verdict"),
        Kept::Hosts => ("count_host", "day, chain, server, host, class"),
        Kept::Attempts => ("count_attempt", "day, chain, server, denied, id"),
    };
    let time = columns.split(',').next().unwrap_or_default();
    let look = format!(
        "SELECT {columns} FROM {table} WHERE {time} >= ?1 AND {time} < ?2
         AND (?3 IS NULL OR chain = ?3) AND (?4 IS NULL OR class = ?4)
         ORDER BY {columns} LIMIT {MOST_DROPPED}"
    );
    let keys = connection
        .prepare_cached(&look)?
        .query_map((from, kept.of(old.before), old.chain, old.class), |row| {
            (0..5).map(|n| row.get(n)).collect()
        })?
        .collect::<Result<Vec<Vec<Value>>, _>>()?;
    if keys.is_empty() {
        return Ok(None);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let remove = format!("DELETE FROM {table} WHERE ({columns}) = (?1, ?2, ?3, ?4, ?5)");
    let mut remove = transaction.prepare_cached(&remove)?;
    for key in &keys {
        remove.execute(params_from_iter(key))?;
    }
    drop(remove);
    transaction.commit()?;
    Ok(match keys.last().and_then(|key| key.first()) {
        Some(Value::Text(newest)) => Some(newest.clone()),
        _ => None,
    })
}

fn has_table(connection: &Connection, name: &str) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT count(*) FROM sqlite_schema WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
}
