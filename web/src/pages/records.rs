//! Records as rows of a table; the same wherever they are listed.

use std::sync::Arc;

use gig_audit::{Event, HELD, row::Row, search::Found};
use gig_policy::Lookalike;

use super::in_query;
use crate::{
    api::audit::id, api_error::Problem, app::App, auth::Caller, one_sandbox, profile::Sight,
};

/// One record, as listed.
pub(crate) struct RecordRow {
    pub(super) id: String,
    pub(super) time: String,
    /// What happened: what a person did, else the kind of record.
    pub(super) event: String,
    /// Whether somebody asked for it, so that it need not have come to be.
    asked_for: bool,
    pub(super) verdict: String,
    pub(super) verdict_words: &'static str,
    pub(super) place: String,
    /// Which host its own looks like; empty: none.
    pub(super) lookalike: String,
    pub(super) why: String,
    /// Where the rule stands that let it pass; empty where none did.
    pub(super) rule: String,
    pub(super) who: String,
    /// Where it leads; empty where that is not there for who looks, whose try would be recorded as refused.
    pub(super) sandbox: String,
}

impl RecordRow {
    pub(super) fn of(caller: &Caller, found: &Found) -> Self {
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
            event: row.deed.clone().unwrap_or_else(|| row.event.clone()),
            asked_for: row.event == Event::Admin.as_str(),
            verdict_words: match verdict.as_str() {
                "allow" => "allowed",
                "deny" => "denied",
                "would_deny" => "would be denied",
                _ => "",
            },
            verdict,
            place: place(row),
            lookalike: lookalike(row.host.as_deref()),
            why: why(row),
            rule: if row.reason.is_none() {
                rule_link(row)
            } else {
                String::new()
            },
            who: who(row),
            sandbox: row
                .sandbox
                .clone()
                .filter(|_| is_seen(caller, row))
                .unwrap_or_default(),
        }
    }
}

/// Those of traffic, whose sandboxes have begun.
pub(super) fn rows(caller: &Caller, found: &[Found]) -> Vec<RecordRow> {
    found.iter().map(|one| RecordRow::of(caller, one)).collect()
}

/// Those of whatever happened.
pub(super) async fn rows_of_all(
    app: &Arc<App>,
    caller: &Caller,
    found: &[Found],
) -> Result<Vec<RecordRow>, Problem> {
    let mut rows = rows(caller, found);
    lead_nowhere_unbegun(app, &mut rows).await?;
    Ok(rows)
}

/// Takes away what leads to a sandbox that never was: that somebody asked for one is recorded before anybody knows
/// whether it begins, and so is that it did not.
pub(super) async fn lead_nowhere_unbegun(
    app: &Arc<App>,
    rows: &mut [RecordRow],
) -> Result<(), Problem> {
    let is_asked = |row: &RecordRow| row.asked_for && !row.sandbox.is_empty();
    let asked = rows.iter().filter(|row| is_asked(row));
    let asked = asked.map(|row| row.sandbox.clone()).collect();
    let begun = one_sandbox::begun(app, asked).await?;
    for row in rows.iter_mut().filter(|row| is_asked(row)) {
        if !begun.contains(&row.sandbox) {
            row.sandbox.clear();
        }
    }
    Ok(())
}

/// Whether the page of a record's sandbox is there for this caller.
fn is_seen(caller: &Caller, row: &Row) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    caller.reaches(&text(&row.server)) && Sight::plain(caller).takes_in(&text(&row.profile))
}

/// Which host this one looks like, in words; empty where it looks like itself.
pub(super) fn lookalike(host: Option<&str>) -> String {
    let found = host.and_then(Lookalike::of_host);
    found.map(|found| found.to_string()).unwrap_or_default()
}

/// What it is of: where to, or what somebody did something to, with the version that came of it.
fn place(row: &Row) -> String {
    let Some(subject) = row.subject.as_ref().filter(|_| row.host.is_none()) else {
        return destination(row);
    };
    let version = row.policy_version.filter(|version| {
        *version > 0
            && row.event == Event::PolicyChange.as_str()
            && row.policy.as_ref() == Some(subject)
    });
    let version = version.map(|version| format!(" v{version}"));
    format!(
        "{}{}",
        cut(subject, LONGEST_HOST),
        version.unwrap_or_default()
    )
}

