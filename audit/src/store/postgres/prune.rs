//! Removing old records of a fleet. What goes is gone for whoever asks the server; its files and its
//! write-ahead log hold it until the server has tidied up.

use std::collections::BTreeMap;

use super::{
    PostgresLog, PostgresRecord, drawer,
    seal::{self, alone},
    session::get,
};
use crate::{
    checkpoint::Statement,
    search::{
        posting::{BLOCK, Places, encode},
        walk::key_of,
    },
    signing::SigningKey,
    store::{
        StoreError,
        prune::{self, Goes, Prune, PruneError, PrunedChain, Shears},
    },
};

impl PostgresRecord {
    /// Removes old records, chain by chain.
    ///
    /// # Errors
    /// When the database cannot be used. A chain that does not hold, or is signed by a key that is not
    /// believed, is an answer, and keeps its records.
    pub fn prune(&self, what: &Prune<'_>) -> Result<Vec<PrunedChain>, PruneError> {
        let mut log = self.log()?;
        Ok(prune::prune(&mut log, what)?)
    }
}

impl Shears for PostgresLog {
    fn hold_moment(&mut self) -> Result<(), StoreError> {
        self.hold()
    }

    fn end_moment(&mut self) -> Result<(), StoreError> {
        self.release()
    }

    fn since(&mut self, chain: u32, known: u64) -> Result<Vec<u64>, StoreError> {
        self.ask("prune", |link| seal::since(link, chain, known))
    }

    fn cut(
        &mut self,
        (chain, node): (u32, &str),
        known: u64,
        key: &SigningKey,
        (statement, goes): (&Statement, &Goes),
    ) -> Result<bool, StoreError> {
        // Begun anew where the connection was lost: then somebody has signed for it, or nobody.
        self.ask("prune", |link| {
            alone(link, chain, || {
                if seal::since(link, chain, known)?.contains(&statement.last) {
                    return Ok(false);
                }
                seal::add(link, (chain, node), key, statement)?;
                let runs = statement.pruned.iter();
                let (first, last): (Vec<i64>, Vec<i64>) = runs
                    .map(|(first, last)| (key_of(chain, *first), key_of(chain, *last)))
                    .unzip();
                let remove = "DELETE FROM audit_record r USING unnest($1::int8[], $2::int8[]) AS gone (first, last)
                              WHERE r.position BETWEEN gone.first AND gone.last";
                link.asked(link.client().execute(remove, &[&first, &last]))?;
                let blocks: Vec<i64> = prune::blocks(chain, statement).collect();
                let untidy = "INSERT INTO audit_untidy (block) SELECT * FROM unnest($1::int8[])
                              ON CONFLICT DO NOTHING";
                link.asked(link.client().execute(untidy, &[&blocks]))?;
                let keep = "INSERT INTO audit_removed (chain, class, newest)
                            SELECT $1::int4, * FROM unnest($2::text[], $3::text[])
                            ON CONFLICT (chain, class)
                            DO UPDATE SET newest = GREATEST(audit_removed.newest, excluded.newest)";
                let (classes, newest): (Vec<&str>, Vec<&str>) = goes
                    .iter()
                    .map(|(class, going)| (class.as_str(), going.newest.as_str()))
                    .unzip();
                let chain = chain.cast_signed();
                link.asked(link.client().execute(keep, &[&chain, &classes, &newest]))?;
                Ok(true)
            })
        })
    }

    fn untidy(&mut self) -> Result<Vec<i64>, StoreError> {
        self.ask("prune", |link| {
            let look = "SELECT block FROM audit_untidy ORDER BY block";
            let rows = link.asked(link.client().query(look, &[]))?;
            rows.iter().map(|row| get(link, row, 0)).collect()
        })
    }

    fn forget(&mut self, block: i64) -> Result<(), StoreError> {
        let first = block * i64::from(BLOCK);
        let last = first + i64::from(BLOCK) - 1;
        self.ask("prune", |link| {
            let look = "SELECT position FROM audit_record WHERE position BETWEEN $1 AND $2";
            let mut there = Places::NONE;
            for row in &link.asked(link.client().query(look, &[&first, &last]))? {
                let position: i64 = get(link, row, 0)?;
                there.add(u16::try_from(position - first).unwrap_or(u16::MAX));
            }
            let look = "SELECT drawer, terms FROM audit_posting WHERE block = $1";
            let mut postings = Vec::new();
            for row in &link.asked(link.client().query(look, &[&block]))? {
                for (term, mut places) in drawer::terms(get(link, row, 1)?) {
                    places.meet(&there);
                    let mut left: Vec<u16> = places.newest_first().collect();
                    left.reverse();
                    if !left.is_empty() {
                        postings.push((term, encode(&left)));
                    }
                }
            }
            let drawers: BTreeMap<i16, Vec<u8>> = drawer::put(&postings);
            let (names, texts): (Vec<i16>, Vec<Vec<u8>>) = drawers.into_iter().unzip();
            // Who indexes writes a block once, and its records go only when they are old: nobody else is at it
            // but who prunes, too, and comes to the same.
            let write = "
                WITH gone AS (
                    DELETE FROM audit_posting WHERE block = $1 AND drawer <> ALL($2::int2[])),
                tidy AS (DELETE FROM audit_untidy WHERE block = $1)
                UPDATE audit_posting p SET terms = kept.terms
                FROM unnest($2::int2[], $3::bytea[]) AS kept (drawer, terms)
                WHERE p.block = $1 AND p.drawer = kept.drawer AND p.terms <> kept.terms";
            link.asked(link.client().execute(write, &[&block, &names, &texts]))
                .map(drop)
        })
    }
}
