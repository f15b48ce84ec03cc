//! From a denied record to the rule that would have let it pass: the narrowest, put into the document.
//!
//! The document is edited as text, so that comments and order stay; the result is compiled and asked
//! whether it lets the request pass before anybody sees it. What cannot be put in with certainty is offered as a rule to put in by hand.

use std::fmt;

use gig_audit::row::Row;
use gig_policy::{DenyReason, Moment, Policy};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{document, remedy::asked};

/// How much a rule opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Width {
    /// This method and path.
    #[default]
    Path,
    /// Every request to the host on this port.
    Host,
}

/// For how long a rule opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Lasting {
    /// Until somebody takes it out.
    #[default]
    Ever,
    /// For an hour from when it is offered.
    Hour,
}

impl Lasting {
    /// When the rule ends.
    pub(crate) fn until(self, now: Moment) -> Option<Moment> {
        match self {
            Self::Ever => None,
            Self::Hour => Some(Moment::from_unix(now.unix() + HOUR)),
        }
    }
}

/// A rule, and a document that holds it.
pub(crate) struct Proposal {
    /// As an entry under `egress`.
    pub(crate) rule: String,
    /// The document with it; `None` where it is to be put in by hand.
    pub(crate) document: Option<String>,
}

/// The rule that lets a record's request pass; `None` for what no rule can open.
pub(crate) fn propose(
    name: &str,
    document: &str,
    row: &Row,
    (width, until): (Width, Option<Moment>),
) -> Option<Proposal> {
    let rule = rule(row, width, until)?;
    let asked = asked(row)?;
    let with = insert(document, &rule).filter(|with| {
        let old = document::compile(name, 0, document, None);
        let new = document::compile(name, 0, with, None);
        match (old, new) {
            // Another rule may treat the host otherwise and decide all the same.
            (Ok(old), Ok(new)) => adds_one(&old, &new) && new.covers(&asked, None).is_ok(),
            _ => false,
        }
    });
    Some(Proposal {
        rule,
        document: with,
    })
}

/// How a new document begins.
pub(crate) fn begin(name: &str) -> String {
    format!("version: 1\nname: {name}\nmode: enforce\n")
}

/// Whether a person can be offered a rule at all.
pub(crate) fn can_be_allowed(row: &Row) -> bool {
    let denied = matches!(row.verdict.as_deref(), Some("deny" | "would_deny"));
    let reason = row.reason.as_deref().unwrap_or_default();
    let known = DenyReason::ALL
        .iter()
        .find(|known| known.as_str() == reason);
    let by_rules = known.is_some_and(|known| known.is_of_rules());
    denied && by_rules && asked(row).is_some() && rule(row, Width::Host, None).is_some()
}

/// Whether the record names a request, so that a rule can be as narrow as that.
pub(crate) fn has_path(row: &Row) -> bool {
    rule(row, Width::Path, None) != rule(row, Width::Host, None)
}

fn adds_one(old: &Policy, new: &Policy) -> bool {
    let change = old.difference(new);
    change.settings.is_empty() && change.removed.is_empty() && change.added.len() == 1
}

fn rule(row: &Row, width: Width, until: Option<Moment>) -> Option<String> {
    let host = row.host.as_deref()?;
    let host = gig_policy::Host::parse(host).ok()?;
    let target = match &host {
        gig_policy::Host::Name(name) => format!("host: {}", Quoted(&name.to_string())),
        gig_policy::Host::Ip(ip) => format!("ip: {}", Quoted(&ip.to_string())),
    };
    let port = row.port.map(|port| format!(", ports: [{port}]"));
    // On 443 and 80 a rule that says nothing means the one that belongs there.
    let protocol = match (row.protocol.as_deref(), row.port) {
        (Some("tcp"), _) => ", protocol: tcp",
        (Some("http"), Some(443)) => ", protocol: http",
        (Some("https"), Some(80)) => ", protocol: https",
        _ => "",
    };
    let request = match (width, row.method.as_deref(), row.path.as_deref()) {
        (Width::Path, Some(method), Some(path)) if is_literal(method, path) => format!(
            ", rules: [{{methods: [{}], paths: [{}]}}]",
            Quoted(method),
            Quoted(path)
        ),
        _ => String::new(),
    };
    let port = port.unwrap_or_default();
    let until = until.map(|end| format!(", expires: \"{end}\""));
    let until = until.unwrap_or_default();
    Some(format!("{{{target}{port}{protocol}{request}{until}}}"))
}

