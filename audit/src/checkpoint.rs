//! Signed checkpoints: what a segment of a chain was when it was written, and what was removed of it
//! since.
//!
//! A checkpoint names a range of places and the hash of its last record; it is signed, and chained to
//! the checkpoint before it. One that comes later may speak of the same range again and list the places
//! that were removed, with a digest of every record that stays: so a record may go while the rest stays
//! provable, and nobody without the key can make one go, come back or change. Like a record, a
//! checkpoint is one line, and the signature covers its very octets.

use std::{io::Write as _, sync::Arc};

use serde::Deserialize;
use thiserror::Error;

use crate::{
    chain::Head,
    line,
    record::ChainHash,
    sha256::{Sha256, sha256},
    signing::{PublicKey, SigningKey, octets_of_hex},
};

mod proof;
pub(crate) mod segments;

pub(crate) use proof::Prover;
pub use segments::Segments;

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Its place among its chain's checkpoints, counted from 1.
    #[serde(rename = "checkpoint")]
    pub number: u64,
    /// Whose chain.
    pub node: Arc<str>,
    /// When it was signed.
    pub time: String,
    /// The first place of the segment.
    pub first: u64,
    /// The last place of the segment.
    pub last: u64,
    /// The hash of the last record.
    pub hash: ChainHash,
    /// Up to here another run wrote, which ended without signing: who signs vouches for what it found.
    #[serde(default)]
    pub inherited: Option<u64>,
    /// Places that were removed, in order: first and last of each run.
    #[serde(default)]
    pub pruned: Vec<(u64, u64)>,
    /// Digest of what is kept; only where something was removed.
    #[serde(default)]
    pub kept: Option<ChainHash>,
    /// SHA-256 of the checkpoint before; 64 zeros for the first.
    pub prev: ChainHash,
    /// Who signed it.
    pub key: PublicKey,
    /// Over the line up to `,"signature":"`.
    pub signature: String,
}

/// What a checkpoint says, before it has its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) hash: ChainHash,
    pub(crate) inherited: Option<u64>,
    pub(crate) pruned: Vec<(u64, u64)>,
    pub(crate) kept: Option<ChainHash>,
}

impl Statement {
    /// That everything behind `covered` up to `head` is there, of which who signs found what stands there since before
    /// it began; `None` where that is signed already, or left to somebody else.
    pub(crate) fn of_all_behind(covered: u64, head: Head, began: Began) -> Option<Self> {
        let inherits = covered < began.behind;
        let is_due = covered < head.seq && !(inherits && began.beside);
        is_due.then(|| Self {
            first: covered + 1,
            last: head.seq,
            hash: head.hash,
            inherited: inherits.then(|| began.behind.min(head.seq)),
            pruned: Vec::new(),
            kept: None,
        })
    }
}

/// Where who signs began to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Began {
    /// Behind this place.
    pub(crate) behind: u64,
    /// Beside an appliance, which signs what it wrote itself.
    pub(crate) beside: bool,
}

impl Began {
    /// At the beginning, alone.
    pub(crate) const FIRST: Self = Self {
        behind: 0,
        beside: false,
    };
}

/// Why a line is not the next checkpoint of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckpointFault {
    /// Not JSON, or without the fields that every checkpoint has.
    #[error("it is no checkpoint: {0}")]
    NotACheckpoint(String),
    /// The signature is not the key's.
    #[error("its signature is not that of its content by key {0}")]
    Signature(PublicKey),
    /// Somebody else signed.
    #[error("it is signed by key {0}, which is none of those that were named")]
    ForeignKey(PublicKey),
    /// Checkpoints are missing, doubled or in another order.
    #[error("checkpoint {expected} should stand here, behind the one with digest {prev}")]
    Order {
        /// The number after the one before.
        expected: u64,
        /// The digest of the one before.
        prev: ChainHash,
    },
    /// It belongs to another chain.
    #[error("it is of the chain of {0}")]
    Elsewhere(Arc<str>),
    /// Its range is neither the next one nor one that was signed before, or what it lists cannot be.
    #[error("what it says of records {first} to {last} contradicts the checkpoints before it")]
    Contradiction {
        /// The first place.
        first: u64,
        /// The last place.
        last: u64,
    },
}

