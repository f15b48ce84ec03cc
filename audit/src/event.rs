//! The closed list of things that are recorded.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What happened. The words are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// A sandbox was bound to its namespace, before its first instruction.
    #[serde(rename = "sandbox.start")]
    SandboxStart,
    /// Its last process is dead.
    #[serde(rename = "sandbox.exit")]
    SandboxExit,
    /// A name was asked for.
    #[serde(rename = "dns")]
    Dns,
    /// A connection was decided.
    #[serde(rename = "connect")]
    Connect,
    /// A request was decided.
    #[serde(rename = "request")]
    Request,
    /// The outcome of a connection or request: status, octets, time.
    #[serde(rename = "response")]
    Response,
    /// A secret's value is about to go in a body, for the first time of its exchange and version.
    #[serde(rename = "secret.use")]
    SecretUse,
    /// A sentinel went where its secret is not bound to.
    #[serde(rename = "secret.misuse")]
    SecretMisuse,
    /// A scanner found something.
    #[serde(rename = "finding")]
    Finding,
    /// A policy was changed or assigned.
    #[serde(rename = "policy.change")]
    PolicyChange,
    /// A secret was set, rotated or removed.
    #[serde(rename = "secret.change")]
    SecretChange,
    /// Somebody signed in or failed to.
    #[serde(rename = "auth")]
    Auth,
    /// Somebody administered gig.
    #[serde(rename = "admin")]
    Admin,
    /// Records could not be written for a time; egress was refused then.
    #[serde(rename = "audit.gap")]
    AuditGap,
}

impl Event {
    /// All of them, in the order above.
    pub const ALL: [Self; 14] = [
        Self::SandboxStart,
        Self::SandboxExit,
        Self::Dns,
        Self::Connect,
        Self::Request,
        Self::Response,
        Self::SecretUse,
        Self::SecretMisuse,
        Self::Finding,
        Self::PolicyChange,
        Self::SecretChange,
        Self::Auth,
        Self::Admin,
        Self::AuditGap,
    ];

    /// The stable word, as in the record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SandboxStart => "sandbox.start",
            Self::SandboxExit => "sandbox.exit",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Request => "request",
            Self::Response => "response",
            Self::SecretUse => "secret.use",
            Self::SecretMisuse => "secret.misuse",
            Self::Finding => "finding",
            Self::PolicyChange => "policy.change",
            Self::SecretChange => "secret.change",
            Self::Auth => "auth",
            Self::Admin => "admin",
            Self::AuditGap => "audit.gap",
        }
    }
}

/// What a record finds of something that waits, or waited, for a person.
pub const HELD: &str = "held";

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_are_listed_in_order() {
        let place = |event| match event {
            Event::SandboxStart => 0,
            Event::SandboxExit => 1,
            Event::Dns => 2,
            Event::Connect => 3,
            Event::Request => 4,
            Event::Response => 5,
            Event::SecretUse => 6,
            Event::SecretMisuse => 7,
            Event::Finding => 8,
            Event::PolicyChange => 9,
            Event::SecretChange => 10,
            Event::Auth => 11,
            Event::Admin => 12,
            Event::AuditGap => 13,
        };
        let places = Event::ALL.map(place);
        assert!(
            places.into_iter().eq(0..=place(Event::AuditGap)),
            "{places:?}"
        );
    }
}
