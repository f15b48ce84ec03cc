//! Findings that two rules give together: what one allows the other allows already.

use crate::{
    findings::{Finding, FindingKind, Targets, push},
    http_match::{Method, PathPattern},
    rule::{RequestRule, Rule},
};

pub(super) fn look(all: &[Rule], open: &Targets<'_>, findings: &mut Vec<Finding>) {
    let narrow = Targets::among(all, narrows);
    for rule in all.iter().filter(|rule| !rule.ports.is_empty()) {
        within(rule, findings);
        if !under_open(rule, open, findings) && narrows(rule) {
            under_narrow(rule, &narrow, findings);
        }
    }
}

/// Whether only some requests are its.
fn narrows(rule: &Rule) -> bool {
    rule.requests
        .as_ref()
        .is_some_and(|requests| !requests.is_empty())
}

/// What is told of a rule beside one that lets every request pass; whether anything was.
fn under_open(rule: &Rule, targets: &Targets<'_>, findings: &mut Vec<Finding>) -> bool {
    for other in targets.covering(&rule.target, MOST_COMPARED) {
        if std::ptr::eq(other, rule) || !same_bytes(other, rule) {
            continue;
        }
        if narrows(rule) {
            let message = format!(
                "its `rules` do not narrow anything, since {} ({}) allows every request there: \
                 remove that one, or narrow it too",
                other.reference, other.target
            );
            push(findings, FindingKind::Widened, rule, message);
            return true;
        }
        if rule.requests.is_none() && adds_nothing(other, rule) && tie(other, rule, targets) {
            shadowed(rule, other, findings);
            return true;
        }
    }
    false
}

/// What is told of a rule beside one that takes only some requests too.
fn under_narrow(rule: &Rule, targets: &Targets<'_>, findings: &mut Vec<Finding>) {
    let mut left = MOST_PATTERNS;
    for other in targets.covering(&rule.target, MOST_COMPARED) {
        let Some(rest) = left.checked_sub(patterns(rule).saturating_mul(patterns(other))) else {
            return;
        };
        left = rest;
        if !std::ptr::eq(other, rule)
            && same_bytes(other, rule)
            && adds_nothing(other, rule)
            && tie(other, rule, targets)
        {
            shadowed(rule, other, findings);
            return;
        }
    }
}

fn shadowed(rule: &Rule, other: &Rule, findings: &mut Vec<Finding>) {
    let message = format!(
        "{} ({}) already allows all of it: remove it",
        other.reference, other.target
    );
    push(findings, FindingKind::Shadowed, rule, message);
}

/// The rule among `targets` that allows all that `rule` does.
pub(crate) fn covering_rule(rule: &Rule, targets: &Targets<'_>) -> Option<String> {
    let mut wider = targets.covering(&rule.target, MOST_COMPARED).into_iter();
    let found = wider.find(|other| same_bytes(other, rule) && adds_nothing(other, rule));
    found.map(|other| other.reference.to_string())
}

/// Whether `other` treats bytes as `rule` does on each of its ports and protocols, for as long.
fn same_bytes(other: &Rule, rule: &Rule) -> bool {
    other.handling == rule.handling
        && other.outlasts(rule)
        && rule.ports.iter().all(|own| {
            let mut theirs = other.ports.iter();
            theirs.any(|t| t.port == own.port && t.protocols.covers(own.protocols))
        })
}

fn adds_nothing(other: &Rule, rule: &Rule) -> bool {
    let asked = requests(rule).iter();
    let mut asked = asked.map(|request| requests(other).iter().any(|wide| covers(wide, request)));
    let all = other.requests.is_none() || (rule.requests.is_some() && asked.all(|covered| covered));
    let private = rule
        .allow_private
        .iter()
        .all(|net| other.allow_private.contains(net));
    let secrets = rule.secrets.iter().all(|name| other.secrets.contains(name));
    all && private && secrets && (!rule.clear_text_secrets || other.clear_text_secrets)
}

fn requests(rule: &Rule) -> &[RequestRule] {
    rule.requests.as_deref().unwrap_or_default()
}

/// Of two rules that say the same, the later one is told.
fn tie(other: &Rule, rule: &Rule, targets: &Targets<'_>) -> bool {
    let mutual =
        other.target == rule.target && same_bytes(rule, other) && adds_nothing(rule, other);
    if !mutual {
        return true;
    }
    let mut of_target = targets.rules.get(&rule.target).into_iter().flatten();
    of_target.find_map(|r| {
        if std::ptr::eq(*r, other) {
            Some(true)
        } else {
            std::ptr::eq(*r, rule).then_some(false)
        }
    }) == Some(true)
}

/// Request rules of one entry that another one of it covers.
fn within(rule: &Rule, findings: &mut Vec<Finding>) {
    let requests = requests(rule);
    if requests.len() > MOST_COMPARED
        || patterns(rule).saturating_mul(patterns(rule)) > MOST_PATTERNS
    {
        return;
    }
    for (i, request) in requests.iter().enumerate() {
        let covering = requests.iter().enumerate().find(|(j, other)| {
            *j != i && covers(other, request) && (*j < i || !covers(request, other))
        });
        if let Some((_, other)) = covering {
            let message = format!(
                "{} adds nothing to {}: remove it",
                request.reference, other.reference
            );
            push(findings, FindingKind::Shadowed, rule, message);
        }
    }
}

fn covers(wide: &RequestRule, narrow: &RequestRule) -> bool {
    let methods = |m: &Vec<Method>| {
        narrow
            .methods
            .as_ref()
            .is_some_and(|n| n.iter().all(|method| m.contains(method)))
    };
    let paths = |p: &Vec<PathPattern>| {
        let covered = |path: &PathPattern| p.iter().any(|q| q.covers(path));
        narrow.paths.as_ref().is_some_and(|n| n.iter().all(covered))
    };
    wide.methods.as_ref().is_none_or(methods) && wide.paths.as_ref().is_none_or(paths)
}

/// How many paths its request rules name, at least one each.
fn patterns(rule: &Rule) -> usize {
    let paths = requests(rule)
        .iter()
        .map(|request| request.paths.as_ref().map_or(1, Vec::len));
    paths.map(|paths| paths.max(1)).sum()
}

/// Of one rule with others: some milliseconds.
const MOST_PATTERNS: usize = 250_000;
/// A document in which one host has more rules than this is made by a program, which compares itself.
const MOST_COMPARED: usize = 200;
