//! Denials that wait for somebody: destinations of the last day that were denied and still would be.
//!
//! The newest denials are read, at most [`MOST`]; those that the policy that is in force for their server
//! now would let pass are left out, as the code that enforces says. One line a destination, with its newest record, from which
//! the rule is two clicks away, also where nothing is in force for the server yet.

use std::collections::BTreeMap;

use gig_audit::{
    row::Row,
    search::{Filter, Found, Query},
};
use jiff::SignedDuration;

use crate::{
    allow::can_be_allowed,
    api_error::Problem,
    app::App,
    document,
    remedy::{Remedies, Remedy, profile_of},
};

/// A destination that somebody may want to allow.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The newest record of it.
    pub(crate) newest: Found,
    /// The policy that would deny it now; empty where nothing is in force for its server.
    pub(crate) policy: String,
    /// Where the rule goes that lets it pass.
    pub(crate) remedy: Remedy,
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
    let remedies = Remedies::read(app.store.as_ref(), document::moment(now));
    let mut remedies = remedies.map_err(Problem::internal)?;
    let mut places: BTreeMap<Place, usize> = BTreeMap::new();
    let mut all: Vec<Waiting> = Vec::new();
    for found in app.page(&query)?.records {
        let Some((server, host, port)) = place(&found.row) else {
            continue;
        };
        let remedy = remedies.place(&server, profile_of(&found.row));
        let Some(remedy) = remedy.map_err(Problem::internal)? else {
            continue;
        };
        let place = (remedy.policy.clone(), host, port);
        if let Some(known) = places.get(&place).and_then(|at| all.get_mut(*at)) {
            known.count += 1;
            continue;
        }
        if all.len() < MOST_LISTED
            && remedies
                .denies(&server, &found.row)
                .map_err(Problem::internal)?
        {
            places.insert(place, all.len());
            let kept = remedy.assign.is_none();
            all.push(Waiting {
                newest: found,
                policy: Some(remedy.policy.clone())
                    .filter(|_| kept)
                    .unwrap_or_default(),
                remedy,
                count: 1,
            });
        }
    }
    Ok(all)
}

/// Of a sandbox of which server, if a rule could open it.
fn place(row: &Row) -> Option<Place> {
    let server = row.server.clone()?;
    // What followed a name that was answered for that has a record of its own.
    let to_be_held = row.port.is_none() && row.findings.iter().any(|one| one == "held");
    (!to_be_held && can_be_allowed(row))
        .then(|| (server, row.host.clone().unwrap_or_default(), row.port))
}

/// Denials that are read for one look at the overview: some tens of milliseconds.
const MOST: usize = 1000;
/// As many as somebody decides on in one go.
const MOST_LISTED: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_rule_can_open_waits() {
        let mut denied = Row {
            host: Some("a.example".to_owned()),
            port: Some(443),
            protocol: Some("https".to_owned()),
            verdict: Some("deny".to_owned()),
            reason: Some("host_not_allowed".to_owned()),
            ..Row::default()
        };
        assert_eq!(place(&denied), None, "of no server");
        denied.server = Some("docs".to_owned());
        let want = ("docs".to_owned(), "a.example".to_owned(), Some(443));
        assert_eq!(place(&denied), Some(want), "whatever was in force then");
        denied.reason = Some("private_address".to_owned());
        assert_eq!(place(&denied), None);
    }
}
