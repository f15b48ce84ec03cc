//! Findings that two rules give together: what one allows the other allows already.

use crate::{
    findings::{Finding, FindingKind, Targets, push},
    http_match::{Method, PathPattern},
    rule::{RequestRule, Rule},
};

pub(super) fn look(rule: &Rule, targets: &Targets<'_>, findings: &mut Vec<Finding>) {
    if rule.ports.is_empty() {
        return;
    }
    within(rule, findings);
    for other in targets.covering(&rule.target, MOST_COMPARED) {
        if std::ptr::eq(other, rule) || !same_bytes(other, rule) {
            continue;
        }
        if rule
            .requests
            .as_ref()
            .is_some_and(|requests| !requests.is_empty())
        {
            let message = format!(
                "its `rules` do not narrow anything, since {} ({}) allows every request there: \
                 remove that one, or narrow it too",
                other.reference, other.target
            );
            push(findings, FindingKind::Widened, rule, message);
            return;
        }
        if rule.requests.is_none() && adds_nothing(other, rule) && tie(other, rule, targets) {
            let message = format!(
                "{} ({}) already allows all of it: remove it",
                other.reference, other.target
            );
            push(findings, FindingKind::Shadowed, rule, message);
            return;
        }
    }
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
    let private = rule
        .allow_private
        .iter()
        .all(|net| other.allow_private.contains(net));
    let secrets = rule.secrets.iter().all(|name| other.secrets.contains(name));
    private && secrets && (!rule.clear_text_secrets || other.clear_text_secrets)
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
    let requests = rule.requests.as_deref().unwrap_or_default();
    if requests.len() > MOST_COMPARED {
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

/// A document in which one host has more rules than this is made by a program, which compares itself.
const MOST_COMPARED: usize = 200;
