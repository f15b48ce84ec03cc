//! Network namespaces that gig did not make, taken as sandboxes: what is asked and what comes of it.

use std::path::PathBuf;

use super::SandboxFacts;

/// Which namespace is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// That of a process of this machine.
    Process(u32),
    /// The one that a file names.
    Path(PathBuf),
}

/// A namespace that is to be a sandbox.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Which one.
    pub named: Named,
    /// Where its programs find the certificate authority.
    pub ca_path: String,
}

/// What its programs are to be given.
#[derive(Debug, Clone)]
pub struct Registered {
    /// The sandbox.
    pub facts: SandboxFacts,
    /// Variables: the proxy, where the authority is, sentinels.
    pub variables: Vec<(String, String)>,
    /// The certificate that they are to trust, as PEM.
    pub ca_pem: String,
    /// It was registered before, for the same server and the same person.
    pub already: bool,
}
