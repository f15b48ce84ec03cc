//! `gig audit …`: work with audit files.

use std::{
    fs::File,
    io::{self, BufReader, Read},
};

use anyhow::Context;
use gig_audit::{Verified, VerifyError, verify::verify as verify_chain};
use serde_json::json;

use crate::{
    args::AuditVerifyArgs,
    exit_status::ExitStatus,
    output::{self, printable},
};

/// `gig audit verify FILE`: 0 when the chain holds, 1 when it does not.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn verify(args: &AuditVerifyArgs) -> anyhow::Result<ExitStatus> {
    let name = args.file.display().to_string();
    let source: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(&args.file)
            .with_context(|| format!("cannot open the audit file {name}: name a file to read"))?;
        Box::new(file)
    };
    match verify_chain(BufReader::with_capacity(READ_BUFFER, source)) {
        Ok(verified) => {
            let text = whole_text(&name, &verified);
            output::print(args.output.json, &whole_json(&name, &verified), &text)?;
            Ok(ExitStatus::SUCCESS)
        }
        Err(VerifyError::BrokenAt { line, why }) => {
            let document = json!({
                "file": name, "whole": false, "line": line, "why": why.to_string(),
            });
            let why = printable(&why.to_string());
            let text = format!("{name}: broken at line {line}: {why}");
            output::print(args.output.json, &document, &text)?;
            Ok(ExitStatus::NO)
        }
        Err(error @ VerifyError::Read { .. }) => {
            Err(error).with_context(|| format!("cannot verify {name}"))
        }
    }
}

fn whole_json(name: &str, verified: &Verified) -> serde_json::Value {
    let times = verified.times.as_ref();
    json!({
        "file": name,
        "whole": true,
        "records": verified.head.seq,
        "first_time": times.map(|(first, _)| first),
        "last_time": times.map(|(_, last)| last),
        "last_hash": verified.head.hash,
        "gaps": verified.gaps,
        "unended_sandboxes": verified.unended,
    })
}

fn whole_text(name: &str, verified: &Verified) -> String {
    let Some((first, last)) = &verified.times else {
        return format!("{name}: whole, and empty");
    };
    let mut text = format!(
        "{name}: whole: {} records from {} to {}\n  last record {} has hash {}",
        verified.head.seq,
        printable(first),
        printable(last),
        verified.head.seq,
        verified.head.hash
    );
    if verified.gaps > 0 {
        text += &format!(
            "\n  {} audit.gap records tell of records that were refused or cut off by a crash",
            verified.gaps
        );
    }
    for sandbox in &verified.unended {
        text += &format!(
            "\n  sandbox {sandbox} began and has no end: it still runs, was killed together with \
             gig, or the file's end was cut off"
        );
    }
    text
}

/// Reads few and large: a verifier is bound by hashing.
const READ_BUFFER: usize = 256 * 1024;
