//! Settings of sandbox-runtime (`srt`): `network.allowedDomains`, `deniedDomains`, and which hosts its
//! proxy does not open.

use std::collections::HashSet;

use super::{
    Reading, SHOWN,
    denials::{self, above},
    node, split_port,
};
use crate::host_pattern::HostPattern;

pub(super) fn read(text: &str, reading: &mut Reading) {
    let Some(root) = node::root(text, reading) else {
        return;
    };
    let Some(network) = node::field(&root, "network") else {
        reading.problem(
            root.at,
            "no `network` field: these are not settings of sandbox-runtime",
        );
        return;
    };
    let pinned = node::field(network, "tlsTerminate");
    let pinned = pinned.and_then(|tls| node::field(tls, "excludeDomains"));
    let pinned: Vec<Pinned> = node::texts(pinned)
        .into_iter()
        .filter_map(|(text, line)| Pinned::of(&text, line, reading))
        .collect();
    let known = Known::of(&pinned);
    for (text, line) in node::texts(node::field(network, "allowedDomains")) {
        let (host, port) = split_port(&text);
        let Some(mut entry) = reading.target(host, line) else {
            continue;
        };
        match port {
            Some(port) => match reading.port(port, line) {
                Some(port) => entry.ports.push(port),
                None => continue,
            },
            None => reading.narrowed_ports(line),
        }
        entry.passthrough = known.cover(host, port);
        reading.allow(entry);
    }
    tell_unsaid(&pinned, reading);
    for (text, line) in node::texts(node::field(network, "deniedDomains")) {
        let (host, port) = split_port(&text);
        if host == "*" && port.is_none() {
            reading.narrowed(line, "everything was denied: nothing is allowed");
            reading.entries.clear();
            return;
        }
        match port {
            Some(port) => reading.deny_port(host, port, line),
            None => reading.deny(host, line),
        }
    }
    reading.unread("network", network, &READ);
    reading.of_the_run(&root, &[("filesystem", SHOWN)]);
    reading.unread("the settings", &root, &OF_SETTINGS);
    for (text, line) in node::texts(node::field(network, "allowUnixSockets")) {
        let message = format!(
            "the socket {text} is no policy's: who has it shown (`gig run --rw {text}`) shows whatever answers there, past gig (Docker's is all of this host)"
        );
        reading.narrowed(line, message);
    }
}

/// What the proxy did not open.
struct Pinned {
    text: String,
    host: HostPattern,
    port: Option<String>,
    line: u64,
}

impl Pinned {
    /// `None`, with a remark, for what is no host.
    fn of(text: &str, line: u64, reading: &mut Reading) -> Option<Self> {
        let (host, port) = split_port(text);
        match HostPattern::parse(host) {
            Ok(host) => Some(Self {
                text: text.to_owned(),
                host,
                port: port.map(str::to_owned),
                line,
            }),
            Err(error) => {
                reading.narrowed(
                    line,
                    format!("{text} was not opened, which is left out: {error}"),
                );
                None
            }
        }
    }
}

/// The same, as it is looked up: lists on both sides are long.
struct Known<'a> {
    /// Each with the ports that it is of; `None`: every one.
    exact: HashSet<(&'a HostPattern, Option<&'a str>)>,
    /// The bases of wildcards.
    below: HashSet<(&'a str, Option<&'a str>)>,
}

impl<'a> Known<'a> {
    fn of(pinned: &'a [Pinned]) -> Self {
        let port = |one: &'a Pinned| one.port.as_deref();
        let base = |one: &'a Pinned| match &one.host {
            HostPattern::Below(base) => Some((base.as_str(), port(one))),
            HostPattern::Exact(_) => None,
        };
        Self {
            exact: pinned.iter().map(|one| (&one.host, port(one))).collect(),
            below: pinned.iter().filter_map(base).collect(),
        }
    }

    /// Whether one of them speaks of all of an allowed one.
    fn cover(&self, host: &str, port: Option<&str>) -> bool {
        let Ok(allowed) = HostPattern::parse(host) else {
            return false;
        };
        let mut ports = [None, port].into_iter();
        ports.any(|port| {
            let itself = self.exact.contains(&(&allowed, port));
            itself || above(&allowed).any(|base| self.below.contains(&(base, port)))
        })
    }
}

/// Tells of each that no entry says: what is within an entry that is wider is opened with it here.
fn tell_unsaid(pinned: &[Pinned], reading: &mut Reading) {
    let (mut opened, mut said) = (HashSet::new(), HashSet::new());
    for entry in &reading.entries {
        let Some(pattern) = denials::pattern(entry) else {
            continue;
        };
        if !entry.passthrough {
            opened.insert(pattern);
            continue;
        }
        said.extend(above(&pattern).map(|base| format!("*.{base}")));
        said.insert(pattern.to_string());
    }
    for one in pinned {
        let bases = above(&one.host).map(|base| format!("*.{base}"));
        let names = std::iter::once(one.host.to_string()).chain(bases);
        let wider = names
            .filter_map(|name| HostPattern::parse(&name).ok())
            .find(|name| opened.contains(name));
        let message = match wider {
            Some(wider) => format!(
                "{} was not opened, and {wider} is, which it belongs to: allow it by an entry of its own with `tls: passthrough`, \
                 and list what else is needed in place of {wider}",
                one.text
            ),
            None if said.contains(&one.host.to_string()) => continue,
            None => format!("{} was not opened, and no entry allows it", one.text),
        };
        reading.narrowed(one.line, message);
    }
}

/// What is said of apart, and what is of its own sandbox.
const OF_SETTINGS: [&str; 11] = [
    "network",
    "filesystem",
    "ignoreViolations",
    "enableWeakerNestedSandbox",
    "enableWeakerNetworkIsolation",
    "mandatoryDenySearchDepth",
    "ripgrep",
    "allowPty",
    "seccomp",
    "bwrapPath",
    "socatPath",
];

/// What is read, and what is of its own proxy and sandbox: where they listen, and what the program may listen at.
const READ: [&str; 9] = [
    "allowedDomains",
    "deniedDomains",
    "tlsTerminate",
    "allowUnixSockets",
    "allowAllUnixSockets",
    "allowLocalBinding",
    "httpProxyPort",
    "socksProxyPort",
    "allowMachLookup",
];
