//! One host a line, with its port where there is one: `host`, `host:port`, `host port`, `host,port`.
//!
//! A list says what is allowed. A line that denies (`deny x`, `x block`, `!x`) denies what an allow rule would have
//! let pass, and a line that can be read both ways is refused: what is unsure never becomes a rule.

use super::{Reading, split_port, with_apex};
use crate::host::Port;

pub(super) fn read(text: &str, reading: &mut Reading) {
    let mut begun = false;
    for (number, line) in (1..).zip(text.lines()) {
        // A comment begins where a word does.
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.starts_with("||") || line.starts_with("@@") {
            reading.problem_in_line(number, "this is a list for an ad blocker, not an allowlist");
            return;
        }
        let words = line.split(|c: char| c.is_whitespace() || c == ',');
        let words = words.map(|word| word.trim_matches('"'));
        let words =
            words.take_while(|word| !word.starts_with(['#', ';']) && !word.starts_with("//"));
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        // `! Title: …` is a comment of such lists, `!x.example.com` is none.
        if words.is_empty() || words.first() == Some(&"!") {
            continue;
        }
        if let [first, second, ..] = words.as_slice()
            && first.parse::<std::net::IpAddr>().is_ok()
            && second.parse::<u16>().is_err()
            && protocol_and_port(second).is_none()
            && !is_address(second)
            && verb(second).is_none()
        {
            let message = "this is a hosts file: it says where names are, not which are allowed";
            reading.problem_in_line(number, message);
            return;
        }
        let heads = !begun && is_head(&words);
        begun = true;
        if heads {
            head(&words, number, reading);
        } else {
            row(&words, number, reading);
        }
    }
}

/// Whether words name columns.
fn is_head(words: &[&str]) -> bool {
    let known = |word: &&str| COLUMNS.contains(&word.to_ascii_lowercase().as_str());
    match words {
        [only] => matches!(
            only.to_ascii_lowercase().as_str(),
            "host" | "hosts" | "hostname" | "domain" | "domains"
        ),
        // More than one, of which the host is one: no list of hosts begins so.
        _ => {
            words.iter().any(known)
                && words
                    .iter()
                    .all(|word| !word.contains(['.', ':', '*', '/']) && !is_port(word))
        }
    }
}

/// Of columns that may deny or narrow nothing is known here.
fn head(words: &[&str], line: u64, reading: &mut Reading) {
    let known = |word: &&&str| COLUMNS.contains(&word.to_ascii_lowercase().as_str());
    let strange: Vec<_> = words.iter().filter(|word| !known(word)).copied().collect();
    if strange.is_empty() {
        reading.narrowed(line, "left out: these are names of columns, not hosts");
    } else {
        let message = format!(
            "of the columns {} it is not known what they allow: leave a list of hosts and ports",
            strange.join(", ")
        );
        reading.problem_in_line(line, message);
    }
}

/// What a line does with what it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Allow,
    Deny,
}

fn verb(word: &str) -> Option<Verb> {
    let word = word.trim_matches([':', '[', ']', '(', ')', '=']);
    Some(match word.to_ascii_lowercase().as_str() {
        "allow" | "allowed" | "permit" | "permitted" | "accept" | "pass" | "whitelist"
        | "allowlist" => Verb::Allow,
        "deny" | "denied" | "block" | "blocked" | "reject" | "drop" | "refuse" | "disallow"
        | "forbid" | "forbidden" | "not" | "no" | "never" | "except" | "blacklist"
        | "blocklist" | "denylist" => Verb::Deny,
        _ => return None,
    })
}

fn row(words: &[&str], line: u64, reading: &mut Reading) {
    if let Some(sign) = words.iter().find(|word| matches!(**word, "-" | "+" | "*")) {
        let message =
            format!("`{sign}` may begin a list or deny: write the host alone, or `deny` before it");
        reading.problem_in_line(line, message);
        return;
    }
    let verbs: Vec<Verb> = words.iter().filter_map(|word| verb(word)).collect();
    let named: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| verb(word).is_none())
        .collect();
    if named.is_empty() {
        let message =
            "it speaks of lines that follow: a list here says what is allowed, each line by itself";
        reading.problem_in_line(line, message);
        return;
    }
    if verbs.contains(&Verb::Deny) {
        if verbs.contains(&Verb::Allow) {
            reading.problem_in_line(line, "it allows and denies: write a line for each");
            return;
        }
        denied(&named, line, reading);
        return;
    }
    allowed(&named, words.len() > 1, line, reading);
}

