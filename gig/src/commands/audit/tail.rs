//! `gig audit tail RECORD`: the newest records, oldest of them first, and those that come.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use anyhow::Context;
use gig_audit::{
    log::Log,
    search::{Filter, Found, Query},
};

use super::show;
use crate::{args::audit::AuditTailArgs, exit_status::ExitStatus};

/// Ends at once, or with `--follow` when it is interrupted.
///
/// # Errors
/// When the record cannot be read, or standard output is closed.
pub(super) fn execute(args: AuditTailArgs) -> anyhow::Result<ExitStatus> {
    let mut log = super::open(&args.file)?;
    let reading = || format!("cannot read {}", args.file.display());
    let filter = super::filter(args.filter);
    // What is recorded from here on is followed; what stands before is shown now.
    let mut marks = log.end().with_context(reading)?;
    for found in newest(log.as_mut(), &filter, args.lines).with_context(reading)? {
        if found.at.seq <= marks.of(found.at.chain) {
            print(&found, args.json)?;
        }
    }
    if !args.follow {
        return Ok(ExitStatus::SUCCESS);
    }
    loop {
        let some = log.after(&marks, AT_ONCE).with_context(reading)?;
        if some.is_empty() {
            std::thread::sleep(PAUSE);
        }
        for found in some {
            marks.set(found.at);
            if filter.matches(&found.row) {
                print(&found, args.json)?;
            }
        }
    }
}

fn newest(log: &mut dyn Log, filter: &Filter, count: usize) -> anyhow::Result<Vec<Found>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let query = Query {
        filter: filter.clone(),
        before: None,
        limit: count,
    };
    let mut records = log.search(&query)?.records;
    records.reverse();
    Ok(records)
}

fn print(found: &Found, as_json: bool) -> anyhow::Result<()> {
    let line = if as_json {
        show::json(found)
    } else {
        show::line(&found.row)
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// How often a file or database is looked at: a person sees it at once.
const PAUSE: Duration = Duration::from_millis(200);
const AT_ONCE: usize = 1000;
