//! `gig audit prune`: removes old records by their class, so that the rest stays provable.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use gig_audit::{
    Home,
    retention::{Class, Retention, counted},
    store::prune::{Prune, PrunedChain},
};
use serde_json::json;

use crate::{
    args::audit::AuditPruneArgs,
    exit_status::ExitStatus,
    output::{self, printable},
    record_place::RecordPlace,
    signing_key,
};

/// 0 when every chain holds, whether anything went or not; 1 when one does not, and kept its records.
///
/// # Errors
/// When the database or the key cannot be used.
pub(super) fn execute(args: &AuditPruneArgs) -> anyhow::Result<ExitStatus> {
    let name = printable(&args.file.display().to_string());
    let record = match RecordPlace::of(&args.file)? {
        RecordPlace::Sqlite(path) => Home::Sqlite(path),
        RecordPlace::Shared => Home::Postgres(super::shared()?),
        RecordPlace::Stream | RecordPlace::Lines(_) => bail!(
            "{name} is no database: records are removed from databases alone; of a file begin a new one"
        ),
    };
    let key = signing_key::ours()?;
    let retention = Retention::at(jiff::Timestamp::now(), &args.keep);
    let what = Prune {
        key: &key,
        trusted: &args.key,
        retention: &retention,
        dry_run: args.dry_run,
    };
    let chains = record.prune(&what);
    let chains = chains.with_context(|| format!("cannot prune {name}"))?;
    let whole = chains.iter().all(|chain| chain.outcome.is_ok());
    let document = json!({
        "file": name,
        "whole": whole,
        "dry_run": args.dry_run,
        "chains": chains.iter().map(as_json).collect::<Vec<_>>(),
    });
    let verb = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    let lines: Vec<_> = chains
        .iter()
        .map(|chain| {
            let node = printable(&chain.node);
            match &chain.outcome {
                Ok(counts) => format!("{name}, chain of {node}: {verb} {}", told(counts)),
                Err(fault) => {
                    let why = printable(&fault.to_string());
                    format!(
                        "{name}, chain of {node}: nothing more removed, it does not hold: {why}"
                    )
                }
            }
        })
        .collect();
    output::print(args.output.json, &document, &lines.join("\n"))?;
    Ok(if whole {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

fn told(counts: &BTreeMap<Class, u64>) -> String {
    let total: u64 = counts.values().sum();
    if counts.is_empty() {
        return "nothing".to_owned();
    }
    format!("{total} records ({})", counted(counts))
}

fn as_json(chain: &PrunedChain) -> serde_json::Value {
    match &chain.outcome {
        Ok(counts) => {
            let counts: BTreeMap<_, _> = counts.iter().map(|(c, n)| (c.as_str(), n)).collect();
            json!({ "node": chain.node, "whole": true, "removed": counts })
        }
        Err(fault) => json!({ "node": chain.node, "whole": false, "why": fault.to_string() }),
    }
}
