//! `gig audit verify`: proves that no record is missing or changed.

use std::{
    error::Error as _,
    fs::File,
    io::{self, BufReader, Read},
};

use anyhow::{Context, bail};
use gig_audit::{
    PublicKey, Signed, Verified, VerifyError,
    chain::ChainFault,
    log::{ChainVerdict, LogVerdict, Strays},
    verify::{Expected, verify_lines},
};
use gig_policy::SandboxId;
use serde_json::json;

use crate::{
    args::audit::AuditVerifyArgs,
    exit_status::ExitStatus,
    output::{self, printable},
    record_place::RecordPlace,
    signing_key,
};

/// `gig audit verify FILE`: 0 when the chain holds, 1 when it does not.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn execute(args: &AuditVerifyArgs) -> anyhow::Result<ExitStatus> {
    let name = printable(&args.file.display().to_string());
    if let RecordPlace::Sqlite(_) | RecordPlace::Shared = RecordPlace::of(&args.file)? {
        return verify_database(args, &name);
    }
    let source: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(&args.file)
            .with_context(|| format!("cannot open the audit file {name}: name a file to read"))?;
        Box::new(file)
    };
    let verdict = verify_lines(
        BufReader::with_capacity(READ_BUFFER, source),
        expected(args),
    );
    let [
        ChainVerdict {
            node: None,
            outcome,
        },
    ] = verdict.chains.as_slice()
    else {
        return tell_chains(args, (&name, Places::Lines), &verdict);
    };
    match outcome {
        Ok(verified) => {
            let named = Named::of(args, &verdict, &name);
            let mut text = whole_text(&name, verified, (&args.key, &verified.lost));
            for line in &named.lines {
                text += &format!("\n{line}");
            }
            let mut document = whole_json(&name, verified);
            if let Some(fields) = document.as_object_mut() {
                fields.insert("whole".to_owned(), named.are_there.into());
                fields.insert("last".to_owned(), named.document.into());
            }
            output::print(args.output.json, &document, &text)?;
            Ok(match named.are_there {
                true => ExitStatus::SUCCESS,
                false => ExitStatus::NO,
            })
        }
        Err(VerifyError::BrokenAt { line, why }) => {
            let document = json!({
                "file": name, "whole": false, "line": line, "why": why.to_string(),
            });
            let part = matches!(why, ChainFault::Order { .. }) && *line == 1;
            let unsigned = matches!(why, ChainFault::Unsigned);
            let why = printable(&why.to_string());
            let mut text = format!("{name}: broken at line {line}: {why}");
            if part {
                text += "\n  of a part of a record, or one that is newest first, nothing can be proved: take all of it \
                         with its proof (the console's search, or gig audit export --with-checkpoints)";
            }
            if unsigned {
                text += "\n  a file of --audit is never signed: leave --key out for it; what gig serve keeps is signed, and an \
                         export of it with --with-checkpoints";
            }
            output::print(args.output.json, &document, &text)?;
            Ok(ExitStatus::NO)
        }
        Err(error @ VerifyError::Read { .. }) => {
            let why = error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string);
            bail!("cannot verify {name}: {error}: {why}")
        }
    }
}

fn verify_database(args: &AuditVerifyArgs, name: &str) -> anyhow::Result<ExitStatus> {
    let verdict = super::open(&args.file)?
        .verify(expected(args))
        .with_context(|| format!("cannot verify {name}"))?;
    tell_chains(args, (name, Places::Records), &verdict)
}

const fn expected(args: &AuditVerifyArgs) -> Expected<'_> {
    Expected {
        keys: args.key.as_slice(),
        records: args.last.as_slice(),
    }
}

/// What became of the records that `--last` names; where a chain is broken nothing is said of them.
struct Named {
    are_there: bool,
    document: Vec<serde_json::Value>,
    /// Of each that is not there, and of all where they are.
    lines: Vec<String>,
}

