//! A policy of OpenShell: `network_policies`, each with endpoints and the programs that may use them.

use self::overlapping::Endpoint;
use super::{EVERY_PROGRAM, Located, Node, Reading, SHOWN, node};
use crate::draft::{DraftEntry, DraftRule};

mod globs;
mod overlapping;

pub(super) fn read(text: &str, reading: &mut Reading) {
    let Some(root) = node::root(text, reading) else {
        return;
    };
    let Some(policies) = node::field(&root, "network_policies") else {
        reading.problem(
            root.at,
            "no `network_policies`: this is not a policy of OpenShell",
        );
        return;
    };
    reading.unread("the document", &root, &OF_DOCUMENT);
    reading.of_the_run(
        &root,
        &[
            ("filesystem_policy", SHOWN),
            ("landlock", SHOWN),
            (
                "process",
                "a program runs as nobody there, confined whoever it is",
            ),
        ],
    );
    let (mut read, mut may_be_private) = (Vec::new(), None);
    for (name, policy) in node::fields(policies) {
        reading.unread(&name.value, policy, &["name", "endpoints", "binaries"]);
        let programs = node::items(node::field(policy, "binaries"));
        let programs = programs.iter().filter_map(|p| node::text_of(p, "path"));
        let programs: Vec<_> = programs.collect();
        let (line, name) = (name.at.line, &name.value);
        if programs.is_empty() {
            reading.narrowed(
                line,
                format!("{name} has no `binaries`, so nothing could use it: left out"),
            );
            continue;
        }
        if !programs
            .iter()
            .any(|program| program == "/**" || program == "**")
        {
            let message = format!(
                "{name} {EVERY_PROGRAM}, not for {} alone",
                programs.join(", ")
            );
            reading.widened(line, message);
        }
        for endpoint in node::items(node::field(policy, "endpoints")) {
            let names_one = node::text_of(endpoint, "host").is_some_and(|host| !host.contains('*'));
            if names_one && node::field(endpoint, "allowed_ips").is_none() {
                may_be_private.get_or_insert(endpoint.at.line);
            }
            read.extend(one_endpoint(endpoint, reading));
        }
    }
    if let Some(line) = may_be_private {
        let message = "a host without a wildcard may be at a private address there, and here with `allow_private` \
                       alone: add it where one is";
        reading.narrowed(line, message);
    }
    overlapping::tell(&read, reading);
}

/// What it says, where that is about a host.
fn one_endpoint(endpoint: &Located<Node>, reading: &mut Reading) -> Option<Endpoint> {
    let line = endpoint.at.line;
    reading.unread("an endpoint", endpoint, &OF_ENDPOINT);
    let ranges = node::texts(node::field(endpoint, "allowed_ips"));
    let Some(host) = node::text_of(endpoint, "host") else {
        for (range, line) in ranges {
            let entry = reading.target(&range, line);
            if let Some(entry) = entry.and_then(|entry| finish(endpoint, entry, reading)) {
                reading.allow(entry);
            }
        }
        return None;
    };
    let pattern = match host.strip_prefix("**.") {
        Some(base) => format!("*.{base}"),
        None if host.starts_with("*.") => {
            let message = format!("{host} was one label deep, and is every name below here");
            reading.widened(line, message);
            host
        }
        None => host,
    };
    let mut entry = reading.target(&pattern, line)?;
    for (range, line) in ranges {
        let opened = reading.target(&range, line);
        match opened.filter(|opened| !opened.allow_private.is_empty()) {
            Some(opened) => {
                let message = format!(
                    "{pattern} was held to {range}, and may be at any public address as well here"
                );
                reading.widened(line, message);
                entry.allow_private.extend(opened.allow_private);
            }
            None => reading.widened(
                line,
                format!(
                    "the addresses of {pattern} are not held to {range}: any public one is dialled"
                ),
            ),
        }
    }
    let entry = finish(endpoint, entry, reading)?;
    let is_opaque = entry.passthrough || entry.protocol.is_some();
    let looks =
        !is_opaque && (entry.rules.is_some() || node::text_of(endpoint, "protocol").is_some());
    let said = Endpoint::new(&entry, (looks, own_path(endpoint)), line);
    reading.allow(entry);
    Some(said)
}

/// Ports, protocol and rules; `None` where no port is left, which would mean the default ones.
fn finish(
    endpoint: &Located<Node>,
    mut entry: DraftEntry,
    reading: &mut Reading,
) -> Option<DraftEntry> {
    let line = endpoint.at.line;
    let ports = node::texts(node::field(endpoint, "ports")).into_iter();
    let ports: Vec<_> = ports
        .chain(node::texts(node::field(endpoint, "port")))
        .collect();
    for (port, line) in &ports {
        entry.ports.extend(reading.port(port, *line));
    }
    if entry.ports.is_empty() && !ports.is_empty() {
        return None;
    }
    if node::field(endpoint, "deny_rules").is_some() {
        reading.widened(
            line,
            "its `deny_rules` are left out: there are no deny rules here",
        );
    }
    let protocol = node::text_of(endpoint, "protocol");
    let of_requests = ["access", "path", "rules"];
    let has = |name: &&str| node::field(endpoint, name).is_some();
    entry.passthrough = node::text_of(endpoint, "tls").as_deref() == Some("skip");
    if entry.passthrough || protocol.as_deref() == Some("tcp") {
        entry.protocol = Some("tcp").filter(|_| !entry.passthrough);
        for name in of_requests.iter().filter(|name| has(name)) {
            let message =
                format!("its `{name}` is left out: what passes unopened shows no requests");
            reading.widened(line, message);
        }
        return Some(entry);
    }
    if protocol.is_none() {
        let only = "only HTTP passes here: add `protocol: tcp` if it is none";
        reading.narrowed(line, only);
        if of_requests.iter().any(has) {
            reading.narrowed(
                line,
                "what it says of requests holds here, where it names no `protocol`",
            );
            entry.rules = rules(endpoint, None, reading);
        }
        return Some(entry);
    }
    if node::text_of(endpoint, "enforcement").as_deref() != Some("enforce") {
        reading.narrowed(
            line,
            "its rules were only logged (`enforcement: audit`), and hold here",
        );
    }
    entry.rules = rules(endpoint, protocol.as_deref(), reading);
    Some(entry)
}

