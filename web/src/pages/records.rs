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
/// sandbox's own words: of a host its middle, since its end says whose it is.
fn place(row: &Row) -> String {
    let Some(host) = &row.host else {
        return String::new();
    };
    let port = row.port.map(|port| format!(":{port}")).unwrap_or_default();
    let method = row
        .method
        .as_ref()
        .map(|method| format!("{} ", cut(method, 24)));
    let path = cut(row.path.as_deref().unwrap_or_default(), 60);
    let host = cut_host(host, LONGEST_HOST);
    format!("{}{host}{port}{path}", method.unwrap_or_default())
}

/// A host of at most so many characters: its middle is cut out, its end never.
pub(super) fn cut_host(host: &str, most: usize) -> String {
    let count = host.chars().count();
    if count <= most {
        return host.to_owned();
    }
    let beginning: String = host.chars().take(most / 4).collect();
    let end = most.saturating_sub(most / 4).saturating_sub(1);
    let end: String = host.chars().skip(count.saturating_sub(end)).collect();
    format!("{beginning}…{end}")
}

/// In a line of a list.
pub(super) const LONGEST_HOST: usize = 80;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_host_the_end_is_shown() {
        let host = format!("api.github.com.{}.evil.example", "a".repeat(200));
        let row = Row {
            host: Some(host.clone()),
            port: Some(443),
            method: Some("GET".repeat(100)),
            path: Some("/x".repeat(100)),
            ..Row::default()
        };
        let shown = place(&row);
        assert!(shown.contains("aaa.evil.example:443/x"), "{shown}");
        assert!(
            shown.contains(" api.github.com.aaa") && shown.chars().count() < 180,
            "{shown}"
        );
        let short = cut_host(&host, LONGEST_HOST);
        assert_eq!(short.chars().count(), LONGEST_HOST);
        assert_eq!(cut_host("a.example", LONGEST_HOST), "a.example");
    }
}
