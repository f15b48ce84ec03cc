//! What was refused to somebody who presented something, or whom we know: in the record, once a minute for
//! each of them and each route, so that nobody fills it.

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
pub(crate) struct Refusals(Mutex<HashMap<(String, String), Timestamp>>);

impl Refusals {
    /// Whether this one is to be told.
    fn is_new(&self, who: String, route: &str, now: Timestamp) -> bool {
        let mut told = self.0.lock();
        if told.len() >= MOST {
            told.retain(|_, at| now.duration_since(*at) < MINUTE);
        }
        let key = (who, route.to_owned());
        match told.get(&key) {
            Some(at) if now.duration_since(*at) < MINUTE => return false,
            // Full of those who were told in this minute: strangers flood.
            None if told.len() >= MOST => return false,
            _ => {}
        }
        told.insert(key, now);
        true
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

impl App {
    /// The same for what somebody is not shown: to a token of other servers a server is not there, and what
    /// it tries is told all the same.
    pub(crate) fn tell_hidden(&self, caller: &Caller, route: &str) {
        self.tell_refusal(Some(Arc::clone(&caller.name)), caller.address, route);
    }

    /// The same for an answer by a webhook to what it may not answer; `about` and why in words. Once a minute for each
    /// that is answered.
    pub(crate) fn tell_refused_answer(&self, caller: &Caller, (about, why): (&str, &str)) {
        let who = format!("{} {about}", caller.name);
        if !self.refusals.is_new(who, "an answer", self.now()) {
            return;
        }
        let mut entry = Entry::new(Event::Auth);
        entry.profile = Some(Arc::clone(&caller.name));
        entry.src = caller.address;
        entry.verdict = Some(VerdictWord::Deny);
        entry.deed = Some(Deed::Refused);
        entry.findings = vec![format!("refused to answer {about}: {why}").into()];
        if let Err(error) = self.recorder.queue(entry) {
            tracing::warn!(%error, "a refusal is not in the record");
        }
    }

    /// Puts a refusal in the record. It has happened: nobody waits for it.
    pub(crate) fn tell_refusal(
        &self,
        name: Option<Arc<str>>,
        address: Option<SocketAddr>,
        route: &str,
    ) {
        let from = address.map(|at| network(at.ip()).to_string());
        let who = name.as_deref().map(str::to_owned).or(from);
        if !self
            .refusals
            .is_new(who.unwrap_or_default(), route, self.now())
        {
            return;
        }
        let mut entry = Entry::new(Event::Auth);
        let what = match &name {
            Some(_) => "refused by role or from another site",
            None => "refused what was presented",
        };
        entry.profile = name;
        entry.src = address;
        entry.verdict = Some(VerdictWord::Deny);
        entry.deed = Some(Deed::Refused);
        entry.findings = vec![format!("{what}: {route}").into()];
        if let Err(error) = self.recorder.queue(entry) {
            tracing::warn!(%error, "a refusal is not in the record");
        }
    }
}

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// A megabyte or two.
const MOST: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_once_a_minute_and_a_flood_is_bounded() {
        let refusals = Refusals::default();
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let new = |who: &str, route, seconds| refusals.is_new(who.to_owned(), route, at(seconds));
        assert!(new("ana", "GET /a", 0) && !new("ana", "GET /a", 59) && new("ana", "GET /a", 60));
        assert!(new("ana", "GET /b", 60) && new("ben", "GET /a", 60));
        for n in 0..MOST {
            let _told = new(&n.to_string(), "GET /a", 60);
        }
        assert!(!new("somebody else", "GET /a", 61));
        assert!(refusals.0.lock().len() <= MOST);
        assert!(new("somebody else", "GET /a", 121));
    }
}
