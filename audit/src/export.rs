//! Records as other programs read them: CSV, OCSF, OpenTelemetry logs, syslog.
//!
//! Pure functions from a record to text. Every text of a record may come from a sandbox: each format
//! escapes as its own rules say, and what could speak to a terminal or a spreadsheet besides. Sending is
//! left to others.

pub mod csv;
pub mod ocsf;
pub mod otlp;
pub mod syslog;

use jiff::Timestamp;

use crate::row::Row;

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
