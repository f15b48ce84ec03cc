//! Settings of sandbox-runtime (`srt`): `network.allowedDomains`, `deniedDomains`, and which hosts its
//! proxy does not open.

use super::{
    Ports, Reading, SHOWN,
    denials::{self, above},
    node, split_port,
};
use crate::{draft::DraftEntry, host_pattern::HostPattern};

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
            None => reading.narrowed_ports(line, Ports::AnyAllowed),
        }
        entry.passthrough = pinned.iter().any(|one| one.covers(host, port));
        reading.allow(entry);
    }
    // What is within an entry that is wider is opened with it here.
    for one in &pinned {
        let entries = reading.entries.iter();
        let is_said = entries
            .clone()
            .any(|entry| entry.passthrough && one.is_of(entry));
        let wider = entries
            .filter(|entry| !entry.passthrough)
            .find_map(|entry| one.wider(entry));
        if let Some(wider) = wider {
            let message = format!(
                "{} was not opened, and {wider} is, which it belongs to: allow it by an entry of its own with `tls: passthrough`, \
                 and list what else is needed in place of {wider}",
                one.text
            );
            reading.narrowed(one.line, message);
        } else if !is_said {
            let message = format!("{} was not opened, and no entry allows it", one.text);
            reading.narrowed(one.line, message);
        }
    }
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

    /// Whether it speaks of all of an allowed one.
    fn covers(&self, host: &str, port: Option<&str>) -> bool {
        let same_port = self.port.is_none() || self.port.as_deref() == port;
        let allowed = HostPattern::parse(host);
        same_port && allowed.is_ok_and(|allowed| self.host == allowed || self.is_above(&allowed))
    }

    fn is_above(&self, other: &HostPattern) -> bool {
        match &self.host {
            HostPattern::Below(base) => above(other).any(|name| name == base.as_str()),
            HostPattern::Exact(_) => false,
        }
    }

    fn is_of(&self, entry: &DraftEntry) -> bool {
        let pattern = denials::pattern(entry);
        pattern.is_some_and(|pattern| self.host == pattern || self.is_above(&pattern))
    }

    /// The entry, where that is wider than this.
    fn wider(&self, entry: &DraftEntry) -> Option<HostPattern> {
        let pattern = denials::pattern(entry)?;
        let HostPattern::Below(base) = &pattern else {
            // The host is the same, and its port another's.
            return (pattern == self.host).then_some(pattern);
        };
        let is_wider = above(&self.host).any(|name| name == base.as_str()) || pattern == self.host;
        is_wider.then(|| pattern.clone())
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
