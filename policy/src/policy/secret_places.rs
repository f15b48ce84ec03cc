//! Where a policy lets a secret go, for people who look after it.

use std::fmt;

use super::Policy;
use crate::{
    host::Port,
    intent::AppProtocol,
    moment::Moment,
    rule::{Rule, Target},
    secret_name::SecretName,
    verdict::Handling,
};

/// One rule that lets a secret go somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    /// Host and ports, as rules spell them: `*.example.com:443`.
    pub target: String,
    /// The program may hold the value itself.
    pub entrusted: bool,
    /// Nothing goes there: tokens in the answer become this secret.
    pub captures: bool,
    /// The rule names it, and no request that it allows can carry it: all of them are in clear text.
    pub unplaced: bool,
}

/// One way on which a policy lets a secret go: to one target, at one port.
#[derive(Debug, Clone)]
pub struct SecretWay {
    name: SecretName,
    target: Target,
    port: Port,
    openly: Openly,
    entrusted: bool,
    captures: bool,
    until: Option<Moment>,
}

/// Who but its host can read a secret on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Openly {
    /// Nobody: gig has it in TLS.
    Sealed,
    /// Everybody on the way.
    ClearText,
    /// In octets that gig does not look into: as the program has it.
    Unopened,
}

impl SecretWay {
    /// Whether whoever lets it go the `wider` way lets it go this one: as far, as openly and for as long.
    #[must_use]
    pub fn is_within(&self, wider: &Self) -> bool {
        let reaches = match (&wider.target, &self.target) {
            (Target::Names(wider), Target::Names(own)) => wider.covers(own),
            (Target::Addresses(wider), Target::Addresses(own)) => wider.contains(own),
            (Target::Names(_), Target::Addresses(_)) | (Target::Addresses(_), Target::Names(_)) => {
                false
            }
        };
        let lasts = match (wider.until, self.until) {
            (None, _) => true,
            (Some(wider), Some(own)) => own <= wider,
            (Some(_), None) => false,
        };
        let same = self.name == wider.name && self.port == wider.port;
        let how = self.captures == wider.captures && (wider.entrusted || !self.entrusted);
        let openly = self.openly == Openly::Sealed || self.openly == wider.openly;
        same && how && reaches && lasts && openly
    }
}

/// `TOKEN to *.example.com:443`.
impl fmt::Display for SecretWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, target, port) = (self.name.as_str(), &self.target, self.port);
        write!(f, "{name} to {target}:{port}")?;
        f.write_str(match self.openly {
            Openly::Sealed => "",
            Openly::ClearText => " in clear text",
            Openly::Unopened => " unopened",
        })
    }
}

/// Where a rule sends anything of a secret: by TLS, in clear text where the rule says so, or unopened.
fn ports(rule: &Rule) -> impl Iterator<Item = (Port, Openly)> {
    rule.ports.iter().filter_map(|grant| {
        let is_clear = rule.clear_text_secrets && grant.protocols.has(AppProtocol::Http);
        let goes = is_clear
            || grant.protocols.has(AppProtocol::Https)
            || grant.protocols.has(AppProtocol::Tcp);
        let openly = match (rule.handling, is_clear) {
            (Handling::Passthrough | Handling::Opaque, _) => Openly::Unopened,
            (Handling::Inspect, true) => Openly::ClearText,
            (Handling::Inspect, false) => Openly::Sealed,
        };
        goes.then_some((grant.port, openly))
    })
}

impl Policy {
    /// Every way on which it lets a secret go.
    #[must_use]
    pub fn secret_ways(&self) -> Vec<SecretWay> {
        let mut ways = Vec::new();
        for rule in self.rules() {
            for grant in rule.secrets.iter() {
                ways.extend(ports(rule).map(|(port, openly)| SecretWay {
                    name: grant.name.clone(),
                    target: rule.target.clone(),
                    port,
                    openly,
                    entrusted: grant.entrusted,
                    captures: grant.captures,
                    until: rule.expires,
                }));
            }
        }
        ways
    }

    /// What each rule that names this secret does with it, in the order of the rules.
    #[must_use]
    pub fn uses_of(&self, name: &SecretName) -> Vec<SecretUse> {
        let mut uses = Vec::new();
        for rule in self.rules() {
            let grants = rule.secrets.iter().filter(|grant| grant.name == *name);
            for grant in grants {
                // A value goes where one is put in; what is captured comes from wherever the rule leads.
                let ports: Vec<String> = match grant.captures {
                    true => rule.ports.iter().map(|own| own.port.to_string()).collect(),
                    false => ports(rule).map(|(port, _)| port.to_string()).collect(),
                };
                let unplaced = ports.is_empty();
                let ports = match unplaced {
                    true => rule.ports.iter().map(|own| own.port.to_string()).collect(),
                    false => ports,
                };
                uses.push(SecretUse {
                    unplaced,
                    target: format!("{}:{}", rule.target, ports.join(",")),
                    entrusted: grant.entrusted,
                    captures: grant.captures,
                });
            }
        }
        uses
    }
}

