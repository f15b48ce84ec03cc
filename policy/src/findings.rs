//! What is legal in a policy but hardly meant: rules that add nothing, open more than they seem to, or
//! can never be used.
//!
//! Findings refuse nothing; a person reads them where a policy is checked or edited. Looking for them
//! costs about what compiling costs, on 100,000 rules too.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde::Serialize;

use crate::{
    compile_error::Problem,
    host_pattern::HostPattern,
    moment::Moment,
    policy::Policy,
    rule::{Rule, Target},
    secret_name::SecretName,
    verdict::Mode,
};

mod anywhere;
mod overlap;
mod single;
mod uncaptured;

pub(crate) use overlap::covering_rule;

/// One remark on a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What sort of remark.
    pub kind: FindingKind,
    /// The rule it is about, `egress[2]`; empty for the policy as a whole.
    pub rule: String,
    /// The rule's line, from 1; 0 for an option of the command line and for the policy as a whole.
    pub line: u64,
    /// The rule's column, from 1; 0 as `line`.
    pub column: u64,
    /// What was found and what to do.
    pub message: String,
}

/// The sorts of remarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Another rule already allows everything that this one does.
    Shadowed,
    /// This rule narrows methods or paths, and another one allows every request all the same.
    Widened,
    /// More is opened than one owner's hosts, or bytes are not looked into where they could be.
    TooWide,
    /// It is written to be taken for another host, or may be.
    Lookalike,
    /// Nothing can ever match it.
    Unreachable,
    /// A secret may go in clear text.
    SecretInClearText,
    /// A secret that is named and never swapped in.
    SecretUnused,
    /// A secret that is named, and the vault has none of that name.
    SecretNotSet,
    /// A secret whose value the program holds itself.
    SecretEntrusted,
    /// A secret that may stand anywhere in requests that leave something with the host.
    SecretAnywhere,
    /// Tokens that are captured, and given to requests that no capture speaks of.
    Uncaptured,
    /// `allow_private` that opens nothing.
    OpensNothing,
    /// Its moment is over.
    Expired,
    /// The policy denies nothing.
    ObserveOnly,
}

impl FindingKind {
    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shadowed => "shadowed",
            Self::Widened => "widened",
            Self::TooWide => "too_wide",
            Self::Lookalike => "lookalike",
            Self::Unreachable => "unreachable",
            Self::SecretInClearText => "secret_in_clear_text",
            Self::SecretUnused => "secret_unused",
            Self::SecretNotSet => "secret_not_set",
            Self::SecretEntrusted => "secret_entrusted",
            Self::SecretAnywhere => "secret_anywhere",
            Self::Uncaptured => "uncaptured",
            Self::OpensNothing => "opens_nothing",
            Self::Expired => "expired",
            Self::ObserveOnly => "observe_only",
        }
    }
}

/// `3:5: too_wide: egress[0]: …`, to be put behind a file's name.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:{}: ", self.line, self.column)?;
        }
        write!(f, "{}: ", self.kind.as_str())?;
        if !self.rule.is_empty() {
            write!(f, "{}: ", self.rule)?;
        }
        f.write_str(&self.message)
    }
}

impl Policy {
    /// What is hardly meant, in the order of the document; what concerns several rules last.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.mode() == Mode::Observe {
            findings.push(Finding {
                kind: FindingKind::ObserveOnly,
                rule: String::new(),
                line: 0,
                column: 0,
                message: "`mode: observe` denies no public destination: set `mode: enforce` when \
                          the rules are complete"
                    .to_owned(),
            });
        }
        let targets = Targets::of(self.rules());
        for rule in self.rules() {
            single::look(rule, &mut findings);
        }
        overlap::look(self.rules(), &targets, &mut findings);
        uncaptured::look(self.rules(), &mut findings);
        anywhere::look(self.rules(), &mut findings);
        findings
    }

    /// The secrets that rules grant and that are not set where the policy is to be in force, each at the first rule that
    /// names it. What logins made inside become is set by those.
    #[must_use]
    pub fn unset_secrets(&self, is_set: impl Fn(&SecretName) -> bool) -> Vec<Finding> {
        let mut told: HashSet<SecretName> = self.captured_names().into_iter().collect();
        let mut findings = Vec::new();
        for rule in self.rules() {
            for grant in rule.secrets.iter() {
                if is_set(&grant.name) || !told.insert(grant.name.clone()) {
                    continue;
                }
                let message = format!(
                    "the vault has no secret {name}: a server that is given it does not start, and nothing is swapped in \
                     for it; set it (gig secret set {name}), or name the one that is meant",
                    name = grant.name
                );
                push(&mut findings, FindingKind::SecretNotSet, rule, message);
            }
        }
        findings
    }

    /// The rules that have ended at `now`.
    #[must_use]
    pub fn expired(&self, now: Moment) -> Vec<Finding> {
        let mut findings = Vec::new();
        for rule in self.rules() {
            if let Some(end) = rule.expires.filter(|end| *end <= now) {
                let message = format!("it ended at {end} and matches nothing any more: remove it");
                push(&mut findings, FindingKind::Expired, rule, message);
            }
        }
        findings
    }
}

/// Rules by what they speak of, so that what they cover is found without comparing all with all.
pub(crate) struct Targets<'a> {
    rules: HashMap<&'a Target, Vec<&'a Rule>>,
    /// Prefix lengths in use, so that covering ranges can be asked for.
    lengths: Vec<u8>,
}

impl<'a> Targets<'a> {
    /// Those that let every request pass.
    pub(crate) fn of(all: &'a [Rule]) -> Self {
        Self::among(all, |rule| rule.requests.is_none())
    }

    /// Those that `kept` keeps.
    fn among(all: &'a [Rule], kept: impl Fn(&Rule) -> bool) -> Self {
        let mut rules: HashMap<_, Vec<_>> = HashMap::new();
        let mut lengths = Vec::new();
        for rule in all.iter().filter(|rule| kept(rule)) {
            rules.entry(&rule.target).or_default().push(rule);
            if let Target::Addresses(net) = &rule.target
                && !lengths.contains(&net.prefix_len())
            {
                lengths.push(net.prefix_len());
            }
        }
        Self { rules, lengths }
    }

    /// Those whose target covers `target`, at most `most`.
    fn covering(&self, target: &Target, most: usize) -> Vec<&'a Rule> {
        let mut wider = vec![target.clone()];
        match target {
            Target::Names(HostPattern::Exact(name) | HostPattern::Below(name)) => {
                wider.extend(name.parents().map(|p| Target::Names(HostPattern::Below(p))));
            }
            Target::Addresses(net) => {
                let shorter = self.lengths.iter().filter(|l| **l < net.prefix_len());
                let nets = shorter.filter_map(|l| ipnet::IpNet::new(net.addr(), *l).ok());
                wider.extend(nets.map(|net| Target::Addresses(net.trunc())));
            }
        }
        let found = wider.iter().filter_map(|t| self.rules.get(t)).flatten();
        found.copied().take(most).collect()
    }
}

fn push(findings: &mut Vec<Finding>, kind: FindingKind, rule: &Rule, message: String) {
    let Problem {
        line,
        column,
        message,
    } = match rule.position {
        Some(at) => Problem::at(at, message),
        None => Problem::nowhere(message),
    };
    let rule = rule.reference.to_string();
    findings.push(Finding {
        kind,
        rule,
        line,
        column,
        message,
    });
}

#[cfg(test)]
mod tests;
