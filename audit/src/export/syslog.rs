//! Syslog after RFC 5424: the fields that are searched for as structured data, the record itself as the
//! message. One that is longer than receivers take is sent without it: the fields, the record's hash, and how
//! long all of it would have been.

use std::fmt::Write as _;

use gig_policy::printable::printable;
use serde_json::Value;

use super::{Gravity, gravity};
use crate::{row::Row, search::Found};

/// One message, without framing and without a newline.
#[must_use]
pub fn message(found: &Found) -> String {
    let row = &found.row;
    let severity = match gravity(row) {
        Gravity::Ordinary => INFORMATIONAL,
        Gravity::Notable => NOTICE,
        Gravity::Denied => WARNING,
        Gravity::Alarm => CRITICAL,
    };
    let head = format!(
        "<{}>1 {} {} gig - {} [{SD_ID}",
        LOG_AUDIT * 8 + severity,
        if row.time.parse::<jiff::Timestamp>().is_ok() {
            &row.time
        } else {
            NIL
        },
        word(&row.node, LONGEST_HOSTNAME),
        word(&row.event, LONGEST_MSGID),
    );
    let record = message_text(&found.line);
    let whole = format!("{head}{}] {record}", data(row, usize::MAX));
    if whole.len() <= LONGEST_MESSAGE {
        return whole;
    }
    // A receiver would cut it anywhere: what is left says that it is not all, and of which record.
    let record: Value = serde_json::from_str(&found.line).unwrap_or_default();
    let hash = record.get("hash").and_then(Value::as_str).unwrap_or(NIL);
    let hash = escaped(hash, LONGEST_VALUE);
    let data = data(row, LONGEST_VALUE);
    format!("{head}{data} hash=\"{hash}\" cut=\"{}\"]", whole.len())
}

/// What is searched for, each with so many octets of its value at most.
fn data(row: &Row, longest: usize) -> String {
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let mut out = String::new();
    for (name, value) in [
        ("seq", Some(row.seq.to_string())),
        ("deed", row.deed.clone()),
        ("subject", row.subject.clone()),
        ("verdict", row.verdict.clone()),
        ("reason", row.reason.clone()),
        ("sandbox", row.sandbox.clone()),
        ("server", row.server.clone()),
        ("profile", row.profile.clone()),
        ("conn", number(row.conn)),
        ("request", row.request.clone()),
        ("policy", row.policy.clone()),
        ("rule", row.rule.clone()),
        ("src", row.src.clone()),
        ("host", row.host.clone()),
        ("port", number(row.port.map(Into::into))),
        ("dst_ip", row.dst_ip.clone()),
        ("protocol", row.protocol.clone()),
        ("method", row.method.clone()),
        ("status", number(row.status.map(Into::into))),
    ] {
        if let Some(value) = value {
            // A string takes everything.
            let _infallible = write!(out, " {name}=\"{}\"", escaped(&value, longest));
        }
    }
    out
}

/// One message as it goes over a stream: its length in octets, a space, itself (RFC 6587 §3.4.1, RFC
/// 5425 §4.3).
#[must_use]
pub fn framed(message: &str) -> String {
    format!("{} {message}", message.len())
}

