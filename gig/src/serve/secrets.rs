//! Secrets of the vault for the appliance's sandboxes: a wallet each, at one border.

use std::{ffi::OsString, sync::Arc};

use anyhow::{Context, bail};
use gig_policy::{Policy, SandboxId, SecretName};
use gig_proxy::{
    UpstreamProxy,
    credential::{Border, Wallet},
    tls::roots::Roots,
};
use gig_vault::{Keeper, RunKeeper, Secret, SystemClock, Vault};
use gig_web::store::ServerSpec;
use tokio::sync::OnceCell;

use crate::{
    args::secret::PassphraseArgs,
    fetch::NetworkFetch,
    secrets::{self as vault, changes::Changes},
};

/// The border, made when the first server starts that has secrets, or beside which there are some.
#[derive(Debug)]
pub(super) struct Secrets {
    roots: Roots,
    proxy: Option<UpstreamProxy>,
    kept: OnceCell<Kept>,
}

#[derive(Debug)]
struct Kept {
    border: Arc<Border>,
    keeper: Arc<RunKeeper>,
    /// The record of what a service gives in a value's place.
    _changes: Changes,
}

/// What one sandbox gets.
pub(super) struct Given {
    pub(super) wallet: Arc<Wallet>,
    pub(super) variables: Vec<(OsString, OsString)>,
    /// Whose values no file should show to the program.
    pub(super) secrets: Vec<Arc<Secret>>,
    /// Those to which a place means nothing.
    placeless: Vec<Arc<Secret>>,
}

impl Given {
    /// Refuses a policy that says places for a secret whose kind has none.
    ///
    /// # Errors
    /// With what helps.
    pub(super) fn refuse_places(&self, policy: &Policy) -> anyhow::Result<()> {
        let mut why = self
            .placeless
            .iter()
            .filter_map(|one| vault::misplaced(one, policy));
        why.next().map_or(Ok(()), |why| bail!(why))
    }
}

impl Secrets {
    pub(super) fn new(roots: Roots, proxy: Option<UpstreamProxy>) -> Self {
        Self {
            roots,
            proxy,
            kept: OnceCell::new(),
        }
    }

    /// Unlocks what is in its owner's custody now, where the options say with what: nobody sits at a
    /// terminal when the first server wants it.
    ///
    /// # Errors
    /// When there is no passphrase there, or it is wrong, or the vault cannot be opened.
    pub(super) fn unlock(&self, from: &PassphraseArgs) -> anyhow::Result<()> {
        if from.named().is_none() {
            return Ok(());
        }
        let (kept, vault) = open(self.roots.clone(), self.proxy.clone())?;
        vault::unlock(&vault, from, &[])?;
        // Nobody has asked for it yet.
        self.kept.set(kept).ok();
        Ok(())
    }

    /// Waits for what is being fetched or minted, so that nothing that a service gave is lost.
    pub(super) fn settle(&self) {
        if let Some(kept) = self.kept.get() {
            vault::settle(&kept.keeper);
        }
    }

