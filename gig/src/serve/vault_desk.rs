//! The vault, as the console uses it: each change opened anew, told to the appliance's record first.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::bail;
use gig_policy::{ParseSecretNameError, SecretName};
use gig_vault::{
    Definition, SecretBytes, UseVaultError, Vault,
    provider::ProviderDefinition,
    vault::{Announced, Listed, NewVersion, NotWitnessed, VersionState, Witness},
};
use gig_web::secrets::{
    Announce, Described, SecretChange, SecretDoing, SecretError, SecretFacts, SecretMade,
    SecretVersion, Secrets, in_clear_text,
};

use crate::secrets::{self as vault, described};

/// At which people stand.
#[derive(Debug)]
pub(super) struct VaultDesk;

/// Whether the vault, if there is one, opens here.
///
/// # Errors
/// What is wrong, and what to do.
pub(super) fn opens() -> anyhow::Result<()> {
    if vault::begun()? {
        drop(vault::open()?);
    }
    Ok(())
}

impl Secrets for VaultDesk {
    fn list(&self) -> Result<Vec<SecretFacts>, SecretError> {
        // Looking makes no key: that is for the first secret.
        if !vault::begun().map_err(unavailable)? {
            return Ok(Vec::new());
        }
        let listed = vault::open().map_err(unavailable)?.list();
        let listed = listed.map_err(refused)?;
        Ok(listed.into_iter().map(facts).collect())
    }

    fn change(&self, change: &SecretChange, announce: Announce) -> Result<SecretMade, SecretError> {
        let name: SecretName = change
            .name
            .parse()
            .map_err(|error: ParseSecretNameError| SecretError::Refused(error.to_string()))?;
        let adds = matches!(change.doing, SecretDoing::Add { .. });
        if !adds && !vault::begun().map_err(unavailable)? {
            return Err(SecretError::Missing("the vault is empty".to_owned()));
        }
        let vault = vault::open_witnessed(Arc::new(Told(announce))).map_err(unavailable)?;
        let version = match &change.doing {
            SecretDoing::Add {
                value,
                described,
                expires,
            } => add(&vault, &name, (value, described, *expires)),
            SecretDoing::Rotate {
                value,
                expires,
                grace,
            } => {
                embedded(&vault, &name)?;
                let value = SecretBytes::copy_of(value.as_bytes());
                let new = NewVersion {
                    value: Some(&value),
                    expires: *expires,
                    grace: *grace,
                    custody: false,
                };
                vault.rotate(&name, &new).map_err(refused)
            }
            SecretDoing::Remove { version } => {
                let removed = vault.remove(&name, *version, false);
                removed.map(|_| 0).map_err(refused)
            }
        }?;
        let warnings = match &change.doing {
            SecretDoing::Add { value, .. } | SecretDoing::Rotate { value, .. } => {
                warnings(&vault, &name, value)
            }
            SecretDoing::Remove { .. } => Vec::new(),
        };
        Ok(SecretMade { version, warnings })
    }
}

/// What a person should know of a secret that was given this value.
fn warnings(vault: &Vault, name: &SecretName, value: &str) -> Vec<String> {
    let value = SecretBytes::copy_of(value.as_bytes());
    let doubt = vault::doubt(vault, name, &value).map(|(words, _)| words);
    let listed = vault.listed(name).ok();
    let open = listed.map(|listed| in_clear_text(&listed.services));
    doubt
        .into_iter()
        .chain(open.into_iter().flatten())
        .collect()
}

fn add(
    vault: &Vault,
    name: &SecretName,
    (value, described, expires): (&str, &Described, Option<Duration>),
) -> Result<u64, SecretError> {
    let there = vault.list().map_err(refused)?;
    if there
        .iter()
        .any(|one| one.name == name.as_str() && one.removed.is_none())
    {
        return Err(SecretError::Exists(name.as_str().to_owned()));
    }
    let definition = definition(described, value);
    let definition = definition
        .map_err(|error| SecretError::Refused(format!("cannot keep secret {name}: {error:#}")))?;
    let value = SecretBytes::copy_of(value.as_bytes());
    let new = NewVersion {
        value: Some(&value),
        expires,
        grace: Duration::ZERO,
        custody: false,
    };
    vault.set(name, &definition, &new).map_err(refused)
}

/// As the command line reads it. What is not kept in the vault is fetched from gig's own machine, its files, variables
/// and programs, and those are for who has the machine.
fn definition(described: &Described, value: &str) -> anyhow::Result<Definition> {
    let mut definition = match described {
        Described::Kind(kind) => described::of_kind(kind, "a definition")?,
        Described::Definition(text) => Definition::parse(text)?,
    };
    if !matches!(definition.provider, ProviderDefinition::Embedded) {
        bail!(
            "provider {}: where a value comes from by gig's own machine is said on that machine alone (gig secret set \
             --definition FILE); leave provider out and give the value",
            definition.provider.name()
        );
    }
    described::shape(&mut definition, value.as_bytes())?;
    Ok(definition)
}

/// Whether a value can be put in from here.
fn embedded(vault: &Vault, name: &SecretName) -> Result<(), SecretError> {
    let listed = vault.listed(name).map_err(refused)?;
    if listed.provider != "embedded" {
        return Err(SecretError::Refused(format!(
            "{name} has its value from its provider ({}): change it there",
            listed.provider
        )));
    }
    if listed.custody {
        return Err(SecretError::Refused(format!(
            "{name} is in its owner's custody: gig secret rotate asks for the passphrase"
        )));
    }
    Ok(())
}

fn facts(listed: Listed) -> SecretFacts {
    let versions = listed.versions.into_iter().map(|one| SecretVersion {
        version: one.version,
        state: match one.state {
            VersionState::Current => "current",
            VersionState::Grace => "grace",
            VersionState::Expired => "expired",
            VersionState::Revoked => "revoked",
        },
        created: one.created,
        until: one.until,
    });
    SecretFacts {
        versions: versions.collect(),
        name: listed.name,
        kind: listed.kind,
        provider: listed.provider,
        services: listed.services,
        entrusted: listed.entrusted,
        hands_out: listed.hands_out,
        custody: listed.custody,
        created: listed.created,
        removed: listed.removed,
    }
}

/// Tells the appliance's record, in the words of the command line's.
struct Told(Announce);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}

impl Witness for Told {
    fn announce(&self, change: &Announced) -> Result<(), NotWitnessed> {
        (self.0)(&change.words()).map_err(|why| NotWitnessed {
            name: Arc::clone(&change.name),
            why,
        })
    }
}

fn refused(error: UseVaultError) -> SecretError {
    let words = error.to_string();
    match error {
        UseVaultError::Unknown { .. } | UseVaultError::NoVersion { .. } => {
            SecretError::Missing(words)
        }
        UseVaultError::Large { .. }
        | UseVaultError::Value { .. }
        | UseVaultError::Kind(_)
        | UseVaultError::Shape(_)
        | UseVaultError::Locked { .. } => SecretError::Refused(words),
        UseVaultError::Witness(_) => SecretError::NotRecorded(words),
        other => unavailable(other.into()),
    }
}

fn unavailable(error: anyhow::Error) -> SecretError {
    SecretError::Unavailable(format!("{error:#}"))
}
