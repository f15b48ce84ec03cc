//! `gig policy simulate` and `gig policy suggest`: recorded traffic against a draft, and a draft from
//! recorded traffic.

use gig_policy::{Change, Policy, Replay, Suggestion, Width, suggest};
use serde_json::json;

use super::{attempts, now, read};
use crate::{
    args::policy::{PolicySimulateArgs, PolicySuggestArgs, WidthArg},
    exit_status::ExitStatus,
    output::{self, printable},
};

/// `gig policy simulate FILE --audit LOG`: 0 when the draft decides as it was decided, 1 when not.
///
/// # Errors
/// When the document or the log cannot be read.
pub(crate) fn simulate(args: &PolicySimulateArgs) -> anyhow::Result<ExitStatus> {
    let (name, text) = read(&args.file)?;
    let policy = Policy::compile(&text, &name)?.as_of(now());
    let traffic = attempts::read(&args.traffic)?;
    let replay = policy.replay(&traffic.attempts);
    let document = json!({
        "file": name,
        "records": traffic.records,
        "newly_allowed": changes_json(&replay.newly_allowed),
        "newly_denied": changes_json(&replay.newly_denied),
        "only_observed": changes_json(&replay.only_observed),
        "still_allowed": replay.still_allowed,
        "still_denied": replay.still_denied,
        "not_decided_by_rules": replay.not_of_rules,
        "path_not_known": replay.path_unknown,
    });
    output::print(args.output.json, &document, &told(&replay))?;
    let same = replay.newly_allowed.is_empty() && replay.newly_denied.is_empty();
    Ok(if same {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

fn told(replay: &Replay) -> String {
    let mut text = String::new();
    let mut part = |title: &str, changes: &[Change], by: &str, none: &str| {
        text += &format!("{title}: {}\n", changes.len());
        for change in changes.iter().take(MOST_TOLD) {
            let rule = change.rule.as_ref().map(ToString::to_string);
            text += &format!(
                "  {:>6}x {}\n          {by}{}; {}, {} to {}\n",
                change.count,
                printable(&change.asked.to_string()),
                rule.as_deref().unwrap_or(none),
                change.reason,
                printable(&change.first),
                printable(&change.last),
            );
        }
        let more = changes.len().saturating_sub(MOST_TOLD);
        if more > 0 {
            text += &format!("  and {more} more (--json lists all)\n");
        }
    };
    let observing = "observing alone";
    part(
        "newly allowed",
        &replay.newly_allowed,
        "allowed by ",
        observing,
    );
    part("newly denied", &replay.newly_denied, "nearest: ", "no rule");
    if !replay.only_observed.is_empty() {
        let title = "passed by observing alone, and denied under `mode: enforce`";
        part(title, &replay.only_observed, "nearest: ", "no rule");
    }
    if replay.path_unknown > 0 {
        let count = replay.path_unknown;
        text += &format!("not known: {count}, whose path was cut when it was recorded\n");
    }
    text += &format!(
        "the same: {} allowed, {} denied; {} denied for a reason that no rule decides\nlimits take no part, nor does where \
         in a request a secret stood; one that an option of `gig run` bound counts as one that the document must grant",
        replay.still_allowed, replay.still_denied, replay.not_of_rules
    );
    text
}

fn changes_json(changes: &[Change]) -> serde_json::Value {
    let changes = changes.iter().map(|change| {
        json!({
            "asked": change.asked.to_string(),
            "host": change.asked.host().to_string(),
            "port": change.asked.port().map(gig_policy::Port::get),
            "count": change.count,
            "first": &*change.first,
            "last": &*change.last,
            "rule": change.rule.as_ref().map(ToString::to_string),
            "reason": change.reason,
        })
    });
    changes.collect()
}

/// `gig policy suggest --audit LOG`: prints a document; 0 when it covers all that was tried, 1 when
/// something was left out, which is then said on standard error.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn suggest_policy(args: &PolicySuggestArgs) -> anyhow::Result<ExitStatus> {
    let base = match &args.policy {
        Some(file) => {
            let (name, text) = read(file)?;
            Some(Policy::compile(&text, &name)?.as_of(now()))
        }
        None => None,
    };
    let traffic = attempts::read(&args.traffic)?;
    let width = match args.width {
        WidthArg::Path => Width::Path,
        WidthArg::Host => Width::Host,
    };
    let suggestion = suggest(&args.name, &traffic.attempts, base.as_ref(), None, width);
    let Suggestion {
        draft,
        uncovered,
        notes,
        denied,
    } = &suggestion;
    let uncovered: Vec<_> = uncovered.iter().map(ToString::to_string).collect();
    let document = json!({
        "records": traffic.records,
        "document": draft.to_string(),
        "entries": draft.entries.len(),
        "denied": denied,
        "uncovered": uncovered,
        "notes": notes,
    });
    output::print(args.output.json, &document, draft.to_string().trim_end())?;
    if !args.output.json {
        output::remark(left_out(notes, &uncovered))?;
    }
    Ok(if uncovered.is_empty() {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

/// What was left out, and why.
fn left_out(notes: &[String], uncovered: &[String]) -> Vec<String> {
    let mut lines = notes.to_vec();
    let told = uncovered.iter().take(MOST_TOLD);
    lines.extend(told.map(|asked| format!("not covered: {asked}")));
    let more = uncovered.len().saturating_sub(MOST_TOLD);
    if more > 0 {
        lines.push(format!("and {more} more (--json lists all)"));
    }
    lines
}

/// A screen's worth.
const MOST_TOLD: usize = 40;
