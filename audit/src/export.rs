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

use jiff::Timestamp;

use crate::row::Row;

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
    /// Passed, and would be denied if the policy enforced.
    Notable,
    /// Denied.
    Denied,
    /// A secret went astray, something was found, records are missing.
    Alarm,
}

fn gravity(row: &Row) -> Gravity {
    match (row.event.as_str(), row.verdict.as_deref()) {
        ("secret.misuse" | "finding" | "audit.gap", _) => Gravity::Alarm,
        (_, Some("deny")) => Gravity::Denied,
        (_, Some("would_deny")) => Gravity::Notable,
        _ => Gravity::Ordinary,
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
}
