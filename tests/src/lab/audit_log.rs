//! The record a run left, as the program's own types.
//!
//! Promises: a line that is no record fails the test; entries come in the order they were written.

use std::{fs, path::Path};

use gig_audit::{
    Entry, Event, SqliteLog, VerdictWord, log::Log as _, search::Marks, store::sqlite::is_sqlite,
};
use gig_policy::DenyReason;
use serde_json::Value;

/// One record: what happened, and its place in the chain.
#[derive(Debug, Clone)]
pub struct Record {
    /// What happened.
    pub entry: Entry,
    /// The line as it stands in the file.
    pub line: Value,
}

/// All records of a run.
#[derive(Debug, Clone, Default)]
pub struct AuditLog {
    records: Vec<Record>,
}

impl AuditLog {
    /// Reads a file of JSON lines, or a database; what is missing or no file (`/dev/full`, `-`) holds no records.
    ///
    /// # Panics
    /// When a line is no record.
    #[must_use]
    pub fn read(file: &Path) -> Self {
        let regular = fs::metadata(file).is_ok_and(|facts| facts.is_file());
        let text = if regular && is_sqlite(file) {
            lines_of_database(file)
        } else if regular {
            fs::read_to_string(file).unwrap_or_default()
        } else {
            String::new()
        };
        let records = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let entry = serde_json::from_value(line.clone());
            Record {
                entry: entry.unwrap_or_else(|e| panic!("{e}: {line}")),
                line,
            }
        });
        Self {
            records: records.collect(),
        }
    }

    /// Every record.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The records of one kind.
    pub fn of(&self, event: Event) -> impl Iterator<Item = &Entry> {
        self.records
            .iter()
            .map(|record| &record.entry)
            .filter(move |entry| entry.event == event)
    }

    /// The refusals for one reason.
    pub fn denials(&self, reason: DenyReason) -> impl Iterator<Item = &Entry> {
        let refused = move |entry: &&Entry| {
            entry.verdict == Some(VerdictWord::Deny) && entry.reason == Some(reason)
        };
        self.records
            .iter()
            .map(|record| &record.entry)
            .filter(refused)
    }

    /// Whether anything was refused.
    #[must_use]
    pub fn refused_anything(&self) -> bool {
        self.records
            .iter()
            .any(|record| record.entry.verdict == Some(VerdictWord::Deny))
    }

    /// Whether a request or connection to `host` was let through.
    #[must_use]
    pub fn allowed(&self, event: Event, host: &str) -> bool {
        self.of(event).any(|entry| {
            entry.verdict == Some(VerdictWord::Allow) && entry.host.as_deref() == Some(host)
        })
    }
}

impl std::fmt::Display for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.records
            .iter()
            .try_for_each(|record| writeln!(f, "{}", record.line))
    }
}

fn lines_of_database(file: &Path) -> String {
    let mut log = SqliteLog::open(file).expect("the database");
    let all = log.after(&Marks::default(), usize::MAX).expect("its lines");
    all.into_iter().map(|found| found.line + "\n").collect()
}
