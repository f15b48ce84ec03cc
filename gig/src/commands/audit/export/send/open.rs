//! What was read of the record and is not settled yet: taken, rejected, refused, or nobody knows.

use gig_audit::{
    Entry, Event,
    search::{Filter, Found, Marks},
};

use crate::{
    deliver::{Cursor, Rejected},
    output,
    secrets::changes::Changes,
};

/// What was read and is not settled: the cursor stays before it.
#[derive(Default)]
pub(super) struct Open {
    /// Records that were removed before they came.
    missing: u64,
    /// Not all records are asked for, so that some of the missing may not be missed.
    filtered: bool,
    /// The last of each chain.
    pub(super) ends: Vec<Found>,
    /// Records that were refused, while others were taken.
    pub(super) refused: Vec<Refused>,
    /// Records that were refused before anything was taken: the other side may take nothing at all.
    pub(super) unsure: Vec<(Found, String)>,
    /// Records that were rejected while the rest was taken, and what was said of them.
    rejected: u64,
    rejections: Vec<String>,
    /// That was said.
    said: bool,
}

impl Open {
    /// Whether there is nothing to settle.
    pub(super) const fn is_settled(&self) -> bool {
        self.ends.is_empty() && self.refused.is_empty() && self.missing == 0 && self.rejected == 0
    }

    /// Notes that so many were removed before they came. Which records they were is known of none of them.
    pub(super) fn miss(&mut self, missing: u64, filter: &Filter) {
        self.missing += missing;
        self.filtered |= *filter != Filter::default();
    }

    /// Nothing is behind `marks` any more: what was awaited still will not come. Answers how much is lost.
    pub(super) fn miss_the_rest(
        &mut self,
        cursor: &mut Cursor,
        (marks, url): (&Marks, &str),
        filter: &Filter,
    ) -> anyhow::Result<u64> {
        let missing = cursor.missing_at_the_end();
        self.miss(missing, filter);
        if missing == 0 || !self.unsure.is_empty() {
            return Ok(0);
        }
        self.settle(cursor, (marks, url))
    }

    /// Notes what the other side says of what it was sent; of `sent` records it rejected no more than that.
    pub(super) fn hear(&mut self, rejected: Rejected, sent: usize) -> anyhow::Result<()> {
        let Rejected { count, why } = rejected;
        if count == 0 {
            return output::remark([why]);
        }
        self.rejected += count.min(u64::try_from(sent).unwrap_or(u64::MAX));
        if !self.rejections.contains(&why) && self.rejections.len() < MOST_REJECTIONS {
            self.rejections.push(why);
        }
        Ok(())
    }

    /// Says what is lost and moves the cursor behind all of it; answers how much is lost.
    pub(super) fn settle(
        &mut self,
        cursor: &mut Cursor,
        (marks, url): (&Marks, &str),
    ) -> anyhow::Result<u64> {
        let Self {
            missing,
            filtered,
            ends,
            refused,
            rejected,
            rejections,
            ..
        } = std::mem::take(self);
        if missing > 0 {
            let unknown = match filtered {
                true => " (whether what this delivery asks for was among them, nobody knows)",
                false => "",
            };
            gap(format!(
                "{missing} records were removed before they were delivered to {url}{unknown}: keep them longer, or \
                 deliver sooner"
            ))?;
        }
        for one in &refused {
            gap(one.words(url))?;
        }
        if rejected > 0 {
            let why = rejections.join("; ");
            gap(format!(
                "{rejected} records were rejected by {url} and are not sent again: {why}"
            ))?;
        }
        let lost = missing + refused.len() as u64 + rejected;
        cursor.miss(lost);
        cursor.commit(marks, &ends)?;
        Ok(lost)
    }

    /// Nothing will tell any more whether it was them.
    pub(super) fn give_up(&mut self) {
        let unsure = std::mem::take(&mut self.unsure).into_iter();
        let refused = unsure.map(|(found, why)| Refused::of(&found, why));
        self.refused.extend(refused);
    }

    /// What is not taken, and what that means.
    pub(super) fn words(&self, url: &str) -> String {
        let first = self.unsure.first();
        let first = first.map(|(found, why)| Refused::of(found, why.clone()).words(url));
        format!(
            "{}; nor is anything that came with it, and the cursor stays before all of that",
            first.unwrap_or_default()
        )
    }

    /// Says once that it goes on with what comes.
    pub(super) fn remark(&mut self, url: &str) -> anyhow::Result<()> {
        if self.unsure.is_empty() || std::mem::replace(&mut self.said, true) {
            return Ok(());
        }
        output::remark([format!("{}: going on with what comes", self.words(url))])
    }
}

/// Says, here and in the record of this machine, that the receiver will never have some records.
pub(super) fn gap(what: String) -> anyhow::Result<()> {
    let recorded = Changes::open(None).and_then(|record| {
        let mut entry = Entry::new(Event::AuditGap);
        entry.findings = vec![what.as_str().into()];
        let told = record.tell(entry);
        record.close(told)
    });
    output::remark([what])?;
    // The receiver does not wait for this machine's record.
    let why = recorded
        .err()
        .map(|error| format!("that is not recorded: {error:#}"));
    output::remark(why)
}

/// The last record of each chain.
pub(super) fn last_of_each(some: &[Found]) -> Vec<Found> {
    let mut ends: Vec<&Found> = Vec::new();
    for found in some {
        ends.retain(|end| end.at.chain != found.at.chain);
        ends.push(found);
    }
    ends.into_iter().cloned().collect()
}

/// A record that the other side does not read.
pub(super) struct Refused {
    node: String,
    seq: u64,
    why: String,
}

impl Refused {
    pub(super) fn of(found: &Found, why: String) -> Self {
        Self {
            node: found.row.node.clone(),
            seq: found.row.seq,
            why,
        }
    }

    pub(super) fn words(&self, url: &str) -> String {
        let Self { node, seq, why } = self;
        format!("record {seq} of {node} is not taken by {url}, nor cut short: {why}")
    }
}

/// Of what a collector says of what it rejects, in what is settled at once.
const MOST_REJECTIONS: usize = 8;
