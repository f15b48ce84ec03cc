//! The counts of a fleet's record: each node counts its own chain, who reads adds them up.

use std::collections::BTreeMap;

use gig_postgres::{Link, LinkError};

use super::{PostgresLog, seal::alone, session::get};
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

impl PostgresLog {
    /// Reads as of one moment; the connection is given back afterwards.
    fn at_once<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.hold()?;
        let answer = read(self);
        let released = self.release();
        // Why the answer is none says more than that there was nothing to give back.
        let answer = answer?;
        released.map(|()| answer)
    }
}

#[cfg(test)]
impl PostgresLog {
    /// How far chains are counted: chain, first, next.
    pub(in crate::store) fn counted(&mut self) -> Vec<(u32, u64, u64)> {
        let marks = self.marks().unwrap().into_iter();
        marks
            .map(|(chain, mark)| (chain, mark.first, mark.next))
            .collect()
    }
}

impl CountedLog for PostgresLog {
    fn decided(&mut self, since_hour: &str, since_day: &str) -> Result<Decided, ReadLogError> {
        Ok(self.at_once(|log| reading::decided(log, since_hour, since_day))?)
    }

    fn tried(&mut self, asked: &TriedAsked) -> Result<Tried, ReadLogError> {
        Ok(self.at_once(|log| reading::tried(log, asked))?)
    }

    fn removed(&mut self, classes: &[Class]) -> Result<Option<String>, ReadLogError> {
        let each = self.ask("read", |link| {
            let look = "SELECT class, max(newest) FROM audit_removed GROUP BY class";
            let rows = link.asked(link.client().query(look, &[]))?;
            let each = rows
                .iter()
                .map(|row| Ok((get(link, row, 0)?, get(link, row, 1)?)));
            each.collect::<Result<Vec<(String, String)>, LinkError>>()
        })?;
        Ok(newest_of(each, classes))
    }
}

impl Ledger for PostgresLog {
    fn marks(&mut self) -> Result<BTreeMap<u32, Counted>, StoreError> {
        self.ask("count", |link| {
            let look = "SELECT chain, first, next FROM audit_counted";
            let rows = link.asked(link.client().query(look, &[]))?;
            let mark = |row| {
                let chain: i32 = get(link, row, 0)?;
                Ok((chain.cast_unsigned(), counted(link, row, 1)?))
            };
            rows.iter().map(mark).collect()
        })
    }

    fn known(
        &mut self,
        chain: u32,
        (day, server): &(String, String),
        known: &mut Known,
    ) -> Result<(), StoreError> {
        let chain = chain.cast_signed();
        let hosts = self.ask("count", |link| {
            let look = "SELECT host, class FROM audit_count_host
                        WHERE day = $1 AND chain = $2 AND server = $3 AND host <> ''";
            let rows = link.asked(link.client().query(look, &[day, &chain, server]))?;
            let name = |row| Ok((get(link, row, 0)?, get(link, row, 1)?));
            rows.iter().map(name).collect()
        })?;
        known.hosts.insert((day.clone(), server.clone()), hosts);
        for denied in [false, true] {
            let kept = self.ask("count", |link| {
                let look = "SELECT id, what FROM audit_count_attempt WHERE day = $1 AND chain = $2
                            AND server = $3 AND denied = $4 AND what <> ''";
                let client = link.client();
                let rows = link.asked(client.query(look, &[day, &chain, server, &denied]))?;
                let mut kept = Shares::default();
                for row in &rows {
                    kept.note(get(link, row, 0)?, denied, get(link, row, 1)?);
                }
                Ok(kept)
            })?;
            let place = (day.clone(), server.clone(), denied);
            known.attempts.insert(place, kept);
        }
        Ok(())
    }

    fn add(&mut self, step: &Step, tally: &Tally) -> Result<bool, StoreError> {
        // Begun anew where the connection was lost: then it is counted, and the mark says so, or it is not.
        self.ask("count", |link| {
            alone(link, step.chain, || {
                if !move_mark(link, step)? {
                    return Ok(false);
                }
                let chain = step.chain.cast_signed();
                add_hours(link, chain, tally)?;
                add_hosts(link, chain, tally)?;
                add_attempts(link, chain, tally)?;
                Ok(true)
            })
        })
    }

