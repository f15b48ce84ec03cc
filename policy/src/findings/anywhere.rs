//! Secrets that may stand anywhere in a request: one remark for a whole policy.
//!
//! A body that holds a sentinel is sent with the value, and some hosts show what they were sent (a
//! comment, a paste, an error that repeats it). What only reads shows nobody anything.

use crate::{
    findings::{Finding, FindingKind, push},
    rule::Rule,
    verdict::Handling,
};

pub(super) fn look(rules: &[Rule], findings: &mut Vec<Finding>) {
    let mut first = None;
    let mut names: Vec<&str> = Vec::new();
    for rule in rules.iter().filter(|rule| may_write(rule)) {
        let grants = rule.secrets.iter();
        let wide = grants.filter(|g| g.places.is_none() && !g.captures && !g.entrusted);
        for grant in wide {
            first.get_or_insert(rule);
            if !names.contains(&grant.name.as_str()) {
                names.push(grant.name.as_str());
            }
        }
    }
    let Some(first) = first else { return };
    let message = format!(
        "{} may stand anywhere in a request, also in a body that the host shows to others: say where \
         it belongs, as in `{{name: {}, in: [\"header:Authorization\"]}}`",
        names.join(", "),
        names.first().copied().unwrap_or_default(),
    );
    push(findings, FindingKind::SecretAnywhere, first, message);
}

/// Whether a request that it allows may leave something with the host.
fn may_write(rule: &Rule) -> bool {
    let reads = |method: &str| ["GET", "HEAD", "OPTIONS"].contains(&method);
    rule.handling == Handling::Inspect
        && rule.requests.as_ref().is_none_or(|requests| {
            requests.iter().any(|request| {
                let methods = request.methods.as_ref();
                methods.is_none_or(|methods| methods.iter().any(|m| !reads(m.as_str())))
            })
        })
}