/// What it says of requests; one without a `protocol` may name a path alone.
fn rules(
    endpoint: &Located<Node>,
    protocol: Option<&str>,
    reading: &mut Reading,
) -> Option<Vec<DraftRule>> {
    let line = endpoint.at.line;
    let path = own_path(endpoint);
    let read = || path.as_deref().map(globs::of_endpoint);
    let one = |methods: &[&str], reading: &mut Reading| {
        let methods: Vec<_> = methods.iter().map(|m| (*m).to_owned()).collect();
        let rule = request(&methods, read(), line, reading);
        Some(rule.into_iter().collect())
    };
    if let Some(what) = protocol.filter(|protocol| *protocol != "rest") {
        let message =
            format!("what {what} requests ask for is not looked at: every request passes");
        reading.widened(line, message);
        return if path.is_none() {
            None
        } else {
            one(&[], reading)
        };
    }
    let access = node::field(endpoint, "access");
    let word = node::text_of(endpoint, "access");
    match (access, node::field(endpoint, "rules")) {
        (None, Some(rules)) => return Some(listed(rules, path.as_deref(), reading)),
        (Some(_), Some(rules)) => {
            let message = "`rules` beside `access`: OpenShell takes one of them alone";
            reading.problem(rules.at, message);
        }
        (None, None) if protocol.is_none() => return one(&[], reading),
        (None, None) => {
            let message = "an endpoint with a `protocol` needs `access` or `rules`";
            reading.problem(endpoint.at, message);
        }
        (Some(access), None) => match word.as_deref() {
            Some("read-only") => return one(&READ, reading),
            Some("read-write") => return one(&WRITE, reading),
            Some("full") if path.is_none() => return None,
            Some("full") => return one(&[], reading),
            _ => reading.problem(access.at, "`access` is read-only, read-write or full"),
        },
    }
    Some(Vec::new())
}

fn listed(listed: &Located<Node>, own: Option<&str>, reading: &mut Reading) -> Vec<DraftRule> {
    let items = node::items(Some(listed));
    if items.is_empty() {
        let message = "`rules` lists no rule: leave it out, or write `access: full`";
        reading.problem(listed.at, message);
    }
    let mut rules = Vec::new();
    for item in items {
        let Some(allow) = node::field(item, "allow") else {
            reading.problem(item.at, "a rule needs `allow`");
            continue;
        };
        let line = allow.at.line;
        reading.unread("a rule", item, &["allow"]);
        reading.unread("`allow`", allow, &["method", "path", "query"]);
        if node::field(allow, "query").is_some() {
            reading.widened(line, "the query is not looked at here");
        }
        let path = node::text_of(allow, "path");
        let path = match (path.as_deref().map(globs::of_rule), own) {
            (None, own) => own.map(globs::of_endpoint),
            (Some(path), None) => Some(path),
            (Some(path), Some(_)) => {
                let message = "the endpoint's own `path` does not narrow its rules here";
                reading.widened(line, message);
                Some(path)
            }
        };
        let mut methods: Vec<_> = node::text_of(allow, "method").into_iter().collect();
        if methods
            .iter()
            .any(|method| method.eq_ignore_ascii_case("GET"))
        {
            methods.push("HEAD".to_owned());
        }
        rules.extend(request(&methods, path, line, reading));
    }
    rules
}

/// The `path` that chooses among endpoints, where it leaves any out.
fn own_path(endpoint: &Located<Node>) -> Option<String> {
    node::text_of(endpoint, "path").filter(|path| !globs::is_every_path(path))
}

/// A rule of these methods, and of what its path was read as; none where nothing is left of that.
fn request(
    methods: &[String],
    path: Option<globs::Read>,
    line: u64,
    reading: &mut Reading,
) -> Option<DraftRule> {
    let Some(globs::Read { paths, said }) = path else {
        return reading.request(methods, &[], line);
    };
    if let Some(said) = said {
        reading.narrowed(line, said);
    }
    if paths.is_empty() {
        return None;
    }
    reading.request(methods, &paths, line)
}

const READ: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
const WRITE: [&str; 6] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH"];

/// What is said beside the network is not about it.
const OF_DOCUMENT: [&str; 5] = [
    "version",
    "network_policies",
    "filesystem_policy",
    "landlock",
    "process",
];
const OF_ENDPOINT: [&str; 11] = [
    "host",
    "port",
    "ports",
    "allowed_ips",
    "protocol",
    "tls",
    "enforcement",
    "access",
    "rules",
    "deny_rules",
    "path",
];