    fn drop_some(
        &mut self,
        kept: Kept,
        old: &Old<'_>,
        from: &str,
    ) -> Result<Option<String>, StoreError> {
        let (table, time) = match kept {
            Kept::Hours => ("audit_count_hour", "hour"),
            Kept::Hosts => ("audit_count_host", "day"),
            Kept::Attempts => ("audit_count_attempt", "day"),
        };
        let remove = format!(
            "WITH gone AS (
                 DELETE FROM {table} WHERE ctid = ANY (ARRAY(
                     SELECT ctid FROM {table} WHERE {time} >= $1::text AND {time} < $2::text
                     AND ($3::int4 IS NULL OR chain = $3) AND ($4::text IS NULL OR class = $4)
                     ORDER BY {time} LIMIT {MOST_DROPPED}))
                 RETURNING {time})
             SELECT max({time}) FROM gone"
        );
        let (chain, before) = (old.chain.map(u32::cast_signed), kept.of(old.before));
        self.ask("prune", |link| {
            let client = link.client();
            let class = &old.class;
            let row = link.asked(client.query_one(&remove, &[&from, &before, &chain, class]))?;
            get(link, &row, 0)
        })
    }

    fn hours(&mut self, since: &str) -> Result<Vec<HourCount>, StoreError> {
        self.ask("read", |link| {
            let look = "SELECT hour, server, verdict, sum(count)::int8 FROM audit_count_hour
                        WHERE hour >= $1 GROUP BY hour, server, verdict";
            let rows = link.asked(link.client().query(look, &[&since]))?;
            let hour = |row| {
                Ok(HourCount {
                    hour: get(link, row, 0)?,
                    server: get(link, row, 1)?,
                    verdict: get(link, row, 2)?,
                    count: number(link, row, 3)?,
                })
            };
            rows.iter().map(hour).collect()
        })
    }

    fn hosts(&mut self, since: &str) -> Result<Vec<HostCount>, StoreError> {
        self.ask("read", |link| {
            let look = "SELECT host, sum(allowed)::int8, sum(denied)::int8, sum(would_deny)::int8,
                        min(first), max(last),
                        EXISTS (SELECT FROM audit_count_host o WHERE o.host = h.host AND o.day < $1),
                        min(server)
                 FROM audit_count_host h WHERE day >= $1 GROUP BY host";
            let rows = link.asked(link.client().query(look, &[&since]))?;
            let host = |row| {
                Ok(HostCount {
                    host: get(link, row, 0)?,
                    allowed: number(link, row, 1)?,
                    denied: number(link, row, 2)?,
                    would_deny: number(link, row, 3)?,
                    first: get(link, row, 4)?,
                    last: get(link, row, 5)?,
                    known_before: get(link, row, 6)?,
                    server: get(link, row, 7)?,
                })
            };
            rows.iter().map(host).collect()
        })
    }

    fn known_before(&mut self, day: &str, hosts: &[String]) -> Result<Vec<String>, StoreError> {
        if hosts.is_empty() {
            return Ok(Vec::new());
        }
        self.ask("read", |link| {
            let look = "SELECT DISTINCT host FROM audit_count_host
                        WHERE host = ANY($1) AND day < $2";
            let rows = link.asked(link.client().query(look, &[&hosts, &day]))?;
            rows.iter().map(|row| get(link, row, 0)).collect()
        })
    }

    fn attempts(&mut self, asked: &TriedAsked, most: Most) -> Result<Vec<Line>, StoreError> {
        let rows = i64::from(most.rows);
        let octets = i64::try_from(most.octets).unwrap_or(i64::MAX);
        self.ask("read", |link| {
            // The one that reaches the bound is read: it says that there may be more.
            let look = "
                SELECT server, what, count, first, last, newest FROM (
                    SELECT *, sum(octet_length(what)) OVER (ORDER BY day DESC ROWS UNBOUNDED PRECEDING) AS octets
                    FROM audit_count_attempt
                    WHERE day >= left($1::text, 10) AND last >= $1
                    AND ($2::text IS NULL OR server = $2) AND (denied OR NOT $3)) AS one
                WHERE octets - octet_length(what) < $5::int8 ORDER BY day DESC LIMIT $4";
            let (since, server, denied) = (&asked.since, &asked.server, &asked.denied);
            let client = link.client();
            let rows = link.asked(client.query(look, &[since, server, denied, &rows, &octets]))?;
            let line = |row| {
                Ok(Line {
                    server: get(link, row, 0)?,
                    what: get(link, row, 1)?,
                    count: number(link, row, 2)?,
                    first: get(link, row, 3)?,
                    last: get(link, row, 4)?,
                    newest: get(link, row, 5)?,
                })
            };
            rows.iter().map(line).collect()
        })
    }
}

fn number(link: &Link, row: &tokio_postgres::Row, column: usize) -> Result<u64, LinkError> {
    get::<i64>(link, row, column).map(i64::cast_unsigned)
}

fn counted(link: &Link, row: &tokio_postgres::Row, column: usize) -> Result<Counted, LinkError> {
    Ok(Counted {
        first: number(link, row, column)?,
        next: number(link, row, column + 1)?,
    })
}

/// Whether the mark was where the step says; then it is moved. Within [`alone`].
fn move_mark(link: &Link, step: &Step) -> Result<bool, LinkError> {
    let chain = step.chain.cast_signed();
    let look = "SELECT first, next FROM audit_counted WHERE chain = $1";
    let found = link.asked(link.client().query_opt(look, &[&chain]))?;
    let mark = found.map(|row| counted(link, &row, 0)).transpose()?;
    if mark != step.from {
        return Ok(false);
    }
    let (first, next) = step.to.signed();
    let write = "INSERT INTO audit_counted (chain, first, next) VALUES ($1, $2, $3)
                 ON CONFLICT (chain) DO UPDATE SET first = excluded.first, next = excluded.next";
    link.asked(link.client().execute(write, &[&chain, &first, &next]))
        .map(|_| true)
}

