//! The secrets of a run: from gig's own environment, or else from the vault; checked, and given to the
//! border.
//!
//! The program gets sentinels. What would hand it a value all the same (an argument, a variable) is
//! refused before anything is started; a file that shows one is told about.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    sync::Arc,
};

use anyhow::{Context, anyhow, bail};
use gig_audit::Recorder;
use gig_policy::{Policy, SandboxId};
use gig_proxy::credential::{Border, Wallet};
use gig_vault::{
    Clock, Fetch, Keeper, RunKeeper, Secret, SecretBytes, SecretUnavailable, SystemClock,
    Treatment, Vault, environment, memory,
};

use super::settings::{own_proxy, read_roots, trusted_roots};
use crate::{
    args::{run::RunArgs, value::SecretArg},
    fetch::NetworkFetch,
    secrets::{self as vault, changes::Changes, holds, shown},
    stderr::tell,
};

mod captures;
mod idle;

/// What a run knows of secrets.
#[derive(Debug)]
pub(crate) struct Secrets {
    border: Arc<Border>,
    keeper: Arc<RunKeeper>,
    /// In the order of the command line.
    given: Vec<Arc<Secret>>,
    /// The record of what a service gives in a value's place; open for as long as it may.
    changes: Option<Changes>,
}

impl Secrets {
    /// Reads the values; without `--secret`, what values of the vault are found by; `None` where there are none.
    ///
    /// # Errors
    /// When a value is not to be had, or would reach the program by another way.
    pub(crate) fn resolve(
        args: &RunArgs,
        policy: &Policy,
        connected: bool,
    ) -> anyhow::Result<Option<Self>> {
        let captured = policy.captured_names();
        if connected {
            idle::note_ungiven(args, policy);
        }
        if args.secret.is_empty() && captured.is_empty() && args.capture.is_empty() {
            return match connected {
                true => Self::watching(args),
                false => Ok(None),
            };
        }
        if !connected {
            bail!(
                "the sandbox is disconnected, so --secret and --capture would have no effect; leave \
                 them out or connect it"
            );
        }
        captures::check(args, policy, &captured)?;
        for arg in &args.secret {
            if let Some(words) = arg.name.taken() {
                bail!("--secret {}: {words}", arg.name);
            }
            if arg.bindings.is_empty() && !policy.secret_names().contains(&arg.name) {
                bail!(
                    "--secret {name}: nothing says where it may go; write {name}@HOST, or name it \
                     under `secrets` in the policy document",
                    name = arg.name
                );
            }
        }
        let (keeper, changes) = keeper(args)?;
        let given = first_values(&keeper, args)?;
        let (entrusted, guarded): (Vec<_>, Vec<_>) =
            given.iter().cloned().partition(|secret| secret.entrusted);
        check_entrusted(&entrusted, policy)?;
        if let Some(why) = given.iter().find_map(|one| vault::misplaced(one, policy)) {
            bail!(why);
        }
        note_unmarked(&guarded, policy);
        note_handing_out(&guarded);
        note_signing(&guarded);
        vault::each_has_its_variables(given.iter().map(AsRef::as_ref))?;
        refuse_other_ways(args, &guarded)?;
        idle::note(args, policy);
        note_doubtful(&guarded);
        let binds = args.ro.iter().chain(&args.rw);
        let sources = binds.map(|bind| bind.source.as_path());
        for words in shown::told(sources, &guarded) {
            tell(&format!("gig: warning: {words}\n"));
        }
        let keeper = Arc::new(keeper);
        Ok(Some(Self {
            border: Border::new(Arc::clone(&keeper) as Arc<dyn Keeper>),
            keeper,
            given,
            changes,
        }))
    }

    /// No secrets, and a border that knows the vault's values: the program may have one by another way.
    fn watching(args: &RunArgs) -> anyhow::Result<Option<Self>> {
        unneeded(args);
        vault::refuse_unusable_key()?;
        let Some(known) = known()? else {
            return Ok(None);
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let builder = RunKeeper::builder(network(args)?, clock).vault(known);
        let keeper = Arc::new(builder.build()?);
        Ok(Some(Self {
            border: Border::new(Arc::clone(&keeper) as Arc<dyn Keeper>),
            keeper,
            given: Vec::new(),
            changes: None,
        }))
    }

    /// Waits for what is being fetched or minted, so that nothing that a service gave is lost.
    pub(crate) fn settle(&self) {
        vault::settle(&self.keeper);
    }

    /// What is changed by the run is told by its own record, too.
    ///
    /// # Errors
    /// When it cannot be.
    pub(crate) fn follow(&self, run: Recorder, sandbox: SandboxId) -> anyhow::Result<()> {
        match &self.changes {
            Some(changes) => changes.follow(run, sandbox),
            None => Ok(()),
        }
    }

    /// Sentinels for one sandbox.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn wallet(&self, sandbox: SandboxId) -> anyhow::Result<Arc<Wallet>> {
        let wallet = self.border.wallet(sandbox);
        for secret in &self.given {
            wallet
                .hold(secret)
                .with_context(|| format!("cannot make a sentinel for {}", secret.name))?;
        }
        Ok(wallet)
    }

