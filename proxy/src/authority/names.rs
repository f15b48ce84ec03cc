//! Two names that do not agree, each with where it stood: for the record, the program and a person.

use std::{fmt, sync::Arc};

use gig_policy::{Host, Port};

use super::Authority;
use crate::{enforce::secret::shown_host, subject::Subject};

/// Where a name stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// What the connection was opened to: behind its synthetic address, or by CONNECT.
    Destination,
    /// The TLS server name.
    Sni,
    /// The request's target, or its `:authority`.
    Target,
    /// The Host field.
    Host,
}

/// What was named first, and what then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Whom all else had to name.
    pub first: (Place, Authority),
    /// Who was named instead.
    pub then: (Place, Authority),
}

impl Names {
    /// A connection that is to one host and names another.
    #[must_use]
    pub fn of_tls(destination: Host, sni: Host) -> Box<Self> {
        let bare = |host| Authority { host, port: None };
        Box::new(Self {
            first: (Place::Destination, bare(destination)),
            then: (Place::Sni, bare(sni)),
        })
    }

    /// A request that names another host or port than its connection, `connection` having been named at `place`.
    #[must_use]
    pub fn of_request(
        (place, host, port): (Place, Host, Port),
        (said, authority): (Place, Authority),
    ) -> Box<Self> {
        let port = authority.port.map(|_| port);
        Box::new(Self {
            first: (place, Authority { host, port }),
            then: (said, authority),
        })
    }

    /// `named:sni=b.example` of each, without real values of secrets. A host's name is short.
    #[must_use]
    pub fn findings(&self, subject: &Subject) -> Vec<Arc<str>> {
        let one = |(place, authority): &(Place, Authority)| {
            format!("named:{}={}", place.word(), shown(subject, authority)).into()
        };
        vec![one(&self.first), one(&self.then)]
    }

    /// The same in a sentence.
    #[must_use]
    pub fn text(&self, subject: &Subject) -> String {
        let one = |(place, authority): &(Place, Authority)| {
            format!("{place} names {}", shown(subject, authority))
        };
        format!(
            "{} and {}: destination, TLS server name, Host and :authority must name one host",
            one(&self.first),
            one(&self.then)
        )
    }
}

fn shown(subject: &Subject, authority: &Authority) -> String {
    let Authority { host, port } = authority;
    let text = host.to_string();
    let host = match host {
        Host::Ip(ip) if ip.is_ipv6() && port.is_some() => format!("[{text}]"),
        Host::Ip(_) => text,
        Host::Name(_) => shown_host(subject, &text).to_string(),
    };
    port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
}

impl Place {
    const fn word(self) -> &'static str {
        match self {
            Self::Destination => "destination",
            Self::Sni => "sni",
            Self::Target => "target",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Destination => "the destination",
            Self::Sni => "the TLS server name",
            Self::Target => "the request's target",
            Self::Host => "the Host field",
        })
    }
}
