//! The identity of one sandbox, as it stands in records, spans and the `GIG_SANDBOX_ID` variable.
//!
//! An id is a UUID version 7 (RFC 9562): unique over hosts and ordered by time. It names a sandbox;
//! it proves nothing. Proof of identity is the network namespace, which `netns` keeps.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Names one sandbox for its whole life and is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SandboxId(Uuid);

impl SandboxId {
    /// Wraps an id made by the caller: this crate has no clock and no randomness.
    #[must_use]
    pub const fn new(id: Uuid) -> Self {
        Self(id)
    }

    /// The wrapped UUID.
    #[must_use]
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
