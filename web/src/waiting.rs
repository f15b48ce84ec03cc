//! Denials that wait for somebody: destinations of the last day that were denied and still would be.
//!
//! The newest denials are read, at most [`MOST`]; those that the policy that is in force for their server
//! now would let pass are left out, as the code that enforces says. One line a destination, with its newest record, from which
//! the rule is two clicks away.

use std::collections::{BTreeMap, HashMap};

use gig_audit::{
    row::Row,
    search::{Filter, Found, Query},
};
use gig_policy::{AppProtocol, Asked, Host, Moment, Policy, Port};
use jiff::SignedDuration;

use crate::{
    allow::can_be_allowed,
    api_error::Problem,
    app::App,
    document,
    in_force::InForce,
    store::{Store, StoreError},
};

/// A destination that somebody may want to allow.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The newest record of it.
    pub(crate) newest: Found,
    /// The policy that would deny it now.
    pub(crate) policy: String,
    /// Denials of it, as far as was read.
    pub(crate) count: u64,
}

/// Which destination, of which policy or server.
type Place = (String, String, Option<u16>);

/// Those of the last day, newest first. Reads the store and the record: for who is beside the runtime.
///
/// # Errors
/// When one of both cannot be read.
pub(crate) fn waiting(app: &App) -> Result<Vec<Waiting>, Problem> {
    let now = app.clock.now();
    let since = now
        .checked_sub(SignedDuration::from_hours(24))
        .map_err(Problem::internal)?;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let query = Query {
        filter: Filter {
            since: Some(format!("{since:.6}")),
            event: words(&["dns", "connect", "request"]),
            verdict: words(&["deny", "would_deny"]),
            ..Filter::default()
        },
        before: None,
        limit: MOST,
    };
    let policies = Policies::new(app.store.as_ref(), document::moment(now));
    let mut policies = policies.map_err(Problem::internal)?;
    let mut places: BTreeMap<Place, usize> = BTreeMap::new();
    let mut all: Vec<Waiting> = Vec::new();
    for found in app.page(&query)?.records {
        let Some((server, host, port)) = place(&found.row) else {
            continue;
        };
        let Some(policy) = policies.of(&server).map_err(Problem::internal)? else {
            continue;
        };
        let place = (policy.reference().name.to_string(), host, port);
        if let Some(known) = places.get(&place).and_then(|at| all.get_mut(*at)) {
            known.count += 1;
            continue;
        }
        if all.len() < MOST_LISTED && denies(&policy, &found.row) {
            places.insert(place.clone(), all.len());
            all.push(Waiting {
                newest: found,
                policy: place.0,
                count: 1,
            });
        }
    }
    Ok(all)
}

/// Of a sandbox of which server, if a policy that is kept denied it and a rule could open it.
fn place(row: &Row) -> Option<Place> {
    let server = row
        .server
        .clone()
        .filter(|_| row.policy_version > Some(0))?;
    // What followed a name that was answered for that has a record of its own.
    let to_be_held = row.port.is_none() && row.findings.iter().any(|one| one == "held");
    (!to_be_held && can_be_allowed(row))
        .then(|| (server, row.host.clone().unwrap_or_default(), row.port))
}

/// The policy in force for each server that is asked for, read once, as of now.
struct Policies<'a> {
    in_force: InForce<'a>,
    now: Moment,
    known: HashMap<String, Policy>,
}

impl<'a> Policies<'a> {
    fn new(store: &'a dyn Store, now: Moment) -> Result<Self, StoreError> {
        Ok(Self {
            in_force: InForce::read(store)?,
            now,
            known: HashMap::new(),
        })
    }

    /// The policy that would be asked now, if it is one that is kept.
    fn of(&mut self, server: &str) -> Result<Option<Policy>, StoreError> {
        let policy = match self.known.get(server) {
            Some(known) => known.clone(),
            None => {
                let policy = self.in_force.of(server)?.as_of(self.now);
                self.known.insert(server.to_owned(), policy.clone());
                policy
            }
        };
        Ok(Some(policy).filter(|policy| policy.reference().version > 0))
    }
}

/// Whether a policy denies it, too, and no floor does: what a floor denies no rule beneath it allows.
fn denies(policy: &Policy, row: &Row) -> bool {
    let denied = asked(row).and_then(|asked| policy.covers(&asked, None).err());
    denied.is_some_and(|denial| !denial.floor)
}

/// What the record's sandbox asked for.
fn asked(row: &Row) -> Option<Asked> {
    let host = Host::parse(row.host.as_deref()?).ok()?;
    let Some(port) = row.port.and_then(Port::new) else {
        return host.name().cloned().map(Asked::Name);
    };
    let protocol = row.protocol.as_deref().and_then(AppProtocol::of_word);
    Some(match (protocol, &row.method, &row.path) {
        (Some(protocol), Some(method), Some(path)) => Asked::Request {
            host,
            port,
            protocol,
            method: method.as_str().into(),
            path: path.as_str().into(),
        },
        _ => Asked::Connection {
            host,
            port,
            protocol,
        },
    })
}

/// Denials that are read for one look at the overview: some tens of milliseconds.
const MOST: usize = 1000;
/// As many as somebody decides on in one go.
const MOST_LISTED: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(port: Option<u16>, method: Option<&str>) -> Row {
        Row {
            host: Some("a.example".to_owned()),
            port,
            protocol: Some("https".to_owned()),
            method: method.map(str::to_owned),
            path: method.map(|_| "/x".to_owned()),
            ..Row::default()
        }
    }

    #[test]
    fn a_record_asks_for_what_it_says_and_no_more() {
        let words = |row: &Row| asked(row).map(|asked| asked.to_string());
        let request = row(Some(443), Some("GET"));
        let want = "GET https://a.example:443/x";
        assert_eq!(words(&request).as_deref(), Some(want));
        let connection = row(Some(443), None);
        assert_eq!(words(&connection).as_deref(), Some("https a.example:443"));
        assert_eq!(words(&row(None, None)).as_deref(), Some("name a.example"));
        let mut hostile = connection;
        hostile.host = Some("a.example\nb".to_owned());
        assert_eq!(words(&hostile), None);
    }

    #[test]
    fn what_a_floor_denies_waits_for_nobody() {
        let compiled = |text: &str| Policy::compile(text, "p").unwrap();
        let own = compiled("version: 1\negress: []\n");
        let denied = row(Some(443), None);
        assert!(denies(&own, &denied));
        let open = compiled("version: 1\negress:\n  - host: a.example\n");
        assert!(denies(&own.under(vec![open.clone()]), &denied));
        assert!(!denies(&own.under(vec![own.clone()]), &denied));
        assert!(!denies(&open, &denied));
    }

    #[test]
    fn only_what_a_kept_policy_denied_and_a_rule_can_open_waits() {
        let mut denied = row(Some(443), None);
        denied.verdict = Some("deny".to_owned());
        denied.reason = Some("host_not_allowed".to_owned());
        denied.policy = Some("web".to_owned());
        denied.server = Some("docs".to_owned());
        assert_eq!(place(&denied), None, "of no version");
        denied.policy_version = Some(1);
        let want = ("docs".to_owned(), "a.example".to_owned(), Some(443));
        assert_eq!(place(&denied), Some(want));
        denied.reason = Some("private_address".to_owned());
        assert_eq!(place(&denied), None);
    }
}
