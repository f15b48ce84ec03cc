//! What every database of records does alike.

use std::sync::Arc;

use super::{ChainVerdict, LogVerdict, ReadLogError, Strays};
use crate::{
    chain::ChainFault,
    row::Row,
    search::{
        Found, Marks, Position,
        walk::{Chain, Shelf, position_of},
    },
    store::StoreError,
    verify::{Verified, Verifier, VerifyError},
};

/// Records behind the marks, chain by chain.
pub(crate) fn after(
    shelf: &mut impl Shelf,
    marks: &Marks,
    most: usize,
) -> Result<Vec<Found>, ReadLogError> {
    let mut found = Vec::new();
    for chain in shelf.chains()? {
        let left = u32::try_from(most - found.len().min(most)).unwrap_or(u32::MAX);
        for (seq, line) in shelf.lines_after(chain.chain, marks.of(chain.chain), left)? {
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

pub(crate) fn end(shelf: &mut impl Shelf) -> Result<Marks, StoreError> {
    let chains = shelf.chains()?;
    let marks = chains
        .into_iter()
        .map(|chain| (chain.chain, chain.head.seq));
    Ok(Marks(marks.collect()))
}

pub(crate) fn verify(shelf: &mut impl Shelf) -> Result<LogVerdict, StoreError> {
    let mut verdict = LogVerdict::default();
    for chain in shelf.chains()? {
        verdict.chains.push(ChainVerdict {
            outcome: verify_chain(shelf, &chain)?,
            node: Some(chain.node),
        });
    }
    let (count, first) = shelf.strays(MOST_STRAYS)?;
    let first = first.into_iter().map(position_of).collect();
    verdict.strays = Strays { count, first };
    Ok(verdict)
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
) -> Result<Result<Verified, VerifyError>, StoreError> {
    let mut verifier = Verifier::default();
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
    let verified = verifier.finish();
    if verified.head == chain.head {
        return Ok(Ok(verified));
    }
    Ok(Err(VerifyError::BrokenAt {
        line: verified.head.seq + 1,
        why: ChainFault::End {
            expected: chain.head,
            found: verified.head,
        },
    }))
}

const LINES_AT_ONCE: u32 = 4096;
/// A person looks at some of them and then at the database.
const MOST_STRAYS: u32 = 20;
