//! What a sandbox asked for once, as a record tells it: the input of a replay and of a suggestion.
//!
//! An attempt holds what a policy decides on and nothing else; where it was recorded is the reader's.
//! Whether a policy covers it is asked of the code that enforces.

use std::{fmt, net::IpAddr, sync::Arc};

use crate::{
    deny_reason::DenyReason,
    explain,
    fqdn::Fqdn,
    host::{Host, Port},
    intent::{AppProtocol, RequestIntent},
    policy::Policy,
    verdict::{Denial, Handling, RuleRef, Verdict},
};

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asked {
    /// A name alone: no connection followed.
    Name(Fqdn),
    /// A connection, of which no request is known.
    Connection {
        /// Where to.
        host: Host,
        /// At which port.
        port: Port,
        /// What was spoken, where it was seen.
        protocol: Option<AppProtocol>,
    },
    /// An HTTP request.
    Request {
        /// Where to.
        host: Host,
        /// At which port.
        port: Port,
        /// In TLS or in clear text.
        protocol: AppProtocol,
        /// The method.
        method: Arc<str>,
        /// The normalised path, without the query.
        path: Arc<str>,
    },
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A rule let it pass.
    Allowed,
    /// It was denied, or passed only because the policy observed.
    Denied(DenyReason),
}

/// One attempt, or several that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What was asked for.
    pub asked: Asked,
    /// The address that it was or would have been dialled to, where that is known of a name.
    pub address: Option<IpAddr>,
    /// Names of secrets that were swapped into it, sorted. Where in it they stood is not recorded.
    pub secrets: Vec<Arc<str>>,
    /// What became of it.
    pub outcome: Outcome,
    /// When first: RFC 3339 in UTC, all with the same number of digits, so that texts sort as times do.
    pub first: Arc<str>,
    /// When last.
    pub time: Arc<str>,
    /// How often.
    pub count: u64,
}

impl Asked {
    /// The host or name.
    #[must_use]
    pub fn host(&self) -> Host {
        match self {
            Self::Name(name) => Host::Name(name.clone()),
            Self::Connection { host, .. } | Self::Request { host, .. } => host.clone(),
        }
    }

    /// The port, where one was asked for.
    #[must_use]
    pub const fn port(&self) -> Option<Port> {
        match self {
            Self::Name(_) => None,
            Self::Connection { port, .. } | Self::Request { port, .. } => Some(*port),
        }
    }
}

/// `api.example.com`, `tcp db.example.com:5432`, `GET https://api.example.com:443/user`.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "name {name}"),
            Self::Connection {
                host,
                port,
                protocol,
            } => {
                let protocol = protocol.map_or("connection", AppProtocol::as_str);
                write!(f, "{protocol} {host}:{port}")
            }
            Self::Request {
                host,
                port,
                protocol,
                method,
                path,
            } => write!(f, "{method} {protocol}://{host}:{port}{path}"),
        }
    }
}

impl Attempt {
    /// The address, where one is known.
    #[must_use]
    pub fn known_address(&self) -> Option<IpAddr> {
        self.address.or_else(|| self.asked.host().ip())
    }

    /// Whether rules decided it: an attempt that was denied for another reason (a limit, a secret, an
    /// origin's fault) tells nothing about rules. An address is opened by a rule's `allow_private`, so
    /// that it counts where it is known.
    #[must_use]
    pub fn is_of_rules(&self) -> bool {
        match self.outcome {
            Outcome::Allowed => true,
            Outcome::Denied(DenyReason::PrivateAddress) => self.known_address().is_some(),
            Outcome::Denied(reason) => reason.is_of_rules(),
        }
    }
}

impl Policy {
    /// Whether a rule of this policy lets an attempt pass with the secrets that it carried, and which.
    ///
    /// Limits take no part, nor does where in the request a secret stood.
    ///
    /// # Errors
    /// The denial, as a program would have been told.
    pub fn covers_attempt(&self, attempt: &Attempt) -> Result<Option<RuleRef>, Box<Denial>> {
        self.covers_carrying(&attempt.asked, attempt.address, &attempt.secrets)
    }

