//! One record in its chain: whether it is what was written, what stands before and behind it, and what was
//! signed of it.
//!
//! All of it is computed anew from the lines that are there; nothing that the database says of itself is
//! believed. What is read is bounded, however long the chain is: the record's neighbours, the records of its
//! segment, and the checkpoints of that and of what is missing beside it. Whether the whole chain holds is
//! [`mod@crate::verify`]'s to say.

use std::sync::Arc;

use self::signed::Signed;
use super::ReadLogError;
use crate::{
    chain::{self, ChainFault, Head},
    checkpoint::{Checkpoint, Prover, Segments},
    record::Record,
    row::Row,
    search::{
        Found, Position,
        walk::{Chain, Shelf},
    },
    signing::PublicKey,
};

mod signed;

/// Who asks, and whose signatures they believe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The machine that asks: its own chain is signed by these keys or does not hold.
    pub node: String,
    /// Its own key, and former ones. Of another machine's chain a signature of any other key is told as one that
    /// nobody here knows.
    pub keys: Vec<PublicKey>,
}

/// A record, and what stands around it.
#[derive(Debug)]
pub struct InChain {
    /// The record.
    pub found: Found,
    /// Its hash is that of its line, and it stands where it says.
    pub own: Result<(), ChainFault>,
    /// The one before; `None` where there is none any more.
    pub before: Option<Neighbour>,
    /// What was removed before it, where none is there any more.
    pub begins: Gap,
    /// The one behind; `None` where it is the last.
    pub behind: Option<Neighbour>,
    /// What was signed of it; `None` where nobody has yet. A fault where that checkpoint does not hold.
    pub sealed: Result<Option<Sealed>, ChainFault>,
}

/// The next record on one side.
#[derive(Debug)]
pub struct Neighbour {
    /// Where it stands.
    pub at: Position,
    /// The record; `None` where what stands there is none.
    pub found: Option<Found>,
    /// Places between both that hold nothing any more.
    pub gap: Gap,
    /// One names the other; where places are between them, checkpoints list all of those as removed.
    pub link: Result<(), ChainFault>,
    /// It is shown to be what was written: it is of the record's own segment, which was proved, or the record names it.
    /// What comes behind names the record and is named by nothing that is read here: of another segment, or before
    /// that is signed, its own hash alone speaks for it, which whoever writes another line computes, too.
    pub is_proved: bool,
}

/// Places that hold nothing any more, and who says that they were removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gap {
    /// How many.
    pub places: u64,
    /// They are more segments than were looked at here: what is in the middle of them was not.
    pub is_long: bool,
    /// A key that nobody here knows, where one signed that they were removed.
    pub stranger: Option<PublicKey>,
}

/// The segment that a record is of.
#[derive(Debug)]
pub struct Sealed {
    /// The newest checkpoint of the segment, whose signature holds.
    pub checkpoint: Checkpoint,
    /// Whether it is signed by a key that is known.
    pub is_known: bool,
    /// Records of the segment that were removed since.
    pub removed: u64,
    /// What is there of the segment is, record for record, what was signed; `None` where that is more records than
    /// are read for one.
    pub whole: Option<Result<(), ChainFault>>,
}

/// One record of a database.
pub(crate) fn of(
    shelf: &mut impl Shelf,
    at: Position,
    known: &Known,
    stop: &dyn Fn() -> bool,
) -> Result<Option<InChain>, ReadLogError> {
    of_segments(shelf, at, (known, stop), MOST_SEGMENTS)
}

/// The same, with another bound on what is looked at of what is missing.
pub(crate) fn of_segments(
    shelf: &mut impl Shelf,
    at: Position,
    (known, stop): (&Known, &dyn Fn() -> bool),
    most: u32,
) -> Result<Option<InChain>, ReadLogError> {
    let mut chains = shelf.chains()?.into_iter();
    let Some(chain) = chains.find(|chain| chain.chain == at.chain) else {
        return Ok(None);
    };
    let Some(found) = super::indexed::found_at(shelf, at)? else {
        return Ok(None);
    };
    let mut around = Around {
        signed: Signed {
            shelf,
            chain: &chain,
            known,
            most,
        },
        stop,
    };
    let here = check(&found.line, at.seq, &chain);
    let before = around.signed.shelf.lines_before(at.chain, at.seq, 0, 1)?;
    let mut before = around.neighbour(before, (&here, at.seq))?;
    let mut behind = around.signed.shelf.lines_after(at.chain, at.seq, 1)?;
    behind.retain(|(seq, _)| *seq <= chain.head.seq);
    let mut behind = around.neighbour(behind, (&here, at.seq))?;
    let mut begins = Gap::default();
    let own = match &here {
        Ok(record) => match (ends(record, &chain), &before) {
            (Ok(()), None) => around.begins(record, &mut begins)?,
            (ends, _) => ends,
        },
        Err(why) => Err(why.clone()),
    };
    let sealed = around.sealed(at.seq)?;
    for (one, is_named) in [(&mut before, true), (&mut behind, false)] {
        let Some(one) = one else { continue };
        let is_of_segment = |sealed: &Sealed| {
            let signed = &sealed.checkpoint;
            sealed.whole == Some(Ok(())) && (signed.first..=signed.last).contains(&one.at.seq)
        };
        let known = matches!(&sealed, Ok(Some(sealed)) if is_of_segment(sealed));
        let is_named = is_named && one.gap.places == 0;
        one.is_proved = one.link.is_ok() && (is_named || known);
    }
    Ok(Some(InChain {
        found,
        own,
        before,
        begins,
        behind,
        sealed,
    }))
}

