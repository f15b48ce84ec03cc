//! Owner custody: a key made of a passphrase, without which database and master key reveal nothing.
//!
//! Argon2id (RFC 9106) with the costs stored beside the salt, so that they can rise later.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};

use super::{OWNER, UseVaultError, Vault, View};
use crate::{
    cipher::{self, CipherError, Fields, KEY, Key},
    envelope,
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
            Ok((vec![Change::PutCustody(row)], Some(Arc::new(key))))
        })?;
        let key = match begun {
            Some(key) => key,
            None => Arc::new(self.check_passphrase(passphrase)?),
        };
        *self.custody.write() = Some(key);
        Ok(())
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

    fn check_passphrase(&self, passphrase: &SecretBytes) -> Result<Key, UseVaultError> {
        let view = self.view()?;
        let row = row(&view).ok_or(UseVaultError::Busy)?;
        let name: Arc<str> = "(custody)".into();
        let master = view
            .keyring
            .key(&row.key)
            .ok_or_else(|| UseVaultError::OtherKey {
                name: Arc::clone(&name),
                key: row.key.clone(),
            })?;
        // An edited row could make guessing cheap, or memory run out.
        envelope::check_custody(master, row)
            .map_err(|source| UseVaultError::Tampered { name, source })?;
        let key = derive(passphrase, row)?;
        key.open(&row.check, context(row).as_slice())
            .map_err(|_| UseVaultError::WrongPassphrase)?;
        Ok(key)
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