/// Each name without its port: a whole host is denied.
fn denied(named: &[&str], line: u64, reading: &mut Reading) {
    for word in named.iter().filter(|word| !is_port(word)) {
        let rest = word.split_once("://").map_or(*word, |(_, rest)| rest);
        let place = rest.split('/').next().unwrap_or_default();
        let (host, port) = if is_address(place) {
            (place, None)
        } else {
            split_port(place)
        };
        if port.is_some() || rest.contains('/') || named.iter().any(|word| is_port(word)) {
            reading.narrowed(
                line,
                "a part of a host was denied, and here the whole host is",
            );
        }
        for host in with_base(host) {
            reading.deny(&host, line);
        }
    }
}

/// Each name with the ports that stand behind it.
fn allowed(named: &[&str], several: bool, line: u64, reading: &mut Reading) {
    let mut implied = None;
    let mut words = Vec::new();
    for word in named {
        match word.to_ascii_lowercase().as_str() {
            "tcp" if several => {}
            "https" | "tls" if several => implied = Some(Port::HTTPS),
            "http" if several => implied = Some(Port::HTTP),
            "udp" | "quic" if several => {
                reading.narrowed(line, format!("left out: {word} is not let out"));
                return;
            }
            _ => words.push(*word),
        }
    }
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if is_port(word) {
            let message = format!("{word:?} is a port of no host: write `host:port`");
            reading.problem_in_line(line, message);
            return;
        }
        let mut ports = Vec::new();
        let mut stated = false;
        while let Some(port) = words.next_if(|word| is_port(word)) {
            stated = true;
            match protocol_and_port(port) {
                Some(("udp", _)) => {
                    reading.narrowed(line, format!("left out: {port}: UDP is not let out"))
                }
                Some((_, port)) => ports.extend(reading.port(port, line)),
                None => ports.extend(reading.port(port, line)),
            }
        }
        if stated && ports.is_empty() {
            continue;
        }
        ports.extend(implied.filter(|_| !stated && !word.contains([':', '/'])));
        match word.strip_prefix('!') {
            Some(word) => denied(&[word], line, reading),
            None if several && !word.contains(['.', ':', '/']) => {
                let message = format!(
                    "left out: {word}: a word without a dot beside others; if it is a host, give it a line of its own"
                );
                reading.narrowed(line, message);
            }
            None => one(word, &ports, line, reading),
        }
    }
}

/// `443`, `tcp/443`, `443/tcp`.
fn is_port(word: &str) -> bool {
    word.bytes().all(|octet| octet.is_ascii_digit()) || protocol_and_port(word).is_some()
}

fn protocol_and_port(word: &str) -> Option<(&'static str, &str)> {
    let (one, other) = word.split_once('/')?;
    let protocol = |word: &str| match word.to_ascii_lowercase().as_str() {
        "tcp" => Some("tcp"),
        "udp" => Some("udp"),
        _ => None,
    };
    let number = |word: &str| !word.is_empty() && word.bytes().all(|octet| octet.is_ascii_digit());
    match (protocol(one), protocol(other)) {
        (Some(protocol), _) if number(other) => Some((protocol, other)),
        (_, Some(protocol)) if number(one) => Some((protocol, one)),
        _ => None,
    }
}

fn with_base(host: &str) -> Vec<String> {
    match host.strip_prefix('.') {
        Some(_) => with_apex(host).map_or_else(Vec::new, Vec::from),
        None => vec![host.to_owned()],
    }
}

fn one(word: &str, ports: &[Port], line: u64, reading: &mut Reading) {
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
    for host in with_base(host) {
        let Some(mut entry) = reading.target(&host, line) else {
            continue;
        };
        entry.ports.extend(port);
        let more = ports.iter().filter(|more| Some(**more) != port);
        entry.ports.extend(more.copied());
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

/// What the first line of a table calls hosts and ports.
const COLUMNS: [&str; 13] = [
    "host",
    "hosts",
    "hostname",
    "hostnames",
    "domain",
    "domains",
    "fqdn",
    "name",
    "destination",
    "url",
    "port",
    "ports",
    "protocol",
];
