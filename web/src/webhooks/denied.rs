//! Denials that webhooks are told of: each destination that a policy denies once a day, by the node that sees it
//! first.
//!
//! It is what waits for somebody, read anew when this node has denied something since, or what was not delivered is
//! due again. What a webhook knows, and what a person denied, takes no place of what is to be told. A program that asks
//! for a thousand hosts is told of in part: so many a minute, servers in turns.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use gig_audit::search::Found;
use jiff::Timestamp;

use super::News;
use crate::{
    api::{audit, held::DeniedView},
    api_error::Problem,
    app::App,
    store::{ToldRow, Webhook},
    waiting::{Told, picked},
    webhooks::message::OF_RECORD,
};

/// How far this node has looked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Its denials that were looked at; `None`: those before it started are still to be.
    pub(crate) counted: Option<u64>,
    /// When something that was not delivered is due again.
    pub(crate) again: Option<Timestamp>,
}

/// What is to be told of what was denied since `looked`, no more than `most`, and how far that has been looked at.
pub(crate) async fn fresh(app: Arc<App>, looked: Looked, most: usize) -> (Looked, Vec<News>) {
    let (count, now) = (app.traffic.denied.load(Relaxed), app.now());
    let is_due = looked.again.is_some_and(|again| again <= now);
    if most == 0 || (looked.counted == Some(count) && !is_due) {
        return (looked, Vec::new());
    }
    let read = app.ask(move |store| Ok((store.webhooks()?, store.told_denials(now)?)));
    // What could not be read is in the log, and looked at again.
    let Ok((webhooks, told)) = read.await else {
        return (looked, Vec::new());
    };
    let counted = Some(count);
    // Whoever is set up later hears of what comes later.
    if webhooks.is_empty() {
        let again = None;
        return (Looked { counted, again }, Vec::new());
    }
    let theirs = Arc::clone(&app);
    let listed = app.aside(move || {
        let known = Known::of(&told);
        let again = known.again(now);
        // What was read and left out once is not read again, or what comes behind it would never be.
        let before = std::mem::take(&mut *theirs.webhooks.decided.lock());
        let decided = RefCell::new(HashSet::new());
        let tell = |one: &Told<'_>| {
            if before.contains(one.record) {
                decided.borrow_mut().insert(one.record.to_owned());
                return false;
            }
            let about = format!("{OF_RECORD}{}", one.record);
            let mut webhooks = webhooks.iter();
            webhooks.any(|to| known.lacks(to, (one.what, &about, one.time), now))
        };
        let keep = |found: &Found| {
            let by_person = found.row.findings.iter().any(|one| is_by_person(one));
            if by_person {
                decided.borrow_mut().insert(audit::id(found));
            }
            !by_person
        };
        let listed = picked(&theirs, most, (tell, keep))?;
        *theirs.webhooks.decided.lock() = decided.into_inner();
        Ok::<_, Problem>((listed, again))
    });
    let Ok(Ok((listed, again))) = listed.await else {
        return (looked, Vec::new());
    };
    // Some are not counted yet, or there was no room for them: they are looked at in the next round.
    let is_left = listed.behind > 0 || listed.more > 0;
    let looked = Looked {
        counted: if is_left { looked.counted } else { counted },
        again: if is_left { looked.again } else { again },
    };
    let news = listed.waiting.into_iter().map(|one| {
        let what = one.what();
        News::Denied(DeniedView::from(one), what)
    });
    (looked, news.collect())
}

/// What webhooks know.
pub(super) struct Known<'a> {
    /// By webhook and destination.
    newest: HashMap<(&'a str, &'a str), &'a ToldRow>,
    /// Of which records, by webhook.
    there: HashSet<(&'a str, &'a str)>,
}

impl<'a> Known<'a> {
    /// The newest comes last.
    pub(super) fn of(told: &'a [ToldRow]) -> Self {
        let key = |one: &'a ToldRow| (one.telling.webhook.as_str(), one.telling.what.as_str());
        let there = told.iter().filter(|one| one.is_there());
        Self {
            newest: told.iter().map(|one| (key(one), one)).collect(),
            there: there
                .map(|one| (one.telling.webhook.as_str(), one.telling.about.as_str()))
                .collect(),
        }
    }

    /// Whether this webhook is to be told of this now: what it is, by what it is known and when it was. Of what was
    /// before it was set up, it is not; nor of a record that it was told of, whichever policy denies it now.
    pub(super) fn lacks(
        &self,
        webhook: &Webhook,
        (what, about, time): (&str, &str, &str),
        now: Timestamp,
    ) -> bool {
        if self.there.contains(&(webhook.name.as_str(), about)) {
            return false;
        }
        match self.newest.get(&(webhook.name.as_str(), what)) {
            Some(known) => known.again(about, now).is_some_and(|at| at <= now),
            None => {
                let at = time.parse::<Timestamp>();
                at.is_ok_and(|at| at >= webhook.changed)
            }
        }
    }

    /// When the first is due that is not due yet. One that is being told may fail: it is looked at after that.
    pub(super) fn again(&self, now: Timestamp) -> Option<Timestamp> {
        let all = self
            .newest
            .values()
            .filter_map(|one| one.again(&one.telling.about, now));
        all.filter(|at| *at > now).min()
    }
}

/// Whether a record's word says that somebody was asked and denied it; nobody may have answered, or have been asked.
fn is_by_person(finding: &str) -> bool {
    let who = finding.strip_prefix("denied_by:");
    who.is_some_and(|who| who != "policy")
}

/// Of this node, all together: what waits has the rest of what a webhook is told.
pub(super) const MOST_A_MINUTE: usize = 10;
/// Soon enough for what was denied already, and seldom enough for what is read.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_denied_is_told_from_what_nobody_answered() {
        for (finding, person) in [
            ("denied_by:ana", true),
            ("denied_by:webhook ops (U02)", true),
            ("denied_by:policy", false),
            ("unanswered:60s", false),
            ("held", false),
        ] {
            assert_eq!(is_by_person(finding), person, "{finding}");
        }
    }
}
