//! What one rule made of a request, in words.

use serde::Serialize;

use crate::{
    explain::{handling_word, port_list, url::Url},
    fqdn::Fqdn,
    host::Host,
    host_pattern::HostPattern,
    http_match::trie::PathTrie,
    intent::AppProtocol,
    rule::{Position, Protocols, RequestRule, Rule, Target},
    verdict::Handling,
};

/// One rule that speaks of the host, or seems to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Considered {
    /// `egress[2]`, or the option of the command line.
    pub rule: String,
    /// Its place in the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Host or address as the rule has it.
    pub target: String,
    /// Whether it allows the request.
    pub matches: bool,
    /// What it lacks, or what of it matched.
    pub outcome: String,
}

impl Considered {
    pub(super) fn of(rule: &Rule, all: &[&Rule], method: &str, url: &Url) -> Self {
        let outcome = outcome(rule, all, method, url);
        let matches = outcome.is_ok();
        let (Ok(outcome) | Err(outcome)) = outcome;
        Self {
            rule: rule.reference.to_string(),
            line: rule.position.map(|Position { line, .. }| line),
            target: rule.target.to_string(),
            matches,
            outcome,
        }
    }
}

/// Whether `name` is the one above a wildcard, which it does not cover.
pub(super) fn is_apex(pattern: &HostPattern, name: &Fqdn) -> bool {
    matches!(pattern, HostPattern::Below(base) if base == name)
}

/// What `rule`, which speaks of the host, makes of a request: what matched, or what it lacks.
pub(super) fn outcome(
    rule: &Rule,
    all: &[&Rule],
    method: &str,
    url: &Url,
) -> Result<String, String> {
    if let (Target::Names(pattern), Host::Name(name)) = (&rule.target, &url.host)
        && !pattern.matches(name)
    {
        return Err(format!(
            "covers the names below {name}, never {name} itself"
        ));
    }
    let Some(port) = rule.ports.iter().find(|p| p.port == url.port) else {
        let ports = port_list(rule.ports.iter().map(|p| &p.port));
        return Err(format!("port {} is not among its ports: {ports}", url.port));
    };
    let with_port = all
        .iter()
        .filter(|r| r.ports.iter().any(|p| p.port == url.port));
    let decisive = with_port
        .filter(|r| applies(r, url))
        .min_by_key(|r| std::cmp::Reverse(weight(r)));
    if let Some(decisive) = decisive.filter(|d| d.handling != rule.handling) {
        return Err(format!(
            "treats bytes as {}, and the more specific {} decides: {}",
            handling_word(rule.handling),
            decisive.reference,
            handling_word(decisive.handling)
        ));
    }
    if !port.protocols.has(url.protocol) {
        let spoken = spoken(port.protocols);
        return Err(format!(
            "{} is not allowed on port {}: {spoken} is",
            url.protocol, url.port
        ));
    }
    match (&rule.requests, rule.handling) {
        (_, Handling::Opaque | Handling::Passthrough) => Ok("any bytes".to_owned()),
        (None, Handling::Inspect) => Ok("every request".to_owned()),
        (Some(requests), Handling::Inspect) => of_requests(requests, method, url),
    }
}

fn applies(rule: &Rule, url: &Url) -> bool {
    match (&rule.target, &url.host) {
        (Target::Names(pattern), Host::Name(name)) => pattern.matches(name),
        (Target::Addresses(net), Host::Ip(ip)) => net.contains(ip),
        (Target::Names(_), Host::Ip(_)) | (Target::Addresses(_), Host::Name(_)) => false,
    }
}

/// How specific a target is among those that speak of one host.
fn weight(rule: &Rule) -> usize {
    match &rule.target {
        Target::Names(HostPattern::Exact(_)) => usize::MAX,
        Target::Names(HostPattern::Below(base)) => base.as_str().len(),
        Target::Addresses(net) => net.prefix_len().into(),
    }
}

fn of_requests(requests: &[RequestRule], method: &str, url: &Url) -> Result<String, String> {
    let takes_method = |r: &&RequestRule| {
        let methods = r.methods.as_ref();
        methods.is_none_or(|list| list.iter().any(|m| m.as_str() == method))
    };
    let takes_path = |r: &&RequestRule| {
        let Some(paths) = &r.paths else {
            return true;
        };
        let mut tree = PathTrie::<()>::default();
        for path in paths {
            tree.leaf_mut(path);
        }
        let mut found = false;
        tree.visit(&url.path, |()| found = true);
        found
    };
    if let Some(rule) = requests.iter().find(|r| takes_method(r) && takes_path(r)) {
        return Ok(format!("{} matches", rule.reference));
    }
    if requests.is_empty() {
        return Err("`rules: []` allows no request".to_owned());
    }
    if !requests.iter().any(|r| takes_method(&r)) {
        return Err(format!("none of its rules has method {method}"));
    }
    Err(format!(
        "none of its rules with method {method} has a path that fits {}",
        url.path
    ))
}

fn spoken(protocols: Protocols) -> &'static str {
    let has = |protocol| protocols.has(protocol);
    match (has(AppProtocol::Https), has(AppProtocol::Http)) {
        (true, true) => "https or http",
        (true, false) => "https",
        (false, true) => "http",
        (false, false) => "nothing",
    }
}
