//! `gig audit export`: records as other programs read them.

use std::{
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
};

use anyhow::{Context, bail};
use gig_audit::{
    log::Log,
    search::{Filter, Marks},
};

use super::show;
use crate::{
    args::audit::{AuditExportArgs, FormatArg},
    exit_status::ExitStatus,
};

/// Writes every record that is looked for, oldest first within each chain.
///
/// # Errors
/// When the record cannot be read or the output not be written.
pub(super) fn execute(args: AuditExportArgs) -> anyhow::Result<ExitStatus> {
    let reading = format!("cannot read {}", args.file.display());
    let mut log = super::open(&args.file)?;
    let filter = super::filter(args.filter);
    if args.with_checkpoints && (filter != Filter::default() || args.format != FormatArg::Jsonl) {
        bail!(
            "--with-checkpoints goes with every record, as --format jsonl: a part proves nothing"
        );
    }
    let mut out: Box<dyn Write> = match &args.output {
        None => Box::new(io::stdout().lock()),
        // What it holds is as private as what it was read from.
        Some(path) => Box::new(
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .with_context(|| format!("cannot make {}: name a new file", path.display()))?,
        ),
    };
    let mut out = BufWriter::with_capacity(BUFFER, &mut out);
    let written = if args.with_checkpoints {
        proof(log.as_mut(), &mut out)
    } else {
        records(log.as_mut(), &filter, &mut out)
    };
    written.context(reading)?;
    out.flush().context(WRITING)?;
    Ok(ExitStatus::SUCCESS)
}

fn records(log: &mut dyn Log, filter: &Filter, out: &mut impl Write) -> anyhow::Result<()> {
    let mut marks = Marks::default();
    // What is recorded meanwhile is the next export's.
    let end = log.end()?;
    loop {
        let some = log.after(&marks, AT_ONCE)?;
        if some.is_empty() {
            return Ok(());
        }
        for found in some {
            marks.set(found.at);
            if found.at.seq <= end.of(found.at.chain) && filter.matches(&found.row) {
                writeln!(out, "{}", show::json(&found)).context(WRITING)?;
            }
        }
        if marks.reaches(&end) {
            return Ok(());
        }
    }
}

/// Chain by chain: its head, its checkpoints, its records.
fn proof(log: &mut dyn Log, out: &mut impl Write) -> anyhow::Result<()> {
    let chains = log.proof()?;
    if chains.is_empty() {
        return records(log, &Filter::default(), out);
    }
    for (place, chain) in chains.iter().enumerate() {
        writeln!(out, "{}", chain.exported.line()).context(WRITING)?;
        for line in &chain.checkpoints {
            writeln!(out, "{line}").context(WRITING)?;
        }
        // The others are passed over, behind their ends.
        let mut marks = Marks::default();
        for (other, ended) in chains.iter().enumerate() {
            if other != place {
                marks.set(ended.end());
            }
        }
        loop {
            let some = log.after(&marks, AT_ONCE)?;
            if some.is_empty() {
                break;
            }
            for found in some {
                marks.set(found.at);
                writeln!(out, "{}", found.line).context(WRITING)?;
            }
        }
    }
    Ok(())
}

const WRITING: &str = "cannot write the export";
const AT_ONCE: usize = 1000;
const BUFFER: usize = 64 * 1024;
