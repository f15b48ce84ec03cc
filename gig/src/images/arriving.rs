//! Bytes that arrive: counted and digested as they come, and worth nothing before both are right.

use std::{fs::File, io::Write as _};

use anyhow::{Context, bail};
use gig_sandbox::image::{Descriptor, Digest, Digesting};

/// Where they go.
pub(super) enum To {
    Memory(Vec<u8>),
    File(File),
}

/// Bytes on their way.
pub(super) struct Arriving {
    to: To,
    digesting: Digesting,
    size: u64,
    most: u64,
}

impl Arriving {
    /// Not more than `most` octets.
    pub(super) fn new(to: To, most: u64) -> Self {
        Self {
            to,
            digesting: Digesting::default(),
            size: 0,
            most,
        }
    }

    /// Takes the next.
    ///
    /// # Errors
    /// When there are too many, or they cannot be kept.
    pub(super) fn take(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.size = self.size.saturating_add(count);
        if self.size > self.most {
            bail!(
                "the registry sends more than the {} octets that there are to be",
                self.most
            );
        }
        self.digesting.update(bytes);
        match &mut self.to {
            To::Memory(memory) => memory.extend_from_slice(bytes),
            To::File(file) => file
                .write_all(bytes)
                .context("cannot keep what the registry sends")?,
        }
        Ok(())
    }

    /// What arrived, whatever it is.
    pub(super) fn whole(self) -> (To, Descriptor) {
        let size = self.size;
        (
            self.to,
            Descriptor {
                digest: self.digesting.finish(),
                size,
            },
        )
    }

    /// What arrived, if it is what was asked for.
    ///
    /// # Errors
    /// When the digest is another one.
    pub(super) fn if_it_is(self, digest: Digest) -> anyhow::Result<(To, u64)> {
        let (to, found) = self.whole();
        if found.digest != digest {
            bail!(
                "refused: the registry was asked for {digest} and sent {} ({} octets)",
                found.digest,
                found.size
            );
        }
        Ok((to, found.size))
    }
}
