//! `gig audit search RECORD`: one page of what is looked for, newest first.

use std::io::{self, Write as _};

use anyhow::Context;
use gig_audit::search::{Page, Query};

use super::show;
use crate::{args::audit::AuditSearchArgs, exit_status::ExitStatus, output};

/// 0 when something was found, 1 when nothing was.
///
/// # Errors
/// When the record cannot be read.
pub(super) fn execute(args: AuditSearchArgs) -> anyhow::Result<ExitStatus> {
    let mut log = super::open(&args.file)?;
    let query = Query {
        filter: super::filter(args.filter),
        before: args.cursor,
        limit: usize::try_from(args.limit)?,
    };
    let page = log
        .search(&query)
        .with_context(|| format!("cannot search {}", args.file.display()))?;
    let text = if args.output.json {
        as_json(&page)?
    } else {
        as_text(&page)
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context(output::UNWRITTEN)?;
    Ok(if page.records.is_empty() {
        ExitStatus::NO
    } else {
        ExitStatus::SUCCESS
    })
}

/// The records are the very objects that were written.
fn as_json(page: &Page) -> anyhow::Result<String> {
    let records: Vec<String> = page.records.iter().map(show::json).collect();
    let next = page.next.as_ref().map(ToString::to_string);
    let next = serde_json::to_string(&next)?;
    let records = records.join(",\n    ");
    let space = if records.is_empty() { "" } else { "\n    " };
    Ok(format!(
        "{{\n  \"records\": [{space}{records}],\n  \"next\": {next}\n}}\n"
    ))
}

fn as_text(page: &Page) -> String {
    let mut text: String = page
        .records
        .iter()
        .map(|found| show::line(&found.row) + "\n")
        .collect();
    match &page.next {
        Some(next) => text += &format!("more: --cursor {next}\n"),
        None if page.records.is_empty() => text += "nothing found\n",
        None => {}
    }
    text
}
