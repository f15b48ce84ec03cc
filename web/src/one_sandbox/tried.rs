//! What a sandbox asked for: each destination once, with how often it was let through and refused.
//!
//! The newest decisions are read, and no more than [`MOST`]; what was left out for that is said. Where requests
//! are seen they are counted and not the connections that carried them, nor the looks-up of the name before.
//! What was let and refused behind that, as at an address that is not public, counts as refused alone.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use gig_audit::search::{Filter, Found, Query};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    api::{audit::id, recorded_time},
    api_error::Problem,
    app::App,
};

/// What a sandbox asked for.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Tried {
    /// Refused ones first, then by how often; at most 100.
    pub(crate) destinations: Vec<Destination>,
    /// How many there are.
    pub(crate) total: usize,
    /// Whether every decision about it was read; else only the newest.
    pub(crate) complete: bool,
}

/// One destination.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Destination {
    pub(crate) host: String,
    /// null where only the name was asked for.
    pub(crate) port: Option<u16>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) would_deny: u64,
    /// Why it was refused last, or would have been.
    pub(crate) reason: Option<String>,
    /// The record that says so, from which a rule is made.
    pub(crate) refused: Option<String>,
    /// The newest record of it, and when that was.
    pub(crate) record: String,
    pub(crate) last: String,
}

impl Destination {
    const fn sum(&self) -> u64 {
        self.allowed + self.denied + self.would_deny
    }
}

/// What the sandbox asked for.
pub(super) async fn of(app: &Arc<App>, sandbox: &str) -> Result<Tried, Problem> {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let filter = Filter {
        sandbox: vec![sandbox.to_owned()],
        ..Filter::default()
    };
    let refused = Filter {
        event: words(&["response"]),
        verdict: words(&["deny", "would_deny"]),
        ..filter.clone()
    };
    let decided = Filter {
        event: words(&["dns", "connect", "request"]),
        ..filter
    };
    let mut gathered = Gathered::default();
    let mut complete = true;
    // What came of a request is behind it in the record: known first, its request is not counted as let.
    for filter in [refused, decided] {
        let mut query = Query {
            filter,
            before: None,
            limit: AT_ONCE,
        };
        let mut read = 0;
        loop {
            let page = app.search(query.clone()).await?;
            read += page.records.len();
            page.records.iter().for_each(|found| gathered.take(found));
            query.before = page.next;
            if query.before.is_none() || read >= MOST {
                complete &= query.before.is_none();
                break;
            }
        }
    }
    Ok(gathered.finish(complete))
}

/// Decisions as they come, newest first; before them what was refused behind one.
#[derive(Default)]
struct Gathered {
    hosts: BTreeMap<(String, Option<u16>), Counted>,
    /// Connection and request of what was refused behind its decision.
    refused_after: HashSet<(Option<u64>, Option<String>)>,
}

/// Of one destination: requests, connections, names.
#[derive(Default)]
struct Counted {
    seen: Destination,
    requests: [u64; 3],
    others: [u64; 3],
    /// When it was refused last.
    refused_at: String,
}

impl Gathered {
    fn take(&mut self, found: &Found) {
        let row = &found.row;
        let (Some(host), Some(verdict)) = (&row.host, row.verdict.as_deref()) else {
            return;
        };
        let asked = (row.conn, row.request.clone());
        if row.event == "response" {
            self.refused_after.insert(asked);
        } else if verdict == "allow" && row.event != "dns" && self.refused_after.contains(&asked) {
            return;
        }
        let key = (host.clone(), row.port);
        if !self.hosts.contains_key(&key) && self.hosts.len() >= MOST_HOSTS {
            return;
        }
        let one = self.hosts.entry(key).or_insert_with(|| Counted {
            seen: Destination {
                host: host.clone(),
                port: row.port,
                record: id(found),
                last: recorded_time(&row.time),
                ..Destination::default()
            },
            ..Counted::default()
        });
        let counts = match row.event.as_str() {
            "request" => &mut one.requests,
            "response" if row.request.is_some() => &mut one.requests,
            _ => &mut one.others,
        };
        let [allowed, denied, would] = counts;
        match verdict {
            "allow" => *allowed += 1,
            "deny" => *denied += 1,
            _ => *would += 1,
        }
        // The two readings are each newest first.
        let time = recorded_time(&row.time);
        if verdict != "allow" && time > one.refused_at {
            one.seen.reason.clone_from(&row.reason);
            one.seen.refused = Some(id(found));
            one.refused_at.clone_from(&time);
        }
        if time > one.seen.last {
            one.seen.record = id(found);
            one.seen.last = time;
        }
    }

