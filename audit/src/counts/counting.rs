//! Which records are counted next, and counting them: new ones first, then older ones towards the beginning.

use std::{collections::BTreeMap, time::Duration};

use gig_policy::DenyReason;
use jiff::{SignedDuration, Timestamp};

use super::{
    DAYS,
    removing::{Kept, Old},
    tally::{Known, Tally},
};
use crate::{
    counted::takes_back,
    row::Row,
    search::walk::{Chain, Shelf, key_of},
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

    /// Whether a place is counted once the step is made.
    fn counts(&self, seq: u64) -> bool {
        (self.to.first..self.to.next).contains(&seq)
    }

    fn is_of_older(&self) -> bool {
        self.from.is_some_and(|from| self.to.first < from.first)
    }

    /// The next one of these chains; those of another are left to whoever writes to it, unless that one is far
    /// behind, or gone: of a chain that nobody writes to all is counted.
    fn next(chains: &[End], marks: &BTreeMap<u32, Counted>, own: u32) -> Option<Self> {
        let new = |one: &End| {
            let (chain, end) = (one.chain, one.last + 1);
            let Some(from) = marks.get(&chain).copied() else {
                let next = if one.is_quiet {
                    end
                } else {
                    end - end % AT_ONCE
                };
                let first = match one.is_quiet {
                    true => next.saturating_sub(AT_ONCE),
                    false => next.checked_sub(AT_ONCE)?,
                };
                let to = Counted { first, next };
                return (one.last > 0).then_some(Self {
                    chain,
                    from: None,
                    to,
                });
            };
            let waits = match (chain == own, one.is_quiet) {
                (true, _) => AT_ONCE,
                (false, true) => 1,
                (false, false) => LEFT_TO_OTHERS,
            };
            let next = (from.next + AT_ONCE).min(end);
            (from.next + waits <= end).then_some(Self {
                chain,
                from: Some(from),
                to: Counted { next, ..from },
            })
        };
        let older = |one: &End| {
            let from = marks.get(&one.chain).copied();
            let from = from.filter(|from| from.first > 0)?;
            let first = from.first.saturating_sub(AT_ONCE);
            Some(Self {
                chain: one.chain,
                from: Some(from),
                to: Counted { first, ..from },
            })
        };
        let mut ordered = chains.to_vec();
        ordered.sort_by_key(|one| (one.chain != own, one.chain));
        let newest = ordered.iter().find_map(new);
        newest.or_else(|| ordered.iter().find_map(older))
    }
}

/// Where a chain ends.
#[derive(Debug, Clone, Copy)]
struct End {
    chain: u32,
    last: u64,
    /// Nobody has written to it for a while.
    is_quiet: bool,
}

impl End {
    /// Where a chain ends now. Whether another's is quiet is asked only where some of it is not counted.
    fn of(
        ledger: &mut impl Ledger,
        one: &Chain,
        (marks, own): (&BTreeMap<u32, Counted>, u32),
    ) -> Result<Self, StoreError> {
        let (chain, last) = (one.chain, one.head.seq);
        let counted = marks.get(&chain).map_or(0, |mark| mark.next);
        let is_quiet = chain != own && counted <= last && is_quiet(ledger, chain, last)?;
        Ok(Self {
            chain,
            last,
            is_quiet,
        })
    }
}

/// Whether the last record of a chain is of [`QUIET`] ago. One that says nothing of its time is of nobody who writes.
fn is_quiet(ledger: &mut impl Ledger, chain: u32, last: u64) -> Result<bool, StoreError> {
    let Some((_, line)) = ledger.lines_before(chain, last + 1, 0, 1)?.pop() else {
        return Ok(true);
    };
    let since = Timestamp::now().checked_sub(QUIET);
    let since = since.map_or_else(|_| String::new(), |since| format!("{since:.6}"));
    Ok(Row::read(&line).map_or(true, |row| row.time < since))
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
    let marks = ledger.marks()?;
    let mut ends = Vec::new();
    for one in &chains {
        ends.push(End::of(ledger, one, (&marks, own))?);
    }
    let Some(mut step) = Step::next(&ends, &marks, own) else {
        return Ok(false);
    };
    let oldest = oldest_day();
    let (first, below) = step.places();
    let mut tally = Tally::default();
    let mut any_young = false;
    let most = u32::try_from(below - first).unwrap_or(u32::MAX);
    let mut back = Vec::new();
    for (seq, line) in ledger.lines_before(step.chain, below, first, most)? {
        // What is no record is for the proof to name.
        let Ok(row) = Row::read(&line) else { continue };
        if row.time.as_str() >= oldest.as_str() {
            any_young = true;
            tally.take(&row, key_of(step.chain, seq));
            back.extend(taken_back(&row));
        }
    }
    back.retain(|seq| step.counts(*seq));
    if step.is_of_older() {
        // What was counted before may take some of these back: it came right after.
        for (_, line) in ledger.lines_before(step.chain, below + AT_ONCE, below, SOON)? {
            let seq = Row::read(&line).ok().as_ref().and_then(taken_back);
            back.extend(seq.filter(|seq| (first..below).contains(seq)));
        }
    }
    take_back(ledger, step.chain, &back, &mut tally)?;
    let tally = tally.settled();
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

/// The place of the record that this one takes back, as the recorder alone writes.
pub(super) fn taken_back(row: &Row) -> Option<u64> {
    let reasons = [DenyReason::RecordUnavailable, DenyReason::RequestIncomplete];
    let late = reasons.map(|why| Some(why.as_str()));
    late.contains(&row.reason.as_deref())
        .then(|| takes_back(&row.findings))
        .flatten()
}

/// Takes what stood at these places out of the tally.
pub(super) fn take_back(
    shelf: &mut impl Shelf,
    chain: u32,
    places: &[u64],
    tally: &mut Tally,
) -> Result<(), StoreError> {
    for place in places {
        for (seq, line) in shelf.lines_before(chain, place + 1, *place, 1)? {
            if let Ok(row) = Row::read(&line) {
                tally.take_back(&row, key_of(chain, seq));
            }
        }
    }
    Ok(())
}

/// Of the mark and a text that begins a time, the first day that is counted.
pub(super) fn oldest_day() -> String {
    let span = SignedDuration::from_hours(24 * i64::from(DAYS));
    let moment = Timestamp::now().checked_sub(span).unwrap_or(Timestamp::MIN);
    moment.strftime("%Y-%m-%d").to_string()
}

/// As many as a writer of the database waits for: some milliseconds at most.
pub(crate) const AT_ONCE: u64 = 1024;
/// A record is taken back by one of the next few groups.
const SOON: u32 = 1024;
/// Days and servers of which a thread keeps in memory what is counted: some thirty megabytes at the very most.
const MOST_REMEMBERED: usize = 200;
/// Its own node is not there: as often as it looks, it records more than that in a minute or has stopped.
const QUIET: SignedDuration = SignedDuration::from_mins(1);
/// Its own node counts it within a second, if it is there.
const LEFT_TO_OTHERS: u64 = 8 * AT_ONCE;
pub(super) const BETWEEN_OLDER: Duration = Duration::from_millis(3);

#[cfg(test)]
mod tests;
