//! gig's own vault, of this machine or its fleet: opened with the key that the environment leads to, unlocked with a
//! passphrase where secrets are in custody.
//!
//! Nothing here costs a run without secrets anything: the database is not looked at.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use gig_policy::SecretName;
use gig_vault::{
    Guarded, RunKeeper, SecretBytes, SystemClock, Vault, environment, master_key::MasterKeySource,
    memory, vault::Witness,
};

use self::changes::Changes;
use crate::{args::secret::PassphraseArgs, data_dir, stderr::tell};

pub(crate) mod changes;
pub(crate) mod described;
pub(crate) mod intake;
mod place;
pub(crate) mod shown;
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

/// From where gig has a master key whose digits stand in `text`, if it has one: the present one, or the next.
pub(crate) fn own_key_in(text: &[u8]) -> Option<String> {
    // Without a directory there is no file in it.
    let dir = data_dir::path().unwrap_or_default();
    let present = MasterKeySource::from_env(environment::var_os, &dir).ok();
    let next = MasterKeySource::new_from_env(environment::var_os).ok();
    let mut sources = present.into_iter().chain(next.flatten());
    sources.find_map(|source| source.found_in(text))
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
pub(crate) fn unlock(vault: &Vault, from: &PassphraseArgs, names: &[&str]) -> anyhow::Result<()> {
    if vault.is_unlocked() {
        return Ok(());
    }
    let first = !vault.has_custody()?;
    let whose = match names {
        [] => String::new(),
        names => format!(" of {}", names.join(", ")),
    };
    let passphrase = intake::passphrase(from, &format!("passphrase{whose}: "), first)?;
    vault.unlock(&passphrase).with_context(|| {
        let by = from.named().unwrap_or_else(|| "what was typed".to_owned());
        format!("cannot open what is in custody{whose} with {by}")
    })
}

/// Refuses a passphrase where nothing takes one: it would be ignored.
///
/// # Errors
/// When the options name one.
pub(crate) fn refuse_passphrase(from: &PassphraseArgs, why: &str) -> anyhow::Result<()> {
    match from.named() {
        Some(option) => bail!("{option}: {why}; leave it out"),
        None => Ok(()),
    }
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

/// Why a rule or option that says places for a secret is refused: its kind has none, and what it says would narrow
/// nothing.
pub(crate) fn misplaced(secret: &gig_vault::Secret, policy: &gig_policy::Policy) -> Option<String> {
    let (name, instead) = (&secret.name, secret.placeless()?);
    policy.placed_names().contains(name).then(|| {
        format!(
            "secret {name} is of a kind that has no places, since {instead}: leave out `in` in the policy's rules, and \
             PLACE in --secret {name}:PLACE@HOST; narrow it by the rule's methods and paths"
        )
    })
}

/// Whether `text`, an argument or a variable, holds a value; a very short one is in anything.
pub(crate) fn holds(text: &[u8], secret: &gig_vault::Secret) -> bool {
    secret.parts.iter().any(|part| {
        let value = part.value.expose();
        text == value || stands_in(text, value)
    })
}

/// Whether a value that is long enough to be looked for stands somewhere in `text`.
fn stands_in(text: &[u8], value: &[u8]) -> bool {
    value.len() >= SHORTEST && text.windows(value.len()).any(|window| window == value)
}

/// The secret of which one of these texts holds a value, in use or remembered.
pub(crate) fn guarded_in<'g, 't>(
    guarded: &'g Guarded,
    texts: impl Iterator<Item = &'t String> + Clone,
) -> Option<&'g SecretName> {
    let is_in = |value: &[u8]| {
        let mut texts = texts.clone();
        texts.any(|text| stands_in(text.as_bytes(), value))
    };
    let mut values = guarded.values.iter();
    // What a shell or a file puts around it is not of it.
    let found = values.find(|known| is_in(known.value.expose().trim_ascii()));
    found.map(|known| &known.name)
}

/// What there is to say of a value that is too short to be looked for.
pub(crate) fn short(name: &SecretName, value: &SecretBytes) -> Option<String> {
    let length = value.len();
    (length < SHORTEST).then(|| {
        format!(
            "the value of {name} has {length} octets (of a pair or key, its shortest part), and only values of {SHORTEST} or more are looked \
             for: it is not swapped out of answers, nor stopped on its way elsewhere"
        )
    })
}

/// What there is to say of a value that ordinary text holds: wherever a program writes it, to a host that the secret is
/// not bound to, it is taken for the secret.
pub(crate) fn common(name: &SecretName, value: &SecretBytes) -> Option<String> {
    let octets = value.expose().trim_ascii();
    // Counted where it lies: a copy of a value is not wiped.
    let different = (0..=u8::MAX).filter(|octet| octets.contains(octet)).count();
    let is_word = octets.len() < LONGEST_WORD && octets.iter().all(u8::is_ascii_lowercase);
    let is_common = is_word
        || different < FEW
        || COMMON
            .iter()
            .any(|known| octets.eq_ignore_ascii_case(known));
    (octets.len() >= SHORTEST && is_common).then(|| {
        format!(
            "ordinary text holds the value of {name}: whatever holds it is refused on its way to other hosts, from \
             every sandbox, also after `gig secret rm` (not after `rm --forget`); have its service give another"
        )
    })
}

/// The same of the first part of a value of which there is something, as its secret's kind takes it apart; and whether
/// it is that it is short.
pub(crate) fn doubt(
    vault: &Vault,
    name: &SecretName,
    value: &SecretBytes,
) -> Option<(String, bool)> {
    let view = vault.view().ok()?;
    let (_, definition) = view.secret(name.as_str()).ok()??;
    let parts = definition.kind.kind().stored_parts(value)?;
    let short = parts.iter().find_map(|part| short(name, part));
    let common = || parts.iter().find_map(|part| common(name, part));
    match short {
        Some(words) => Some((words, true)),
        None => common().map(|words| (words, false)),
    }
}

/// That no two of them, under whatever names, would set one variable; the same one may be named twice.
///
/// # Errors
/// When there is one: the later would stand in the earlier's place.
pub(crate) fn each_has_its_variables<'a>(
    given: impl Iterator<Item = &'a gig_vault::Secret>,
) -> anyhow::Result<()> {
    let mut taken: Vec<(&str, &SecretName)> = Vec::new();
    for secret in given {
        for part in &secret.parts {
            let other = taken
                .iter()
                .find(|(variable, owner)| *variable == &*part.variable && **owner != secret.name);
            if let Some((variable, other)) = other {
                bail!(
                    "secrets {other} and {} both set the variable {variable} inside: call one of them otherwise",
                    secret.name
                );
            }
            taken.push((&part.variable, &secret.name));
        }
    }
    Ok(())
}