    fn finish(self, complete: bool) -> Tried {
        let dialled: Vec<String> = self
            .hosts
            .keys()
            .filter(|(_, port)| port.is_some())
            .map(|(host, _)| host.clone())
            .collect();
        let all = self.hosts.into_values().filter_map(|one| {
            let Counted {
                mut seen,
                requests: [allowed, denied, would],
                others: [passed, refused, would_be],
                ..
            } = one;
            let spoken = allowed + denied + would > 0;
            seen.allowed = if spoken { allowed } else { passed };
            seen.would_deny = if spoken { would } else { would_be };
            // A connection that was refused carried no request.
            seen.denied = denied + refused;
            // A name that was looked up and then dialled stands there with its port.
            let again = seen.port.is_none()
                && seen.denied == 0
                && dialled.binary_search(&seen.host).is_ok();
            (!again).then_some(seen)
        });
        let mut destinations: Vec<Destination> = all.collect();
        let total = destinations.len();
        destinations.sort_by_key(|one| std::cmp::Reverse((one.denied > 0, one.sum())));
        destinations.truncate(MOST_LISTED);
        Tried {
            destinations,
            total,
            complete,
        }
    }
}

/// Some hundred milliseconds of reading.
const MOST: usize = 5000;
const AT_ONCE: usize = 1000;
/// Hosts are the sandbox's own words: without a bound it could name one a request.
const MOST_HOSTS: usize = 1000;
/// As many as somebody reads.
const MOST_LISTED: usize = 100;

#[cfg(test)]
mod tests {
    use gig_audit::{row::Row, search::Position};

    use super::*;

    fn found(seq: u64, event: &str, to: (&str, Option<u16>), verdict: &str) -> Found {
        let row = Row {
            seq,
            time: format!("2026-11-21T09:30:{seq:02}.000001Z"),
            event: event.to_owned(),
            host: Some(to.0.to_owned()),
            port: to.1,
            verdict: Some(verdict.to_owned()),
            reason: (verdict != "allow").then(|| "path_not_allowed".to_owned()),
            ..Row::default()
        };
        let at = Position { chain: 1, seq };
        Found {
            at,
            line: String::new(),
            row,
        }
    }

    #[test]
    fn each_destination_stands_once_with_what_became_of_it() {
        let mut gathered = Gathered::default();
        let api = ("api.example", Some(443));
        // Newest first.
        for one in [
            found(9, "request", api, "deny"),
            found(8, "request", api, "allow"),
            found(7, "request", api, "allow"),
            found(6, "connect", api, "allow"),
            found(5, "dns", ("api.example", None), "allow"),
            found(4, "connect", ("raw.example", Some(22)), "allow"),
            found(3, "dns", ("no.example", None), "deny"),
            found(2, "dns", ("no.example", None), "deny"),
        ] {
            gathered.take(&one);
        }
        let tried = gathered.finish(true);
        assert_eq!((tried.total, tried.complete), (3, true));
        let told = |at: usize| {
            let one = &tried.destinations[at];
            (
                one.host.as_str(),
                one.port,
                one.allowed,
                one.denied,
                one.record.as_str(),
            )
        };
        assert_eq!(told(0), ("api.example", Some(443), 2, 1, "1-9"));
        assert_eq!(told(1), ("no.example", None, 0, 2, "1-3"));
        assert_eq!(told(2), ("raw.example", Some(22), 1, 0, "1-4"));
        assert_eq!(
            tried.destinations[0].reason.as_deref(),
            Some("path_not_allowed")
        );
        assert_eq!(tried.destinations[0].last, "2026-11-21T09:30:09.000Z");
        let refused = tried.destinations.iter().map(|one| one.refused.as_deref());
        assert_eq!(
            refused.collect::<Vec<_>>(),
            [Some("1-9"), Some("1-3"), None],
            "the newest of each"
        );
    }

    #[test]
    fn what_was_refused_behind_its_decision_is_not_counted_as_let() {
        let mut gathered = Gathered::default();
        let of = |mut one: Found, request: &str| {
            one.row.conn = Some(7);
            one.row.request = Some(request.to_owned());
            one
        };
        let inside = ("inside.example", Some(443));
        let mut refused = of(found(9, "response", inside, "deny"), "r-2");
        refused.row.reason = Some("private_address".to_owned());
        for one in [
            refused,
            of(found(8, "request", inside, "allow"), "r-2"),
            of(found(6, "request", inside, "allow"), "r-1"),
            found(5, "connect", inside, "allow"),
            found(3, "request", inside, "deny"),
        ] {
            gathered.take(&one);
        }
        let tried = gathered.finish(true);
        let one = &tried.destinations[0];
        assert_eq!((one.allowed, one.denied, tried.total), (1, 2, 1));
        assert_eq!(one.reason.as_deref(), Some("private_address"));
        let last = (one.refused.as_deref(), one.record.as_str());
        assert_eq!(last, (Some("1-9"), "1-9"));
    }

    #[test]
    fn hosts_without_end_are_bounded() {
        let mut gathered = Gathered::default();
        for number in 0..MOST_HOSTS as u64 + 10 {
            let host = format!("{number}.example");
            gathered.take(&found(number % 60, "dns", (&host, None), "deny"));
        }
        let tried = gathered.finish(false);
        assert_eq!(
            (tried.total, tried.destinations.len()),
            (MOST_HOSTS, MOST_LISTED)
        );
    }
}
