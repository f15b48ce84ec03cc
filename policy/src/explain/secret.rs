//! Where a secret may go, and why not to a request: each rule and option that grants it, and what it
//! lacks.

use serde::Serialize;

use super::{
    consider,
    url::{Hostless, Url},
};
use crate::{
    explain::{ParseUrlError, port_list},
    host::Host,
    intent::AppProtocol,
    policy::Policy,
    rule::{Rule, Target},
    secret_grant::{Binding, SecretGrant},
    secret_name::SecretName,
    verdict::Handling,
};

/// One rule or option that grants a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrantConsidered {
    /// `egress[2]`, or the option of the command line.
    pub rule: String,
    /// Its place in the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Host and ports that it speaks of.
    pub target: String,
    /// The secret, with the places where its sentinel may stand.
    pub grant: String,
    /// The sentinel may stand anywhere in the request.
    pub anywhere: bool,
    /// Whether it grants the secret to the request.
    pub matches: bool,
    /// What it lacks, or what of it matched.
    pub outcome: String,
}

impl Policy {
    /// Every rule and option that grants `name`, and what each makes of this request.
    ///
    /// # Errors
    /// [`ParseUrlError`], when the URL is none that a sandbox could ask for.
    pub fn explain_secret(
        &self,
        name: &SecretName,
        method: &str,
        url: &str,
    ) -> Result<Vec<GrantConsidered>, ParseUrlError> {
        let url = Url::parse(method, url)?;
        let all: Vec<&Rule> = self.rules().iter().collect();
        let mut considered = Vec::new();
        for rule in self.rules() {
            for grant in rule.secrets.iter().filter(|grant| grant.name == *name) {
                let outcome =
                    readable(&url).and_then(|url| of_rule((rule, grant), &all, method, url));
                let ports = port_list(rule.ports.iter().map(|port| &port.port));
                considered.push(GrantConsidered {
                    rule: rule.reference.to_string(),
                    line: rule.position.map(|position| position.line),
                    target: format!("{} port {ports}", rule.target),
                    grant: grant.to_string(),
                    anywhere: grant.places.is_none(),
                    matches: outcome.is_ok(),
                    outcome: outcome.unwrap_or_else(|lack| lack),
                });
            }
        }
        for binding in self.bindings().iter().filter(|bound| bound.name() == name) {
            let outcome = readable(&url).and_then(|url| of_binding(binding, url));
            considered.push(GrantConsidered {
                rule: format!("--secret {name}@{}", binding.place()),
                line: None,
                target: format!("{} port {}", binding.host(), binding.port()),
                grant: binding.grant.to_string(),
                anywhere: binding.grant.places.is_none(),
                matches: outcome.is_ok(),
                outcome: outcome.unwrap_or_else(|lack| lack),
            });
        }
        Ok(considered)
    }
}

/// What is no request carries no secret.
fn readable(url: &Result<Url, Box<Hostless>>) -> Result<&Url, String> {
    let why = match url {
        Ok(Url {
            malformed: Some(why),
            ..
        }) => why,
        Ok(url) => return Ok(url),
        Err(hostless) => &hostless.why,
    };
    Err(format!(
        "the request is refused before any rule is asked: {why}"
    ))
}

fn of_rule(
    (rule, grant): (&Rule, &SecretGrant),
    all: &[&Rule],
    method: &str,
    url: &Url,
) -> Result<String, String> {
    let speaks = match (&rule.target, &url.host) {
        (Target::Names(pattern), Host::Name(name)) => {
            pattern.matches(name) || consider::is_apex(pattern, name)
        }
        (Target::Addresses(net), Host::Ip(ip)) => net.contains(ip),
        (Target::Names(_), Host::Ip(_)) | (Target::Addresses(_), Host::Name(_)) => false,
    };
    if !speaks {
        return Err(format!(
            "it is bound to {}, not to {}",
            rule.target, url.host
        ));
    }
    let outcome = consider::outcome(rule, all, method, url)?;
    if rule.handling != Handling::Inspect {
        return match grant.entrusted {
            true => Ok("unopened, as the program sends it".to_owned()),
            false => Err("the bytes are not looked into, so nothing is swapped in".to_owned()),
        };
    }
    if url.protocol != AppProtocol::Https && !rule.clear_text_secrets {
        return Err("it goes in clear text only where `protocol: http` is written".to_owned());
    }
    Ok(outcome)
}

