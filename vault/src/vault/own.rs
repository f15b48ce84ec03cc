//! What gig itself seals and keeps elsewhere, such as second factors: with keys of its own, which the vault
//! keeps, sealed as values are.
//!
//! So a change of the master key, a fleet and a backup treat those keys as they treat secrets, and what was
//! sealed with them stays as it is. They are nobody's secrets: no list shows them, no policy can name them,
//! and no sandbox can be given one.

use std::sync::Arc;

use super::{UseVaultError, Vault, View};
use crate::{
    cipher::{Fields, Key, OpenError, Sealed},
    envelope::{self, Draft},
    secret_bytes::SecretBytes,
    store::Change,
};

impl Vault {
    /// Seals `plain` with gig's own key for `purpose`, which is made at first use. It opens only together
    /// with the same context.
    ///
    /// # Errors
    /// When the vault cannot be read or written.
    pub fn seal_own(
        &self,
        purpose: &str,
        plain: &SecretBytes,
        context: &[&str],
    ) -> Result<Vec<u8>, UseVaultError> {
        let key = self.own_key(purpose)?;
        let sealed = key.seal(plain, bound(purpose, context).as_slice())?;
        Ok(sealed.to_row())
    }

    /// Opens what [`Vault::seal_own`] sealed.
    ///
    /// # Errors
    /// When the vault cannot be read, has no such key, or it was sealed with another key or context.
    pub fn open_own(
        &self,
        purpose: &str,
        sealed: &[u8],
        context: &[&str],
    ) -> Result<SecretBytes, UseVaultError> {
        let view = self.view()?;
        let broken = |source| UseVaultError::Tampered {
            name: purpose.into(),
            source,
        };
        let key = self.kept_own(&view, purpose)?;
        let key = key.ok_or_else(|| UseVaultError::Unknown {
            name: purpose.into(),
        })?;
        let sealed = Sealed::from_row(sealed).ok_or_else(|| broken(OpenError))?;
        let context = bound(purpose, context);
        key.open(&sealed, context.as_slice()).map_err(broken)
    }

    /// A key for `purpose` to compute with, made at first use: the same wherever this vault is opened.
    ///
    /// # Errors
    /// When the vault cannot be read or written.
    pub fn derive_own(&self, purpose: &str) -> Result<SecretBytes, UseVaultError> {
        let derived = self
            .own_key(purpose)?
            .derive(b"gig's own, to compute with")?;
        Ok(derived.octets().duplicate())
    }

    /// The key for a purpose, made if there is none.
    fn own_key(&self, purpose: &str) -> Result<Key, UseVaultError> {
        self.change(|view| {
            if let Some(key) = self.kept_own(view, purpose)? {
                return Ok((Vec::new(), key));
            }
            let key = Key::random()?;
            let draft = Draft {
                owner: OWN.into(),
                name: purpose.into(),
                version: 1,
                created: self.now().as_second(),
                expires: None,
                supersedes: false,
            };
            let master = view.keyring.current();
            let row = envelope::seal_version(master, None, draft, key.octets())?;
            Ok((vec![Change::PutVersion(row)], key))
        })
    }

    fn kept_own(&self, view: &View, purpose: &str) -> Result<Option<Key>, UseVaultError> {
        let mut rows = view.snapshot.versions.iter();
        let Some(row) = rows.find(|row| &*row.owner == OWN && &*row.name == purpose) else {
            return Ok(None);
        };
        let key = Key::of(self.open_version(view, row)?);
        let key = key.ok_or_else(|| UseVaultError::Tampered {
            name: Arc::clone(&row.name),
            source: OpenError,
        })?;
        Ok(Some(key))
    }
}

fn bound(purpose: &str, context: &[&str]) -> Fields {
    let fields = Fields::of("gig's own").text(purpose);
    context
        .iter()
        .fold(fields, |fields, part| fields.text(part))
}

/// The owner of gig's own keys. Secrets have another: what looks for those finds none of these.
const OWN: &str = "gig";
