//! One host a line.

use super::{Reading, split_port, with_apex};

pub(super) fn read(text: &str, reading: &mut Reading) {
    for (number, line) in (1..).zip(text.lines()) {
        // A comment begins where a word does.
        let words = line.split_whitespace();
        let words: Vec<_> = words.take_while(|word| !word.starts_with('#')).collect();
        let line = words.join(" ");
        if line.is_empty() || line.starts_with([';', '!']) || line.starts_with("//") {
            continue;
        }
        if line.starts_with("||") || line.starts_with("@@") {
            reading.problem_in_line(number, "this is a list for an ad blocker, not an allowlist");
            return;
        }
        if let [first, _, ..] = words.as_slice()
            && first.parse::<std::net::IpAddr>().is_ok()
        {
            let message = "this is a hosts file: it says where names are, not which are allowed";
            reading.problem_in_line(number, message);
            return;
        }
        for word in line.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
            one(word, number, reading);
        }
    }
}

fn one(word: &str, line: u64, reading: &mut Reading) {
    let (scheme, rest) = match word.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, word),
    };
    let (place, path) = match rest.split_once('/') {
        // A range, not a path.
        Some((address, prefix)) if scheme.is_none() && is_range(address, prefix) => (rest, None),
        Some((place, path)) => (place, Some(format!("/{path}"))),
        None => (rest, None),
    };
    let (host, port) = if is_address(place) {
        (place, None)
    } else {
        split_port(place)
    };
    let port = match (port, scheme) {
        (Some(port), _) => match reading.port(port, line) {
            Some(port) => Some(port),
            None => return,
        },
        (None, Some("http")) => reading.port("80", line),
        (None, Some("https" | "wss")) => reading.port("443", line),
        (None, Some(other)) => {
            reading.narrowed(line, format!("left out: the scheme {other} is not known"));
            return;
        }
        (None, None) => None,
    };
    let hosts = match host.strip_prefix('.') {
        Some(_) => with_apex(host).map_or_else(Vec::new, Vec::from),
        None => vec![host.to_owned()],
    };
    for host in hosts {
        let Some(mut entry) = reading.target(&host, line) else {
            continue;
        };
        entry.ports.extend(port);
        if let Some(path) = path.as_deref().filter(|path| *path != "/") {
            let path = path.split(['?', '#']).next().unwrap_or_default().to_owned();
            let rule = reading.request(&[], &[path], line);
            entry.rules = Some(rule.into_iter().collect());
        }
        reading.allow(entry);
    }
}

fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok() || text.parse::<ipnet::IpNet>().is_ok()
}

fn is_range(address: &str, prefix: &str) -> bool {
    format!("{address}/{prefix}")
        .parse::<ipnet::IpNet>()
        .is_ok()
}
