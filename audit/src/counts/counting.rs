//! Which records are counted next, and counting them: new ones first, then older ones towards the beginning.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

use super::{
    DAYS,
    removing::{Kept, Old},
    tally::{Known, Tally},
};
use crate::{
    row::Row,
    search::walk::{Shelf, key_of},
    store::StoreError,
};

/// What a database does to keep counts.
pub(crate) trait Ledger: Shelf {
    /// How far each chain is counted.
    fn marks(&mut self) -> Result<BTreeMap<u32, Counted>, StoreError>;

    /// What is counted of a chain, a day and a server already.
    fn known(
        &mut self,
        chain: u32,
        place: &(String, String),
        known: &mut Known,
    ) -> Result<(), StoreError>;

    /// Adds counts and moves the mark, both or neither; false, and nothing done, where the mark is not what
    /// the step says any more: somebody else counted.
    fn add(&mut self, step: &Step, tally: &Tally) -> Result<bool, StoreError>;

    /// Removes at most [`super::removing::MOST_DROPPED`] of these counts, from the oldest on, in a transaction of its own.
    /// Answers the time of the newest that went, from which to go on; `None` where there was none.
    fn drop_some(
        &mut self,
        kept: Kept,
        old: &Old<'_>,
        from: &str,
    ) -> Result<Option<String>, StoreError>;

    /// Rows of hours since one: hour, server, verdict, count.
    fn hours(&mut self, since: &str) -> Result<Vec<super::HourCount>, StoreError>;

    /// Hosts of days since one; that without a name is all others.
    fn hosts(&mut self, since: &str) -> Result<Vec<super::HostCount>, StoreError>;

    /// Which of some hosts were asked for before a day.
    fn known_before(&mut self, day: &str, hosts: &[String]) -> Result<Vec<String>, StoreError>;

    /// Attempts, those of the newest day first; no further one once there are as many as `most` says.
    fn attempts(&mut self, asked: &super::TriedAsked, most: Most) -> Result<Vec<Line>, StoreError>;
}

/// How many attempts are read, and how many octets of [`Line::what`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) rows: u32,
    pub(crate) octets: usize,
}

impl Most {
    /// Whether these are all that are read, and there may be more.
    pub(crate) fn is_reached(self, lines: &[Line]) -> bool {
        let octets: usize = lines.iter().map(|line| line.what.len()).sum();
        lines.len() >= self.rows as usize || octets >= self.octets
    }
}

/// A row of attempts as it is kept.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) server: String,
    pub(crate) what: String,
    pub(crate) count: u64,
    pub(crate) first: String,
    pub(crate) last: String,
    pub(crate) newest: i64,
}

/// A part of a chain, from its first place to before its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) first: u64,
    pub(crate) next: u64,
}

impl Counted {
    /// As a database keeps it.
    pub(crate) const fn signed(self) -> (i64, i64) {
        (self.first.cast_signed(), self.next.cast_signed())
    }
}

/// What is counted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) chain: u32,
    /// What was counted before; `None`: nothing.
    pub(crate) from: Option<Counted>,
    /// What is, then.
    pub(crate) to: Counted,
}

impl Step {
    /// The places to count.
    fn places(&self) -> (u64, u64) {
        match self.from {
            Some(from) if self.to.first < from.first => (self.to.first, from.first),
            Some(from) => (from.next, self.to.next),
            None => (self.to.first, self.to.next),
        }
    }

    fn is_of_older(&self) -> bool {
        self.from.is_some_and(|from| self.to.first < from.first)
    }

    /// The next one of these chains (number and last place); those of another are left to whoever writes to
    /// it, unless that one is far behind or gone.
    fn next(chains: &[(u32, u64)], marks: &BTreeMap<u32, Counted>, own: u32) -> Option<Self> {
        let new = |(chain, end): &(u32, u64)| {
            let end = end + 1;
            let Some(from) = marks.get(chain).copied() else {
                let next = end - end % AT_ONCE;
                let first = next.checked_sub(AT_ONCE)?;
                let to = Counted { first, next };
                return Some(Self {
                    chain: *chain,
                    from: None,
                    to,
                });
            };
            let waits = if *chain == own {
                AT_ONCE
            } else {
                LEFT_TO_OTHERS
            };
            let next = from.next + AT_ONCE;
            (from.next + waits <= end).then_some(Self {
                chain: *chain,
                from: Some(from),
                to: Counted { next, ..from },
            })
        };
        let older = |(chain, _): &(u32, u64)| {
            let from = marks.get(chain).copied().filter(|from| from.first > 0)?;
            let first = from.first.saturating_sub(AT_ONCE);
            Some(Self {
                chain: *chain,
                from: Some(from),
                to: Counted { first, ..from },
            })
        };
        let mut ordered = chains.to_vec();
        ordered.sort_by_key(|(chain, _)| (*chain != own, *chain));
        let newest = ordered.iter().find_map(new);
        newest.or_else(|| ordered.iter().find_map(older))
    }
}

/// What was there when this thread counted last: it need not be read again while nobody else counts.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Of which chain, and how far it was counted then.
    at: Option<(u32, Counted)>,
    known: Known,
}