/// Signs the next checkpoint of a chain and answers its line, without a newline.
pub(crate) fn sign(
    key: &SigningKey,
    (number, prev): (u64, ChainHash),
    node: &str,
    time: &str,
    statement: &Statement,
) -> String {
    let Statement {
        first,
        last,
        hash,
        inherited,
        pruned,
        kept,
    } = statement;
    let mut out = Vec::new();
    let mut put = |text: std::fmt::Arguments<'_>| {
        // A vector takes everything.
        let _infallible = out.write_fmt(text);
    };
    put(format_args!("{{\"checkpoint\":{number}"));
    line::text_field(&mut out, b",\"node\":", node);
    line::text_field(&mut out, b",\"time\":", time);
    let mut put = |text: std::fmt::Arguments<'_>| {
        let _infallible = out.write_fmt(text);
    };
    put(format_args!(
        ",\"first\":{first},\"last\":{last},\"hash\":\"{hash}\""
    ));
    if let Some(inherited) = inherited {
        put(format_args!(",\"inherited\":{inherited}"));
    }
    if let Some(kept) = kept {
        let runs: Vec<_> = pruned.iter().map(|(a, b)| format!("[{a},{b}]")).collect();
        put(format_args!(
            ",\"pruned\":[{}],\"kept\":\"{kept}\"",
            runs.join(",")
        ));
    }
    put(format_args!(
        ",\"prev\":\"{prev}\",\"key\":\"{}\"",
        key.public()
    ));
    let signature = key.sign(&signed(&out));
    out.extend_from_slice(SIGNATURE_KEY);
    for octet in signature {
        let _infallible = write!(out, "{octet:02x}");
    }
    out.extend_from_slice(b"\"}");
    // A line is ASCII.
    String::from_utf8(out).unwrap_or_default()
}

/// Reads one line (without its newline) and checks its own signature, not its place.
///
/// # Errors
/// When it is not a checkpoint, or the signature is not that of the key it names.
pub fn open(line: &str) -> Result<Checkpoint, CheckpointFault> {
    let read: Checkpoint = serde_json::from_str(line)
        .map_err(|error| CheckpointFault::NotACheckpoint(error.to_string()))?;
    let not_last = || CheckpointFault::NotACheckpoint("the signature is not its last field".into());
    let tail = SIGNATURE_KEY.len() + SIGNATURE_DIGITS + 2;
    let (covered, rest) = line
        .len()
        .checked_sub(tail)
        .and_then(|end| line.as_bytes().split_at_checked(end))
        .ok_or_else(not_last)?;
    if !rest.starts_with(SIGNATURE_KEY) {
        return Err(not_last());
    }
    let signature = octets_of_hex(&read.signature).unwrap_or_default();
    if read.key.verifies(&signed(covered), &signature) {
        Ok(read)
    } else {
        Err(CheckpointFault::Signature(read.key))
    }
}

/// What the next checkpoint names as its predecessor.
pub(crate) fn digest(line: &str) -> ChainHash {
    ChainHash(sha256(line.as_bytes()))
}

/// The octets that are signed: no signature of this key is one of anything else.
fn signed(covered: &[u8]) -> Vec<u8> {
    [DOMAIN, covered].concat()
}

/// The digest of what is kept of a segment: places and hashes, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptDigest(Sha256);

impl KeptDigest {
    pub(crate) fn add(&mut self, record: Head) {
        self.0.update(&record.seq.to_be_bytes());
        self.0.update(&record.hash.0);
    }

    pub(crate) fn finish(self) -> ChainHash {
        ChainHash(self.0.finish())
    }
}

/// How every line begins.
pub const FIRST_OCTETS: &str = "{\"checkpoint\":";
const DOMAIN: &[u8] = b"gig audit checkpoint 1\n";
const SIGNATURE_KEY: &[u8] = b",\"signature\":\"";
const SIGNATURE_DIGITS: usize = 128;

#[cfg(test)]
mod tests;