    /// The secrets whose values the program holds.
    pub(crate) fn entrusted(&self) -> impl Iterator<Item = &Secret> {
        let given = self.given.iter().map(AsRef::as_ref);
        given.filter(|secret: &&Secret| secret.entrusted)
    }

    /// The variables that hold the sentinels.
    pub(crate) fn variables(&self, wallet: &Wallet) -> Vec<(OsString, OsString)> {
        let held = wallet.held();
        let variable = |name: &str, sentinel: &str| (name.into(), sentinel.into());
        let mut variables: Vec<_> = held
            .iter()
            .map(|held| variable(&held.variable, &held.sentinel))
            .collect();
        let entrusted = self.given.iter().filter(|secret| secret.entrusted);
        for part in entrusted.flat_map(|secret| &secret.parts) {
            let value = OsString::from_vec(part.value.expose().to_vec());
            variables.retain(|(name, _)| *name != *part.variable);
            variables.push(((*part.variable).into(), value));
        }
        if let Some(first) = held.first() {
            variables.push(variable(PLACEHOLDER, &first.sentinel));
        }
        variables
    }
}

/// The keeper of this run: gig's own variables first, then the vault.
fn keeper(args: &RunArgs) -> anyhow::Result<(RunKeeper, Option<Changes>)> {
    // Before the first value is read: from here on no other process can look into this one.
    memory::seal_process()?;
    vault::refuse_unusable_key()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut builder = RunKeeper::builder(network(args)?, clock);
    let mut elsewhere = Vec::new();
    for SecretArg { name, .. } in &args.secret {
        let value = environment::var_os(name.as_str()).filter(|value| !value.is_empty());
        match value {
            Some(value) => builder = builder.give(name.clone(), SecretBytes::new(value.into_vec())),
            None => elsewhere.push(name),
        }
    }
    if elsewhere.is_empty() || !vault::exists()? {
        unneeded(args);
        // Its values are looked for all the same.
        if let Some(known) = known()? {
            builder = builder.vault(known);
        }
        return Ok((builder.build()?, None));
    }
    let vault = vault::open()?;
    let listed = vault.list()?;
    let wanted = listed.iter().filter(|listed| {
        let mut names = elsewhere.iter();
        names.any(|name| listed.name == name.as_str())
    });
    let wanted: Vec<_> = wanted.collect();
    let rotates = wanted.iter().any(|listed| listed.kind == ROTATING);
    let (vault, changes) = if rotates {
        // A server may give a new refresh token at any time: that it can be recorded is known before.
        let changes = Changes::open(None)?.before_a_run();
        (vault::open_recorded(&changes)?, Some(changes))
    } else {
        (vault, None)
    };
    let in_custody = wanted.iter().filter(|listed| listed.custody);
    let in_custody: Vec<&str> = in_custody.map(|listed| listed.name.as_str()).collect();
    match in_custody.as_slice() {
        [] => unneeded(args),
        names => vault::unlock(&vault, &args.passphrase, names)?,
    }
    Ok((builder.vault(vault).build()?, changes))
}

/// Tells of a passphrase that opens nothing; the program runs without it as well.
fn unneeded(args: &RunArgs) {
    if let Some(option) = args.passphrase.named().filter(|_| !args.quiet) {
        tell(&format!(
            "gig: warning: {option}: none of this run's secrets is in its owner's custody, so that no passphrase is read\n"
        ));
    }
}

/// What values of the vault are known by, where there are any.
fn known() -> anyhow::Result<Option<Arc<Vault>>> {
    vault::known_here().context(
        "values of the vault cannot be looked for in what the program sends, so that it is not started; where its \
         secrets are lost for good, run it with another data directory (GIG_DATA_DIR)",
    )
}

/// The network as providers and kinds of secrets see it.
fn network(args: &RunArgs) -> anyhow::Result<Arc<dyn Fetch>> {
    let roots = trusted_roots(read_roots(&args.upstream_ca)?.as_deref())?;
    Ok(Arc::new(NetworkFetch::new(roots, own_proxy()?)))
}

/// The first value of each secret, which says how its sentinels look.
fn first_values(keeper: &RunKeeper, args: &RunArgs) -> anyhow::Result<Vec<Arc<Secret>>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start gig's own runtime")?;
    let mut values: Vec<Arc<Secret>> = Vec::new();
    for SecretArg { name, .. } in &args.secret {
        if values.iter().any(|secret| secret.name == *name) {
            continue;
        }
        let value = runtime.block_on(keeper.current(name));
        values.push(value.map_err(|error| match error {
            SecretUnavailable::Unknown { name } | SecretUnavailable::Removed { name, .. } => anyhow!(
                "--secret {name}: gig's own environment has no {name}, and neither has the vault; set \
                 it where gig is started (export {name}=…) or put it into the vault (gig secret set \
                 {name}), never on the command line"
            ),
            error => anyhow!(error).context(format!("--secret {name} gives the program nothing")),
        })?);
    }
    Ok(values)
}

