//! What a person may see of the vault: everything but values.

use gig_policy::SecretName;
use serde::Serialize;

use super::{OWNER, UseVaultError, Vault};
use crate::store::VersionRow;

/// One secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// What it is called.
    pub name: String,
    /// As its definition spells it.
    pub kind: &'static str,
    /// Where its value comes from.
    pub provider: &'static str,
    /// URLs that gig itself asks, for the value or for what is minted from it, as the definition names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Its real value may be handed in: shown as a warning everywhere.
    pub entrusted: bool,
    /// Programs may get credentials with it that work: shown as a warning everywhere.
    pub hands_out: bool,
    /// Opening it takes the owner's passphrase.
    pub custody: bool,
    /// When it was first set.
    pub created: jiff::Timestamp,
    /// When it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<jiff::Timestamp>,
    /// Oldest first.
    pub versions: Vec<ListedVersion>,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedVersion {
    /// Counts from 1.
    pub version: u64,
    /// How it stands.
    pub state: VersionState,
    /// When it was set.
    pub created: jiff::Timestamp,
    /// When it stops being used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<jiff::Timestamp>,
    /// The id of the master key it is sealed with.
    pub master_key: String,
}

/// How a version stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionState {
    /// It is used.
    Current,
    /// A newer one took its place; it is known until its grace time is over.
    Grace,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl Vault {
    /// Every secret, by name; removed ones too.
    ///
    /// # Errors
    /// When the store cannot be read, or a row is not as gig wrote it.
    pub fn list(&self) -> Result<Vec<Listed>, UseVaultError> {
        let view = self.view()?;
        let now = self.now();
        let mut listed = Vec::new();
        for row in view
            .snapshot
            .secrets
            .iter()
            .filter(|row| &*row.owner == OWNER)
        {
            let Some((row, definition)) = view.secret(&row.name)? else {
                continue;
            };
            let current = view.current(&row.name, now).map(|row| row.version);
            let state = |row: &VersionRow| match row {
                row if row.revoked.is_some() => VersionState::Revoked,
                row if Some(row.version) == current => VersionState::Current,
                row if row.is_usable(now) => VersionState::Grace,
                _ => VersionState::Expired,
            };
            listed.push(Listed {
                name: row.name.to_string(),
                kind: definition.kind.kind().name(),
                provider: definition.provider.name(),
                services: definition.services(),
                entrusted: definition.entrusted,
                hands_out: definition.kind.kind().hands_out(),
                custody: view
                    .versions(&row.name)
                    .next_back()
                    .is_some_and(|row| row.custody),
                created: moment(row.created),
                removed: row.removed.map(moment),
                versions: view
                    .versions(&row.name)
                    .map(|row| ListedVersion {
                        version: row.version,
                        state: state(row),
                        created: moment(row.created),
                        until: row.revoked.or_else(|| row.ends()).map(moment),
                        master_key: row.key.as_str().to_owned(),
                    })
                    .collect(),
            });
        }
        Ok(listed)
    }

    /// One secret.
    ///
    /// # Errors
    /// As [`Vault::list`], and when there is none of this name.
    pub fn listed(&self, name: &SecretName) -> Result<Listed, UseVaultError> {
        let mut all = self.list()?.into_iter();
        all.find(|secret| secret.name == name.as_str())
            .ok_or_else(|| UseVaultError::Unknown {
                name: name.shared().clone(),
            })
    }
}

fn moment(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::MAX)
}
