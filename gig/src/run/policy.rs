//! The policy of a run: `--policy`, `--allow`, `--allow-private` and `--observe` made one.

use std::path::Path;

use anyhow::{Context, bail};
use gig_policy::{Policy, PolicyBuilder, Reach};

use crate::args::run::{ProfileArg, RunArgs};

/// Compiles what the options say; without any, a policy that denies everything.
///
/// # Errors
/// When a document or an option is not valid, or options contradict each other.
pub(crate) fn from_args(args: &RunArgs, connected: bool) -> anyhow::Result<Policy> {
    if !connected && (!args.allow.is_empty() || args.policy.is_some() || args.observe) {
        bail!(
            "the sandbox is disconnected, so --policy, --allow and --observe would have no effect; \
             leave them out or connect it"
        );
    }
    if args.allow.is_empty() && !args.allow_private.is_empty() {
        bail!(
            "--allow-private speaks of the --allow rules and there is none; in a policy document, \
             write allow_private under the host it is for"
        );
    }
    let mut builder = rules(args.policy.as_deref(), &args.allow)?;
    for option in &args.allow_private {
        builder = builder
            .allow_private(option)
            .with_context(|| format!("--allow-private {option}"))?;
    }
    let bound = args.secret.iter().chain(&args.capture);
    for binding in bound.flat_map(|secret| &secret.bindings) {
        builder = builder.bind(binding.clone());
    }
    if args.observe {
        builder = builder.observe();
    }
    builder = builder.reach(match args.profile {
        ProfileArg::Local => Reach::Local,
        ProfileArg::External | ProfileArg::Disconnected => Reach::External,
    });
    let policy = builder.build()?;
    if policy.hold().is_some() {
        bail!(
            "the policy says `hold`, and a run has nobody to ask: take it out, or register the program with \
             gig serve (gig server add), whose console shows what waits"
        );
    }
    Ok(policy)
}

/// What `--policy` and `--allow` say.
///
/// # Errors
/// When the document cannot be read, or one of them is not valid.
pub(crate) fn rules(document: Option<&Path>, allow: &[String]) -> anyhow::Result<PolicyBuilder> {
    let mut builder = PolicyBuilder::new("command line");
    if let Some(path) = document {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the policy document {origin}"))?;
        builder = builder.document(&text, &origin)?;
    }
    for option in allow {
        builder = builder
            .allow(option)
            .with_context(|| format!("--allow {option}"))?;
    }
    Ok(builder)
}
