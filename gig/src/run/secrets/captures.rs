//! Logins made inside (`--capture`, and `capture: true` in a policy document): what would let their
//! tokens in all the same is refused before anything is started.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use gig_policy::{Policy, SecretName};

use crate::{args::run::RunArgs, stderr::tell};

/// Checks what is captured.
///
/// # Errors
/// When one name would be two secrets, or a token would pass unseen.
pub(super) fn check(
    args: &RunArgs,
    policy: &Policy,
    captured: &[SecretName],
) -> anyhow::Result<()> {
    for name in captured {
        if let Some(words) = name.taken() {
            bail!("cannot capture a login as {name}: {words}");
        }
        let grants = name
            .of_grants()
            .with_context(|| format!("cannot capture a login as {name}"))?;
        for taken in [name, &grants] {
            if args.secret.iter().any(|secret| secret.name == *taken) {
                bail!(
                    "--secret {taken}: logins made inside become a secret of that name ({name} for \
                     tokens, {grants} for what is exchanged for them); call one of the two otherwise"
                );
            }
        }
    }
    one_name_an_endpoint(args)?;
    for capture in &args.capture {
        for binding in &capture.bindings {
            let (name, host) = (binding.name(), binding.host());
            if policy.passes_unopened(binding) {
                bail!(
                    "--capture {name}: {host} is passed through unopened, so that no token can be \
                     found in what comes from there; let gig open it"
                );
            }
            if !policy.may_reach(binding) && *name == capture.name && !binding.captures() {
                tell(&format!(
                    "gig: --capture {name}: no rule allows {host}: add --allow {host}, or a rule in \
                     the policy document\n"
                ));
            }
        }
    }
    Ok(())
}

/// A token is one secret's.
fn one_name_an_endpoint(args: &RunArgs) -> anyhow::Result<()> {
    let mut known = BTreeMap::new();
    for capture in &args.capture {
        let endpoints = capture.bindings.iter().filter(|b| b.captures());
        for endpoint in endpoints {
            let place = (endpoint.host(), endpoint.path().map(str::to_owned));
            let first = known.entry(place).or_insert(&capture.name);
            if **first != capture.name {
                bail!(
                    "--capture {first} and --capture {} name the same endpoint; a token becomes one \
                     secret: leave one of the two out",
                    capture.name
                );
            }
        }
    }
    Ok(())
}