impl Memory {
    /// What is known for a step, as far as it holds.
    fn take(&mut self, step: &Step) -> Known {
        let known = std::mem::take(&mut self.known);
        let holds = self.at.take() == step.from.map(|from| (step.chain, from));
        match holds && known.hosts.len() < MOST_REMEMBERED {
            true => known,
            false => Known::default(),
        }
    }

    /// After the step was made.
    fn keep(&mut self, step: &Step, known: Known) {
        self.at = Some((step.chain, step.to));
        self.known = known;
    }
}

/// Counts the next records; false where there are none to count.
pub(crate) fn count_some(
    ledger: &mut impl Ledger,
    own: u32,
    memory: &mut Memory,
) -> Result<bool, StoreError> {
    let chains = ledger.chains()?;
    let ends: Vec<_> = chains.iter().map(|one| (one.chain, one.head.seq)).collect();
    let marks = ledger.marks()?;
    let Some(mut step) = Step::next(&ends, &marks, own) else {
        return Ok(false);
    };
    let oldest = oldest_day();
    let (first, below) = step.places();
    let mut tally = Tally::default();
    let mut any_young = false;
    let most = u32::try_from(below - first).unwrap_or(u32::MAX);
    for (seq, line) in ledger.lines_before(step.chain, below, first, most)? {
        // What is no record is for the proof to name.
        let Ok(row) = Row::read(&line) else { continue };
        if row.time.as_str() >= oldest.as_str() {
            any_young = true;
            tally.take(&row, key_of(step.chain, seq));
        }
    }
    // A clock may have been set back: what is older than that is not looked at for a younger one.
    if step.is_of_older() && !any_young && most > 0 {
        let lines = ledger.lines_after(step.chain, 0, 1)?;
        let start = lines
            .first()
            .map(|(_, line)| Row::read(line).map(|row| row.time));
        let is_older = matches!(start, Some(Ok(time)) if time.as_str() < oldest.as_str());
        step.to.first = if is_older || lines.is_empty() {
            0
        } else {
            step.to.first
        };
    }
    let mut known = memory.take(&step);
    for place in tally.places() {
        if !known.hosts.contains_key(&place) {
            ledger.known(step.chain, &place, &mut known)?;
        }
    }
    let tally = tally.bounded(&mut known);
    if ledger.add(&step, &tally)? {
        memory.keep(&step, known);
    }
    if step.is_of_older() {
        // Nobody waits for these.
        std::thread::sleep(BETWEEN_OLDER);
    }
    Ok(true)
}

/// Of the mark and a text that begins a time, the first day that is counted.
pub(super) fn oldest_day() -> String {
    let span = SignedDuration::from_hours(24 * i64::from(DAYS));
    let moment = Timestamp::now().checked_sub(span).unwrap_or(Timestamp::MIN);
    moment.strftime("%Y-%m-%d").to_string()
}

/// As many as a writer of the database waits for: some milliseconds at most.
pub(crate) const AT_ONCE: u64 = 1024;
/// Days and servers of which a thread keeps in memory what is counted: some thirty megabytes at the very most.
const MOST_REMEMBERED: usize = 200;
/// Its own node counts it within a second, if it is there.
const LEFT_TO_OTHERS: u64 = 8 * AT_ONCE;
pub(super) const BETWEEN_OLDER: Duration = Duration::from_millis(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(first: u64, next: u64) -> Counted {
        Counted { first, next }
    }

    fn next(chains: &[(u32, u64)], marks: &[(u32, Counted)], own: u32) -> Option<(u32, u64, u64)> {
        let marks = marks.iter().copied().collect();
        let step = Step::next(chains, &marks, own)?;
        let (first, below) = step.places();
        Some((step.chain, first, below))
    }

    #[test]
    fn new_records_go_first_and_old_ones_follow_to_the_beginning() {
        assert_eq!(next(&[(1, 1022)], &[], 1), None, "not enough yet");
        assert_eq!(next(&[(1, 1023)], &[], 1), Some((1, 0, 1024)));
        assert_eq!(next(&[(1, 10_000)], &[], 1), Some((1, 8192, 9216)));
        let known = mark(8192, 9216);
        assert_eq!(
            next(&[(1, 10_238)], &[(1, known)], 1),
            Some((1, 7168, 8192))
        );
        assert_eq!(
            next(&[(1, 10_239)], &[(1, known)], 1),
            Some((1, 9216, 10_240))
        );
        assert_eq!(
            next(&[(1, 2000)], &[(1, mark(500, 1500))], 1),
            Some((1, 0, 500))
        );
        assert_eq!(next(&[(1, 2000)], &[(1, mark(0, 1500))], 1), None);
    }

    #[test]
    fn another_nodes_records_are_left_to_it_unless_it_is_gone() {
        let whole = (1, mark(0, 1024));
        let two = |end| next(&[(1, 1500), (2, end)], &[whole, (2, mark(0, 1024))], 1);
        assert_eq!(two(5000), None);
        assert_eq!(two(20_000), Some((2, 1024, 2048)));
        // Nobody counted it: it is of before there were counts, or of who does not.
        assert_eq!(
            next(&[(1, 1500), (2, 1500)], &[whole], 1),
            Some((2, 0, 1024))
        );
    }
}