/// Values that people set, and that stand in most requests.
const COMMON: [&[u8]; 8] = [
    b"application/json",
    b"application/xml",
    b"text/plain",
    b"text/html",
    b"content-type",
    b"user-agent",
    b"password123",
    b"accept-encoding",
];
/// Shorter ones of small letters alone are words.
const LONGEST_WORD: usize = 14;
/// Fewer different octets make no secret.
const FEW: usize = 5;
/// As the border watches for them.
pub(crate) const SHORTEST: usize = gig_proxy::credential::needles::SHORTEST;
/// A service is given up after ten seconds.
const SETTLE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use gig_vault::{Part, Secret, Treatment};

    use super::*;

    fn secret(name: &str, variables: &[&str]) -> Secret {
        let part = |variable: &&str| Part {
            variable: (*variable).into(),
            value: SecretBytes::from("a value"),
            shape: gig_vault::Shape::default(),
        };
        Secret {
            name: name.parse().unwrap(),
            version: 1,
            parts: variables.iter().map(part).collect(),
            treatment: Treatment::Replace,
            entrusted: false,
        }
    }

    #[test]
    fn two_secrets_that_set_one_variable_are_refused() {
        let pair = secret("LG", &["LG", "LG_USER"]);
        let other = secret("LG_USER", &["LG_USER"]);
        let third = secret("TOKEN", &["TOKEN"]);
        assert!(each_has_its_variables([&pair, &third].into_iter()).is_ok());
        assert!(each_has_its_variables([&pair, &third, &pair].into_iter()).is_ok());
        let refused = each_has_its_variables([&pair, &third, &other].into_iter());
        let words = refused.unwrap_err().to_string();
        assert!(
            words.contains("secrets LG and LG_USER both set the variable LG_USER"),
            "{words}"
        );
    }
}
