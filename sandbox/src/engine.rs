//! What builds a sandbox.
//!
//! One trait, so that a host without user namespaces or one with a user-space
//! kernel can have its own; bwrap is the first.

pub(crate) mod bwrap;

use gig_netns::HostIds;

use crate::design::{Design, Place};
use crate::error::StartSandboxError;
use crate::spec::Spec;

/// Builds sandboxes.
pub(crate) trait Engine {
    /// Works one out, up to what the hub will start.
    fn design(
        &self,
        spec: Spec,
        ids: HostIds,
        place: Option<Place>,
    ) -> Result<Design, StartSandboxError>;
}