fn of_binding(binding: &Binding, url: &Url) -> Result<String, String> {
    let host = url.host.name();
    if !host.is_some_and(|name| binding.target().matches(name)) {
        return Err(format!(
            "it is bound to {}, not to {}",
            binding.host(),
            url.host
        ));
    }
    if binding.port() != url.port {
        let (bound, asked) = (binding.port(), url.port);
        return Err(format!("it is bound to port {bound}, not to {asked}"));
    }
    if url.protocol == AppProtocol::Https {
        return Ok("every request that a rule allows".to_owned());
    }
    Err("an option binds to https alone; a rule with `protocol: http` allows clear text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyBuilder;

    const DOCUMENT: &str = "version: 1\nname: t\negress:\n\
        - {host: api.example.com, rules: [{methods: [GET], paths: [/user]}], \
           secrets: [{name: T, in: [\"header:Authorization\"]}]}\n\
        - {host: plain.example.com, ports: [80], secrets: [T]}\n\
        - {host: open.example.com, ports: [8080], protocol: http, secrets: [T]}\n";

    fn policy() -> Policy {
        let name: SecretName = "T".parse().unwrap();
        let builder = PolicyBuilder::new("t").document(DOCUMENT, "t").unwrap();
        let binding = Binding::parse(name, "bound.example.com:8443").unwrap();
        builder.bind(binding).build().unwrap()
    }

    #[track_caller]
    fn outcomes(method: &str, url: &str) -> Vec<(bool, String)> {
        let name: SecretName = "T".parse().unwrap();
        let considered = policy().explain_secret(&name, method, url).unwrap();
        let told = considered.into_iter().map(|c| (c.matches, c.outcome));
        told.collect()
    }

    #[test]
    fn every_grant_says_what_it_lacks() {
        let got = outcomes("GET", "https://api.example.com/user");
        assert!(got[0].0, "{got:?}");
        assert!(got[1].1.contains("bound to plain.example.com"), "{got:?}");
        assert!(got[3].1.contains("bound to bound.example.com"), "{got:?}");
        for (method, url, at, lack) in [
            ("POST", "https://api.example.com/user", 0, "method POST"),
            ("GET", "https://api.example.com/other", 0, "path that fits"),
            ("GET", "https://api.example.com:444/user", 0, "port 444"),
            ("GET", "http://plain.example.com/", 1, "in clear text only"),
            ("GET", "https://bound.example.com/", 3, "port 8443"),
            ("GET", "http://bound.example.com:8443/", 3, "https alone"),
        ] {
            let got = outcomes(method, url);
            assert!(!got[at].0 && got[at].1.contains(lack), "{url}: {got:?}");
        }
        assert!(outcomes("GET", "http://open.example.com:8080/x")[2].0);
        assert!(outcomes("GET", "https://bound.example.com:8443/")[3].0);
    }

    /// What is told is what is enforced: a grant that matches is in the permit, and no other.
    #[test]
    fn what_is_told_is_what_is_enforced() {
        let policy = policy();
        let name: SecretName = "T".parse().unwrap();
        for host in ["api", "plain", "open", "bound", "none"] {
            for (scheme, protocol) in [("https", AppProtocol::Https), ("http", AppProtocol::Http)] {
                for port in [80, 443, 8080, 8443] {
                    for (method, path) in [("GET", "/user"), ("GET", "/"), ("POST", "/user")] {
                        let url = format!("{scheme}://{host}.example.com:{port}{path}");
                        let told = policy.explain_secret(&name, method, &url).unwrap();
                        let told = told.iter().any(|considered| considered.matches);
                        let parsed = Url::parse(method, &url).unwrap().unwrap();
                        let intent = crate::RequestIntent {
                            protocol,
                            method,
                            path,
                        };
                        let granted =
                            match policy.decide_request(&parsed.host, parsed.port, &intent) {
                                crate::Verdict::Allow(permit) => !permit.secrets().is_empty(),
                                crate::Verdict::Deny(_) => false,
                            };
                        // A binding allows nothing: what it matches may still be denied.
                        if granted || host != "bound" {
                            assert_eq!(told, granted, "{method} {url}");
                        }
                    }
                }
            }
        }
    }
}
