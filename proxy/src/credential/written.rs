//! What a body hashes to as the program wrote it, where values go into it: a signature that does not say the hash
//! covers it all the same, and is checked against it. Told once, when all of the body has come.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use aws_lc_rs::digest::{Context, SHA256, digest};

use super::digits::hex;

/// Where it is told. SHA-256, in hexadecimal digits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written(Arc<OnceLock<String>>);

/// Hashes what comes.
pub(crate) struct Hashing {
    context: Option<Context>,
    told: Written,
}

impl Written {
    /// What a whole body hashes to.
    pub(crate) fn of(body: &[u8]) -> String {
        hex(digest(&SHA256, body).as_ref())
    }

    /// The hash, where the whole body has come.
    pub(crate) fn told(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

impl Hashing {
    pub(crate) fn new(told: &Written) -> Self {
        Self {
            context: Some(Context::new(&SHA256)),
            told: told.clone(),
        }
    }

    pub(crate) fn push(&mut self, octets: &[u8]) {
        if let Some(context) = &mut self.context {
            context.update(octets);
        }
    }

    /// All has come.
    pub(crate) fn finish(&mut self) {
        if let Some(context) = self.context.take() {
            // Only the first end tells.
            self.told.0.set(hex(context.finish().as_ref())).ok();
        }
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").finish_non_exhaustive()
    }
}
