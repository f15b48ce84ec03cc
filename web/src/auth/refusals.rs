//! What was refused to somebody who presented something, or whom we know: in the record, once a minute for
//! each of them and each route, and so many in a minute of one person, by whatever tokens, so that nobody fills it. How
//! often it was since, and what was left out, the next one says.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use axum::{
    extract::MatchedPath,
    http::{header, request::Parts},
};
use gig_audit::{Deed, Entry, Event, VerdictWord};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::{Caller, cookie, limits::network};
use crate::app::App;

/// When each was told last.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By who and what.
    each: HashMap<(String, String), Told>,
    /// By whose they are.
    all: HashMap<String, Told>,
}

/// Since when, how many were told and how many were not.
#[derive(Debug, Clone, Copy)]
struct Told {
    since: Timestamp,
    count: u32,
    folded: u64,
}

impl Told {
    fn is_over(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) >= MINUTE
    }
}

/// How many were not told, that are said with one that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folded {
    /// The same.
    same: u64,
    /// Others of the same people.
    others: u64,
}

/// Who was refused something, by name or address, and whose they are.
type Who<'a> = (&'a str, &'a str);

impl Refusals {
    /// What is told with this one; `None` where it is not told.
    fn fold(&self, (who, whose): Who<'_>, route: &str, now: Timestamp) -> Option<Folded> {
        let mut inner = self.0.lock();
        let Inner { each, all } = &mut *inner;
        if each.len() >= MOST {
            each.retain(|_, told| !told.is_over(now));
        }
        if all.len() >= MOST {
            all.retain(|_, told| !told.is_over(now));
        }
        let new = Told {
            since: now,
            count: 0,
            folded: 0,
        };
        let key = (who.to_owned(), route.to_owned());
        if let Some(told) = each.get_mut(&key).filter(|told| !told.is_over(now)) {
            told.folded += 1;
            return None;
        }
        // Full of those who were told in this minute: strangers flood.
        let has_room = |len: usize, is_there: bool| len < MOST || is_there;
        if !has_room(each.len(), each.contains_key(&key))
            || !has_room(all.len(), all.contains_key(whose))
        {
            return None;
        }
        let theirs = all.entry(whose.to_owned()).or_insert(new);
        let mut others = 0;
        if theirs.is_over(now) {
            others = theirs.folded;
            *theirs = new;
        }
        if theirs.count >= MOST_OF_ONE {
            theirs.folded += 1;
            return None;
        }
        theirs.count += 1;
        let before = each.insert(key, new);
        let same = before.map_or(0, |told| told.folded);
        Some(Folded { same, others })
    }
}

impl Folded {
    /// As findings of a record.
    fn words(self) -> impl Iterator<Item = Arc<str>> {
        let same =
            (self.same > 0).then(|| format!("{} times more before, not recorded", self.same));
        let others = (self.others > 0).then(|| {
            format!(
                "{} other refusals of the same person or network, not recorded",
                self.others
            )
        });
        same.into_iter().chain(others).map(Into::into)
    }
}

/// Method and route; never the path itself, which is whatever somebody writes.
pub(super) fn route(request: &Parts) -> String {
    let route = request.extensions.get::<MatchedPath>();
    let route = route.map_or("a page that is not there", MatchedPath::as_str);
    format!("{} {route}", request.method)
}

/// Whether something was presented, good or not.
pub(super) fn presents(app: &App, request: &Parts) -> bool {
    let headers = &request.headers;
    headers.contains_key(header::AUTHORIZATION) || cookie::read(app, headers).is_some()
}

/// Somebody whom we know.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    /// As the record names them.
    name: Arc<str>,
    /// The person, or who made the token.
    whose: Arc<str>,
}

impl Refused {
    /// As the record names them.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(crate) fn of(caller: &Caller) -> Self {
        Self {
            name: Arc::clone(&caller.name),
            whose: caller.turn().person,
        }
    }

    /// Somebody who is known by a name alone.
    pub(crate) fn named(name: Arc<str>) -> Self {
        Self {
            whose: Arc::clone(&name),
            name,
        }
    }
}

/// Puts a refusal in the record: of what another site sent, or of what was not theirs to ask.
pub(super) fn tell(
    app: &App,
    (refused, address, route): (Option<&Refused>, Option<SocketAddr>, &str),
    forged: bool,
) {
    match forged {
        true => app.tell_forged(refused, address, route),
        false => app.tell_refusal(refused, address, route),
    }
}

impl App {
    /// The same for what somebody is not shown: to a token of other servers a server is not there, and what
    /// it tries is told all the same.
    pub(crate) fn tell_hidden(&self, caller: &Caller, route: &str) {
        self.tell_refusal(Some(&Refused::of(caller)), caller.address, route);
    }