impl Named {
    fn of(args: &AuditVerifyArgs, verdict: &LogVerdict, name: &str) -> Self {
        let missing = verdict.missing(&args.last);
        let is_known = verdict.chains.iter().all(|chain| chain.outcome.is_ok());
        let of = |record| missing.iter().find(|one| one.record == record);
        let document = args.last.iter().filter(|_| is_known).map(|record| {
            json!({
                "record": record.seq, "hash": record.hash, "found": of(*record).is_none(),
                "removed": of(*record).is_some_and(|one| one.is_gone),
            })
        });
        let document: Vec<_> = document.collect();
        let mut lines = Vec::new();
        for one in &missing {
            let (seq, hash) = (one.record.seq, one.record.hash);
            lines.push(match one.is_gone {
                true => format!(
                    "{name}: record {seq}, which --last names, was removed, as a checkpoint lists: whether it had hash \
                     {hash} nobody can say any more; name a later one"
                ),
                false => format!(
                    "{name}: no record {seq} with hash {hash}, which --last names: the end was cut off, or the record \
                     was written anew"
                ),
            });
        }
        if missing.is_empty() && !document.is_empty() {
            let words = "  every record that --last names is there: nothing up to them was cut off";
            lines.push(words.to_owned());
        }
        Self {
            are_there: missing.is_empty(),
            document,
            lines,
        }
    }
}

/// How a place is counted that a chain is broken at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Places {
    /// An export's, from its first line on.
    Lines,
    /// A chain's in a database; 0 where it is none of them, but a checkpoint, or that there is none.
    Records,
}

