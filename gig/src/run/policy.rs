//! The policy of a run: `--policy`, `--allow`, `--allow-private` and `--observe` made one.

use std::{ffi::OsStr, path::Path};

use anyhow::bail;
use gig_policy::{Policy, PolicyBuilder, Reach, own_loopback};
use sha2::{Digest as _, Sha256};

use crate::{
    args::run::{ProfileArg, RunArgs},
    stderr::tell,
};

/// What a run's policy is made of.
pub(crate) struct Rules {
    pub(crate) builder: PolicyBuilder,
    /// Of the document's octets, in hexadecimal; `None` where there is none.
    pub(crate) digest: Option<String>,
}

/// Compiles what the options say; without any, a policy that denies everything. With it goes the document's digest.
///
/// # Errors
/// When a document or an option is not valid, or options contradict each other.
pub(crate) fn from_args(
    args: &RunArgs,
    connected: bool,
) -> anyhow::Result<(Policy, Option<String>)> {
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
    look_at_loopback(args)?;
    if args.policy.as_deref().is_some_and(is_standard_input) {
        bail!(
            "--policy -: standard input is the program's own: name a file, or have the shell make one of it \
             (--policy <(…))"
        );
    }
    let Rules {
        mut builder,
        digest,
    } = rules(args.policy.as_deref(), &args.allow)?;
    for option in &args.allow_private {
        builder = builder.allow_private(option)?;
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
    Ok((policy, digest))
}

/// What is dialled at localhost stays in the sandbox, whatever is allowed: only who asks the proxy for it
/// gets out, and then only where the address is opened.
///
/// # Errors
/// When nothing could come of an option.
fn look_at_loopback(args: &RunArgs) -> anyhow::Result<()> {
    if !args.resolve.is_empty() {
        return Ok(());
    }
    for option in &args.allow {
        let Some((host, port)) = own_loopback(option) else {
            continue;
        };
        let port = port.unwrap_or("PORT");
        let cure = format!(
            "inside, {host} is the sandbox's own loopback, which nothing leaves. To reach port {port} of this \
             machine's, give it another name, and have the program connect to that: --allow \
             host.test:{port} --resolve host.test:{port}:127.0.0.1 --allow-private 127.0.0.1"
        );
        if args.allow_private.is_empty() {
            bail!("--allow {option}: {cure}");
        }
        if !args.quiet {
            tell(&format!(
                "gig: warning: --allow {option} is for programs that ask their proxy for it: {cure}\n"
            ));
        }
    }
    Ok(())
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What `--policy` and `--allow` say.
///
/// # Errors
/// When the document cannot be read, or one of them is not valid.
pub(crate) fn rules(document: Option<&Path>, allow: &[String]) -> anyhow::Result<Rules> {
    // A document without a name has its file's, as where it is checked.
    let named = document.filter(|path| !is_standard_input(path));
    let name = named.and_then(Path::file_stem).and_then(OsStr::to_str);
    let mut builder = PolicyBuilder::new(name.unwrap_or("command line"));
    let mut digest = None;
    if let Some(path) = document {
        let (origin, text) = crate::commands::policy::read(path)?;
        builder = builder.document(&text, &origin)?;
        let octets = Sha256::digest(text.as_bytes());
        digest = Some(octets.iter().map(|octet| format!("{octet:02x}")).collect());
    }
    for option in allow {
        builder = builder.allow(option)?;
    }
    Ok(Rules { builder, digest })
}