impl Policy {
    /// Where requests may carry this secret, by rules and by options, each once: `*.example.com:443`.
    #[must_use]
    pub fn bound_to(&self, name: &SecretName) -> Vec<String> {
        let uses = self.uses_of(name).into_iter();
        let by_rules = uses
            .filter(|used| !used.captures && !used.unplaced)
            .map(|used| used.target);
        let bindings = self.bindings().iter();
        let own = bindings.filter(|bound| bound.name() == name && !bound.captures());
        let by_options = own.map(|bound| format!("{}:{}", bound.host(), bound.port()));
        let mut targets: Vec<String> = by_rules.chain(by_options).collect();
        let mut seen = std::collections::BTreeSet::new();
        targets.retain(|target| seen.insert(target.clone()));
        targets
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_says_where_a_secret_goes() {
        let text = concat!(
            "version: 1\negress:\n",
            "  - {host: a.example, ports: [443], secrets: [TOKEN, OTHER]}\n",
            "  - {host: b.example, ports: [443]}\n",
            "  - {host: \"*.c.example\", ports: [443, 8443], secrets: [TOKEN]}\n",
            "  - {host: d.example, secrets: [OTHER]}\n",
            "  - {host: e.example, ports: [80], secrets: [OTHER]}\n",
            "  - {host: f.example, ports: [80], protocol: http, secrets: [OTHER]}\n",
        );
        let builder = crate::PolicyBuilder::new("p").document(text, "p").unwrap();
        let policy = builder.build().unwrap();
        let targets = |name: &str| {
            let uses = policy.uses_of(&name.parse().unwrap());
            let placed = uses.into_iter().filter(|one| !one.unplaced);
            placed.map(|one| one.target).collect::<Vec<_>>()
        };
        let other = policy.uses_of(&"OTHER".parse().unwrap());
        let unplaced = other.into_iter().filter(|one| one.unplaced);
        let unplaced: Vec<_> = unplaced.map(|one| one.target).collect();
        assert_eq!(unplaced, ["e.example:80"], "named, and never put in");
        assert_eq!(targets("TOKEN"), ["a.example:443", "*.c.example:443,8443"]);
        // In clear text only where that is written.
        assert_eq!(
            targets("OTHER"),
            ["a.example:443", "d.example:443", "f.example:80"]
        );
        assert_eq!(targets("NOBODYS"), [""; 0]);
        let token = "TOKEN".parse().unwrap();
        let bound = policy.bound_to(&token);
        assert_eq!(bound, ["a.example:443", "*.c.example:443,8443"]);
    }

    #[test]
    fn a_way_is_within_another_that_goes_as_far_as_openly_and_for_as_long() {
        let ways = |entry: &str| {
            let secret = match entry.contains("tcp") || entry.contains("entrusting") {
                true => "{name: TOKEN, entrusted: true}",
                false => "TOKEN",
            };
            let entry = entry.trim_end_matches(" # entrusting");
            let text = format!("version: 1\negress:\n  - {{{entry}, secrets: [{secret}]}}\n");
            let builder = crate::PolicyBuilder::new("p").document(&text, "p").unwrap();
            builder.build().unwrap().secret_ways()
        };
        let within = |own: &str, wider: &str| {
            let wider = ways(wider);
            ways(own)
                .iter()
                .all(|own| wider.iter().any(|wider| own.is_within(wider)))
        };
        let wide = "host: \"*.example.com\", ports: [443, 8443]";
        assert!(
            within("host: api.example.com, ports: [443]", wide),
            "narrower"
        );
        assert!(within(
            "host: api.example.com",
            "host: api.example.com, ports: [443]"
        ));
        for (own, known) in [
            (wide, "host: api.example.com, ports: [443]"),
            (
                "host: a.example, ports: [444]",
                "host: a.example, ports: [443]",
            ),
            ("host: a.example, protocol: http", "host: a.example"),
            (
                "host: a.example, ports: [443]",
                "host: a.example, ports: [443], expires: 2031-01-01T00:00:00Z",
            ),
            (
                "host: a.example, ports: [443], protocol: tcp",
                "host: a.example, ports: [443] # entrusting",
            ),
        ] {
            assert!(!within(own, known), "{own} within {known}");
        }
        let clear = ways("host: a.example, protocol: http");
        let shown: Vec<_> = clear.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["TOKEN to a.example:80 in clear text"]);
    }
}
