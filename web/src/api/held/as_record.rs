//! What waits as a record of its denial, and the other way round.

use gig_audit::row::Row;

use crate::store::HeldFacts;

/// What a record asked for, as of what waits.
pub(super) fn asks(row: &Row) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let facts = HeldFacts {
        sandbox: String::new(),
        server: text(&row.server),
        profile: text(&row.profile),
        started_by: Vec::new(),
        host: text(&row.host),
        port: row.port.unwrap_or_default(),
        protocol: text(&row.protocol),
        method: row.method.clone(),
        path: row.path.clone(),
        policy: text(&row.policy),
        policy_version: row.policy_version.unwrap_or_default(),
        reason: text(&row.reason),
    };
    facts.words()
}

/// As a record of its denial.
pub(super) fn row(facts: &HeldFacts) -> Row {
    Row {
        verdict: Some("deny".to_owned()),
        reason: Some(facts.reason.clone()),
        server: Some(facts.server.clone()),
        profile: Some(facts.profile.clone()),
        policy: Some(facts.policy.clone()),
        policy_version: Some(facts.policy_version),
        host: Some(facts.host.clone()),
        port: Some(facts.port),
        protocol: Some(facts.protocol.clone()),
        method: facts.method.clone(),
        path: facts.path.clone(),
        ..Row::default()
    }
}