/// `GET https://api.example.com:443/x`, as far as it is known; cut, because hosts and paths are the
/// sandbox's own words: of a host its middle, since its end says whose it is.
fn destination(row: &Row) -> String {
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

/// Whether it says that a request was held for somebody's answer.
pub(super) fn is_held(row: &Row) -> bool {
    row.event == Event::Finding.as_str() && row.findings.iter().any(|one| one == HELD)
}

fn why(row: &Row) -> String {
    match (&row.reason, &row.rule) {
        // Nothing is decided yet.
        (Some(reason), _) if is_held(row) => format!("held: {reason}"),
        (Some(reason), _) => reason.clone(),
        (None, Some(rule)) => rule.clone(),
        (None, None) if row.event == Event::SandboxStart.as_str() => layers(&row.findings),
        (None, None) => cut(&row.findings.join(", "), 160),
    }
}

/// Of the layers of a sandbox, as listed, those that are not as they all are.
fn layers(findings: &[String]) -> String {
    let others = findings.iter().filter(|one| !one.ends_with(": enforced"));
    let others: Vec<&str> = others.map(String::as_str).collect();
    match (others.len() == findings.len(), others.is_empty()) {
        (true, _) => cut(&findings.join(", "), 160),
        (false, true) => "every layer is enforced".to_owned(),
        (false, false) => cut(&format!("enforced; {}", others.join(", ")), 160),
    }
}

/// Where a rule stands in a version.
pub(super) fn at_rule(policy: &str, version: u64, rule: &str) -> String {
    format!(
        "/policies/{}/versions/{version}?rule={}#rule",
        in_query(policy),
        in_query(rule)
    )
}

/// The rule that decided or came nearest, in the version that decided; of what a person let pass, their word. Empty where
/// there is none.
pub(super) fn rule_link(row: &Row) -> String {
    if let Some(id) = row.rule.as_deref().and_then(|rule| rule.strip_prefix(ONCE)) {
        return format!("/audit?event={}&request={}", Event::Admin, in_query(id));
    }
    let decided = row.policy.as_deref().zip(row.policy_version);
    match (decided.filter(|(_, version)| *version > 0), &row.rule) {
        (Some((policy, version)), Some(rule)) => at_rule(policy, version, rule),
        _ => String::new(),
    }
}

/// The server, or the person where a person did it to something; else the end of the sandbox's id, whose beginning is
/// a time.
fn who(row: &Row) -> String {
    // There the server is what something was done to.
    let of_people = OF_PEOPLE.iter().any(|event| event.as_str() == row.event);
    let named = match of_people {
        true => row.profile.as_ref().or(row.server.as_ref()),
        false => row.server.as_ref().or(row.profile.as_ref()),
    };
    match (named, &row.sandbox) {
        (Some(name), _) => name.clone(),
        (None, Some(sandbox)) => format!("…{}", sandbox.chars().skip(24).collect::<String>()),
        (None, None) => String::new(),
    }
}

/// How the rule is called by which a person let one request pass, before the id that it waited under.
pub(super) const ONCE: &str = "once:";
/// What people do.
const OF_PEOPLE: [Event; 4] = [
    Event::Admin,
    Event::PolicyChange,
    Event::SecretChange,
    Event::Auth,
];

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
    fn what_somebody_did_stands_with_what_it_was_done_to() {
        let changed = |subject: &str, policy: Option<&str>| {
            place(&Row {
                event: Event::PolicyChange.to_string(),
                subject: Some(subject.to_owned()),
                policy: policy.map(str::to_owned),
                policy_version: Some(3),
                ..Row::default()
            })
        };
        assert_eq!(changed("web", Some("web")), "web v3");
        assert_eq!(changed("box", Some("web")), "box");
        assert_eq!(changed("box", None), "box");
        let asked = Row {
            event: Event::Request.to_string(),
            subject: Some("web".to_owned()),
            host: Some("a.test".to_owned()),
            port: Some(443),
            ..Row::default()
        };
        assert_eq!(place(&asked), "a.test:443");
    }

    #[test]
    fn of_the_layers_of_a_sandbox_those_are_listed_that_are_not_as_all_are() {
        let of = |findings: &[&str]| {
            why(&Row {
                event: Event::SandboxStart.to_string(),
                findings: findings.iter().map(|one| (*one).to_owned()).collect(),
                ..Row::default()
            })
        };
        assert_eq!(
            of(&["user: enforced", "seccomp: enforced"]),
            "every layer is enforced"
        );
        let one_off = of(&["user: enforced", "cgroup: off (no limit)"]);
        assert_eq!(one_off, "enforced; cgroup: off (no limit)");
        assert_eq!(of(&["a warning"]), "a warning");
        assert_eq!(of(&[]), "");
    }

    #[test]
    fn who_did_it_stands_before_what_it_was_done_to() {
        let of = |event: Event| {
            who(&Row {
                event: event.to_string(),
                server: Some("box".to_owned()),
                profile: Some("ana".to_owned()),
                ..Row::default()
            })
        };
        for event in OF_PEOPLE {
            assert_eq!(of(event), "ana", "{event}");
        }
        assert_eq!(of(Event::Request), "box");
        let alone = Row {
            event: Event::Admin.to_string(),
            server: Some("box".to_owned()),
            ..Row::default()
        };
        assert_eq!(who(&alone), "box");
    }

    #[test]
    fn what_a_person_let_pass_leads_to_their_word_and_to_no_rule() {
        let mut row = Row {
            policy: Some("web".to_owned()),
            policy_version: Some(3),
            rule: Some("once:01-a&b".to_owned()),
            ..Row::default()
        };
        assert_eq!(rule_link(&row), "/audit?event=admin&request=01-a%26b");
        row.rule = Some("egress[0]".to_owned());
        let link = rule_link(&row);
        assert!(link.starts_with("/policies/web/versions/3?rule="), "{link}");
    }

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
