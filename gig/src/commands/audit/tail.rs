//! `gig audit tail RECORD`: the newest records, oldest of them first, and those that come.

use std::{
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use anyhow::Context;
use gig_audit::{
    log::Log,
    search::{Filter, Found, Marks, Query},
};

use super::show;
use crate::{args::audit::AuditTailArgs, exit_status::ExitStatus, output};

/// Ends at once, or with `--follow` when it is interrupted; a record that is put in the place of the one
/// that is followed (a rotated file, a restored database) is followed from its beginning.
///
/// # Errors
/// When the record cannot be read, or standard output is closed.
pub(super) fn execute(args: AuditTailArgs) -> anyhow::Result<ExitStatus> {
    let mut log = match args.follow {
        true => super::follow(&args.file)?,
        false => super::open(&args.file)?,
    };
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
        if !some.is_empty() {
            for found in some {
                marks.set(found.at);
                if filter.matches(&found.row) {
                    print(&found, args.json)?;
                }
            }
        } else if log.replaced(&marks).with_context(reading)? {
            // What was written to the old one until it was replaced comes first.
            let Some(new) = replacement(log.as_mut(), &marks, &args.file) else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let name = args.file.display();
            output::remark([format!(
                "another record is in the place of {name}: following that"
            )])?;
            log = new;
            marks = Marks::default();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}

/// What stands there now; `None` while it cannot be read yet, or the old one has more to show.
fn replacement(old: &mut dyn Log, marks: &Marks, file: &Path) -> Option<Box<dyn Log>> {
    let read = old.after(marks, 1).is_ok_and(|some| some.is_empty());
    read.then(|| super::follow(file).ok()).flatten()
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
        .context(output::UNWRITTEN)
}

/// How often a file or database is looked at: a person sees it at once.
const PAUSE: Duration = Duration::from_millis(200);
const AT_ONCE: usize = 1000;