/// A secret that is handed in as it is, where the policy says so too; and a warning all the same.
fn check_entrusted(entrusted: &[Arc<Secret>], policy: &Policy) -> anyhow::Result<()> {
    for Secret { name, .. } in entrusted.iter().map(AsRef::as_ref) {
        if !policy.entrusts(name) {
            bail!(
                "secret {name} is marked entrusted, and no rule entrusts it: write \
                 `secrets: [{{name: {name}, entrusted: true}}]` under a host in the policy document, or \
                 unmark it, so that the program gets a sentinel"
            );
        }
        tell(&format!(
            "gig: warning: secret {name} is entrusted: the program is handed its value, which goes to the hosts that entrust \
             it, and disguised wherever the program may send anything\n"
        ));
    }
    Ok(())
}

/// One that a rule entrusts and that is not marked so stays a sentinel: two have to say it.
fn note_unmarked(guarded: &[Arc<Secret>], policy: &Policy) {
    let guarded = guarded.iter().map(AsRef::as_ref);
    for Secret { name, .. } in guarded.filter(|secret| policy.entrusts(&secret.name)) {
        tell(&format!(
            "gig: warning: a rule entrusts secret {name}, and the secret is not marked so: the program gets a sentinel, in \
             whose place nothing is put where gig does not open what is sent; if it is to hold the value, mark it: \
             gig secret set {name} --entrusted\n"
        ));
    }
}

/// What a program is given for a secret can be as good as the secret.
fn note_handing_out(guarded: &[Arc<Secret>]) {
    for Secret { name, .. } in guarded.iter().map(AsRef::as_ref).filter(|s| s.hands_out()) {
        tell(&format!(
            "gig: warning: secret {name} hands out: the program may get credentials with it that work, and \
             can use those wherever it may send anything\n"
        ));
    }
}

/// What a program signs with is not sent, so that no value can be put in its place.
fn note_signing(guarded: &[Arc<Secret>]) {
    let is_apart = |secret: &Arc<Secret>| {
        matches!(secret.treatment, Treatment::Replace)
            && secret.name.as_str() == "AWS_SECRET_ACCESS_KEY"
    };
    if guarded.iter().any(is_apart) {
        tell(
            "gig: warning: AWS_SECRET_ACCESS_KEY is a value of its own: the program signs with its stand-in, and AWS takes \
             no such signature. Keep both keys as one secret, for which gig signs: printf KEYID:SECRET | gig secret set \
             AWS_ACCESS_KEY_ID --definition FILE, with kind: {aws: {}} in the file, and --secret AWS_ACCESS_KEY_ID alone\n",
        );
    }
}

/// What is too short is neither swapped out of answers nor stopped elsewhere, and what ordinary text holds is stopped
/// where it is none: says so.
fn note_doubtful(guarded: &[Arc<Secret>]) {
    for secret in guarded {
        let Some(part) = secret.parts.first() else {
            continue;
        };
        let (name, value) = (&secret.name, &part.value);
        if let Some(words) = vault::short(name, value).or_else(|| vault::common(name, value)) {
            tell(&format!("gig: warning: {words}\n"));
        }
    }
}

/// A value must not reach the program as an argument or a variable.
fn refuse_other_ways(args: &RunArgs, given: &[Arc<Secret>]) -> anyhow::Result<()> {
    for secret in given {
        let name = &secret.name;
        let variables = secret.parts.iter().map(|part| &*part.variable);
        for variable in variables.chain([PLACEHOLDER]) {
            if args.env.iter().any(|env| env.name == variable) {
                bail!(
                    "--env {variable} and --secret {name} both set {variable}; leave --env out: the \
                     program gets a sentinel, and the value is swapped in on its way to the host"
                );
            }
        }
        let mut texts = args.program.iter().map(|text| text.as_bytes());
        if texts.any(|text| holds(text, secret)) {
            bail!(
                "the program's arguments hold the value of secret {name}; the shell put it there: \
                 use single quotes, so that ${name} is expanded inside, where it is a sentinel"
            );
        }
        for env in &args.env {
            let passed = environment::var_os(&env.name);
            let value = match &env.value {
                Some(value) => Some(value.as_bytes()),
                None => passed.as_deref().map(OsStrExt::as_bytes),
            };
            if value.is_some_and(|value| holds(value, secret)) {
                bail!(
                    "--env {}: it holds the value of secret {name}, which the program must not have; \
                     leave it out, or build it inside from ${name}",
                    env.name
                );
            }
        }
    }
    Ok(())
}

/// The kind whose service gives something new in the stored value's place.
const ROTATING: &str = "oauth2_refresh_token";
/// The variable with the first secret's sentinel (interface: inside a sandbox).
const PLACEHOLDER: &str = "GIG_PLACEHOLDER";
