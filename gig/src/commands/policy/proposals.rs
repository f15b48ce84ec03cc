//! `gig policy proposals|approve|reject|two-person`: the two-person rule, asked of the appliance that
//! runs on this machine, as its owner.

use anyhow::bail;
use hyper::Method;
use serde_json::{Value, json};

use crate::{
    args::policy::{OnOff, PolicyDecideArgs, PolicyProposalsArgs, PolicyTwoPersonArgs},
    exit_status::ExitStatus,
    local_api::Asking,
    output::{self, printable},
};

/// `gig policy proposals`.
///
/// # Errors
/// When no appliance runs.
pub(crate) fn list(args: &PolicyProposalsArgs) -> anyhow::Result<ExitStatus> {
    let path = match args.decided {
        true => "/api/v1/proposals?limit=200&state=decided",
        false => "/api/v1/proposals?limit=200",
    };
    let document = Asking::new(Method::GET, path).send()?.json()?;
    let items = document.get("items").and_then(Value::as_array);
    let lines: Vec<String> = items.into_iter().flatten().map(line).collect();
    let said = match (lines.is_empty(), args.decided) {
        (true, false) => "no proposal waits".to_owned(),
        (true, true) => "no proposal was decided".to_owned(),
        (false, _) => lines.join("\n"),
    };
    output::print(args.output.json, &document, &said)?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig policy approve ID`.
///
/// # Errors
/// When it does not wait, or is stale.
pub(crate) fn approve(args: &PolicyDecideArgs) -> anyhow::Result<ExitStatus> {
    decide(args, "approve", "approved and made")
}

/// `gig policy reject ID --why TEXT`.
///
/// # Errors
/// When it does not wait, or nothing says why.
pub(crate) fn reject(args: &PolicyDecideArgs) -> anyhow::Result<ExitStatus> {
    if args.why.as_deref().unwrap_or_default().trim().is_empty() {
        bail!("say why proposal {} is rejected: --why TEXT", args.id);
    }
    decide(args, "reject", "rejected")
}

/// `gig policy two-person [on|off]`.
///
/// # Errors
/// When no appliance runs, or fewer than two users may approve.
pub(crate) fn rule(args: &PolicyTwoPersonArgs) -> anyhow::Result<ExitStatus> {
    let path = "/api/v1/two-person-rule";
    if let Some(wanted) = args.rule {
        let body = json!({ "on": wanted == OnOff::On });
        Asking::new(Method::PUT, path).body(&body).send()?;
    }
    let document = Asking::new(Method::GET, path).send()?.json()?;
    let on = document.get("on").and_then(Value::as_bool);
    let said = match on {
        Some(true) => "on: a change of a policy waits for somebody else than its author",
        _ => "off: who may write policies changes them alone",
    };
    output::print(args.output.json, &document, said)?;
    Ok(ExitStatus::SUCCESS)
}

fn decide(args: &PolicyDecideArgs, act: &str, done: &str) -> anyhow::Result<ExitStatus> {
    let path = format!("/api/v1/proposals/{}/{act}", args.id);
    let body = json!({ "why": args.why.as_deref().unwrap_or_default() });
    let document = Asking::new(Method::POST, &path)
        .body(&body)
        .send()?
        .json()?;
    let said = format!("proposal {} is {done}", args.id);
    output::print(args.output.json, &document, &said)?;
    Ok(ExitStatus::SUCCESS)
}

fn line(one: &Value) -> String {
    let text = |field| {
        let text = one.get(field).and_then(Value::as_str);
        printable(text.unwrap_or_default()).to_string()
    };
    let id = one.get("id").and_then(Value::as_u64).unwrap_or_default();
    let stale = one.get("stale").and_then(Value::as_bool) == Some(true);
    let state = match stale {
        true => "stale".to_owned(),
        false => text("state"),
    };
    let (kind, subject, author) = (text("kind"), text("subject"), text("author"));
    let (created, reason) = (text("created"), text("reason"));
    format!("{id:<5} {state:<9} {kind:<13} {subject:<24} {created}  {author}  {reason}")
}
