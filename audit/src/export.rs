//! Records as other programs read them: CSV, OCSF, OpenTelemetry logs and traces, syslog.
//!
//! Pure functions from a record to text. Every text of a record may come from a sandbox: each format
//! escapes as its own rules say, and what could speak to a terminal or a spreadsheet besides. Sending is
//! left to others.

pub mod csv;
pub mod ocsf;
pub mod otlp;
pub mod spans;
pub mod syslog;

use gig_policy::DenyReason;
use jiff::Timestamp;

use crate::{event::Event, row::Row};

/// All findings in one field: what stands between two of them is escaped within one, so that no reason that
/// somebody gave looks like another finding.
fn joined(findings: &[String]) -> String {
    let escaped = findings
        .iter()
        .map(|one| one.replace('\\', "\\\\").replace(';', "\\;"));
    escaped.collect::<Vec<_>>().join("; ")
}

/// When a record was written; the beginning of 1970 where that is no time.
fn moment(row: &Row) -> Timestamp {
    row.time.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

/// How grave a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gravity {
    /// As it should be.
    Ordinary,
    /// Passed, and would be denied if the policy enforced; or waits for a person.
    Notable,
    /// Denied.
    Denied,
    /// A secret went astray, something was found, records are missing.
    Alarm,
}

fn gravity(row: &Row) -> Gravity {
    let denies = row.verdict.as_deref() == Some("deny");
    match row.verdict.as_deref() {
        _ if crate::is_alarm(&row.event, denies) => Gravity::Alarm,
        Some("deny") => Gravity::Denied,
        Some("would_deny") => Gravity::Notable,
        // Somebody is asked: no alarm, and no everyday thing.
        _ if row.event == Event::Finding.as_str() => Gravity::Notable,
        _ => Gravity::Ordinary,
    }
}

/// Whether what was let pass came to nothing: a name that does not resolve, an origin that does not answer. Under a
/// policy that observes the reason may also be why it would have been denied: that came to what was asked for.
fn has_failed(row: &Row) -> bool {
    let Some(reason) = row.reason.as_deref() else {
        return false;
    };
    let refuses_nothing = || DenyReason::of_word(reason).is_some_and(|known| !known.is_refusal());
    row.event == Event::Response.as_str()
        && match row.verdict.as_deref() {
            Some("allow") => true,
            Some("would_deny") => refuses_nothing(),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_not_taken_for_two() {
        let one = joined(&["reason: fine; decided by ana".to_owned()]);
        assert_eq!(one, "reason: fine\\; decided by ana");
        let two = joined(&["a".to_owned(), "b\\;".to_owned()]);
        assert_eq!(two, "a; b\\\\\\;");
    }

    #[test]
    fn who_waits_for_a_person_is_no_alarm_and_what_was_found_and_stopped_is() {
        let row = |event: &str, verdict: Option<&str>| Row {
            event: event.into(),
            verdict: verdict.map(Into::into),
            ..Row::default()
        };
        for (event, verdict, expected) in [
            ("finding", None, Gravity::Notable),
            ("finding", Some("deny"), Gravity::Alarm),
            ("secret.misuse", Some("would_deny"), Gravity::Alarm),
            ("secret.misuse", None, Gravity::Alarm),
            ("audit.gap", None, Gravity::Alarm),
            ("request", Some("deny"), Gravity::Denied),
            ("request", Some("would_deny"), Gravity::Notable),
            ("request", Some("allow"), Gravity::Ordinary),
        ] {
            assert_eq!(
                gravity(&row(event, verdict)),
                expected,
                "{event} {verdict:?}"
            );
        }
    }
}