/// A path that a pattern would read otherwise, or that was cut for the record, is no rule.
fn is_literal(method: &str, path: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '*' | '?' | '#');
    let token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !method.is_empty()
        && method.chars().all(token)
        && path.starts_with('/')
        && path.len() <= LONGEST_PATH
        && path.chars().all(plain)
}

/// `document` with one more entry at the end of `egress`.
fn insert(document: &str, rule: &str) -> Option<String> {
    if document.trim_start().starts_with('{') {
        return None;
    }
    let lines: Vec<&str> = document.lines().collect();
    let is_key = |line: &&str| line.starts_with("egress:");
    let Some(key) = lines.iter().position(is_key) else {
        let end = if document.is_empty() || document.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        return Some(format!("{document}{end}egress:\n  - {rule}\n"));
    };
    let after = lines.get(key)?.strip_prefix("egress:")?;
    let after = after.split('#').next().unwrap_or_default().trim();
    let mut edited: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    if after == "[]" {
        *edited.get_mut(key)? = format!("egress:\n  - {rule}");
        return Some(edited.join("\n") + "\n");
    }
    if !after.is_empty() {
        return None;
    }
    let belongs = |line: &str| {
        line.is_empty() || line.starts_with([' ', '\t', '#']) || line.starts_with("- ")
    };
    let block = lines.iter().skip(key + 1).take_while(|line| belongs(line));
    let mut dash = None;
    let mut last = key;
    for (place, line) in block.enumerate() {
        let text = line.trim_start();
        if text.starts_with("- ") && dash.is_none() {
            dash = Some(line.len() - text.len());
        }
        if !text.is_empty() && !line.starts_with('#') {
            last = key + 1 + place;
        }
    }
    let indent = " ".repeat(dash.unwrap_or(2));
    edited.insert(last + 1, format!("{indent}- {rule}"));
    Some(edited.join("\n") + "\n")
}

/// A string of YAML: plain where that is safe, else double-quoted as in JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
        let word = self
            .0
            .starts_with(|c: char| c == '/' || c.is_ascii_alphabetic());
        let said = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
        let special = said.iter().any(|word| self.0.eq_ignore_ascii_case(word));
        if word && !special && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

