//! The secrets of a run: read once from gig's own environment, checked, and given to the border.
//!
//! The program gets sentinels. What would hand it a value all the same (an argument, a variable) is
//! refused before anything is started; a file that shows one is told about.

use std::{
    collections::HashMap,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    sync::Arc,
};

use anyhow::{Context, bail};
use gig_policy::{Policy, SandboxId, SecretName};
use gig_proxy::credential::{Border, Wallet};
use gig_vault::{
    Guarded, GuardedValue, Keeper, Part, Secret, SecretBytes, SecretFuture, SecretUnavailable,
    Shape, Treatment,
};

use crate::args::run::RunArgs;

/// What a run knows of secrets.
#[derive(Debug)]
pub(crate) struct Secrets {
    border: Arc<Border>,
    /// In the order of the command line.
    given: Vec<Arc<Secret>>,
}

impl Secrets {
    /// Reads the values; `None` without `--secret`.
    ///
    /// # Errors
    /// When a value is not to be had, or would reach the program by another way.
    pub(crate) fn resolve(
        args: &RunArgs,
        policy: &Policy,
        connected: bool,
    ) -> anyhow::Result<Option<Self>> {
        if args.secret.is_empty() {
            return Ok(None);
        }
        if !connected {
            bail!(
                "the sandbox is disconnected, so --secret would have no effect; leave it out or \
                 connect it"
            );
        }
        let mut given: Vec<Arc<Secret>> = Vec::new();
        for arg in &args.secret {
            if given.iter().any(|secret| secret.name == arg.name) {
                continue;
            }
            if arg.bindings.is_empty() && !policy.secret_names().contains(&arg.name) {
                bail!(
                    "--secret {name}: nothing says where it may go; write {name}@HOST, or name it \
                     under `secrets` in the policy document",
                    name = arg.name
                );
            }
            given.push(Arc::new(from_environment(&arg.name)?));
        }
        refuse_other_ways(args, &given)?;
        let keeper = Arc::new(EnvironmentKeeper::new(&given));
        Ok(Some(Self {
            border: Border::new(keeper),
            given,
        }))
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

    /// The variables that hold the sentinels.
    pub(crate) fn variables(&self, wallet: &Wallet) -> Vec<(OsString, OsString)> {
        let held = wallet.held();
        let variable = |name: &str, sentinel: &str| (name.into(), sentinel.into());
        let mut variables: Vec<_> = held
            .iter()
            .map(|held| variable(&held.variable, &held.sentinel))
            .collect();
        if let Some(first) = held.first() {
            variables.push(variable(PLACEHOLDER, &first.sentinel));
        }
        variables
    }
}

/// The value of gig's own variable of that name.
fn from_environment(name: &SecretName) -> anyhow::Result<Secret> {
    let value = std::env::var_os(name.as_str()).unwrap_or_default();
    if value.is_empty() {
        bail!(
            "--secret {name}: gig's own environment has no {name}; set it where gig is started \
             (export {name}=…), never on the command line"
        );
    }
    Ok(Secret {
        name: name.clone(),
        version: 1,
        parts: vec![Part {
            variable: Arc::clone(name.shared()),
            value: SecretBytes::new(value.into_vec()),
            shape: Shape::Plain,
        }],
        treatment: Treatment::Replace,
        entrusted: false,
    })
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
            let passed = std::env::var_os(&env.name);
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

/// Whether `text` holds a value; a very short one is in anything.
fn holds(text: &[u8], secret: &Secret) -> bool {
    secret.parts.iter().any(|part| {
        let value = part.value.expose();
        text == value
            || (value.len() >= SHORTEST && text.windows(value.len()).any(|window| window == value))
    })
}

/// Keeps the values that gig was started with.
#[derive(Debug)]
struct EnvironmentKeeper {
    secrets: HashMap<SecretName, Arc<Secret>>,
    guarded: Arc<Guarded>,
}

impl EnvironmentKeeper {
    fn new(given: &[Arc<Secret>]) -> Self {
        let guarded = given.iter().flat_map(|secret| {
            secret.parts.iter().map(|part| GuardedValue {
                name: secret.name.clone(),
                version: secret.version,
                value: Arc::new(part.value.duplicate()),
                current: true,
            })
        });
        Self {
            guarded: Arc::new(Guarded {
                generation: 1,
                values: guarded.collect(),
            }),
            secrets: given
                .iter()
                .map(|secret| (secret.name.clone(), Arc::clone(secret)))
                .collect(),
        }
    }
}

impl Keeper for EnvironmentKeeper {
    fn at_hand(&self, name: &SecretName) -> Option<Arc<Secret>> {
        self.secrets.get(name).cloned()
    }

    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a> {
        let found = self.at_hand(name);
        Box::pin(std::future::ready(found.ok_or_else(|| {
            SecretUnavailable::Unknown { name: name.clone() }
        })))
    }

    fn guarded(&self) -> Arc<Guarded> {
        Arc::clone(&self.guarded)
    }
}

/// The variable with the first secret's sentinel (interface: inside a sandbox).
const PLACEHOLDER: &str = "GIG_PLACEHOLDER";
/// As the border watches for them.
const SHORTEST: usize = gig_proxy::credential::needles::SHORTEST;