    /// The same for an answer by a webhook to what it may not answer; `about` and why in words. Once a minute for each
    /// that is answered.
    pub(crate) fn tell_refused_answer(&self, caller: &Caller, (about, why): (&str, &str)) {
        let who = format!("{} {about}", caller.name);
        let who = (who.as_str(), &*caller.name);
        let Some(folded) = self.refusals.fold(who, "an answer", self.now()) else {
            return;
        };
        let mut entry = Entry::new(Event::Auth);
        entry.profile = Some(Arc::clone(&caller.name));
        entry.src = caller.address;
        entry.verdict = Some(VerdictWord::Deny);
        entry.deed = Some(Deed::Refused);
        entry.subject = Some(about.into());
        entry.findings = vec![format!("refused to answer {about}: {why}").into()];
        entry.findings.extend(folded.words());
        if let Err(error) = self.recorder.queue(entry) {
            tracing::warn!(%error, "a refusal is not in the record");
        }
    }

    /// Puts a refusal in the record. It has happened: nobody waits for it.
    pub(crate) fn tell_refusal(
        &self,
        refused: Option<&Refused>,
        address: Option<SocketAddr>,
        route: &str,
    ) {
        let what = match refused {
            Some(_) => BY_ROLE,
            None => "refused what was presented",
        };
        self.tell_refusal_as(what, refused, address, route);
    }

    /// The same of what came from another site: a page led somebody's browser to send it, and they know nothing of it.
    pub(crate) fn tell_forged(
        &self,
        refused: Option<&Refused>,
        address: Option<SocketAddr>,
        route: &str,
    ) {
        self.tell_refusal_as(FROM_ELSEWHERE, refused, address, route);
    }

    fn tell_refusal_as(
        &self,
        what: &str,
        refused: Option<&Refused>,
        address: Option<SocketAddr>,
        route: &str,
    ) {
        let from = address.map(|at| network(at.ip()).to_string());
        let from = from.unwrap_or_default();
        let who = match refused {
            Some(refused) => (&*refused.name, &*refused.whose),
            None => (from.as_str(), from.as_str()),
        };
        // A wrong role hides no forged request of the same minute.
        let told = format!("{what}: {route}");
        let Some(folded) = self.refusals.fold(who, &told, self.now()) else {
            return;
        };
        let mut entry = Entry::new(Event::Auth);
        entry.profile = refused.map(|refused| Arc::clone(&refused.name));
        entry.src = address;
        entry.verdict = Some(VerdictWord::Deny);
        entry.deed = Some(Deed::Refused);
        entry.subject = Some(route.into());
        entry.findings = vec![told.into()];
        entry.findings.extend(folded.words());
        if let Err(error) = self.recorder.queue(entry) {
            tracing::warn!(%error, "a refusal is not in the record");
        }
    }
}

const BY_ROLE: &str = "refused by role";
const FROM_ELSEWHERE: &str = "refused as from another site";
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// A megabyte or two.
const MOST: usize = 10_000;
/// Of one person in a minute, by whatever they ask: somebody who looks for a way in tries few doors.
const MOST_OF_ONE: u32 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_once_a_minute_and_a_flood_is_bounded() {
        let refusals = Refusals::default();
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let new = |who: &str, route, seconds| {
            let told = refusals.fold((who, who), route, at(seconds));
            told.is_some()
        };
        assert!(new("ana", "GET /a", 0) && !new("ana", "GET /a", 59) && new("ana", "GET /a", 60));
        assert!(new("ana", "GET /b", 60) && new("ben", "GET /a", 60));
        for n in 0..MOST {
            let _told = new(&n.to_string(), "GET /a", 60);
        }
        assert!(!new("somebody else", "GET /a", 61));
        assert!(refusals.0.lock().each.len() <= MOST);
        assert!(new("somebody else", "GET /a", 121));
    }

    #[test]
    fn of_one_person_so_many_are_told_in_a_minute_and_the_next_says_how_many_were_not() {
        let refusals = Refusals::default();
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let token = |n: u32, whose, seconds| {
            let who = format!("token {n}");
            refusals.fold((&who, whose), "GET /a", at(seconds))
        };
        let told = (0..1000).filter(|n| token(*n, "ana", 0).is_some()).count();
        assert_eq!(told, 30, "however many tokens there are");
        assert!(token(0, "ana", 1).is_none());
        let none = Folded { same: 0, others: 0 };
        assert_eq!(token(2000, "ben", 1), Some(none));
        let folded = token(0, "ana", 60).unwrap();
        assert_eq!(
            folded,
            Folded {
                same: 1,
                others: 970
            }
        );
        let words: Vec<_> = folded.words().collect();
        assert!(words[0].starts_with("1 times more") && words[1].starts_with("970 other"));
    }
}