/// What is read around one record.
struct Around<'a, S> {
    signed: Signed<'a, S>,
    stop: &'a dyn Fn() -> bool,
}

impl<S: Shelf> Around<'_, S> {
    /// What stands beside the record at `place`, on either side of it.
    fn neighbour(
        &mut self,
        mut lines: Vec<(u64, String)>,
        (here, place): (&Result<Record, ChainFault>, u64),
    ) -> Result<Option<Neighbour>, ReadLogError> {
        let Some((seq, line)) = lines.pop() else {
            return Ok(None);
        };
        let chain = self.signed.chain;
        let there = check(&line, seq, chain);
        let mut gap = Gap {
            places: place.abs_diff(seq) - 1,
            ..Gap::default()
        };
        let link = match seq < place {
            true => self.linked((&there, here), &mut gap)?,
            false => self.linked((here, &there), &mut gap)?,
        };
        let at = Position {
            chain: chain.chain,
            seq,
        };
        // What somebody changed may be anything: then the fault tells of it.
        let row = Row::read(&line).ok();
        Ok(Some(Neighbour {
            at,
            found: row.map(|row| Found { at, line, row }),
            gap,
            link,
            is_proved: false,
        }))
    }

    /// Whether the later of two records follows the earlier one.
    fn linked(
        &mut self,
        two: (&Result<Record, ChainFault>, &Result<Record, ChainFault>),
        gap: &mut Gap,
    ) -> Result<Result<(), ChainFault>, ReadLogError> {
        let (earlier, later) = match two {
            (Ok(earlier), Ok(later)) => (earlier, later),
            (Err(why), _) | (_, Err(why)) => return Ok(Err(why.clone())),
        };
        let next = earlier.seq + 1;
        // What was removed cannot be named: its checkpoint vouches for what is left.
        if next < later.seq {
            return Ok(self.signed.gone(next..=later.seq - 1, gap)?);
        }
        let head = Head {
            seq: earlier.seq,
            hash: earlier.hash,
        };
        Ok(chain::follow(head, later).map(drop))
    }

    /// Whether a record with none before it is the first of its chain, or all before it was removed as
    /// checkpoints say.
    fn begins(
        &mut self,
        record: &Record,
        gap: &mut Gap,
    ) -> Result<Result<(), ChainFault>, ReadLogError> {
        if record.seq > 1 {
            gap.places = record.seq - 1;
            return Ok(self.signed.gone(1..=record.seq - 1, gap)?);
        }
        Ok(chain::follow(Head::START, record).map(drop))
    }

    /// What was signed of a place, and whether it is so.
    fn sealed(&mut self, place: u64) -> Result<Result<Option<Sealed>, ChainFault>, ReadLogError> {
        let said = match self.signed.around(place)? {
            Ok(Some(said)) => said,
            Ok(None) => return Ok(Ok(None)),
            Err(why) => return Ok(Err(why)),
        };
        let removed = said.segment.pruned.iter().map(|(a, b)| b - a + 1).sum();
        let last = said.segment.last;
        let prover = Prover::behind(said.before, Arc::new(Segments::only(said.segment)));
        let whole = match last - said.before.seq {
            ..=MOST_RECORDS => Some(self.prove(prover, (said.before.seq, last))?),
            _ => None,
        };
        Ok(Ok(Some(Sealed {
            whole,
            checkpoint: said.checkpoint,
            is_known: said.is_known,
            removed,
        })))
    }

    /// Proves the segment behind `from` up to `last`.
    fn prove(
        &mut self,
        mut prover: Prover,
        (from, last): (u64, u64),
    ) -> Result<Result<(), ChainFault>, ReadLogError> {
        let chain = self.signed.chain;
        let mut at = from;
        while at < last {
            if (self.stop)() {
                return Err(ReadLogError::Stopped);
            }
            let shelf = &mut *self.signed.shelf;
            let most = u32::try_from(last - at).unwrap_or(u32::MAX);
            let mut lines = shelf.lines_after(chain.chain, at, most.min(LINES_AT_ONCE))?;
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
}

/// A record, if its hash is its own and its place the one where it stands.
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

/// A segment has 4,096 as a rule, and more where what signs was away for a while.
const MOST_RECORDS: u64 = 16 * 4096;
/// A sixteenth of a segment's records: less than a megabyte as a rule.
const LINES_AT_ONCE: u32 = 256;
/// Of what is missing beside a record: a million records, whose signatures take some ten milliseconds.
const MOST_SEGMENTS: u32 = 256;
