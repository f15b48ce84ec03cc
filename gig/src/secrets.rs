//! gig's own vault, of this machine or its fleet: opened with the key that the environment leads to, unlocked with a
//! passphrase where secrets are in custody.
//!
//! Nothing here costs a run without secrets anything: the database is not looked at.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use gig_policy::SecretName;
use gig_vault::{
    RunKeeper, SecretBytes, SystemClock, Vault, environment, master_key::MasterKeySource, memory,
    vault::Witness,
};

use self::changes::Changes;
use crate::{args::secret::PassphraseArgs, data_dir, stderr::tell};

pub(crate) mod changes;
pub(crate) mod described;
pub(crate) mod intake;
mod place;
pub(crate) mod transfer;

/// Whether there is a vault to look into.
///
/// # Errors
/// When nothing says where it would be, or a fleet's cannot be asked.
pub(crate) fn exists() -> anyhow::Result<bool> {
    place::is_there()
}

/// Refuses a master key that is none, before anything starts that would go on without it: values of the vault would
/// not be looked for in what programs send. Costs no look at the vault.
///
/// # Errors
/// Says which, and what a key is.
pub(crate) fn refuse_unusable_key() -> anyhow::Result<()> {
    let source = MasterKeySource::from_env(environment::var_os, Path::new(""))?;
    source.check().context("cannot use the vault's master key")
}

/// Opens the vault; makes it, and its key, at first use.
///
/// # Errors
/// When the key is missing or unusable, the database cannot be opened, or secrets would not be safe in
/// this process.
pub(crate) fn open() -> anyhow::Result<Arc<Vault>> {
    Ok(Arc::new(open_own()?))
}

/// The same for a command that changes secrets, each change recorded first.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_recorded(changes: &Changes) -> anyhow::Result<Arc<Vault>> {
    Ok(Arc::new(open_own()?.witnessed(changes.witness())))
}

/// The same with another witness than a command's.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_witnessed(witness: Arc<dyn Witness>) -> anyhow::Result<Vault> {
    Ok(open_own()?.witnessed(witness))
}

/// Whether the vault was ever used: it has a key.
///
/// # Errors
/// When the database cannot be read.
pub(crate) fn begun() -> anyhow::Result<bool> {
    place::is_begun()
}

/// This machine's own vault, for what is looked for alone, if it has one. A fleet's is not asked by who wants
/// nothing of it: a start would wait for its database.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn known_here() -> anyhow::Result<Option<Arc<Vault>>> {
    // Without a place for files there are none.
    if data_dir::path().is_err() || place::is_shared()? || !begun()? {
        return Ok(None);
    }
    open().map(Some)
}

fn open_own() -> anyhow::Result<Vault> {
    memory::seal_process()?;
    let dir = data_dir::path()?;
    data_dir::make_private(&dir)?;
    data_dir::refuse_shared(&dir)?;
    let source = MasterKeySource::from_env(environment::var_os, &dir)?;
    let vault = Vault::open(place::open()?, source, Arc::new(SystemClock))
        .context("cannot open the vault")?;
    if let Some(path) = vault.key_file_made() {
        let everywhere = match place::is_shared()? {
            true => {
                "  Every node of the fleet needs it, in its own data directory or by those variables.\n"
            }
            false => "",
        };
        tell(&format!(
            "gig: made a master key: {}\n  Without it every secret in the vault is lost, and with it \
             and the database every one is readable:\n  back it up, apart from the database. \
             GIG_MASTER_KEY or GIG_MASTER_KEY_FILE put it elsewhere.\n{everywhere}",
            path.display()
        ));
    }
    Ok(vault)
}

/// Unlocks what is in its owner's custody, with the passphrase from where the options say or typed at
/// the terminal.
///
/// # Errors
/// When there is no passphrase to be had, or it is wrong.
pub(crate) fn unlock(vault: &Vault, from: &PassphraseArgs) -> anyhow::Result<()> {
    if vault.is_unlocked() {
        return Ok(());
    }
    let first = !vault.has_custody()?;
    let passphrase = intake::passphrase(from, "passphrase: ", first)?;
    vault.unlock(&passphrase)?;
    Ok(())
}

/// Waits for what is being fetched or minted, before gig ends: a service may have taken what is stored
/// out of use, and its answer with the new one be on its way.
pub(crate) fn settle(keeper: &RunKeeper) {
    if !keeper.settle(SETTLE) {
        tell(
            "gig: warning: a service that secrets come from did not answer before the end; if it had \
             replaced a refresh token, that one is lost, and somebody has to log in anew\n",
        );
    }
}

/// Whether `text`, an argument or a variable, holds a value; a very short one is in anything.
pub(crate) fn holds(text: &[u8], secret: &gig_vault::Secret) -> bool {
    secret.parts.iter().any(|part| {
        let value = part.value.expose();
        text == value
            || (value.len() >= SHORTEST && text.windows(value.len()).any(|window| window == value))
    })
}

/// What there is to say of a value that is too short to be looked for.
pub(crate) fn short(name: &SecretName, value: &SecretBytes) -> Option<String> {
    let length = value.len();
    (length < SHORTEST).then(|| {
        format!(
            "the value of {name} has {length} octets, and only values of {SHORTEST} or more are looked \
             for: it is not swapped out of answers, nor stopped on its way elsewhere"
        )
    })
}

/// The same of the first part of a value that is, as its secret's kind takes it apart.
pub(crate) fn short_part(vault: &Vault, name: &SecretName, value: &SecretBytes) -> Option<String> {
    let view = vault.view().ok()?;
    let (_, definition) = view.secret(name.as_str()).ok()??;
    let parts = definition.kind.kind().stored_parts(value)?;
    parts.iter().find_map(|part| short(name, part))
}

/// As the border watches for them.
pub(crate) const SHORTEST: usize = gig_proxy::credential::needles::SHORTEST;
/// A service is given up after ten seconds.
const SETTLE: Duration = Duration::from_secs(15);
