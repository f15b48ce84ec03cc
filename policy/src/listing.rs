//! The rules of a policy as people read them, and what the floors above leave of each.
//!
//! Said of rules as they are written, not decided: whether one request passes, the policy itself answers.

use std::{collections::HashSet, sync::Arc};

use crate::{
    difference::{says, told},
    findings::{Targets, covering_rule},
    policy::Policy,
    rule::{Rule, Target},
    verdict::{Handling, Mode},
};

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Where it stands: `egress[2]`.
    pub rule: String,
    /// What it says, in one line.
    pub says: String,
    /// Each floor that leaves less than all of it.
    pub bounds: Vec<Bounded>,
}

/// What a floor leaves of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded {
    /// The floor's name.
    pub floor: Arc<str>,
    /// What passes.
    pub leaves: Leaves,
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// Only what a rule of the floor allows, too.
    Part,
    /// No rule of the floor speaks of it.
    Nothing,
}

impl Policy {
    /// The first `most` of its rules.
    #[must_use]
    pub fn listed(&self, most: usize) -> Vec<Listed> {
        let floors = self
            .floors()
            .iter()
            .filter(|floor| floor.mode() == Mode::Enforce);
        let floors: Vec<_> = floors.map(Floor::of).collect();
        let rules = self.rules().iter().take(most);
        rules
            .map(|rule| Listed {
                rule: rule.reference.to_string(),
                says: says(rule),
                bounds: floors
                    .iter()
                    .filter_map(|floor| {
                        Some(Bounded {
                            floor: Arc::clone(&floor.policy.reference().name),
                            leaves: floor.left(rule)?,
                        })
                    })
                    .collect(),
            })
            .collect()
    }

    /// How many rules it has.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        self.rules().len()
    }

    /// Mode, denial style, holding, limits: what a document calls each, and what it is, of policy and floors
    /// the least.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        told(self).into()
    }
}

/// A floor, as each rule is held against it.
struct Floor<'a> {
    policy: &'a Policy,
    targets: Targets<'a>,
    /// What its rules say, once for all.
    words: HashSet<String>,
    /// All its rules look into what passes.
    plain: bool,
}

impl<'a> Floor<'a> {
    fn of(policy: &'a Policy) -> Self {
        let rules = policy.rules();
        Self {
            policy,
            targets: Targets::of(rules),
            words: rules.iter().map(|one| says(&bare(one))).collect(),
            plain: rules.iter().all(|one| one.handling == Handling::Inspect),
        }
    }

    /// What it leaves of a rule; `None` for all of it.
    fn left(&self, rule: &Rule) -> Option<Leaves> {
        let bare = bare(rule);
        let same = self.words.contains(&says(&bare));
        if same || (self.plain && covering_rule(&bare, &self.targets).is_some()) {
            return None;
        }
        let speaks = self.policy.rules().iter().any(|one| meet(one, rule));
        Some(if speaks {
            Leaves::Part
        } else {
            Leaves::Nothing
        })
    }
}

/// A floor says nothing of secrets: those are the policy's own.
fn bare(rule: &Rule) -> Rule {
    Rule {
        secrets: Arc::default(),
        clear_text_secrets: false,
        ..rule.clone()
    }
}

/// Whether two rules speak of some host and port that is the same.
fn meet(one: &Rule, other: &Rule) -> bool {
    let targets = match (&one.target, &other.target) {
        (Target::Names(one), Target::Names(other)) => one.covers(other) || other.covers(one),
        (Target::Addresses(one), Target::Addresses(other)) => {
            one.contains(other) || other.contains(one)
        }
        _ => false,
    };
    let ports = one.ports.iter().any(|port| {
        let mut theirs = other.ports.iter();
        theirs.any(|their| their.port == port.port)
    });
    targets && ports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, rules: &str) -> Policy {
        let text = format!("version: 1\negress:\n{rules}");
        let builder = crate::PolicyBuilder::new(name).document(&text, name);
        builder.unwrap().build().unwrap()
    }

    #[test]
    fn each_rule_is_listed_with_what_its_floors_leave() {
        let own = policy(
            "own",
            "  - {host: api.a.example, ports: [443], secrets: [TOKEN]}\n  \
             - {host: \"*.b.example\", ports: [443]}\n  \
             - {host: c.example, ports: [443], rules: [{methods: [GET]}]}\n  \
             - {ip: 203.0.113.7, ports: [22], protocol: tcp}\n",
        );
        assert!(own.listed(9).iter().all(|one| one.bounds.is_empty()));
        let wide = policy(
            "wide",
            "  - {host: \"*.a.example\", ports: [443]}\n  - {host: x.b.example, ports: [443]}\n  \
             - {host: c.example, ports: [443], rules: [{methods: [GET]}]}\n",
        );
        let watched = Policy::compile("version: 1\nmode: observe\negress: []\n", "seen").unwrap();
        let bounded = own.under(vec![wide, watched]);
        let left = |at: usize| {
            let listed = bounded.listed(9);
            let bounds = listed[at].bounds.iter();
            bounds
                .map(|one| (one.floor.to_string(), one.leaves))
                .collect::<Vec<_>>()
        };
        assert_eq!(left(0), [], "all of it, and the secret is its own to give");
        assert_eq!(left(1), [("wide".to_owned(), Leaves::Part)]);
        assert_eq!(left(2), [], "the same words");
        assert_eq!(left(3), [("wide".to_owned(), Leaves::Nothing)]);
        let first = &bounded.listed(1)[0];
        assert_eq!(first.rule, "egress[0]");
        assert!(
            first.says.contains("host api.a.example ports 443"),
            "{}",
            first.says
        );
        assert_eq!((bounded.listed(1).len(), bounded.rule_count()), (1, 4));
        assert!(bounded.settings().contains(&("mode", "enforce".to_owned())));
    }
}
