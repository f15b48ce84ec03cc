//! `gig audit export`: records as other programs read them, written out or sent.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
};

use anyhow::{Context, bail};
use clap::ValueEnum as _;
use gig_audit::{
    export::{csv, ocsf, otlp, spans, syslog},
    log::Log,
    search::{Filter, Found, Marks},
};
use serde_json::json;

mod send;

use super::{show, told};
use crate::{
    args::audit::{AuditExportArgs, FormatArg},
    exit_status::ExitStatus,
    output,
};

/// Writes or sends every record that is looked for, oldest first within each chain.
///
/// # Errors
/// When the record cannot be read or the output not be written.
pub(super) fn execute(args: AuditExportArgs) -> anyhow::Result<ExitStatus> {
    if args.json && args.output.is_none() && args.to.is_none() {
        bail!(
            "--json says what was written or sent: name a file with --output, or a place with --to; on standard \
             output stand the records, as --format says"
        );
    }
    let mut log = match args.sending.follow {
        true => super::follow(&args.file)?,
        false => super::open(&args.file)?,
    };
    let filter = super::filter(args.filter);
    if let Some(to) = args.to {
        let (sent, status) = send::execute(log, &args.file, &filter, (to, args.sending))?;
        if args.json {
            output::print(true, &sent, "")?;
        }
        return Ok(status);
    }
    if args.with_checkpoints && (filter != Filter::default() || args.format != FormatArg::Jsonl) {
        bail!(
            "--with-checkpoints goes with every record, as --format jsonl: a part proves nothing"
        );
    }
    let how = match &args.output {
        None => format!("exported as {}", word(args.format)),
        Some(path) => format!("exported as {} to {}", word(args.format), path.display()),
    };
    told::tell_export(&args.file, &how, &filter)?;
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
        records(log.as_mut(), &filter, args.format, &mut out)
    };
    let written = written.and_then(|count| out.flush().context(WRITING).map(|()| count));
    let count = match written {
        // Who reads has what they want, as `head` does.
        Err(error) if args.output.is_none() && is_left(&error) => return Ok(ExitStatus::SUCCESS),
        Err(error) => {
            // It is ours, and a part of an export is none.
            let gone = args.output.as_deref().map(fs::remove_file);
            let left = gone.is_some_and(|gone| gone.is_err());
            let failed = format!("cannot export {}", args.file.display());
            return Err(error.context(match left {
                true => format!("{failed}; what was written is a part of it"),
                false => failed,
            }));
        }
        Ok(count) => count,
    };
    if let Some(path) = args.output.filter(|_| args.json) {
        let document = json!({
            "file": path.display().to_string(), "format": word(args.format), "records": count,
        });
        output::print(true, &document, "")?;
    }
    Ok(ExitStatus::SUCCESS)
}

/// Whether nobody reads any more.
fn is_left(error: &anyhow::Error) -> bool {
    let kinds = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    kinds
        .into_iter()
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// As the option has it.
fn word(format: FormatArg) -> String {
    let value = format.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Answers how many they are, as does [`proof`].
fn records(
    log: &mut dyn Log,
    filter: &Filter,
    format: FormatArg,
    out: &mut impl Write,
) -> anyhow::Result<u64> {
    let mut count = 0;
    if format == FormatArg::Csv {
        out.write_all(csv::header().as_bytes()).context(WRITING)?;
    }
    // What is recorded meanwhile is the next export's.
    let end = log.end()?;
    let mut marks = Marks::default();
    while !marks.reaches(&end) {
        let mut some = log.after(&marks, AT_ONCE)?;
        if some.is_empty() {
            break;
        }
        some.iter().for_each(|found| marks.set(found.at));
        some.retain(|found| found.at.seq <= end.of(found.at.chain) && filter.matches(&found.row));
        count += some.len() as u64;
        batch(&some, format, out).context(WRITING)?;
    }
    Ok(count)
}

fn batch(batch: &[Found], format: FormatArg, out: &mut impl Write) -> io::Result<()> {
    match format {
        FormatArg::Jsonl => lines(batch, out, show::json),
        FormatArg::Ocsf => lines(batch, out, |found| ocsf::event(&found.row)),
        FormatArg::Syslog => lines(batch, out, syslog::message),
        FormatArg::Csv => batch
            .iter()
            .try_for_each(|found| out.write_all(csv::line(&found.row).as_bytes())),
        FormatArg::OtlpJson if batch.is_empty() => Ok(()),
        FormatArg::OtlpJson => writeln!(out, "{}", otlp::request(batch)),
        FormatArg::OtlpTracesJson => spans::request(batch)
            .iter()
            .try_for_each(|request| writeln!(out, "{request}")),
    }
}

fn lines(batch: &[Found], out: &mut impl Write, line: impl Fn(&Found) -> String) -> io::Result<()> {
    batch
        .iter()
        .try_for_each(|found| writeln!(out, "{}", line(found)))
}

/// Chain by chain: its head, its checkpoints, its records.
fn proof(log: &mut dyn Log, out: &mut impl Write) -> anyhow::Result<u64> {
    let mut count = 0;
    let chains = log.proof()?;
    if chains.is_empty() {
        return records(log, &Filter::default(), FormatArg::Jsonl, out);
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
            count += some.len() as u64;
            for found in some {
                marks.set(found.at);
                writeln!(out, "{}", found.line).context(WRITING)?;
            }
        }
    }
    Ok(count)
}

const WRITING: &str = "cannot write the export";
const AT_ONCE: usize = 1000;
const BUFFER: usize = 64 * 1024;
