//! Second factors of people, sealed with a key of gig's own that the vault keeps, and what else is computed with such
//! keys: of this machine, or of its fleet.

use gig_vault::{SecretBytes, UseVaultError, Vault};
use gig_web::{SealError, Sealer};
use zeroize::Zeroizing;

use crate::secrets as vault;

/// The vault, opened anew each time: another process may have changed its keys.
#[derive(Debug)]
pub(super) struct VaultSealer;

impl Sealer for VaultSealer {
    fn seal(&self, plain: &[u8], context: &[&str]) -> Result<Vec<u8>, SealError> {
        let vault = vault::open().map_err(failed)?;
        let plain = SecretBytes::copy_of(plain);
        let sealed = vault.seal_own(PURPOSE, &plain, context);
        sealed.map_err(|error| failed(error.into()))
    }

    fn open(&self, sealed: &[u8], context: &[&str]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        // Opening makes no key: there would be another one than it was sealed with.
        if !vault::begun().map_err(failed)? {
            return Err(SealError::Otherwise("the vault is empty".to_owned()));
        }
        let vault = vault::open().map_err(failed)?;
        let opened = opened(&vault, sealed, context);
        opened.map_err(|error| match error {
            UseVaultError::Unknown { .. } | UseVaultError::Tampered { .. } => {
                SealError::Otherwise(error.to_string())
            }
            error => failed(error.into()),
        })
    }

    fn key(&self, purpose: &str) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let vault = vault::open().map_err(failed)?;
        let key = vault.derive_own(purpose);
        let key = key.map_err(|error| failed(error.into()))?;
        Ok(Zeroizing::new(key.expose().to_vec()))
    }
}

fn opened(
    vault: &Vault,
    sealed: &[u8],
    context: &[&str],
) -> Result<Zeroizing<Vec<u8>>, UseVaultError> {
    let plain = vault.open_own(PURPOSE, sealed, context)?;
    Ok(Zeroizing::new(plain.expose().to_vec()))
}

fn failed(error: anyhow::Error) -> SealError {
    SealError::Unusable(format!("{error:#}"))
}

/// What its key is for.
const PURPOSE: &str = "second factors";
