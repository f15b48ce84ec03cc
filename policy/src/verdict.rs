//! What a policy answers: permits that only it can make, or a denial that explains itself.
//!
//! A permit is the proof that the check ran. [`NamePermit`] lets a name be answered,
//! [`ConnectPermit`] lets an address be vetted and dialled, [`RequestPermit`] lets one request be
//! forwarded and is consumed by that.

use std::{fmt, sync::Arc};

use ipnet::IpNet;

use crate::{
    deny_reason::DenyReason,
    fqdn::Fqdn,
    host::{Host, Port},
    secret_grant::SecretGrant,
    secret_name::SecretName,
};

/// Allowed, with the proof; or denied, with the reason.
#[derive(Debug)]
pub enum Verdict<P> {
    /// Go on. In observe mode the permit says what would have been denied.
    Allow(P),
    /// Stop here.
    Deny(Box<Denial>),
}

/// Whether a policy refuses or only records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// What no rule allows is refused.
    Enforce,
    /// What no rule allows passes and is recorded as `would_deny`; private ranges stay closed.
    Observe,
}

/// How a refusal is shown to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DenyStyle {
    /// With the HTTP answer that says why; TLS handshakes are completed for it.
    Explain,
    /// With a reset connection.
    Reset,
}

/// Which side of the Internet's edge a policy speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Public addresses; private ranges only where a rule names them.
    External,
    /// Private ranges only, without naming them: public addresses are refused.
    Local,
}

/// The policy and version a decision came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PolicyRef {
    /// The document's `name`.
    pub name: Arc<str>,
    /// Counts up with every change; 0 for a policy that was never stored.
    pub version: u64,
}

/// The rule that matched, as a person finds it in the document: `egress[2]`, `egress[2].rules[0]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RuleRef(pub Arc<str>);

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the bytes of a permitted connection are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handling {
    /// HTTP, in TLS or clear text: opened, each request decided.
    Inspect,
    /// TLS that is not opened: the ClientHello's name must agree, then bytes are spliced.
    Passthrough,
    /// Any bytes, either side may speak first: spliced without a look.
    Opaque,
}

/// A name may be answered with a synthetic address.
#[derive(Debug)]
#[must_use]
pub struct NamePermit {
    pub(crate) name: Fqdn,
    pub(crate) grant: Grant,
}

/// A connection to one host and port may be dialled.
///
/// Clone, because one decision may dial several vetted addresses (RFC 8305) and serve many requests.
#[derive(Debug, Clone)]
#[must_use]
pub struct ConnectPermit {
    pub(crate) host: Host,
    pub(crate) port: Port,
    pub(crate) handling: Handling,
    pub(crate) allow_private: Arc<[IpNet]>,
    pub(crate) reach: Reach,
    pub(crate) grant: Grant,
}

/// One request may be forwarded. Neither Clone nor Copy: forwarding consumes it.
#[derive(Debug)]
#[must_use]
pub struct RequestPermit {
    pub(crate) secrets: Arc<[SecretGrant]>,
    pub(crate) bound: Arc<[SecretGrant]>,
    pub(crate) decided_on: DecidedOn,
    pub(crate) observed_on: DecidedOn,
    pub(crate) grant: Grant,
}

/// What of a request had to be as it is for it to be allowed: no rule that lets it go takes any other, or one that
/// grants it a secret does not, or one whose answers are captured speaks of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecidedOn {
    /// Its method.
    pub method: bool,
    /// Its path.
    pub path: bool,
    /// One of the two: a rule may take every method and another every path, and none both.
    pub either: bool,
}

impl DecidedOn {
    /// On these.
    pub(crate) const fn of(method: bool, path: bool) -> Self {
        Self {
            method,
            path,
            either: method || path,
        }
    }

    /// And what another policy decided on.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            method: self.method || other.method,
            path: self.path || other.path,
            either: self.either || other.either,
        }
    }
}

/// Where a permit came from.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) policy: PolicyRef,
    pub(crate) rule: Option<RuleRef>,
    pub(crate) would_deny: Option<Box<Denial>>,
    /// No rule, but a person's word for this one thing.
    pub(crate) released: bool,
}