    /// Sentinels for a sandbox; `None` where it wants no secret and there is no vault.
    ///
    /// # Errors
    /// When a secret is not to be had, or would be handed in as it is.
    pub(super) async fn give(
        &self,
        sandbox: SandboxId,
        spec: &ServerSpec,
    ) -> anyhow::Result<Option<Given>> {
        let names = &spec.secrets;
        if names.is_empty() {
            let given = self.watching(sandbox).await?;
            if given.is_some() {
                refuse_values(self.border().await?, spec)?;
            }
            return Ok(given);
        }
        let border = self.border().await?;
        refuse_values(border, spec)?;
        let wallet = border.wallet(sandbox);
        let mut secrets = Vec::with_capacity(names.len());
        for name in names {
            let name: SecretName = name.parse()?;
            // What is wrong names the secret.
            let secret = border.keeper().current(&name).await?;
            if secret.entrusted {
                bail!(
                    "secret {name} is marked entrusted: its value would be handed in as it is, which only \
                     gig run does; unmark it, so that the program gets a sentinel"
                );
            }
            let mut texts = spec.command.iter().chain(spec.env.values());
            if texts.any(|text| vault::holds(text.as_bytes(), &secret)) {
                bail!(
                    "the server's command or variables hold the value of secret {name}, which its program must not \
                     have: register it anew without, and have the program read ${name}, which holds a sentinel"
                );
            }
            if secret.hands_out() {
                tracing::warn!(secret = %name, "programs may get credentials with it that work, and hold them");
            }
            wallet
                .hold(&secret)
                .with_context(|| format!("secret {name}"))?;
            secrets.push(secret);
        }
        vault::each_has_its_variables(secrets.iter().map(AsRef::as_ref))?;
        let held = wallet.held();
        let variables = held
            .iter()
            .map(|held| ((&*held.variable).into(), (&*held.sentinel).into()));
        let mut variables: Vec<(OsString, OsString)> = variables.collect();
        if let Some(first) = held.first() {
            variables.push(("GIG_PLACEHOLDER".into(), (&*first.sentinel).into()));
        }
        Ok(Some(Given {
            wallet,
            variables,
            placeless: secrets
                .iter()
                .filter(|one| one.placeless().is_some())
                .cloned()
                .collect(),
            secrets,
        }))
    }

    /// An empty wallet: what the sandbox sends is looked through for values of the vault all the same, once
    /// there were any.
    async fn watching(&self, sandbox: SandboxId) -> anyhow::Result<Option<Given>> {
        let border = self.begun().await;
        let border = border.context("values of the vault cannot be looked for in what it sends")?;
        Ok(border.map(|border| Given {
            wallet: border.wallet(sandbox),
            variables: Vec::new(),
            secrets: Vec::new(),
            placeless: Vec::new(),
        }))
    }

    /// The border, once there is anything in the vault.
    ///
    /// # Errors
    /// When that cannot be told, or what there is cannot be opened.
    pub(super) async fn begun(&self) -> anyhow::Result<Option<&Arc<Border>>> {
        if self.kept.get().is_none() && !tokio::task::spawn_blocking(vault::begun).await?? {
            return Ok(None);
        }
        self.border().await.map(Some)
    }

    /// The border, made when it is first asked for.
    async fn border(&self) -> anyhow::Result<&Arc<Border>> {
        let kept = self.kept.get_or_try_init(|| async {
            let (roots, proxy) = (self.roots.clone(), self.proxy.clone());
            // It reads files, and a record that was opened in vain is closed, which blocks.
            let opened = tokio::task::spawn_blocking(|| open(roots, proxy)).await?;
            opened.map(|(kept, _)| kept)
        });
        Ok(&kept.await?.border)
    }
}

/// No value of the vault enters by what a server was registered with, whether it is given the secret or not.
fn refuse_values(border: &Border, spec: &ServerSpec) -> anyhow::Result<()> {
    let texts = spec.command.iter().chain(spec.env.values());
    match vault::guarded_in(&border.keeper().guarded(), texts) {
        None => Ok(()),
        Some(name) => bail!(
            "the server's command or variables hold the value of secret {name}, which its program must not have: \
             register it anew without, with --secret {name}, and have the program read ${name}, which holds a sentinel"
        ),
    }
}

/// The border with its keeper, and the vault behind it.
fn open(roots: Roots, proxy: Option<UpstreamProxy>) -> anyhow::Result<(Kept, Arc<Vault>)> {
    let fetch = NetworkFetch::new(roots, proxy);
    // A server may give a new refresh token at any time: that it can be recorded is known before.
    let changes = Changes::open(None)?;
    let vault = vault::open_recorded(&changes)?;
    let keeper = RunKeeper::builder(Arc::new(fetch), Arc::new(SystemClock))
        .vault(Arc::clone(&vault))
        .build()?;
    let keeper = Arc::new(keeper);
    let kept = Kept {
        border: Border::new(Arc::clone(&keeper) as Arc<dyn Keeper>),
        keeper,
        _changes: changes,
    };
    Ok((kept, vault))
}
