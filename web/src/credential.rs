//! Things that prove who presents them: session cookies, service tokens, the set-up link.
//!
//! Each is `PREFIX` + id + `_` + 256 random bits. The store keeps the id and a SHA-256 of the whole:
//! who reads the database cannot present anything, and nothing is compared in a time that tells how
//! much of it was right.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use zeroize::Zeroizing;

/// SHA-256 of a credential, as the store keeps it.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

/// A new credential: shown once, kept as a digest.
#[derive(Debug)]
pub struct Minted {
    /// By which it is found, listed and ended.
    pub id: String,
    /// What its holder presents.
    pub text: Zeroizing<String>,
    /// What is kept.
    pub digest: Digest,
}

/// The system gave no random numbers.
#[derive(Debug, Clone, Copy, Error)]
#[error("the system has no random numbers to make a credential of")]
pub struct NoRandomness;

/// What somebody presented, well formed and not yet checked.
#[derive(Debug)]
pub(crate) struct Presented {
    pub(crate) id: String,
    pub(crate) digest: Digest,
}

impl Digest {
    pub(crate) fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    pub(crate) fn of_octets(octets: &[u8]) -> Self {
        Self(Sha256::digest(octets).into())
    }

    /// Compares in a time that tells nothing.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// As the store has it.
    #[must_use]
    pub const fn octets(&self) -> [u8; 32] {
        self.0
    }

    /// As text, for what is no credential.
    pub(crate) fn words(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }

    /// From the store.
    #[must_use]
    pub const fn from_octets(octets: [u8; 32]) -> Self {
        Self(octets)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

/// A service token: `gig_…`.
///
/// # Errors
/// Without random numbers.
pub fn mint_token() -> Result<Minted, NoRandomness> {
    mint(TOKEN)
}

/// The secret of a set-up link.
///
/// # Errors
/// Without random numbers.
pub fn mint_setup() -> Result<Minted, NoRandomness> {
    mint(SETUP)
}

/// The id of a session of the MCP endpoint, which opens nothing without its opener's token.
pub(crate) fn mint_mcp() -> Result<Minted, NoRandomness> {
    mint(MCP)
}

pub(crate) fn mint_session() -> Result<Minted, NoRandomness> {
    mint(SESSION)
}

pub(crate) fn read_token(text: &str) -> Option<Presented> {
    read(TOKEN, text)
}

pub(crate) fn read_setup(text: &str) -> Option<Presented> {
    read(SETUP, text)
}

pub(crate) fn read_session(text: &str) -> Option<Presented> {
    read(SESSION, text)
}

fn mint(prefix: &str) -> Result<Minted, NoRandomness> {
    let mut octets = Zeroizing::new([0_u8; ID + SECRET]);
    aws_lc_rs::rand::fill(octets.as_mut()).map_err(|_| NoRandomness)?;
    let (id, secret) = octets.split_at(ID);
    let id: String = id.iter().map(|octet| format!("{octet:02x}")).collect();
    let secret = Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(secret));
    let text = Zeroizing::new(format!("{prefix}{id}_{}", *secret));
    let digest = Digest::of(&text);
    Ok(Minted { id, text, digest })
}

fn read(prefix: &str, text: &str) -> Option<Presented> {
    let (id, secret) = text.strip_prefix(prefix)?.split_once('_')?;
    let hex = |octet: u8| octet.is_ascii_digit() || (b'a'..=b'f').contains(&octet);
    let whole = id.len() == ID * 2 && id.bytes().all(hex) && secret.len() == SECRET_TEXT;
    whole.then(|| Presented {
        id: id.to_owned(),
        digest: Digest::of(text),
    })
}

const ID: usize = 8;
const SECRET: usize = 32;
/// 32 octets in base64 without padding.
const SECRET_TEXT: usize = 43;
/// A prefix of their own lets secret scanners find tokens that lie about.
const TOKEN: &str = "gig_";
const SETUP: &str = "set_";
const SESSION: &str = "ses_";
const MCP: &str = "mcp_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_minted_is_read_and_nothing_like_it() {
        let minted = mint_token().unwrap();
        let presented = read_token(&minted.text).unwrap();
        assert_eq!(presented.id, minted.id);
        assert!(presented.digest.is(&minted.digest));
        let other = read_token(&mint_token().unwrap().text).unwrap();
        assert!(!other.digest.is(&minted.digest));
        assert!(read_session(&minted.text).is_none());
        for wrong in [
            "",
            "gig_",
            "gig_00_x",
            minted.text.trim_start_matches('g'),
            minted.text.trim_end_matches(char::is_alphanumeric),
        ] {
            assert!(read_token(wrong).is_none(), "{wrong}");
        }
        let shown = format!("{:?}", minted.digest);
        assert_eq!(shown, "Digest(…)");
    }
}
