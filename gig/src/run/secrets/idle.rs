//! Bindings of `--secret` of which nothing can come, as the policy is: a binding allows nothing by itself.

use gig_policy::{Binding, Policy, Port, SecretName};

use crate::{args::run::RunArgs, stderr::tell};

/// Says of each what it lacks.
pub(super) fn note(args: &RunArgs, policy: &Policy) {
    for binding in args.secret.iter().flat_map(|secret| &secret.bindings) {
        if let Some(lack) = lack(binding, policy) {
            let (name, place) = (binding.name(), binding.place());
            tell(&format!("gig: --secret {name}@{place} {lack}\n"));
        }
    }
}

/// Says which secrets the policy would let out that the program is not given.
pub(super) fn note_ungiven(args: &RunArgs, policy: &Policy) {
    // What comes of logins made inside, and what renews it, is given by the login.
    let captured = policy.captured_names();
    let grants: Vec<_> = captured
        .iter()
        .filter_map(|name| name.of_grants().ok())
        .collect();
    let given = |name: &SecretName| args.secret.iter().any(|secret| secret.name == *name);
    let names = policy.secret_names();
    let names = names.iter();
    let ungiven =
        names.filter(|name| !given(name) && !captured.contains(name) && !grants.contains(name));
    for name in ungiven {
        tell(&format!(
            "gig: the policy has rules for secret {name}, and the program is not given it, so that its requests go without: \
             --secret {name} sets its variable to a sentinel, or has gig sign or show the certificate, as its kind is\n"
        ));
    }
}

/// Why nothing comes of a binding, and what to do.
fn lack(binding: &Binding, policy: &Policy) -> Option<String> {
    let (name, host, place) = (binding.name(), binding.host(), binding.place());
    if binding.port() == Port::HTTP {
        return Some(
            "binds the secret to a port of clear text, into which no option puts a value: bind it to the port \
             of https, or name it under `secrets` of a rule with `protocol: http` in the policy document"
                .to_owned(),
        );
    }
    if policy.may_reach(binding) {
        return None;
    }
    // Port 80 is allowed beside 443, and takes none.
    let mut ports = policy.ports_towards(binding);
    if ports == [Port::HTTP] {
        return Some(format!(
            "binds the secret, and rules allow {host} for the clear text of port 80 alone, into which no option puts a \
             value: add --allow {place}, or name it under `secrets` of a rule with `protocol: http` in the policy document"
        ));
    }
    ports.retain(|port| *port != Port::HTTP);
    if !ports.is_empty() {
        let at = |port: &Port| match *port {
            Port::HTTPS => host.clone(),
            port => format!("{host}:{port}"),
        };
        let bound: Vec<_> = ports.iter().map(at).collect();
        return Some(format!(
            "binds the secret to port {port} alone, and rules allow {others}: write --secret {name}@{others}, or \
             allow {place} as well",
            port = binding.port(),
            others = bound.join(","),
        ));
    }
    if policy.passes_unopened(binding) {
        return Some(format!(
            "binds the secret, and {host} is passed through unopened, so that no value can be put in: let gig \
             open it (leave `tls: passthrough` or `protocol: tcp` out)"
        ));
    }
    Some(format!(
        "binds the secret and no rule allows {place}: add --allow {place}, or a rule in the policy document"
    ))
}

#[cfg(test)]
mod tests {
    use gig_policy::PolicyBuilder;

    use super::*;

    #[test]
    fn a_binding_is_told_of_where_nothing_comes_of_it_and_what_would_help() {
        for (bound, allowed, says) in [
            ("api.example.com", &["api.example.com"][..], None),
            ("api.example.com:8443", &["api.example.com:8443"], None),
            (
                "api.example.com",
                &["api.example.com:80"],
                Some("for the clear text of port 80 alone"),
            ),
            ("api.example.com:8443", &["*.example.com:8443"], None),
            ("*.example.com:8443", &["api.example.com:8443"], None),
            ("api.example.com", &[], Some("add --allow api.example.com,")),
            (
                "api.example.com:8443",
                &["other.example.com:8443"],
                Some("add --allow api.example.com:8443,"),
            ),
            // What is bound to the port of https goes to no other.
            (
                "api.example.com",
                &["api.example.com:8443", "api.example.com:9443"],
                Some(
                    "write --secret T@api.example.com:8443,api.example.com:9443, or allow api.example.com as well",
                ),
            ),
            (
                "api.example.com:8443",
                &["api.example.com"],
                Some("write --secret T@api.example.com, or allow api.example.com:8443 as well"),
            ),
            (
                "api.example.com:80",
                &["api.example.com"],
                Some("to a port of clear text"),
            ),
            (
                "db.example.com:5432",
                &["tcp:db.example.com:5432"],
                Some("passed through unopened"),
            ),
        ] {
            let mut builder = PolicyBuilder::new("test");
            for option in allowed {
                builder = builder.allow(option).unwrap();
            }
            let policy = builder.build().unwrap();
            let binding = Binding::parse("T".parse().unwrap(), bound).unwrap();
            let lack = lack(&binding, &policy);
            match says {
                None => assert_eq!(lack, None, "{bound}"),
                Some(says) => {
                    let lack = lack.unwrap_or_default();
                    assert!(lack.contains(says), "{bound}: {lack}");
                }
            }
        }
    }
}