/// In seconds.
const HOUR: i64 = 3600;
/// A longer path is asked for by its host.
const LONGEST_PATH: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(host: &str, path: Option<&str>) -> Row {
        Row {
            verdict: Some("deny".to_owned()),
            reason: Some("host_not_allowed".to_owned()),
            host: Some(host.to_owned()),
            port: Some(443),
            protocol: Some("https".to_owned()),
            method: path.map(|_| "GET".to_owned()),
            path: path.map(str::to_owned),
            ..Row::default()
        }
    }

    #[test]
    fn a_rule_is_added_at_the_end_and_all_else_stays() {
        let document = "version: 1\n# why\negress:\n  - host: a.example   # first\n    ports: [443]\n\nlimits: {connections: 3}\n";
        let row = denied("b.example", Some("/x/1"));
        let proposal = propose("p", document, &row, (Width::Path, None)).unwrap();
        let rule = "{host: b.example, ports: [443], rules: [{methods: [GET], paths: [/x/1]}]}";
        assert_eq!(proposal.rule, rule);
        let want = format!(
            "version: 1\n# why\negress:\n  - host: a.example   # first\n    ports: [443]\n  - {rule}\n\nlimits: {{connections: 3}}\n"
        );
        assert_eq!(proposal.document.as_deref(), Some(want.as_str()));
        let wide = propose("p", document, &row, (Width::Host, None)).unwrap();
        assert_eq!(wide.rule, "{host: b.example, ports: [443]}");
    }

    #[test]
    fn a_rule_for_an_hour_ends_in_an_hour() {
        let row = denied("b.example", None);
        let now: Moment = "2026-11-22T09:00:00Z".parse().unwrap();
        let until = Lasting::Hour.until(now);
        let proposal = propose("p", "version: 1\n", &row, (Width::Host, until)).unwrap();
        let rule = "{host: b.example, ports: [443], expires: \"2026-11-22T10:00:00Z\"}";
        assert_eq!(proposal.rule, rule);
        let document = proposal.document.unwrap();
        let policy = document::compile("p", 0, &document, None).unwrap();
        assert_eq!(policy.until(), until);
        assert_eq!(Lasting::Ever.until(now), None);
    }

    #[test]
    fn empty_lists_no_lists_and_flush_lists_take_a_rule() {
        let row = denied("b.example", None);
        for document in [
            "version: 1\n",
            "version: 1\negress: []\n",
            "version: 1\negress:\n- host: a.example\n",
            "version: 1\negress: # all\n    - {host: a.example}",
        ] {
            let proposal = propose("p", document, &row, (Width::Path, None)).unwrap();
            let with = proposal.document.unwrap_or_else(|| panic!("{document}"));
            let policy = document::compile("p", 0, &with, None).unwrap();
            let answer = policy.explain("GET", "https://b.example/").unwrap();
            assert!(answer.passes(), "{with}");
        }
    }

    #[test]
    fn what_is_not_certain_is_left_to_a_person() {
        let row = denied("b.example", None);
        let inline = "version: 1\negress: [{host: a.example}]\n";
        assert!(
            propose("p", inline, &row, (Width::Host, None))
                .unwrap()
                .document
                .is_none()
        );
        let json = "{\"version\": 1, \"egress\": []}";
        assert!(
            propose("p", json, &row, (Width::Host, None))
                .unwrap()
                .document
                .is_none()
        );
        let broken = "version: 1\negress:\n  - hots: a\n";
        assert!(
            propose("p", broken, &row, (Width::Host, None))
                .unwrap()
                .document
                .is_none()
        );
    }

    #[test]
    fn the_document_with_the_rule_lets_the_request_pass_on_any_port() {
        for (port, protocol) in [(443, "http"), (80, "https"), (8443, "https"), (22, "tcp")] {
            let row = Row {
                port: Some(port),
                protocol: Some(protocol.to_owned()),
                ..denied("b.example", None)
            };
            let proposal = propose("p", "version: 1\n", &row, (Width::Host, None)).unwrap();
            let with = proposal.document.unwrap();
            let policy = document::compile("p", 0, &with, None).unwrap();
            assert!(policy.covers(&asked(&row).unwrap(), None).is_ok(), "{with}");
        }
        // Bytes that another rule passes unopened there are not looked into for this one.
        let opaque = "version: 1\negress:\n  - {host: b.example, protocol: tcp, ports: [443]}\n";
        let row = denied("b.example", Some("/x"));
        let proposal = propose("p", opaque, &row, (Width::Path, None)).unwrap();
        assert!(proposal.document.is_none());
    }

    #[test]
    fn hostile_text_becomes_no_rule_and_patterns_no_wider_one() {
        assert!(
            propose(
                "p",
                "",
                &denied("a.example, ports: [1]", None),
                (Width::Host, None)
            )
            .is_none()
        );
        assert!(!can_be_allowed(&denied("x\ny", None)));
        let star = denied("b.example", Some("/a/*"));
        assert!(!has_path(&star));
        let rule = propose("p", "version: 1\n", &star, (Width::Path, None))
            .unwrap()
            .rule;
        assert!(!rule.contains('*'), "{rule}");
        let mut misuse = denied("b.example", None);
        misuse.reason = Some("private_address".to_owned());
        assert!(!can_be_allowed(&misuse));
    }
}
