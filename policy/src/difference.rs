//! What two policies say differently: settings, rules that are new, rules that are gone.
//!
//! Rules are compared by what they say, not by where they stand or how they are spelled, so that a
//! document that was sorted or re-indented differs in nothing. Where a new rule allows no more than an
//! old one did, or what a lost rule allowed is allowed by another, that is said; so is where a rule that
//! came or went leaves connections to another rule that treats their bytes otherwise. Deciding on
//! recorded traffic is `replay`'s.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

mod handling;

pub use handling::HandlingChange;

use crate::{
    findings,
    intent::AppProtocol,
    limits::Limits,
    policy::Policy,
    rule::{RequestRule, Rule, Target},
    verdict::{DenyStyle, Handling, Mode},
};

/// The difference between an old and a new policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Mode, denial style, holding, limits.
    pub settings: Vec<SettingChange>,
    /// Rules of the new policy that the old one has not.
    pub added: Vec<RuleChange>,
    /// Rules of the old policy that the new one has not.
    pub removed: Vec<RuleChange>,
    /// Where both allow connections and treat their bytes otherwise.
    pub handling: Vec<HandlingChange>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// The document's field.
    pub field: &'static str,
    /// What it was.
    pub old: String,
    /// What it is.
    pub new: String,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleChange {
    /// Where it stands: `egress[2]`.
    pub rule: String,
    /// What it says, in one line.
    pub says: String,
    /// The rule of the other policy that allows all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered_by: Option<String>,
}

impl Difference {
    /// Whether both policies say the same.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.settings.is_empty()
            && self.added.is_empty()
            && self.removed.is_empty()
            && self.handling.is_empty()
    }
}

/// One line a change: `+` is new, `-` is gone, `~` is a setting.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        for SettingChange { field, old, new } in &self.settings {
            lines.push(format!("~ {field}: {old} -> {new}"));
        }
        let mut rules = |sign: char, changes: &[RuleChange], covered: &str| {
            for change in changes {
                let RuleChange { rule, says, .. } = change;
                let mut line = format!("{sign} {says}  ({rule})");
                if let Some(other) = &change.covered_by {
                    line += &format!("; {covered} {other}");
                }
                lines.push(line);
            }
        };
        rules('-', &self.removed, "still allowed by");
        rules('+', &self.added, "was already allowed by");
        lines.extend(self.handling.iter().map(ToString::to_string));
        if lines.is_empty() {
            lines.push("no difference".to_owned());
        }
        f.write_str(&lines.join("\n"))
    }
}

impl Policy {
    /// What `newer` says that this policy does not, and the other way round.
    #[must_use]
    pub fn difference(&self, newer: &Self) -> Difference {
        Difference {
            settings: settings(self, newer),
            added: missing(newer, self),
            removed: missing(self, newer),
            handling: handling::changes(self, newer),
        }
    }
}

/// Rules of `of` that `from` lacks.
fn missing(of: &Policy, from: &Policy) -> Vec<RuleChange> {
    let mut there: BTreeMap<String, usize> = BTreeMap::new();
    for rule in from.rules() {
        *there.entry(says(rule)).or_default() += 1;
    }
    let targets = findings::Targets::of(from.rules());
    // Where some bytes are not looked into, the most specific rule decides which: what covers a rule's
    // hosts may not be what holds there.
    let plain = from.rules().iter().chain(of.rules());
    let plain = plain
        .into_iter()
        .all(|rule| rule.handling == Handling::Inspect);
    let mut changes = Vec::new();
    for rule in of.rules() {
        let says = says(rule);
        if let Some(left) = there.get_mut(&says).filter(|left| **left > 0) {
            *left -= 1;
            continue;
        }
        changes.push(RuleChange {
            rule: rule.reference.to_string(),
            says,
            covered_by: findings::covering_rule(rule, &targets).filter(|_| plain),
        });
    }
    changes
}

