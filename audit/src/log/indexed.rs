//! What every database of records does alike.

use std::{collections::BTreeMap, sync::Arc};

use super::{ChainProof, ChainVerdict, LogVerdict, ReadLogError, Strays};
use crate::{
    chain::ChainFault,
    checkpoint::{CheckpointFault, Segments},
    row::Row,
    search::{
        Found, Marks, Position,
        posting::BLOCK,
        walk::{Chain, Shelf, key_of, position_of},
    },
    signing::PublicKey,
    store::StoreError,
    verify::{Expected, ExportedChain, Verified, Verifier, VerifyError},
};

/// Records behind the marks, chain by chain; of many that wait each chain has its share, and those with little
/// to tell come first: a node that records much keeps nobody waiting for another's.
pub(crate) fn after(
    shelf: &mut impl Shelf,
    marks: &Marks,
    most: usize,
) -> Result<Vec<Found>, ReadLogError> {
    let mut found = Vec::new();
    let waiting = |chain: &Chain| chain.head.seq.saturating_sub(marks.of(chain.chain));
    let mut chains = shelf.chains()?;
    // Nothing new: who follows a fleet asks often, and most nodes are gone or quiet.
    chains.retain(|chain| waiting(chain) > 0);
    chains.sort_by_key(waiting);
    for (number, chain) in chains.iter().enumerate() {
        let left = most - found.len().min(most);
        let share = left.div_ceil(chains.len() - number);
        if share == 0 {
            break;
        }
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        for (seq, line) in shelf.lines_after(chain.chain, marks.of(chain.chain), share)? {
            let row = Row::read(&line).map_err(|source| ReadLogError::Row {
                place: shelf.place(),
                seq,
                source,
            })?;
            let at = Position {
                chain: chain.chain,
                seq,
            };
            found.push(Found { at, line, row });
        }
    }
    Ok(found)
}

/// Records that a search still reads line by line: usually less than a block a chain.
pub(crate) fn unindexed(shelf: &mut impl Shelf) -> Result<u64, StoreError> {
    let mut count = 0;
    for chain in shelf.chains()? {
        let newest = shelf.blocks(chain.chain, u64::MAX, 1)?;
        let floor = newest
            .first()
            .map_or(1, |block| block.first() + u64::from(BLOCK));
        count += (chain.head.seq + 1).saturating_sub(floor);
    }
    Ok(count)
}

/// One record.
pub(crate) fn found_at(
    shelf: &mut impl Shelf,
    at: Position,
) -> Result<Option<Found>, ReadLogError> {
    let mut lines = shelf.lines_at(at.chain, &[at.seq])?;
    let Some((seq, line)) = lines.pop() else {
        return Ok(None);
    };
    let row = Row::read(&line).map_err(|source| ReadLogError::Row {
        place: shelf.place(),
        seq,
        source,
    })?;
    Ok(Some(Found { at, line, row }))
}

pub(crate) fn end(shelf: &mut impl Shelf) -> Result<Marks, StoreError> {
    let chains = shelf.chains()?;
    let marks = chains
        .into_iter()
        .map(|chain| (chain.chain, chain.head.seq));
    Ok(Marks(marks.collect()))
}

pub(crate) fn kept_until(
    shelf: &mut impl Shelf,
    marks: &Marks,
) -> Result<BTreeMap<u32, u64>, StoreError> {
    let ends = marks.0.iter();
    ends.map(|(&chain, &seq)| {
        let (mut kept, mut from) = (0, 0);
        while from <= seq {
            let to = seq.min(from + COUNTED_AT_ONCE - 1);
            kept += shelf.count((key_of(chain, from), key_of(chain, to)))?;
            from = to + 1;
        }
        Ok((chain, kept))
    })
    .collect()
}

