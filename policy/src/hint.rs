//! What to ask for: the narrowest `--allow` option or policy rule that would let a denied thing pass.
//!
//! A hint holds only what the program itself sent (host, port, method, path), bounded in length and
//! quoted so that it can be pasted. It names no address, no secret and no other rule.

use crate::{
    fqdn::Fqdn,
    host::{Host, Port},
    intent::{AppProtocol, RequestIntent},
};

/// For a name that no rule has: no port is known yet.
pub(crate) fn for_name(name: &Fqdn) -> String {
    name.to_string()
}

/// For a host, port or protocol that no rule has: a value of `--allow`.
pub(crate) fn for_connection(host: &Host, port: Port, protocol: Option<AppProtocol>) -> String {
    let scheme = match protocol {
        Some(AppProtocol::Tcp) => "tcp:",
        // 443 and 80 mean https and http: the other one has to be written.
        Some(AppProtocol::Http) if port == Port::HTTPS => "http:",
        Some(AppProtocol::Https) if port == Port::HTTP => "https:",
        Some(AppProtocol::Http | AppProtocol::Https) | None => "",
    };
    format!("{scheme}{host}:{port}")
}

/// For a method or path that no rule has: an `egress` entry.
pub(crate) fn for_request(host: &Host, port: Port, request: &RequestIntent<'_>) -> String {
    let target = match host {
        Host::Name(name) => format!("host: {name}"),
        Host::Ip(ip) => format!("ip: {}", quoted(&ip.to_string())),
    };
    let method = quoted(request.method);
    let path = quoted(request.path);
    format!("{{{target}, ports: [{port}], rules: [{{methods: [{method}], paths: [{path}]}}]}}")
}

/// A double-quoted string of JSON and YAML; plain where it can be. Long text is cut.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '~');
    let mut cut: String = text.chars().take(LONGEST).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    let word = cut.starts_with(|c: char| c == '/' || c.is_ascii_uppercase());
    if word && cut.chars().all(plain) {
        return cut;
    }
    serde_json::to_string(&cut).unwrap_or_default()
}

/// A hint goes into a header, a record and a terminal line.
const LONGEST: usize = 200;
