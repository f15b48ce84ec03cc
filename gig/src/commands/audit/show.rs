//! A record as a line of text for a person, and as JSON that is safe on a terminal.
//!
//! Hosts, paths and findings come from sandboxes: control, bidirectional and invisible characters
//! are escaped, long texts cut.

use std::fmt::Write as _;

use gig_audit::{row::Row, search::Found};

use crate::output::{ascii, printable};

/// One line, without its newline.
pub(super) fn line(row: &Row) -> String {
    let mut out = format!(
        "{} {:<13} {:<10}",
        short(&row.time),
        short(&row.event),
        word(&row.verdict)
    );
    let mut add = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            // A string takes everything.
            let _infallible = write!(out, " {label}{}", short(&value));
        }
    };
    add("", row.reason.clone());
    add("", row.method.clone());
    add("", place_asked_for(row));
    add("", row.path.clone());
    add("deed=", row.deed.clone());
    add("subject=", row.subject.clone());
    add("status=", row.status.map(|status| status.to_string()));
    add("rule=", row.rule.clone());
    add("policy=", row.policy.clone());
    add("server=", row.server.clone());
    add("profile=", row.profile.clone());
    add("secrets=", listed(&row.secrets));
    add("conn=", row.conn.map(|conn| conn.to_string()));
    add("request=", row.request.clone());
    add("sandbox=", row.sandbox.clone());
    add("node=", Some(row.node.clone()));
    add("findings=", listed(&row.findings));
    out
}

/// The line of a record as it was written, which is ASCII; one that somebody changed is made so.
pub(super) fn json(found: &Found) -> String {
    ascii(&found.line)
}

fn place_asked_for(row: &Row) -> Option<String> {
    let host = row.host.as_ref().or(row.dst_ip.as_ref())?;
    Some(match row.port {
        Some(port) => format!("{host}:{port}"),
        None => host.clone(),
    })
}

fn word(value: &Option<String>) -> String {
    short(value.as_deref().unwrap_or("-"))
}

fn listed(values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| values.join(", "))
}

fn short(text: &str) -> String {
    let mut short = printable(&text.chars().take(LONGEST).collect::<String>());
    let cut = text.chars().skip(LONGEST).count();
    if cut > 0 {
        let _infallible = write!(short, "...({cut} more)");
    }
    short
}

/// Most characters of one text: what still reads on a screen. `--json` has it whole.
const LONGEST: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_sent_cannot_speak_to_the_terminal_or_fill_it() {
        let row = Row {
            host: Some("evil\u{202e}\u{1b}[2J\n.example".into()),
            path: Some(format!("/{}", "x".repeat(9000))),
            findings: vec!["a\r\u{85}\u{200b}b".into()],
            ..Row::default()
        };
        let text = line(&row);
        assert!(
            !text.contains(['\u{202e}', '\u{1b}', '\n', '\r', '\u{85}', '\u{200b}']),
            "{text:?}"
        );
        assert!(text.contains("...(8841 more)"), "{text}");
        assert!(text.len() < 1000, "{text}");
    }

    #[test]
    fn json_of_a_changed_line_is_ascii_and_the_same_value() {
        let text =
            "{\"seq\":1,\"time\":\"t\",\"event\":\"e\",\"host\":\"\u{202e}\u{9b}\u{1f600}\"}";
        let found = Found {
            at: gig_audit::search::Position { chain: 0, seq: 1 },
            row: Row::read(text).unwrap(),
            line: text.to_owned(),
        };
        let shown = json(&found);
        assert!(shown.bytes().all(|octet| (b' '..=b'~').contains(&octet)));
        assert_eq!(Row::read(&shown).unwrap(), found.row);
    }
}
