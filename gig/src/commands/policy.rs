//! `gig policy …`: check, compare, explain; the code that enforces decides here too.

use std::{fs, io::Read as _, path::Path};

use anyhow::{Context, bail};
use gig_policy::{Moment, Policy, PolicyBuilder, Reach};
use serde_json::json;

mod attempts;
mod import;
pub(crate) mod kept;
pub(crate) mod proposals;
mod traffic;

pub(crate) use import::import;
pub(crate) use traffic::{simulate, suggest_policy};

use crate::{
    args::{
        policy::{PolicyCheckArgs, PolicyDiffArgs, PolicyTestArgs},
        run::ProfileArg,
    },
    exit_status::ExitStatus,
    output,
};

/// `gig policy check FILE`: 0 when the document is valid, findings or not; 1 when it is refused.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn check(args: &PolicyCheckArgs) -> anyhow::Result<ExitStatus> {
    let (name, text) = read(&args.file)?;
    if args.appliance {
        return kept::check(args, &name, &text);
    }
    let policy = match Policy::compile(&text, &name) {
        Ok(policy) => policy,
        Err(refused) => {
            let document = json!({ "file": name, "valid": false, "problems": refused.problems });
            output::print(args.output.json, &document, &refused.to_string())?;
            return Ok(ExitStatus::NO);
        }
    };
    let mut findings = policy.findings();
    findings.extend(policy.expired(now()));
    let mut text = format!("{name}: valid: policy {}", policy.reference().name);
    for finding in &findings {
        let blank = if finding.line == 0 { " " } else { "" };
        text += &format!("\n{name}:{blank}{finding}");
    }
    let document = json!({
        "file": name,
        "valid": true,
        "policy": policy.reference().name,
        "findings": findings,
    });
    output::print(args.output.json, &document, &text)?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig policy test FILE METHOD URL`: 0 when the request passes, 1 when it is denied.
///
/// # Errors
/// When the document or the URL is not valid.
pub(crate) fn test(args: &PolicyTestArgs) -> anyhow::Result<ExitStatus> {
    let (name, text) = read(&args.file)?;
    let reach = match args.profile {
        ProfileArg::External => Reach::External,
        ProfileArg::Local => Reach::Local,
        ProfileArg::Disconnected => {
            bail!("a disconnected sandbox reaches nothing: no policy is asked")
        }
    };
    let builder = PolicyBuilder::new(&name).document(&text, &name)?;
    let policy = builder.reach(reach).build()?;
    let mut floors = Vec::with_capacity(args.floor.len());
    for file in &args.floor {
        let (name, text) = read(file)?;
        let floor = PolicyBuilder::new(&name).document(&text, &name)?;
        floors.push(floor.reach(reach).build()?);
    }
    let explained = policy
        .under(floors)
        .explain_at(&args.method, &args.url, now());
    let explanation = explained.with_context(|| format!("cannot decide on {:?}", args.url))?;
    let document = serde_json::to_value(&explanation).context("cannot write the explanation")?;
    output::print(args.output.json, &document, &explanation.to_string())?;
    Ok(if explanation.passes() {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

/// `gig policy diff OLD NEW`: 0 when both say the same, 1 when not.
///
/// # Errors
/// When a document cannot be read or is not valid.
pub(crate) fn diff(args: &PolicyDiffArgs) -> anyhow::Result<ExitStatus> {
    if args.old.as_os_str() == "-" && args.new.as_os_str() == "-" {
        bail!("both documents are standard input: name a file for one of them");
    }
    let compile = |file: &Path| -> anyhow::Result<Policy> {
        let (name, text) = read(file)?;
        Ok(Policy::compile(&text, &name)?)
    };
    let difference = compile(&args.old)?.difference(&compile(&args.new)?);
    let document = serde_json::to_value(&difference).context("cannot write the difference")?;
    output::print(args.output.json, &document, &difference.to_string())?;
    Ok(if difference.is_empty() {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

/// What time it is, for rules that end.
pub(super) fn now() -> Moment {
    Moment::from_unix(jiff::Timestamp::now().as_second())
}

/// The document's name and text; `-` is standard input.
pub(crate) fn read(file: &Path) -> anyhow::Result<(String, String)> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read the policy document from standard input")?;
        return Ok(("standard input".to_owned(), text));
    }
    let name = file.display().to_string();
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the policy document {name}"))?;
    Ok((name, text))
}
