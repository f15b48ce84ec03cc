//! `gig audit prune`: removes old records by their class, so that the rest stays provable.
//!
//! Of an appliance's or a fleet's record that is recorded there before it is done.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use gig_audit::{
    Deed, Home,
    retention::{Class, Retention, counted, days_of_each},
    store::prune::{Prune, PrunedChain},
};
use serde_json::json;

use super::told::is_told;
use crate::{
    args::audit::AuditPruneArgs,
    exit_status::ExitStatus,
    node,
    output::{self, printable},
    record_place::RecordPlace,
    serve::appliance::Appliance,
    signing_key,
};

/// 0 when every chain holds, whether anything went or not; 1 when one does not, and kept its records.
///
/// # Errors
/// When the database or the key cannot be used, there is no such chain, or it cannot be recorded; nothing is
/// removed then.
pub(super) fn execute(args: &AuditPruneArgs) -> anyhow::Result<ExitStatus> {
    let name = printable(&args.file.display().to_string());
    let record = match RecordPlace::of(&args.file)? {
        RecordPlace::Sqlite(path) => Home::Sqlite(path),
        RecordPlace::Shared => Home::Postgres(super::shared()?),
        RecordPlace::Stream | RecordPlace::Lines(_) => bail!(
            "{name} is no database: records are removed from databases alone; of a file begin a new one"
        ),
    };
    let told = is_told(&record)?;
    let key = signing_key::ours()?;
    let retention = Retention::at(jiff::Timestamp::now(), &args.keep);
    let only = match &args.node {
        // Whose key is believed here says nothing of whose records were meant.
        None if record.is_shared() => Some(node::name()?),
        said => said.clone(),
    };
    if let Some(node) = &only {
        refuse_unknown(&record, node)?;
    }
    let what = Prune {
        key: &key,
        trusted: &args.key,
        only: only.as_deref(),
        retention: &retention,
        dry_run: args.dry_run,
    };
    let tells = told && !args.dry_run;
    if tells {
        let announced = announced(only.as_deref(), args);
        Appliance::record_beside(Deed::RecordPrune, &[announced])
            .context("refusing to remove records when that is not recorded")?;
    }
    let chains = record.prune(&what);
    let chains = chains.with_context(|| format!("cannot prune {name}"))?;
    if tells {
        let outcome: Vec<_> = chains.iter().map(became).collect();
        Appliance::record_beside(Deed::RecordPrune, &outcome)
            .context("old records are removed, but how many could not be recorded")?;
    }
    print(args, &name, &chains)
}

/// # Errors
/// When the record has no chain of that machine.
fn refuse_unknown(record: &Home, node: &str) -> anyhow::Result<()> {
    let chains = record.log()?.proof()?;
    if chains.iter().any(|chain| &*chain.exported.node == node) {
        return Ok(());
    }
    bail!(
        "{record} has no chain of {}: --node names another, gig audit verify says which there are",
        printable(node)
    )
}

/// What became of each chain.
fn print(args: &AuditPruneArgs, name: &str, chains: &[PrunedChain]) -> anyhow::Result<ExitStatus> {
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

/// What is about to be done, for the record.
fn announced(only: Option<&str>, args: &AuditPruneArgs) -> String {
    let whose = only.map_or_else(String::new, |node| format!(" of {node}"));
    let each = days_of_each(&args.keep).into_iter();
    let each = each.map(|(class, days)| match days {
        Some(days) => format!("{class} {days} days"),
        None => format!("{class} for ever"),
    });
    let kept = each.collect::<Vec<_>>().join(", ");
    format!("old records{whose} are being removed by hand, kept are: {kept}")
}

/// What was done, for the record.
fn became(chain: &PrunedChain) -> String {
    let node = &chain.node;
    match &chain.outcome {
        Ok(counts) => format!("old records of {node} removed by hand: {}", told(counts)),
        Err(fault) => format!("nothing more of {node} removed by hand: {fault}"),
    }
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
