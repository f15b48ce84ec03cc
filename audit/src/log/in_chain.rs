//! One record in its chain: whether it is what was written, what stands before and behind it, and what was
//! signed of it.
//!
//! All of it is computed anew from the lines that are there; nothing that the database says of itself is
//! believed. Whether the whole chain holds is [`mod@crate::verify`]'s to say.

use std::sync::Arc;

use super::{ReadLogError, indexed};
use crate::{
    chain::{self, ChainFault, Head},
    checkpoint::{Checkpoint, Prover, Segments},
    record::Record,
    search::{
        Found, Position,
        walk::{Chain, Shelf},
    },
    store::StoreError,
};

/// A record, and what stands around it.
#[derive(Debug)]
pub struct InChain {
    /// The record.
    pub found: Found,
    /// Its hash is that of its line, and it stands where it says.
    pub own: Result<(), ChainFault>,
    /// The one before; `None` where there is none any more.
    pub before: Option<Neighbour>,
    /// The one behind; `None` where it is the last.
    pub behind: Option<Neighbour>,
    /// What was signed of it; `None` where nobody has yet. A fault where the checkpoints of its chain do not
    /// hold.
    pub sealed: Result<Option<Sealed>, ChainFault>,
}

/// The next record on one side.
#[derive(Debug)]
pub struct Neighbour {
    /// The record.
    pub found: Found,
    /// Places between both that hold nothing any more.
    pub between: u64,
    /// One names the other; where places are between them, a checkpoint lists all of those as removed.
    pub link: Result<(), ChainFault>,
}

/// The segment that a record is of.
#[derive(Debug)]
pub struct Sealed {
    /// The newest checkpoint of the segment, whose signature holds.
    pub checkpoint: Checkpoint,
    /// Records of the segment that were removed since.
    pub removed: u64,
    /// What is there of the segment is, record for record, what was signed.
    pub whole: Result<(), ChainFault>,
}

/// One record of a database.
pub(crate) fn of(shelf: &mut impl Shelf, at: Position) -> Result<Option<InChain>, ReadLogError> {
    let mut chains = shelf.chains()?.into_iter();
    let Some(chain) = chains.find(|chain| chain.chain == at.chain) else {
        return Ok(None);
    };
    let Some(found) = indexed::found_at(shelf, at)? else {
        return Ok(None);
    };
    let lines = shelf.checkpoints(chain.chain)?;
    let segments = indexed::put_together(&lines, &chain, &[]);
    let listed = segments.as_ref().ok();
    let here = read(&found, &chain);
    let before = shelf.lines_before(at.chain, at.seq, 0, 1)?;
    let before = neighbour(shelf, before, at.chain)?;
    let before = before.map(|found| Neighbour {
        between: at.seq - found.at.seq - 1,
        link: linked(&read(&found, &chain), &here, listed),
        found,
    });
    let mut behind = shelf.lines_after(at.chain, at.seq, 1)?;
    behind.retain(|(seq, _)| *seq <= chain.head.seq);
    let behind = neighbour(shelf, behind, at.chain)?;
    let behind = behind.map(|found| Neighbour {
        between: found.at.seq - at.seq - 1,
        link: linked(&here, &read(&found, &chain), listed),
        found,
    });
    let own = match &here {
        Ok(record) => ends(record, &chain).and_then(|()| match before {
            Some(_) => Ok(()),
            None => begins(record, listed),
        }),
        Err(why) => Err(why.clone()),
    };
    let sealed = match segments {
        Ok(segments) => {
            let segments = Arc::new(segments);
            Ok(sealed(shelf, (&chain, &lines), segments, at.seq)?)
        }
        Err(why) => Err(why),
    };
    Ok(Some(InChain {
        found,
        own,
        before,
        behind,
        sealed,
    }))
}

fn neighbour(
    shelf: &mut impl Shelf,
    mut lines: Vec<(u64, String)>,
    chain: u32,
) -> Result<Option<Found>, ReadLogError> {
    match lines.pop() {
        Some((seq, _)) => indexed::found_at(shelf, Position { chain, seq }),
        None => Ok(None),
    }
}

