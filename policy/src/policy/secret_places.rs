//! Where a policy lets a secret go, for people who look after it.

use super::Policy;
use crate::secret_name::SecretName;

/// One rule that lets a secret go somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    /// Host and ports, as rules spell them: `*.example.com:443`.
    pub target: String,
    /// The program may hold the value itself.
    pub entrusted: bool,
    /// Nothing goes there: tokens in the answer become this secret.
    pub captures: bool,
}

impl Policy {
    /// What each rule that names this secret does with it, in the order of the rules.
    #[must_use]
    pub fn uses_of(&self, name: &SecretName) -> Vec<SecretUse> {
        let mut uses = Vec::new();
        for rule in self.rules() {
            let grants = rule.secrets.iter().filter(|grant| grant.name == *name);
            for grant in grants {
                let ports = rule.ports.iter().map(|port| port.port.to_string());
                let ports: Vec<String> = ports.collect();
                uses.push(SecretUse {
                    target: format!("{}:{}", rule.target, ports.join(",")),
                    entrusted: grant.entrusted,
                    captures: grant.captures,
                });
            }
        }
        uses
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
        );
        let builder = crate::PolicyBuilder::new("p").document(text, "p").unwrap();
        let policy = builder.build().unwrap();
        let targets = |name: &str| {
            let uses = policy.uses_of(&name.parse().unwrap());
            let targets: Vec<_> = uses.into_iter().map(|one| one.target).collect();
            targets
        };
        assert_eq!(targets("TOKEN"), ["a.example:443", "*.c.example:443,8443"]);
        assert_eq!(targets("OTHER"), ["a.example:443"]);
        assert_eq!(targets("NOBODYS"), [""; 0]);
    }
}
