//! Whether one text is spelled at one place.
//!
//! At every octet that may begin an escape both readings are followed, so that what stands before or
//! after a text, and what is in it, cannot make it read as something else. What an attempt comes to
//! depends on nothing but the octets from its place on.

use std::collections::HashSet;

use super::{
    Text,
    special::{is_introducer, is_line_break},
    unit::{DEPTH, Unit, unit},
};

/// What an attempt came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Where the longest spelling that is whole ends.
    pub(super) end: Option<usize>,
    /// More octets may make it a spelling, or a longer one: so many at least.
    pub(super) open: Option<usize>,
}

impl Outcome {
    fn opens(&mut self, needed: usize) {
        self.open = Some(self.open.map_or(needed, |known| known.min(needed)));
    }
}

/// One attempt.
pub(super) struct Attempt<'a> {
    pub(super) raw: &'a [u8],
    /// Nothing comes after `raw`.
    pub(super) last: bool,
    pub(super) text: &'a Text,
}

/// How far a reading got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Reading {
    /// Octets of the text.
    known: usize,
    at: usize,
    /// Line breaks right before.
    breaks: usize,
}

impl Attempt<'_> {
    /// Reads on from `start`.
    pub(super) fn read(&self, start: usize) -> Outcome {
        let mut outcome = Outcome::default();
        let (mut todo, mut forks) = (Vec::new(), Forks::default());
        let mut reading = Reading {
            known: 0,
            at: start,
            breaks: 0,
        };
        let limit = start + self.text.room();
        let wanted = self.text.octets();
        loop {
            while reading.at <= limit {
                match self.step(wanted, &mut reading, &mut outcome) {
                    Step::On => {}
                    Step::Over => break,
                    Step::Fork => {
                        if forks.are_new_with(reading) {
                            self.fork(reading, &mut todo, &mut outcome);
                        }
                        break;
                    }
                }
            }
            match todo.pop() {
                Some(next) => reading = next,
                None => return outcome,
            }
        }
    }

    /// What can only be read in one way.
    #[inline]
    fn step(&self, wanted: &[u8], reading: &mut Reading, outcome: &mut Outcome) -> Step {
        let left = wanted.len().saturating_sub(reading.known);
        let Some(wanted) = wanted.get(reading.known) else {
            outcome.end = outcome.end.max(Some(reading.at));
            return Step::Over;
        };
        let Some(octet) = self.raw.get(reading.at) else {
            if !self.last {
                outcome.opens(left);
            }
            return Step::Over;
        };
        if is_introducer(*octet) {
            return Step::Fork;
        }
        if self.text.same(*octet, *wanted) {
            (reading.known, reading.breaks) = (reading.known + 1, 0);
        } else if is_line_break(*octet) && reading.may_break() {
            reading.breaks += 1;
        } else {
            return Step::Over;
        }
        reading.at += 1;
        Step::On
    }

    /// All that may stand at an octet that may begin an escape.
    fn fork(&self, reading: Reading, todo: &mut Vec<Reading>, outcome: &mut Outcome) {
        let mut known: Option<Unit> = None;
        for depth in 0..=DEPTH {
            let Some(unit) = unit(self.raw, reading.at, depth, self.last) else {
                let left = self.text.octets().len().saturating_sub(reading.known);
                outcome.opens(left_of_escape(left, self.raw.len() - reading.at));
                return;
            };
            if known
                .replace(unit)
                .is_some_and(|known| known.end == unit.end)
            {
                continue;
            }
            let rest = self.text.octets().get(reading.known..).unwrap_or_default();
            let octets = unit.octets();
            let here = rest.get(..octets.len());
            if here.is_some_and(|here| octets.iter().zip(here).all(|(a, b)| self.text.same(*a, *b)))
            {
                todo.push(Reading {
                    known: reading.known + octets.len(),
                    at: unit.end,
                    breaks: 0,
                });
            } else if unit.is_line_break() && reading.may_break() {
                todo.push(Reading {
                    at: unit.end,
                    breaks: reading.breaks + 1,
                    ..reading
                });
            }
        }
    }
}

/// Where readings forked. Nearly all attempts have few, and to look through these is less than to hash one; of a
/// long value with an escape for each of its characters there are thousands.
#[derive(Default)]
struct Forks {
    few: Vec<Reading>,
    /// Made when it is needed: even an empty one costs something in each attempt.
    more: Option<HashSet<Reading>>,
}

impl Forks {
    /// Adds one. `false`: it was there, or there are too many.
    fn are_new_with(&mut self, reading: Reading) -> bool {
        if self.few.contains(&reading) {
            return false;
        }
        if self.few.len() < FEW {
            self.few.push(reading);
            return true;
        }
        let more = self.more.get_or_insert_default();
        more.len() <= FORKS && more.insert(reading)
    }
}

impl Reading {
    const fn may_break(&self) -> bool {
        self.known > 0 && self.breaks < BREAKS
    }
}

enum Step {
    On,
    Over,
    Fork,
}

/// Octets that have to come at least for so many of a text, where an escape has begun that has so many: it stands for
/// four octets at most, and for more than one (`\xe9`) where it has four itself.
pub(super) const fn left_of_escape(left: usize, begun: usize) -> usize {
    let ends = match begun {
        0..3 => 4 - begun,
        _ => 1,
    };
    let wide = ends + left.saturating_sub(4);
    match left {
        0 => 1,
        left if left < wide => left,
        _ => wide,
    }
}

/// Line breaks in a row within a text: two, as JSON in JSON has them.
pub(super) const BREAKS: usize = 8;
/// Forks that are looked through.
const FEW: usize = 16;
/// Places with several readings; no value that anybody would take for one comes near.
const FORKS: usize = 4096;