/// A rule in one line, the same for all spellings of it.
pub(crate) fn says(rule: &Rule) -> String {
    let target = match &rule.target {
        Target::Names(_) => format!("host {}", rule.target),
        Target::Addresses(_) => format!("ip {}", rule.target),
    };
    let mut ports: Vec<_> = rule
        .ports
        .iter()
        .map(|port| {
            let words = [AppProtocol::Https, AppProtocol::Http]
                .into_iter()
                .filter(|protocol| port.protocols.has(*protocol));
            let words: Vec<_> = words.map(AppProtocol::as_str).collect();
            (port.port, words.join("+"))
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    let ports = ports.into_iter().map(|(port, words)| match rule.handling {
        Handling::Inspect => format!("{port}/{words}"),
        Handling::Passthrough => format!("{port}/tls passthrough"),
        Handling::Opaque => format!("{port}/tcp"),
    });
    let ports: Vec<_> = ports.collect();
    let mut text = format!("{target} ports {}", ports.join(", "));
    if let Some(requests) = &rule.requests {
        let mut requests: Vec<_> = requests.iter().map(request).collect();
        requests.sort_unstable();
        requests.dedup();
        text += &format!(" only [{}]", requests.join("; "));
    }
    let mut listed = |word: &str, mut items: Vec<String>| {
        if !items.is_empty() {
            items.sort_unstable();
            items.dedup();
            text += &format!(" {word} {}", items.join(", "));
        }
    };
    let private = rule.allow_private.iter().map(ToString::to_string);
    listed("private", private.collect());
    let secrets = rule.secrets.iter().map(ToString::to_string);
    listed("secrets", secrets.collect());
    if rule.clear_text_secrets && !rule.secrets.is_empty() {
        text += " (also in clear text)";
    }
    if let Some(end) = rule.expires {
        text += &format!(" until {end}");
    }
    text
}

fn request(request: &RequestRule) -> String {
    fn list<T: ToString>(items: Option<&Vec<T>>, every: &str) -> String {
        let Some(items) = items else {
            return every.to_owned();
        };
        let mut items: Vec<_> = items.iter().map(ToString::to_string).collect();
        items.sort_unstable();
        items.dedup();
        items.join(" ")
    }
    let methods = list(request.methods.as_ref(), "every method");
    let paths = list(request.paths.as_ref(), "every path");
    format!("{methods} of {paths}")
}

fn settings(old: &Policy, new: &Policy) -> Vec<SettingChange> {
    let fields = told(old).into_iter().zip(told(new));
    let changed = fields.filter(|((_, old), (_, new))| old != new);
    changed
        .map(|((field, old), (_, new))| SettingChange { field, old, new })
        .collect()
}

/// Every setting: what a document calls it, and what it is.
pub(crate) fn told(policy: &Policy) -> [(&'static str, String); 7] {
    let Limits {
        requests_per_minute,
        connections,
        request_body,
        upload_per_hour,
    } = policy.limits();
    let limit = |limit: Option<String>| limit.unwrap_or_else(|| "no limit".to_owned());
    let mode = match policy.mode() {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    };
    let deny = match policy.deny_style() {
        DenyStyle::Explain => "explain",
        DenyStyle::Reset => "reset",
    };
    let hold = policy.hold();
    let hold = hold.map_or_else(
        || "nobody is asked".to_owned(),
        |most| format!("{}s", most.as_secs()),
    );
    [
        ("mode", mode.to_owned()),
        ("deny", deny.to_owned()),
        ("hold", hold),
        (
            "limits.requests_per_minute",
            limit(requests_per_minute.map(|n| n.to_string())),
        ),
        ("limits.connections", connections.to_string()),
        (
            "limits.request_body",
            limit(request_body.map(|n| n.to_string())),
        ),
        (
            "limits.upload_per_hour",
            limit(upload_per_hour.map(|n| n.to_string())),
        ),
    ]
}

#[cfg(test)]
mod tests;
