//! What is written beside an unpacked image.

use serde::{Deserialize, Serialize};

/// `image.json`: what the image is and how it is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// As it was asked for the first time.
    pub(crate) name: String,
    /// The digest by which it is asked for: of a list of manifests, or of one.
    pub(crate) digest: String,
    /// The digest of this machine's manifest.
    pub(crate) manifest: String,
    /// Octets that were sent.
    pub(crate) packed: u64,
    /// Octets of its files.
    pub(crate) unpacked: u64,
    /// Files, directories and links of its layers.
    pub(crate) entries: u64,
    /// Devices and pipes of its layers, which are not made.
    pub(crate) left_out: u64,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) command: Vec<String>,
    /// `NAME=VALUE`.
    pub(crate) env: Vec<String>,
    pub(crate) workdir: Option<String>,
    /// As whom it would run elsewhere: here every program is the sandbox's one user.
    pub(crate) user: Option<String>,
    /// When it was unpacked.
    pub(crate) pulled: jiff::Timestamp,
}
