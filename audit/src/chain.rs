//! The hash chain: each record names the hash of the one before.
//!
//! The hash covers the very octets of the line up to `,"hash":"`, so that anybody can check it with
//! `sed` and `sha256sum`, and no question of canonical form can arise. Pure; time is handed in.

use std::{fmt, str::FromStr, sync::Arc};

use thiserror::Error;

use crate::{
    checkpoint::CheckpointFault,
    entry::Entry,
    line,
    record::{ChainHash, Record, bound_texts, hex},
    sha256::sha256,
    signing::PublicKey,
};

/// The last record of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its place; 0 before the first.
    pub seq: u64,
    /// Its hash.
    pub hash: ChainHash,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

/// `SEQ:HASH`, as whoever keeps one writes it down.
impl FromStr for Head {
    type Err = ParseHeadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (seq, hash) = text.split_once(':').ok_or(ParseHeadError)?;
        let seq = seq.parse().ok().filter(|seq| *seq > 0);
        let hash = ChainHash::parse(hash);
        let (Some(seq), Some(hash)) = (seq, hash) else {
            return Err(ParseHeadError);
        };
        Ok(Self { seq, hash })
    }
}

/// It names no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a record is named by its place and its hash of 64 small hexadecimal digits, as `gig audit verify` tells \
     the last one: SEQ:HASH"
)]
pub struct ParseHeadError;

impl Head {
    /// Before the first record.
    pub const START: Self = Self {
        seq: 0,
        hash: ChainHash::NONE,
    };
}

/// Why a line is not the next record of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChainFault {
    /// The file ends within a line.
    #[error("the line is unfinished: a crash, or the end was cut")]
    Unfinished,
    /// Longer than any record.
    #[error("the line is longer than any record")]
    TooLong,
    /// Not JSON, or without the fields that every record has.
    #[error("not an audit record: {0}")]
    NotARecord(String),
    /// The hash is not that of the line.
    #[error("the record was changed: its hash is {found}, its content hashes to {computed}")]
    Changed {
        /// What the line says.
        found: ChainHash,
        /// What its octets hash to.
        computed: ChainHash,
    },
    /// Records are missing, doubled or in another order.
    #[error("expected record {expected}, found {found}: records are missing, doubled or moved")]
    Order {
        /// The place after the line before.
        expected: u64,
        /// The place the line claims.
        found: u64,
    },
    /// The database has it under another place or machine.
    #[error("place {place} holds record {seq} of {node}: it was moved here")]
    Elsewhere {
        /// Where it was found.
        place: u64,
        /// What it says of its place.
        seq: u64,
        /// What it says of its machine.
        node: Arc<str>,
    },
    /// The chain is known to end elsewhere.
    #[error(
        "the chain ended with record {} (hash {}), what is there ends with {} (hash {}): the end was \
         cut off or changed", expected.seq, expected.hash, found.seq, found.hash
    )]
    End {
        /// What the database says of its end.
        expected: Head,
        /// The last record that is there.
        found: Head,
    },
    /// What is there of a segment is not what was signed.
    #[error(
        "what is left of records {first} to {last} is not what their checkpoint says: one was changed, \
         removed or put back"
    )]
    NotAsSigned {
        /// The segment's first place.
        first: u64,
        /// The segment's last place.
        last: u64,
    },
    /// A checkpoint speaks of records behind the last one.
    #[error(
        "a signed checkpoint speaks of records up to {signed}, what is there ends with {found}: the end \
         was cut off"
    )]
    CutOff {
        /// The last place that was signed.
        signed: u64,
        /// The last place that is there.
        found: u64,
    },
    /// A checkpoint is not what was signed, or not by who should have.
    #[error("checkpoint {number} does not hold: {why}")]
    Checkpoint {
        /// Its place among the checkpoints.
        number: u64,
        /// How.
        why: CheckpointFault,
    },
    /// Keys were named, and nothing is signed.
    #[error(
        "nothing of this chain is signed, so no key that was named vouches for it: what was written in the last \
         minutes may not be signed yet; anything else was taken away"
    )]
    Unsigned,
    /// The predecessor named is not the line before.
    #[error("the record before it was replaced: expected prev {expected}, found {found}")]
    Predecessor {
        /// Hash of the line before.
        expected: ChainHash,
        /// What the line names.
        found: ChainHash,
    },
}

impl ChainFault {
    /// Whose checkpoint it is that was not believed, though it is what was signed.
    #[must_use]
    pub const fn foreign_key(&self) -> Option<PublicKey> {
        let Self::Checkpoint {
            why: CheckpointFault::ForeignKey(key),
            ..
        } = self
        else {
            return None;
        };
        Some(*key)
    }
}

/// Appends `entry` to `out` as the line after `head` and answers the record.
pub(crate) fn seal(head: Head, mut entry: Entry, stamp: Stamp<'_>, out: &mut Vec<u8>) -> Record {
    bound_texts(&mut entry);
    let seq = head.seq.saturating_add(1);
    let begin = out.len();
    line::write(out, seq, stamp, &entry, head.hash);
    let hash = digest(out.get(begin..).unwrap_or_default());
    out.extend_from_slice(HASH_KEY);
    out.extend_from_slice(&hex(hash));
    out.extend_from_slice(LINE_END);
    Record {
        seq,
        time: stamp.time.to_owned(),
        node: Arc::clone(stamp.node),
        entry,
        prev: head.hash,
        hash,
    }
}

/// What a record carries beside its entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp<'a> {
    pub(crate) time: &'a str,
    pub(crate) node: &'a Arc<str>,
}

/// Reads one whole line (with its newline) and checks its own hash, not its place.
///
/// # Errors
/// When the line is not a record or was changed.
pub fn open(line: &[u8]) -> Result<Record, ChainFault> {
    let body = line.strip_suffix(b"\n").ok_or(ChainFault::Unfinished)?;
    let record: Record =
        serde_json::from_slice(body).map_err(|e| ChainFault::NotARecord(e.to_string()))?;
    let tail = HASH_KEY.len() + 64 + LINE_END.len();
    let covered = line
        .len()
        .checked_sub(tail)
        .and_then(|end| line.split_at_checked(end))
        .filter(|(_, rest)| rest.starts_with(HASH_KEY) && rest.ends_with(LINE_END))
        .ok_or_else(|| ChainFault::NotARecord("the hash is not its last field".to_owned()))?;
    let computed = digest(covered.0);
    if computed == record.hash {
        Ok(record)
    } else {
        Err(ChainFault::Changed {
            found: record.hash,
            computed,
        })
    }
}

/// Checks that `record` follows `head` and answers the new head.
///
/// # Errors
/// When its place or its predecessor is another.
pub fn follow(head: Head, record: &Record) -> Result<Head, ChainFault> {
    let expected = head.seq.saturating_add(1);
    if record.seq != expected {
        return Err(ChainFault::Order {
            expected,
            found: record.seq,
        });
    }
    if record.prev != head.hash {
        return Err(ChainFault::Predecessor {
            expected: head.hash,
            found: record.prev,
        });
    }
    Ok(Head {
        seq: record.seq,
        hash: record.hash,
    })
}

fn digest(octets: &[u8]) -> ChainHash {
    ChainHash(sha256(octets))
}

const HASH_KEY: &[u8] = b",\"hash\":\"";
const LINE_END: &[u8] = b"\"}\n";

#[cfg(test)]
mod tests;