/// So many octets of it at most. §6.3.3: `"`, `\` and `]` are escaped by a backslash; what cannot be seen, before that, by its number.
fn escaped(value: &str, longest: usize) -> String {
    let mut out = String::new();
    for character in printable(value).chars() {
        let escape = matches!(character, '"' | '\\' | ']');
        if out.len() + character.len_utf8() + usize::from(escape) > longest {
            break;
        }
        if escape {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// The record's own line, which is ASCII; one that somebody changed is made so.
fn message_text(line: &str) -> String {
    if line.bytes().all(|octet| (b' '..=b'~').contains(&octet)) {
        line.to_owned()
    } else {
        printable(line)
    }
}

/// A field of the header: printable ASCII without spaces, of a length.
fn word(text: &str, longest: usize) -> String {
    let plain = text
        .chars()
        .map(|c| if c.is_ascii_graphic() { c } else { '_' });
    let word: String = plain.take(longest).collect();
    if word.is_empty() {
        NIL.to_owned()
    } else {
        word
    }
}

/// `log audit` of RFC 5424 §6.2.1.
const LOG_AUDIT: u32 = 13;
const CRITICAL: u32 = 2;
const WARNING: u32 = 4;
const NOTICE: u32 = 5;
const INFORMATIONAL: u32 = 6;
const NIL: &str = "-";
/// What RFC 5425 §4.3.1 asks receivers to take, and rsyslog takes unless it is told otherwise.
const LONGEST_MESSAGE: usize = 8192;
/// Of a message that is cut: all values of one have room beside its header.
const LONGEST_VALUE: usize = 300;
/// RFC 5424 §6.
const LONGEST_HOSTNAME: usize = 255;
const LONGEST_MSGID: usize = 32;
/// gig has no enterprise number of its own: this is the one that RFC 5612 reserves for examples.
const SD_ID: &str = "gig@32473";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Position;

    fn found(row: Row) -> Found {
        Found {
            at: Position { chain: 0, seq: 1 },
            line: "{\"seq\":1}".to_owned(),
            row,
        }
    }

    #[test]
    fn a_message_has_its_header_its_data_and_its_record() {
        let row = Row {
            seq: 1,
            time: "2026-11-21T09:30:00.000001Z".into(),
            node: "a host".into(),
            event: "request".into(),
            verdict: Some("deny".into()),
            deed: Some("policy.save".into()),
            subject: Some("p".into()),
            host: Some("a.example".into()),
            port: Some(443),
            ..Row::default()
        };
        assert_eq!(
            message(&found(row)),
            "<108>1 2026-11-21T09:30:00.000001Z a_host gig - request [gig@32473 seq=\"1\" deed=\"policy.save\" subject=\"p\" verdict=\"deny\" \
             host=\"a.example\" port=\"443\"] {\"seq\":1}"
        );
    }

    #[test]
    fn what_a_sandbox_sent_ends_no_field_and_no_message() {
        let row = Row {
            time: "never\n".into(),
            event: "request".into(),
            host: Some("a\"] evil=\"\\\n<13>1 - \u{202e}".into()),
            ..Row::default()
        };
        let text = message(&found(row));
        assert!(
            text.starts_with("<110>1 - - gig - request [gig@32473 seq=\"0\" "),
            "{text}"
        );
        let host = "host=\"a\\\"\\] evil=\\\"\\\\\\\\u{a}<13>1 - \\\\u{202e}\"] {";
        assert!(text.contains(host), "{text}");
        assert!(!text.contains('\n'));
        assert_eq!(framed("ä"), "2 ä");
    }

    #[test]
    fn what_is_longer_than_receivers_take_is_sent_without_its_record_and_says_so() {
        let line_of = |path: usize| {
            let path = "x".repeat(path);
            format!("{{\"seq\":1,\"path\":\"{path}\",\"hash\":\"ab12\"}}")
        };
        let row = Row {
            event: "request".into(),
            host: Some("a.example".into()),
            ..Row::default()
        };
        let of = |path: usize| {
            message(&Found {
                line: line_of(path),
                ..found(row.clone())
            })
        };
        let empty = of(0).len();
        let longest = of(LONGEST_MESSAGE - empty);
        assert_eq!(longest.len(), LONGEST_MESSAGE);
        assert!(longest.ends_with("\"hash\":\"ab12\"}"));
        let cut = of(LONGEST_MESSAGE - empty + 1);
        assert!(
            cut.ends_with(" host=\"a.example\" hash=\"ab12\" cut=\"8193\"]"),
            "{cut}"
        );
        // Whatever else is long as well.
        let long = Some("]".repeat(LONGEST_MESSAGE));
        let all = Row {
            node: "n".repeat(LONGEST_MESSAGE),
            deed: long.clone(),
            subject: long.clone(),
            verdict: long.clone(),
            reason: long.clone(),
            sandbox: long.clone(),
            server: long.clone(),
            profile: long.clone(),
            request: long.clone(),
            policy: long.clone(),
            rule: long.clone(),
            src: long.clone(),
            host: long.clone(),
            dst_ip: long.clone(),
            protocol: long.clone(),
            method: long,
            ..row
        };
        let cut = message(&Found {
            line: line_of(1),
            ..found(all)
        });
        assert!(cut.len() <= LONGEST_MESSAGE, "{}", cut.len());
        assert!(cut.contains(" hash=\"ab12\" cut=\""), "{cut}");
    }
}