    /// Whether a rule of this policy lets something pass, and which; `mode: observe` does not count.
    ///
    /// `address` is where the name was found, if it is known. Limits and secrets take no part.
    ///
    /// # Errors
    /// The denial, as a program would have been told.
    pub fn covers(
        &self,
        asked: &Asked,
        address: Option<IpAddr>,
    ) -> Result<Option<RuleRef>, Box<Denial>> {
        self.covers_carrying(asked, address, &[])
    }

    fn covers_carrying(
        &self,
        asked: &Asked,
        address: Option<IpAddr>,
        secrets: &[Arc<str>],
    ) -> Result<Option<RuleRef>, Box<Denial>> {
        let host = asked.host();
        let mut rule = None;
        if let Host::Name(name) = &host {
            rule = match self.decide_name(name) {
                Verdict::Allow(permit) => covered(permit.rule(), permit.would_deny())?,
                Verdict::Deny(denial) => return Err(denial),
            };
        }
        let (port, protocol) = match asked {
            Asked::Name(_) => return Ok(rule),
            Asked::Connection { port, protocol, .. } => (*port, *protocol),
            Asked::Request { port, protocol, .. } => (*port, Some(*protocol)),
        };
        let permit = match self.decide_connect(&host, port, protocol) {
            Verdict::Allow(permit) => permit,
            Verdict::Deny(denial) => return Err(denial),
        };
        rule = covered(permit.rule(), permit.would_deny())?;
        if let Some(ip) = host.ip().or(address)
            && let Err(reason) = explain::admits(&permit, ip)
        {
            // Where a floor does not open it, no rule of the policy's own does.
            let refuses = |floor: &&Self| match floor.decide_connect(&host, port, protocol) {
                Verdict::Allow(permit) => {
                    permit.would_deny().is_none() && explain::admits(&permit, ip).is_err()
                }
                Verdict::Deny(_) => true,
            };
            let floor = self.floors().iter().find(refuses);
            return Err(Box::new(Denial {
                reason,
                policy: floor.unwrap_or(self).reference().clone(),
                rule: rule.filter(|_| floor.is_none()),
                hint: String::new(),
                floor: floor.is_some(),
            }));
        }
        let Asked::Request {
            protocol,
            method,
            path,
            ..
        } = asked
        else {
            return Ok(rule);
        };
        if permit.handling() != Handling::Inspect {
            // What is not looked into gets no secret.
            return match secrets.is_empty() {
                true => Ok(rule),
                false => Err(self.misused(rule)),
            };
        }
        let intent = RequestIntent {
            protocol: *protocol,
            method,
            path,
        };
        match self.decide_request(&host, port, &intent) {
            Verdict::Allow(permit) => {
                let rule = covered(permit.rule(), permit.would_deny())?;
                let may_carry = |name: &Arc<str>| {
                    let mut granted = permit.secrets().iter();
                    granted.any(|grant| !grant.captures && grant.name.as_str() == &**name)
                };
                match secrets.iter().all(may_carry) {
                    true => Ok(rule),
                    false => Err(self.misused(rule)),
                }
            }
            Verdict::Deny(denial) => Err(denial),
        }
    }

    /// It lets the request pass, and not with the secrets that it carried.
    fn misused(&self, rule: Option<RuleRef>) -> Box<Denial> {
        Box::new(Denial {
            reason: DenyReason::SecretMisuse,
            policy: self.reference().clone(),
            rule,
            hint: String::new(),
            floor: false,
        })
    }
}

fn covered(
    rule: Option<&RuleRef>,
    would_deny: Option<&Denial>,
) -> Result<Option<RuleRef>, Box<Denial>> {
    match would_deny {
        Some(denial) => Err(Box::new(denial.clone())),
        None => Ok(rule.cloned()),
    }
}
