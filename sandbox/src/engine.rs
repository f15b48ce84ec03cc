//! What builds a sandbox.
//!
//! One trait, so that a host without user namespaces or one with a user-space
//! kernel can have its own; bwrap is the first.

pub(crate) mod bwrap;

use gig_netns::Hub;

use crate::error::StartSandboxError;
use crate::process::{Network, Prepared};
use crate::spec::Spec;

/// Builds sandboxes.
pub(crate) trait Engine {
    /// Builds one up to the point where its program would start.
    fn prepare(
        &self,
        spec: Spec,
        hub: &Hub,
        network: Network<'_>,
    ) -> Result<Prepared, StartSandboxError>;
}
