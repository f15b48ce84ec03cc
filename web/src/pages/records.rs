//! Records as rows of a table; the same wherever they are listed.

use gig_audit::{row::Row, search::Found};

use super::in_query;
use crate::api::audit::id;

/// One record, as listed.
pub(crate) struct RecordRow {
    pub(super) id: String,
    pub(super) time: String,
    pub(super) event: String,
    pub(super) verdict: String,
    pub(super) verdict_words: &'static str,
    pub(super) place: String,
    pub(super) why: String,
    /// Where the rule stands that let it pass; empty where none did.
    pub(super) rule: String,
    pub(super) who: String,
    pub(super) sandbox: String,
}

impl RecordRow {
    pub(super) fn of(found: &Found) -> Self {
        let row = &found.row;
        let verdict = row.verdict.clone().unwrap_or_default();
        Self {
            id: id(found),
            time: row
                .time
                .chars()
                .take(19)
                .map(|c| if c == 'T' { ' ' } else { c })
                .collect(),
            event: row.event.clone(),
            verdict_words: match verdict.as_str() {
                "allow" => "allowed",
                "deny" => "denied",
                "would_deny" => "would be denied",
                _ => "",
            },
            verdict,
            place: place(row),
            why: why(row),
            rule: if row.reason.is_none() {
                rule_link(row)
            } else {
                String::new()
            },
            who: who(row),
            sandbox: row.sandbox.clone().unwrap_or_default(),
        }
    }
}

pub(super) fn rows(found: &[Found]) -> Vec<RecordRow> {
    found.iter().map(RecordRow::of).collect()
}

/// `GET https://api.example.com:443/x`, as far as it is known; cut, because hosts and paths are the
/// sandbox's own words.
fn place(row: &Row) -> String {
    let Some(host) = &row.host else {
        return String::new();
    };
    let port = row.port.map(|port| format!(":{port}")).unwrap_or_default();
    let method = row.method.as_ref().map(|method| format!("{method} "));
    let path = row.path.as_deref().unwrap_or_default();
    let text = format!("{}{host}{port}{path}", method.unwrap_or_default());
    cut(&text, 160)
}

fn why(row: &Row) -> String {
    match (&row.reason, &row.rule) {
        (Some(reason), _) => reason.clone(),
        (None, Some(rule)) => rule.clone(),
        (None, None) => cut(&row.findings.join(", "), 160),
    }
}

/// The rule that decided or came nearest, in the version that decided; empty where there is none.
pub(super) fn rule_link(row: &Row) -> String {
    let decided = row.policy.as_deref().zip(row.policy_version);
    match (decided.filter(|(_, version)| *version > 0), &row.rule) {
        (Some((policy, version)), Some(rule)) => format!(
            "/policies/{}/versions/{version}?rule={}#rule",
            in_query(policy),
            in_query(rule)
        ),
        _ => String::new(),
    }
}

/// The server, or who did it; else the end of the sandbox's id, whose beginning is a time.
fn who(row: &Row) -> String {
    let named = row.server.as_ref().or(row.profile.as_ref());
    match (named, &row.sandbox) {
        (Some(name), _) => name.clone(),
        (None, Some(sandbox)) => format!("…{}", sandbox.chars().skip(24).collect::<String>()),
        (None, None) => String::new(),
    }
}

pub(super) fn cut(text: &str, most: usize) -> String {
    let mut characters = text.chars();
    let mut kept: String = characters.by_ref().take(most).collect();
    if characters.next().is_some() {
        kept.push('…');
    }
    kept
}