fn add_hours(link: &Link, chain: i32, tally: &Tally) -> Result<(), LinkError> {
    let write = "
        INSERT INTO audit_count_hour AS kept (hour, chain, server, class, verdict, count)
        SELECT a.hour, $1, a.server, a.class, a.verdict, a.count
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::int8[])
             AS a (hour, server, class, verdict, count)
        ON CONFLICT (hour, chain, server, class, verdict)
        DO UPDATE SET count = kept.count + excluded.count";
    let at = || tally.hours.keys();
    let hours: Vec<_> = at().map(|at| at.hour.as_str()).collect();
    let servers: Vec<_> = at().map(|at| at.server.as_str()).collect();
    let classes: Vec<_> = at().map(|at| at.class).collect();
    let verdicts: Vec<_> = at().map(|at| at.verdict).collect();
    let counts: Vec<_> = tally.hours.values().copied().collect();
    let client = link.client();
    link.asked(client.execute(
        write,
        &[&chain, &hours, &servers, &classes, &verdicts, &counts],
    ))
    .map(drop)
}

fn add_hosts(link: &Link, chain: i32, tally: &Tally) -> Result<(), LinkError> {
    let write = "
        INSERT INTO audit_count_host AS kept
            (day, chain, server, host, class, allowed, denied, would_deny, first, last)
        SELECT a.day, $1, a.server, a.host, a.class, a.allowed, a.denied, a.would_deny, a.first, a.last
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::int8[], $8::int8[],
                    $9::text[], $10::text[])
             AS a (day, server, host, class, allowed, denied, would_deny, first, last)
        ON CONFLICT (day, chain, server, host, class)
        DO UPDATE SET allowed = kept.allowed + excluded.allowed,
            denied = kept.denied + excluded.denied,
            would_deny = kept.would_deny + excluded.would_deny,
            first = least(kept.first, excluded.first), last = greatest(kept.last, excluded.last)";
    let (at, one) = (|| tally.hosts.keys(), || tally.hosts.values());
    let days: Vec<_> = at().map(|at| at.day.as_str()).collect();
    let servers: Vec<_> = at().map(|at| at.server.as_str()).collect();
    let hosts: Vec<_> = at().map(|at| at.host.as_str()).collect();
    let classes: Vec<_> = at().map(|at| at.class).collect();
    let allowed: Vec<_> = one().map(|one| one.allowed).collect();
    let denied: Vec<_> = one().map(|one| one.denied).collect();
    let would_deny: Vec<_> = one().map(|one| one.would_deny).collect();
    let first: Vec<_> = one().map(|one| one.first.as_str()).collect();
    let last: Vec<_> = one().map(|one| one.last.as_str()).collect();
    let client = link.client();
    link.asked(client.execute(
        write,
        &[
            &chain,
            &days,
            &servers,
            &hosts,
            &classes,
            &allowed,
            &denied,
            &would_deny,
            &first,
            &last,
        ],
    ))
    .map(drop)
}

fn add_attempts(link: &Link, chain: i32, tally: &Tally) -> Result<(), LinkError> {
    let write = "
        INSERT INTO audit_count_attempt AS kept
            (day, chain, server, denied, id, class, what, count, first, last, newest)
        SELECT a.day, $1, a.server, a.denied, a.id, a.class, a.what, a.count, a.first, a.last, a.newest
        FROM unnest($2::text[], $3::text[], $4::bool[], $5::bytea[], $6::text[], $7::text[], $8::int8[],
                    $9::text[], $10::text[], $11::int8[])
             AS a (day, server, denied, id, class, what, count, first, last, newest)
        ON CONFLICT (day, chain, server, denied, id)
        DO UPDATE SET count = kept.count + excluded.count,
            first = least(kept.first, excluded.first), last = greatest(kept.last, excluded.last),
            newest = greatest(kept.newest, excluded.newest)";
    let (at, one) = (|| tally.attempts.keys(), || tally.attempts.values());
    let days: Vec<_> = at().map(|at| at.day.as_str()).collect();
    let servers: Vec<_> = at().map(|at| at.server.as_str()).collect();
    let denied: Vec<_> = at().map(|at| at.denied).collect();
    let ids: Vec<_> = at().map(|at| at.id.as_slice()).collect();
    let classes: Vec<_> = one().map(|one| one.class).collect();
    let whats: Vec<_> = one().map(|one| one.what.as_str()).collect();
    let counts: Vec<_> = one().map(|one| one.count).collect();
    let first: Vec<_> = one().map(|one| one.first.as_str()).collect();
    let last: Vec<_> = one().map(|one| one.last.as_str()).collect();
    let newest: Vec<_> = one().map(|one| one.newest).collect();
    let client = link.client();
    link.asked(client.execute(
        write,
        &[
            &chain, &days, &servers, &denied, &ids, &classes, &whats, &counts, &first, &last,
            &newest,
        ],
    ))
    .map(drop)
}
