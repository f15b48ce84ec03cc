//! Captures that another rule leads past: by another method, where the capture names methods and no path. At a path
//! of its own whatever comes is captured.

use crate::{
    findings::{Finding, FindingKind, Targets, push},
    http_match::Method,
    rule::Rule,
    verdict::Handling,
};

pub(super) fn look(rules: &[Rule], findings: &mut Vec<Finding>) {
    let narrow = |rule: &&Rule| captures(rule) && !by_method(rule).is_empty();
    let narrow: Vec<&Rule> = rules.iter().filter(narrow).collect();
    if narrow.is_empty() {
        return;
    }
    let targets = Targets::among(rules, |rule| {
        rule.handling == Handling::Inspect && !captures(rule)
    });
    for rule in narrow {
        let covering = targets.covering(&rule.target, MOST_COMPARED).into_iter();
        let mut beside = covering.filter(|other| other.ports.iter().any(|t| has(rule, t.port)));
        if let Some(other) = beside.find(|other| leads_past(other, rule)) {
            let message = format!(
                "its capture speaks of some methods alone and of no path, and {} ({}) lets others go: \
                 what those are given comes in as it is. Name the paths here, or narrow that one",
                other.reference, other.target
            );
            push(findings, FindingKind::Uncaptured, rule, message);
        }
    }
}

fn captures(rule: &Rule) -> bool {
    rule.secrets.iter().any(|grant| grant.captures)
}

fn has(rule: &Rule, port: crate::host::Port) -> bool {
    rule.ports.iter().any(|own| own.port == port)
}

/// The methods that its request rules name where they name no path.
fn by_method(rule: &Rule) -> Vec<&Method> {
    let requests = rule.requests.iter().flatten();
    let anywhere = requests.filter(|request| request.paths.is_none());
    anywhere
        .filter_map(|request| request.methods.as_deref())
        .flatten()
        .collect()
}

/// Whether `other` lets a method go that `rule` does not capture.
fn leads_past(other: &Rule, rule: &Rule) -> bool {
    let requests = rule.requests.iter().flatten();
    let takes_any = requests
        .filter(|request| request.paths.is_none())
        .any(|request| request.methods.is_none());
    if takes_any {
        return false;
    }
    let captured = by_method(rule);
    let Some(requests) = &other.requests else {
        return true;
    };
    requests.iter().any(|theirs| match &theirs.methods {
        None => true,
        Some(methods) => methods.iter().any(|method| !captured.contains(&method)),
    })
}

/// Rules that one is compared with.
const MOST_COMPARED: usize = 64;
