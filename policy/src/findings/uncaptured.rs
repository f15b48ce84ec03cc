//! Captures that another rule leads past: by another method, to the same path.

use crate::{
    findings::{Finding, FindingKind, Targets, push},
    http_match::{Method, PathPattern},
    rule::{RequestRule, Rule},
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
                "its capture speaks of some methods alone, and {} ({}) lets others go to the same \
                 path: what those are given comes in as it is. Leave `methods` out here, or narrow that one",
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

/// Its request rules that name methods.
fn by_method(rule: &Rule) -> Vec<(&[Method], Option<&[PathPattern]>)> {
    let requests = rule.requests.iter().flatten();
    let named = requests.filter_map(|request| {
        let methods = request.methods.as_deref()?;
        Some((methods, request.paths.as_deref()))
    });
    named.collect()
}

/// Whether `other` lets a method go that `rule` does not capture, to a path where it captures.
fn leads_past(other: &Rule, rule: &Rule) -> bool {
    by_method(rule).into_iter().any(|(_, paths)| {
        let Some(requests) = &other.requests else {
            return !takes_any(rule, paths);
        };
        requests.iter().any(|theirs| {
            let more = match &theirs.methods {
                None => !takes_any(rule, paths),
                Some(methods) => methods.iter().any(|m| !takes(rule, m, paths)),
            };
            more && meet(paths, theirs.paths.as_deref())
        })
    })
}

/// Whether it captures every method at one of these paths.
fn takes_any(rule: &Rule, paths: Option<&[PathPattern]>) -> bool {
    at(rule, paths).any(|request| request.methods.is_none())
}

fn takes(rule: &Rule, method: &Method, paths: Option<&[PathPattern]>) -> bool {
    at(rule, paths).any(|request| {
        let methods = request.methods.as_ref();
        methods.is_none_or(|methods| methods.contains(method))
    })
}

fn at<'a>(
    rule: &'a Rule,
    paths: Option<&'a [PathPattern]>,
) -> impl Iterator<Item = &'a RequestRule> {
    let requests = rule.requests.iter().flatten();
    requests.filter(move |request| meet(paths, request.paths.as_deref()))
}

/// Whether some path is surely one of both.
fn meet(one: Option<&[PathPattern]>, other: Option<&[PathPattern]>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return true;
    };
    let alike = |one: &PathPattern, other: &PathPattern| {
        one.covers(other) || other.covers(one) || one.loosely() == other.loosely()
    };
    one.iter()
        .any(|one| other.iter().any(|other| alike(one, other)))
}

/// Rules that one is compared with.
const MOST_COMPARED: usize = 64;
