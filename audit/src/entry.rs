//! One thing that happened, as its author hands it in: without time, sequence and hash.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use gig_policy::{DenyReason, SandboxId};
use serde::{Deserialize, Serialize};

use crate::{deed::Deed, event::Event};

/// The decision, as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// It went.
    Allow,
    /// It did not go.
    Deny,
    /// It went, because the policy only observes.
    WouldDeny,
}

/// What is known of a TLS session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFacts {
    /// `1.2` or `1.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Arc<str>>,
    /// The negotiated application protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpn: Option<Arc<str>>,
    /// The name in the ClientHello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sni: Option<Arc<str>>,
}

/// What happened; fields that do not apply stay `None` and are left out of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What kind of thing.
    pub event: Event,
    /// What a person did, where one did something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deed: Option<Deed>,
    /// To what: a name or an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    /// Whose sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    /// The registered server it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Arc<str>>,
    /// The user or profile it runs for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Arc<str>>,
    /// The connection, counted per gig process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conn: Option<u64>,
    /// The request, as told to the program in `request_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
    /// Name of the policy that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Arc<str>>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<u64>,
    /// The rule that matched or came nearest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
    /// The decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictWord>,
    /// Why it was (or would have been) refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<DenyReason>,
    /// The sandbox's end of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<SocketAddr>,
    /// The host asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// The port asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The vetted address that was dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_ip: Option<IpAddr>,
    /// `https`, `http`, `tcp`, `dns`, `udp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Arc<str>>,
    /// The TLS session towards the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFacts>,
    /// The request method; for DNS the query type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Arc<str>>,
    /// The normalised path, without the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// The status the program got; for `sandbox.exit` the exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Octets sent towards the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// Octets received from the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<u64>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Names (never values) of secrets that were swapped in; of a misuse, the one that was misused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Arc<str>>,
    /// What scanners found, and notes such as a layer that is off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Arc<str>>,
}

impl Entry {
    /// An entry with nothing but its kind.
    #[must_use]
    pub const fn new(event: Event) -> Self {
        Self {
            event,
            deed: None,
            subject: None,
            sandbox: None,
            server: None,
            profile: None,
            conn: None,
            request: None,
            policy: None,
            policy_version: None,
            rule: None,
            verdict: None,
            reason: None,
            src: None,
            host: None,
            port: None,
            dst_ip: None,
            protocol: None,
            tls: None,
            method: None,
            path: None,
            status: None,
            bytes_out: None,
            bytes_in: None,
            duration_ms: None,
            secrets: Vec::new(),
            findings: Vec::new(),
        }
    }
}