pub(crate) fn verify(
    shelf: &mut impl Shelf,
    expected: Expected<'_>,
) -> Result<LogVerdict, StoreError> {
    let mut verdict = LogVerdict::default();
    for chain in shelf.chains()? {
        verdict.chains.push(ChainVerdict {
            outcome: verify_chain(shelf, &chain, expected)?,
            node: Some(chain.node),
        });
    }
    let (count, first) = shelf.strays(MOST_STRAYS)?;
    let first = first.into_iter().map(position_of).collect();
    verdict.strays = Strays { count, first };
    Ok(verdict)
}

/// Chains and their checkpoints.
pub(crate) fn proof(shelf: &mut impl Shelf) -> Result<Vec<ChainProof>, StoreError> {
    let mut proofs = Vec::new();
    for chain in shelf.chains()? {
        proofs.push(ChainProof {
            chain: chain.chain,
            exported: ExportedChain {
                node: chain.node.into(),
                last: chain.head.seq,
                hash: chain.head.hash,
            },
            checkpoints: shelf.checkpoints(chain.chain)?,
        });
    }
    Ok(proofs)
}

/// Whether the log ends before `marks` now: another was put in its place, under the same name.
pub(crate) fn is_shorter(shelf: &mut impl Shelf, marks: &Marks) -> Result<bool, StoreError> {
    let end = end(shelf)?;
    Ok(marks.0.iter().any(|(chain, seq)| end.of(*chain) < *seq))
}

/// Reads up to the head that the chain had when it was asked: more may come meanwhile.
fn verify_chain(
    shelf: &mut impl Shelf,
    chain: &Chain,
    expected: Expected<'_>,
) -> Result<Result<Verified, VerifyError>, StoreError> {
    let lines = shelf.checkpoints(chain.chain)?;
    let segments = match put_together(&lines, chain, expected.keys) {
        Ok(segments) => segments,
        Err(why) => return Ok(Err(VerifyError::BrokenAt { line: 0, why })),
    };
    let mut verifier = Verifier::new(segments, expected.records);
    let mut octets = Vec::new();
    let mut seq = 0;
    while seq < chain.head.seq {
        let mut lines = shelf.lines_after(chain.chain, seq, LINES_AT_ONCE)?;
        lines.retain(|(place, _)| *place <= chain.head.seq);
        if lines.is_empty() {
            break;
        }
        for (place, line) in lines {
            octets.clear();
            octets.extend_from_slice(line.as_bytes());
            octets.push(b'\n');
            let why = match verifier.line(&octets) {
                Ok(record) if record.seq == place && *record.node == *chain.node => None,
                Ok(record) => Some(ChainFault::Elsewhere {
                    place,
                    seq: record.seq,
                    node: Arc::clone(&record.node),
                }),
                Err(why) => Some(why),
            };
            if let Some(why) = why {
                return Ok(Err(VerifyError::BrokenAt { line: place, why }));
            }
            seq = place;
        }
    }
    let found = verifier.head();
    let ended = match verifier.finish() {
        Ok(verified) if verified.head == chain.head => return Ok(Ok(verified)),
        Ok(verified) => ChainFault::End {
            expected: chain.head,
            found: verified.head,
        },
        Err(why) => why,
    };
    Ok(Err(VerifyError::BrokenAt {
        line: found.seq + 1,
        why: ended,
    }))
}

/// What the checkpoints of a chain say.
pub(crate) fn put_together(
    lines: &[String],
    chain: &Chain,
    trusted: &[PublicKey],
) -> Result<Segments, ChainFault> {
    let mut segments = Segments::new(trusted);
    for (number, line) in (1..).zip(lines) {
        let taken = segments.take(line);
        taken.map_err(|why| ChainFault::Checkpoint { number, why })?;
    }
    match segments.node() {
        None if !trusted.is_empty() => Err(ChainFault::Unsigned),
        Some(node) if node != chain.node => Err(ChainFault::Checkpoint {
            number: 1,
            why: CheckpointFault::Elsewhere(node.into()),
        }),
        _ => Ok(segments),
    }
}

const LINES_AT_ONCE: u32 = 4096;
/// A statement has thirty seconds at most.
const COUNTED_AT_ONCE: u64 = 1 << 20;
/// A person looks at some of them and then at the database.
const MOST_STRAYS: u32 = 20;