/// A record, if its hash is its own and its place the one where it stands.
fn read(found: &Found, chain: &Chain) -> Result<Record, ChainFault> {
    check(&found.line, found.at.seq, chain)
}

fn check(line: &str, place: u64, chain: &Chain) -> Result<Record, ChainFault> {
    let record = chain::open(format!("{line}\n").as_bytes())?;
    if record.seq == place && *record.node == *chain.node {
        return Ok(record);
    }
    Err(ChainFault::Elsewhere {
        place,
        seq: record.seq,
        node: record.node,
    })
}

/// Whether the later of two records follows the earlier one.
fn linked(
    earlier: &Result<Record, ChainFault>,
    later: &Result<Record, ChainFault>,
    listed: Option<&Segments>,
) -> Result<(), ChainFault> {
    let (earlier, later) = match (earlier, later) {
        (Ok(earlier), Ok(later)) => (earlier, later),
        (Err(why), _) | (_, Err(why)) => return Err(why.clone()),
    };
    let next = earlier.seq + 1;
    // What was removed cannot be named: its checkpoint vouches for what is left.
    if next < later.seq && listed.is_some_and(|all| all.first_kept(next) >= later.seq) {
        return Ok(());
    }
    let head = Head {
        seq: earlier.seq,
        hash: earlier.hash,
    };
    chain::follow(head, later).map(drop)
}

/// Whether a record with none before it is the first of its chain, or all before it was removed as checkpoints
/// say.
fn begins(record: &Record, listed: Option<&Segments>) -> Result<(), ChainFault> {
    if record.seq > 1 && listed.is_some_and(|all| all.first_kept(1) >= record.seq) {
        return Ok(());
    }
    chain::follow(Head::START, record).map(drop)
}

/// Whether a record is not behind the end of its chain.
fn ends(record: &Record, chain: &Chain) -> Result<(), ChainFault> {
    let found = Head {
        seq: record.seq,
        hash: record.hash,
    };
    if record.seq < chain.head.seq || found == chain.head {
        return Ok(());
    }
    Err(ChainFault::End {
        expected: chain.head,
        found,
    })
}

/// What was signed of a place, and whether it is so.
fn sealed(
    shelf: &mut impl Shelf,
    (chain, lines): (&Chain, &[String]),
    segments: Arc<Segments>,
    place: u64,
) -> Result<Option<Sealed>, StoreError> {
    let Some((before, segment)) = segments.around(place) else {
        return Ok(None);
    };
    let (first, last) = (segment.first, segment.last);
    let removed = segment.pruned.iter().map(|(a, b)| b - a + 1).sum();
    let newest = lines.iter().rev().find_map(|line| {
        let checkpoint: Checkpoint = serde_json::from_str(line).ok()?;
        (checkpoint.first == first).then_some(checkpoint)
    });
    let Some(checkpoint) = newest else {
        return Ok(None);
    };
    let prover = Prover::behind(before, Arc::clone(&segments));
    let whole = prove(shelf, chain, prover, (before.seq, last))?;
    Ok(Some(Sealed {
        checkpoint,
        removed,
        whole,
    }))
}

/// Proves the segment behind `from` up to `last`.
fn prove(
    shelf: &mut impl Shelf,
    chain: &Chain,
    mut prover: Prover,
    (from, last): (u64, u64),
) -> Result<Result<(), ChainFault>, StoreError> {
    let mut at = from;
    while at < last {
        let mut lines = shelf.lines_after(chain.chain, at, LINES_AT_ONCE)?;
        lines.retain(|(place, _)| *place <= last);
        if lines.is_empty() {
            break;
        }
        for (place, line) in lines {
            let taken = check(&line, place, chain).and_then(|record| prover.take(&record));
            if let Err(why) = taken {
                return Ok(Err(why));
            }
            at = place;
        }
    }
    Ok(prover.reaches(last))
}

/// A segment has 4,096 records.
const LINES_AT_ONCE: u32 = 4096;
