//! What sandboxes tried, read from audit records: the input of `gig policy simulate` and `suggest`.
//!
//! The chain is not verified here: `gig audit verify` does that.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use anyhow::{Context, bail};
use gig_audit::{
    Record,
    attempts::{Gathering, Traffic},
    log::{
        Log,
        lines::{Line, Lines},
    },
    search::Marks,
};
use jiff::Timestamp;

use super::super::audit;
use crate::{args::policy::TrafficArgs, record_place::RecordPlace};

/// Reads the records that the options choose.
///
/// # Errors
/// When the file cannot be read, or a line is no record.
pub(super) fn read(args: &TrafficArgs) -> anyhow::Result<Traffic> {
    let since = args.since.map(|span| {
        let now = Timestamp::now();
        let begin = now.checked_sub(span).unwrap_or(Timestamp::MIN);
        format!("{begin:.6}")
    });
    let mut gathering = Gathering::default();
    let mut take = |record: &Record| {
        let chosen = since.as_ref().is_none_or(|since| record.time >= *since)
            && (args.sandbox.is_none() || args.sandbox == record.entry.sandbox);
        if chosen {
            gathering.take(record);
        }
    };
    match RecordPlace::of(&args.audit)? {
        RecordPlace::Stream => lines("-", Box::new(io::stdin()), &mut take)?,
        RecordPlace::Lines(path) => {
            let name = path.display().to_string();
            let file = File::open(&path).with_context(|| {
                format!("cannot open the audit file {name}: name one that `gig run --audit` wrote")
            })?;
            lines(&name, Box::new(file), &mut take)?;
        }
        RecordPlace::Sqlite(_) | RecordPlace::Shared => {
            rows(audit::open(&args.audit)?, &args.audit, &mut take)?;
        }
    }
    Ok(gathering.finish())
}

/// Reads JSON lines, one record each.
fn lines(name: &str, source: Box<dyn Read>, take: &mut dyn FnMut(&Record)) -> anyhow::Result<()> {
    let mut lines = Lines::new(BufReader::with_capacity(READ_BUFFER, source));
    loop {
        let number = lines.number() + 1;
        let line = lines.next_line();
        let line = line.with_context(|| format!("cannot read line {number} of {name}"))?;
        let why = match line {
            None => return Ok(()),
            Some(Line::TooLong) => "it is longer than any record".to_owned(),
            Some(Line::Whole(octets)) => match serde_json::from_slice(octets) {
                Ok(record) => {
                    take(&record);
                    continue;
                }
                Err(error) => error.to_string(),
            },
            // Still being written, or cut off by a crash.
            Some(Line::Unfinished(octets)) => {
                if let Ok(record) = serde_json::from_slice(octets) {
                    take(&record);
                }
                return Ok(());
            }
        };
        bail!(
            "line {number} of {name} is no audit record ({why}): check the file with \
             `gig audit verify {name}`"
        );
    }
}

/// Reads a database, as far as it goes now.
fn rows(mut log: Box<dyn Log>, path: &Path, take: &mut dyn FnMut(&Record)) -> anyhow::Result<()> {
    let reading = || format!("cannot read the audit database {}", path.display());
    let mut marks = Marks::default();
    loop {
        let some = log.after(&marks, AT_ONCE).with_context(reading)?;
        if some.is_empty() {
            return Ok(());
        }
        for found in some {
            marks.set(found.at);
            let record = serde_json::from_str(&found.line).with_context(|| {
                format!(
                    "record {} of {} is none that this gig wrote: check it with `gig audit verify`",
                    found.at.seq,
                    path.display()
                )
            })?;
            take(&record);
        }
    }
}

/// Records of a database at once.
const AT_ONCE: usize = 1_000;

/// Reads few and large.
const READ_BUFFER: usize = 256 * 1024;
