//! Settings of sandbox-runtime (`srt`): `network.allowedDomains`, `deniedDomains`, and which hosts its
//! proxy does not open.

use super::{Ports, Reading, SHOWN, node, split_port};

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
    let pinned: Vec<_> = node::texts(pinned)
        .into_iter()
        .map(|(text, _)| text)
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
        entry.passthrough = pinned.contains(&text);
        reading.allow(entry);
    }
    for (text, line) in node::texts(node::field(network, "deniedDomains")) {
        let (host, port) = split_port(&text);
        if host == "*" && port.is_none() {
            reading.narrowed(line, "everything was denied: nothing is allowed");
            reading.entries.clear();
            return;
        }
        if port.is_some() {
            reading.narrowed_ports(line, Ports::OneDenied);
        }
        reading.deny(host, line);
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
