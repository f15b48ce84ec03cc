//! Settings of sandbox-runtime (`srt`): `network.allowedDomains`, `deniedDomains`, and which hosts its
//! proxy does not open.

use super::{Reading, node, split_port};

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
            None => reading.narrowed(line, ANY_PORT),
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
        reading.deny(host, line);
    }
    for (text, line) in node::texts(node::field(network, "allowUnixSockets")) {
        let message =
            format!("the socket {text} is no policy's: bind it with `gig run --rw {text}`");
        reading.narrowed(line, message);
    }
}

const ANY_PORT: &str = "a host without a port was allowed at every port, and is at 443 and 80 \
                        here: add `ports` where others are needed";