/// Every chain of a database or an export, and what belongs to none.
fn tell_chains(
    args: &AuditVerifyArgs,
    (name, places): (&str, Places),
    verdict: &LogVerdict,
) -> anyhow::Result<ExitStatus> {
    let mut chains = Vec::new();
    let mut text = String::new();
    let sound = verdict
        .chains
        .iter()
        .filter_map(|c| c.outcome.as_ref().ok());
    let lost: Vec<_> = sound.flat_map(|sound| sound.lost.clone()).collect();
    for chain in &verdict.chains {
        let (document, line) = chain_told(chain, (name, places), (&args.key, &lost))?;
        chains.push(document);
        text += &line;
        text.push('\n');
    }
    let Strays { count, first } = &verdict.strays;
    if *count > 0 {
        text += &format!("{name}: {count} records stand behind the end of their chain or in none:");
        for at in first {
            text += &format!(" record {} of chain {},", at.seq, at.chain);
        }
        let more = count.saturating_sub(first.len() as u64);
        text.truncate(text.len() - 1);
        if more > 0 {
            text += &format!(" and {more} more");
        }
        text.push('\n');
    }
    let missed = verdict.missed(&args.key);
    for key in &missed {
        text += &format!(
            "{name}: no checkpoint is signed by key {key}, which was named: what it signed was taken away, \
             or it never signed anything here\n"
        );
    }
    let named = Named::of(args, verdict, name);
    for line in &named.lines {
        text += line;
        text.push('\n');
    }
    if text.is_empty() {
        text = format!("{name}: whole, and empty");
    }
    let whole = verdict.is_whole() && missed.is_empty() && named.are_there;
    let first: Vec<_> = first
        .iter()
        .map(|at| json!({ "chain": at.chain, "record": at.seq }))
        .collect();
    let document = json!({
        "file": name, "whole": whole, "chains": chains,
        "strays": { "count": count, "first": first }, "missed_keys": missed, "last": named.document,
    });
    output::print(args.output.json, &document, text.trim_end())?;
    Ok(if whole {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

fn chain_told(
    chain: &ChainVerdict,
    (name, places): (&str, Places),
    known: Known<'_>,
) -> anyhow::Result<(serde_json::Value, String)> {
    let node = chain.node.as_deref().unwrap_or_default();
    let of = format!("{name}, chain of {}", printable(node));
    let (mut document, line) = match &chain.outcome {
        Ok(verified) => (whole_json(name, verified), whole_text(&of, verified, known)),
        Err(broken) => {
            let why = broken
                .source()
                .map_or_else(|| broken.to_string(), ToString::to_string);
            let VerifyError::BrokenAt { line, .. } = broken else {
                anyhow::bail!("cannot verify {of}: {why}");
            };
            let shown = printable(&why);
            let mut document = json!({ "whole": false, "why": why });
            let (word, at) = match (places, line) {
                (Places::Lines, line) => ("line", format!(" at line {line}")),
                (Places::Records, 0) => ("record", String::new()),
                (Places::Records, place) => ("record", format!(" at record {place}")),
            };
            if !at.is_empty()
                && let Some(fields) = document.as_object_mut()
            {
                fields.insert(word.to_owned(), (*line).into());
            }
            (document, format!("{of}: broken{at}: {shown}"))
        }
    };
    if let Some(fields) = document.as_object_mut() {
        fields.remove("file");
        fields.insert("node".to_owned(), node.into());
    }
    Ok((document, line))
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
        "gaps_told": verified.gaps_told.iter().map(|(seq, told)| json!({"seq": seq, "finding": told}))
            .collect::<Vec<_>>(),
        "unended_sandboxes": verified.unended,
        "lost_sandboxes": verified.lost,
        "checkpoints": verified.signed.as_ref().map(|signed| json!({
            "count": signed.checkpoints,
            "covered": signed.covered,
            "removed": signed.pruned,
            "inherited": signed.inherited,
            "keys": signed.keys,
        })),
    })
}

/// Keys that were named, and sandboxes that some chain says were lost with their node.
type Known<'a> = (&'a [PublicKey], &'a [SandboxId]);

fn whole_text(name: &str, verified: &Verified, (named, lost): Known<'_>) -> String {
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
        for (seq, told) in &verified.gaps_told {
            text += &format!("\n    record {seq}: {}", printable(told));
        }
    }
    text += &match &verified.signed {
        Some(signed) => signed_text(signed, verified.head.seq, named),
        None => "\n  none of these records is signed: whoever can write to them could have written all of them anew"
            .to_owned(),
    };
    for sandbox in &verified.unended {
        text += &match lost.contains(sandbox) {
            true => format!(
                "\n  sandbox {sandbox} began and has no end: another node recorded that it was lost together with \
                 its node"
            ),
            false => format!(
                "\n  sandbox {sandbox} began and has no end: it still runs, was killed together with \
                 gig, or the file's end was cut off"
            ),
        };
    }
    text
}

fn signed_text(signed: &Signed, last: u64, named: &[PublicKey]) -> String {
    let ours = signing_key::path().and_then(|path| signing_key::there(&path));
    let ours = ours.ok().flatten().map(|key| key.public());
    let keys = signed.keys.iter().map(|key| match ours == Some(*key) {
        true => format!("{key} (this machine's)"),
        false if named.contains(key) => format!("{key} (named by --key)"),
        false => format!("{key} (not this machine's: compare it, or name it with --key)"),
    });
    let keys: Vec<_> = keys.collect();
    let mut text = format!(
        "\n  {} checkpoints vouch for records 1 to {}, signed by {}",
        signed.checkpoints,
        signed.covered,
        keys.join(", ")
    );
    if signed.pruned > 0 {
        text += &format!(
            "\n  {} records were removed since, as the checkpoints list",
            signed.pruned
        );
    }
    if signed.inherited > 0 {
        text += &format!(
            "\n  {} of these were found unsigned by a later run, which signed them as it found them",
            signed.inherited
        );
    }
    let open = last.saturating_sub(signed.covered);
    if open > 0 {
        text += &format!("\n  the last {open} records are not signed yet");
    }
    text
}

/// Reads few and large: a verifier is bound by hashing.
const READ_BUFFER: usize = 256 * 1024;
