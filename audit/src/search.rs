//! Finding records: by time, sandbox, host, verdict, words and more, newest first, page by page.
//!
//! A page ends with [`Marks`]: how far each chain was read. The next page goes on exactly there,
//! whatever was recorded meanwhile. A database is searched by its index and, for the newest records
//! that are not indexed yet, line by line; both answer the same, because [`Filter::matches`] has the
//! last word.

use std::{collections::BTreeMap, fmt, str::FromStr};

use thiserror::Error;

pub mod filter;
pub(crate) mod index;
pub mod moment;
pub(crate) mod posting;
pub(crate) mod spelled;
pub(crate) mod term;
pub(crate) mod walk;
pub(crate) mod whole;

pub use filter::Filter;

use crate::row::Row;

/// What to find and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Which records.
    pub filter: Filter,
    /// Where the page before ended; `None` begins with the newest.
    pub before: Option<Marks>,
    /// Records of a page.
    pub limit: usize,
}

/// One record, with its line as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it stands.
    pub at: Position,
    /// The line, without its newline.
    pub line: String,
    /// What the line says.
    pub row: Row,
}

/// A page of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Newest first.
    pub records: Vec<Found>,
    /// Where the next page begins; `None` when there is no more.
    pub next: Option<Marks>,
}

/// A record's place among all of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Which chain; 0 in a file.
    pub chain: u32,
    /// Its place in the chain; in a file the octets up to the end of its line.
    pub seq: u64,
}

/// A place in each chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks(pub(crate) BTreeMap<u32, u64>);

/// A text is no place in a log.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no cursor: take the one that the page before ended with")]
pub struct ParseMarksError(String);

impl Marks {
    /// The place in `chain`; 0 where it is not named.
    #[must_use]
    pub fn of(&self, chain: u32) -> u64 {
        self.0.get(&chain).copied().unwrap_or_default()
    }

    /// How many chains are named.
    #[must_use]
    pub fn chains(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap_or(u64::MAX)
    }

    /// Whether every chain of `end` was read as far.
    #[must_use]
    pub fn reaches(&self, end: &Self) -> bool {
        end.0.iter().all(|(chain, seq)| self.of(*chain) >= *seq)
    }

    /// The same, no further than `end` in any chain.
    #[must_use]
    pub fn within(&self, end: &Self) -> Self {
        let known = self.0.iter();
        let known = known.map(|(chain, seq)| (*chain, (*seq).min(end.of(*chain))));
        Self(known.filter(|(_, seq)| *seq > 0).collect())
    }

    /// Where each chain that it knows ends.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        let pairs = self.0.iter();
        pairs.map(|(&chain, &seq)| Position { chain, seq })
    }

    /// Moves the place of a record's chain to the record.
    pub fn set(&mut self, at: Position) {
        self.0.insert(at.chain, at.seq);
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (chain, seq)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "." } else { "" };
            write!(f, "{comma}{chain}:{seq}")?;
        }
        if self.0.is_empty() {
            f.write_str("start")?;
        }
        Ok(())
    }
}

impl FromStr for Marks {
    type Err = ParseMarksError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "start" {
            return Ok(Self::default());
        }
        let one = |part: &str| {
            let (chain, seq) = part.split_once(':')?;
            Some((chain.parse().ok()?, seq.parse().ok()?))
        };
        let marks: Option<BTreeMap<u32, u64>> = text.split('.').map(one).collect();
        let wrong = || ParseMarksError(text.chars().take(80).collect());
        marks.map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_round_trip_and_nonsense_is_refused() {
        for text in ["start", "0:17", "1:500.2:77"] {
            assert_eq!(text.parse::<Marks>().unwrap().to_string(), text);
        }
        for text in ["", "1", "a:b", "1:2.", "1:2,3:4", "1:-2"] {
            assert!(text.parse::<Marks>().is_err(), "{text}");
        }
    }
}
