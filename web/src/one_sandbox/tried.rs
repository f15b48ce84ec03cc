//! What a sandbox asked for: each destination once, with how often it was let through and refused.
//!
//! The newest decisions are read, and no more than [`MOST`]; what was left out for that is said. Where requests
//! are seen they are counted and not the connections that carried them, nor the looks-up of the name before.
//! What was let and then refused for its address, so that nothing of it left, counts as refused alone; what was cut for
//! another reason counts as both.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use gig_audit::search::{Filter, Found, Query};
use gig_policy::DenyReason;
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
    // What would have been denied is so by its decision: its outcome says that again.
    let refused = Filter {
        event: words(&["response"]),
        verdict: words(&["deny"]),
        ..filter.clone()
    };
    let decided = Filter {
        event: words(&["dns", "connect", "request"]),
        ..filter
    };
    let mut gathered = Gathered::default();
    let mut complete = true;
    // What came of a request is behind it in the record: known first, its request is not counted beside it.
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
///
/// Times are the record's own, in microseconds: several decisions stand in one millisecond.
#[derive(Default)]
struct Gathered {
    hosts: BTreeMap<(String, Option<u16>), Counted>,
    /// Connection and request of what was refused for its address behind its decision.
    never_left: HashSet<(Option<u64>, Option<String>)>,
}

/// Of one destination: requests, connections, names.
#[derive(Default)]
struct Counted {
    seen: Destination,
    requests: [u64; 3],
    others: [u64; 3],
    /// When it was asked for last, and refused last.
    seen_at: String,
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
            let reason = row.reason.as_deref().and_then(DenyReason::of_word);
            if reason.is_some_and(DenyReason::is_of_address) {
                self.never_left.insert(asked);
            }
        } else if row.event != "dns" && self.never_left.contains(&asked) {
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
        if verdict != "allow" && row.time > one.refused_at {
            one.seen.reason.clone_from(&row.reason);
            one.seen.refused = Some(id(found));
            one.refused_at.clone_from(&row.time);
        }
        if row.time > one.seen_at {
            one.seen.record = id(found);
            one.seen_at.clone_from(&row.time);
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
                seen_at,
                ..
            } = one;
            seen.last = recorded_time(&seen_at);
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

    const INSIDE: (&str, Option<u16>) = ("inside.example", Some(443));

    fn of(mut one: Found, request: Option<&str>) -> Found {
        one.row.conn = Some(7);
        one.row.request = request.map(str::to_owned);
        one
    }

    fn refused(mut outcome: Found, reason: &str) -> Found {
        outcome.row.reason = Some(reason.to_owned());
        outcome
    }

    /// Allowed, denied and would-be denied of the only destination.
    fn counts(of: impl IntoIterator<Item = Found>) -> ([u64; 3], Destination) {
        let mut gathered = Gathered::default();
        of.into_iter().for_each(|one| gathered.take(&one));
        let tried = gathered.finish(true);
        assert_eq!(tried.total, 1);
        let one = tried.destinations.into_iter().next().unwrap();
        ([one.allowed, one.denied, one.would_deny], one)
    }

    #[test]
    fn what_was_refused_before_it_left_is_counted_as_denied_alone() {
        let private = of(found(9, "response", INSIDE, "deny"), Some("r-2"));
        let (all, one) = counts([
            refused(private, "private_address"),
            of(found(8, "request", INSIDE, "allow"), Some("r-2")),
            of(found(6, "request", INSIDE, "allow"), Some("r-1")),
            found(5, "connect", INSIDE, "allow"),
            found(3, "request", INSIDE, "deny"),
        ]);
        assert_eq!(all, [1, 2, 0]);
        assert_eq!(one.reason.as_deref(), Some("private_address"));
        let last = (one.refused.as_deref(), one.record.as_str());
        assert_eq!(last, (Some("1-9"), "1-9"));
        // Where a policy observes, too.
        let private = of(found(9, "response", INSIDE, "deny"), Some("r-2"));
        let (all, _) = counts([
            refused(private, "private_address"),
            of(found(8, "request", INSIDE, "would_deny"), Some("r-2")),
            of(found(6, "request", INSIDE, "would_deny"), Some("r-1")),
        ]);
        assert_eq!(all, [0, 1, 1]);
    }

    #[test]
    fn what_was_cut_after_it_left_is_counted_as_let_and_as_denied() {
        let cut = of(found(9, "response", INSIDE, "deny"), None);
        let (all, one) = counts([
            refused(cut, "revoked"),
            of(found(8, "connect", INSIDE, "allow"), None),
        ]);
        assert_eq!(all, [1, 1, 0]);
        assert_eq!(one.reason.as_deref(), Some("revoked"));
    }

    #[test]
    fn of_one_millisecond_the_later_decision_is_the_last() {
        let mut later = found(9, "request", INSIDE, "deny");
        "2026-11-21T09:30:08.000009Z".clone_into(&mut later.row.time);
        let earlier = of(found(8, "response", INSIDE, "deny"), Some("r-1"));
        let (_, one) = counts([earlier, later]);
        let last = (one.refused.as_deref(), one.record.as_str());
        assert_eq!(last, (Some("1-9"), "1-9"));
        assert_eq!(one.last, "2026-11-21T09:30:08.000Z");
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