macro_rules! grant_accessors {
    ($($permit:ty),*) => {$(
        impl $permit {
            /// The policy and version that allowed it.
            #[must_use]
            pub const fn policy(&self) -> &PolicyRef {
                &self.grant.policy
            }

            /// The rule that allowed it; `None` when only observe mode let it pass.
            #[must_use]
            pub const fn rule(&self) -> Option<&RuleRef> {
                self.grant.rule.as_ref()
            }

            /// What an enforcing policy would have answered, where this one only observes.
            #[must_use]
            pub fn would_deny(&self) -> Option<&Denial> {
                self.grant.would_deny.as_deref()
            }

            /// Whether no rule, but a person's word for this one thing allowed it.
            #[must_use]
            pub const fn released(&self) -> bool {
                self.grant.released
            }
        }
    )*};
}
grant_accessors!(NamePermit, ConnectPermit, RequestPermit);

impl NamePermit {
    /// The permitted name.
    #[must_use]
    pub const fn name(&self) -> &Fqdn {
        &self.name
    }
}

impl ConnectPermit {
    /// The permitted host; the one that is resolved and dialled.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The permitted port.
    #[must_use]
    pub const fn port(&self) -> Port {
        self.port
    }

    /// How the bytes are treated.
    #[must_use]
    pub const fn handling(&self) -> Handling {
        self.handling
    }

    /// Whether public or private addresses are reached.
    #[must_use]
    pub const fn reach(&self) -> Reach {
        self.reach
    }

    /// Special-purpose ranges that the matching rules open for this host and port.
    #[must_use]
    pub fn allow_private(&self) -> &[IpNet] {
        &self.allow_private
    }
}

impl RequestPermit {
    /// The secrets that may be swapped into this request. One that stands here twice may stand in
    /// the places of both.
    #[must_use]
    pub fn secrets(&self) -> &[SecretGrant] {
        &self.secrets
    }

    /// What of it an origin must not be told differently elsewhere in the request.
    #[must_use]
    pub const fn decided_on(&self) -> DecidedOn {
        self.decided_on
    }

    /// The same of policies that only observe: see [`RequestPermit::observe`].
    #[must_use]
    pub const fn observed_on(&self) -> DecidedOn {
        self.observed_on
    }

    /// Notes what an enforcing policy would have answered. The request goes without secrets: it was granted them as
    /// what it is not. What comes is captured all the same, as [`RequestPermit::capture_as_any`] has it.
    pub fn observe(&mut self, denial: Box<Denial>) {
        self.grant.would_deny.get_or_insert(denial);
        let secrets = self.secrets.iter();
        self.secrets = secrets.filter(|grant| grant.captures).cloned().collect();
        self.capture_as_any();
    }

    /// Has what comes captured where that of any request to this host and port is: its origin may take it for
    /// that one.
    pub fn capture_as_any(&mut self) {
        if self.captures().is_some() {
            return;
        }
        let capturing = self.bound.iter().filter(|grant| grant.captures);
        self.secrets = self.secrets.iter().chain(capturing).cloned().collect();
    }

    /// The secrets that may be swapped into some request to this host and port, by whatever rule: the
    /// host may have been given them, and have kept them.
    #[must_use]
    pub fn bound(&self) -> &[SecretGrant] {
        &self.bound
    }

    /// The secret that tokens in the answer become.
    #[must_use]
    pub fn captures(&self) -> Option<&SecretName> {
        let mut capturing = self.secrets.iter().filter(|grant| grant.captures);
        capturing.next().map(|grant| &grant.name)
    }
}

/// A refusal with everything that an answer, a record and a summary need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: DenyReason,
    /// The policy that refused.
    pub policy: PolicyRef,
    /// The rule that came nearest, where one did.
    pub rule: Option<RuleRef>,
    /// What to ask for, in words that a policy or `--allow` takes: `api.example.com:8443`.
    /// Holds nothing that the program did not itself send.
    pub hint: String,
    /// A floor refused: what the policy beneath it says changes nothing.
    pub floor: bool,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by policy {:?}", self.reason, self.policy.name)
    }
}
