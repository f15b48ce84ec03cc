//! Owner custody: a key made of a passphrase, without which database and master key reveal nothing.
//!
//! Argon2id (RFC 9106) with the costs stored beside the salt, so that they can rise later.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};

use super::{OWNER, UseVaultError, Vault, View};
use crate::{
    cipher::{self, CipherError, Fields, KEY, Key},
    envelope::{self, RewrapError},
    secret_bytes::SecretBytes,
    store::{Change, CustodyRow},
};

/// What one guess at a passphrase costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory, in KiB.
    pub memory: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl Default for Argon2Cost {
    /// RFC 9106 §4, the second recommended choice: 64 MiB, three passes, four lanes.
    fn default() -> Self {
        Self {
            memory: 64 * 1024,
            passes: 3,
            lanes: 4,
        }
    }
}

/// The key that a passphrase gave, and with which row.
#[derive(Debug)]
pub(super) struct Unlocked {
    salt: Vec<u8>,
    key: Key,
}

impl Unlocked {
    /// The key, if rows of this moment are sealed with it.
    pub(super) fn key_for(&self, view: &View) -> Option<&Key> {
        row(view)
            .is_some_and(|row| row.salt == self.salt)
            .then_some(&self.key)
    }
}

impl Vault {
    /// Whether some secret needs a passphrase.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn has_custody(&self) -> Result<bool, UseVaultError> {
        Ok(row(&*self.view()?).is_some())
    }

    /// Whether the passphrase was given already.
    #[must_use]
    pub fn is_unlocked(&self) -> bool {
        self.custody.read().is_some()
    }

    /// Takes the passphrase; the first one ever given is the one from then on. Works for a tenth of a
    /// second or more.
    ///
    /// # Errors
    /// When it is wrong, or too short to begin with.
    pub fn unlock(&self, passphrase: &SecretBytes) -> Result<(), UseVaultError> {
        let begun = self.change(|view| {
            if row(view).is_some() {
                return Ok((Vec::new(), None));
            }
            let (row, key) = self.begin(passphrase, view)?;
            let salt = row.salt.clone();
            let unlocked = Arc::new(Unlocked { salt, key });
            Ok((vec![Change::PutCustody(row)], Some(unlocked)))
        })?;
        let unlocked = match begun {
            Some(unlocked) => unlocked,
            None => Arc::new(self.check_passphrase(&*self.view()?, passphrase)?),
        };
        *self.custody.write() = Some(unlocked);
        Ok(())
    }

    /// Puts everything that is in custody under another passphrase, in one commit: cut off anywhere, the
    /// one passphrase opens everything or the other does. Who unlocked before goes on with what is at
    /// hand, and opens nothing more. Returns how many versions there were.
    ///
    /// # Errors
    /// When the old passphrase is wrong, the new one too short, or nothing is in custody.
    pub fn change_passphrase(
        &self,
        old: &SecretBytes,
        new: &SecretBytes,
    ) -> Result<usize, UseVaultError> {
        let (unlocked, versions) = self.change(|view| {
            if row(view).is_none() {
                return Err(UseVaultError::NoCustody);
            }
            let before = self.check_passphrase(view, old)?;
            let (row, key) = self.begin(new, view)?;
            let unlocked = Unlocked {
                salt: row.salt.clone(),
                key,
            };
            let mut changes = vec![Change::PutCustody(row)];
            for row in view.all_versions().filter(|row| row.custody) {
                let master = view.master_of(&row.name, &row.key)?;
                let keys = (&before.key, &unlocked.key);
                let moved = envelope::recustody(master, keys, row);
                let moved = moved.map_err(|error| match error {
                    RewrapError::Cipher(error) => UseVaultError::from(error),
                    RewrapError::Open(source) => UseVaultError::Tampered {
                        name: Arc::clone(&row.name),
                        source,
                    },
                })?;
                changes.push(Change::PutVersion(moved));
            }
            let versions = changes.len() - 1;
            Ok((changes, (Arc::new(unlocked), versions)))
        })?;
        *self.custody.write() = Some(unlocked);
        Ok(versions)
    }

    fn begin(
        &self,
        passphrase: &SecretBytes,
        view: &View,
    ) -> Result<(CustodyRow, Key), UseVaultError> {
        let characters = String::from_utf8_lossy(passphrase.expose()).chars().count();
        if characters < LEAST {
            return Err(UseVaultError::WeakPassphrase { least: LEAST });
        }
        let mut row = CustodyRow {
            owner: Arc::clone(&self.owner),
            salt: cipher::salt()?.to_vec(),
            memory: self.cost.memory,
            passes: self.cost.passes,
            lanes: self.cost.lanes,
            check: cipher::Sealed {
                nonce: [0; 12],
                octets: Vec::new(),
            },
            key: view.keyring.current().id().clone(),
            tag: Vec::new(),
        };
        let key = derive(passphrase, &row)?;
        row.check = key.seal(&SecretBytes::default(), context(&row).as_slice())?;
        Ok((envelope::tagged_custody(view.keyring.current(), row), key))
    }

    fn check_passphrase(
        &self,
        view: &View,
        passphrase: &SecretBytes,
    ) -> Result<Unlocked, UseVaultError> {
        let row = row(view).ok_or(UseVaultError::Busy)?;
        let name: Arc<str> = "(custody)".into();
        let master = view.master_of(&name, &row.key)?;
        // An edited row could make guessing cheap, or memory run out.
        envelope::check_custody(master, row)
            .map_err(|source| UseVaultError::Tampered { name, source })?;
        let key = derive(passphrase, row)?;
        key.open(&row.check, context(row).as_slice())
            .map_err(|_| UseVaultError::WrongPassphrase)?;
        let salt = row.salt.clone();
        Ok(Unlocked { salt, key })
    }
}

fn row(view: &View) -> Option<&CustodyRow> {
    view.snapshot
        .custodies
        .iter()
        .find(|row| &*row.owner == OWNER)
}

fn context(row: &CustodyRow) -> Fields {
    Fields::of("gig custody check")
        .text(&row.owner)
        .octets(&row.salt)
}

fn derive(passphrase: &SecretBytes, row: &CustodyRow) -> Result<Key, CipherError> {
    let params = Params::new(row.memory, row.passes, row.lanes, Some(KEY));
    let params = params.map_err(|_| CipherError)?;
    let mut key = SecretBytes::zeroed(KEY);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.expose(), &row.salt, key.expose_mut())
        .map_err(|_| CipherError)?;
    Key::of(key).ok_or(CipherError)
}

/// Shorter ones are guessed even at this cost.
const LEAST: usize = 12;
