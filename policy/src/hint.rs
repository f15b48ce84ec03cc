//! What to ask for: the narrowest `--allow` option or policy rule that would let a denied thing pass.
//!
//! A hint holds only what the program itself sent (host, port, method, path), bounded in length and
//! quoted so that it can be pasted. It names no address, no secret and no other rule. What a rule would
//! read otherwise than it was sent is not offered: a program could write a wildcard into the policy.

use thiserror::Error;

use crate::{
    fqdn::Fqdn,
    host::{Host, Port},
    http_match::{Method, ParseMethodError, ParsePathPatternError, PathPattern},
    intent::{AppProtocol, RequestIntent},
    metadata::is_metadata_service,
};

/// Why no rule is offered for a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unnameable {
    /// No document takes the method.
    #[error(transparent)]
    Method(ParseMethodError),
    /// A rule would take it for any text: whoever wrote it would widen the policy.
    #[error("its path holds a `*`, which in a rule stands for any text: no rule can name it")]
    Wildcard,
    /// No document takes the path.
    #[error(transparent)]
    Path(ParsePathPatternError),
    /// It may have been cut.
    #[error("its path is longer than {LONGEST} octets, and what is told of one may be cut")]
    Long,
}

/// What a rule says of exactly this method and (normalised) path: `{methods: [GET], paths: [/x]}`.
///
/// # Errors
/// When no rule says just that.
pub fn rule_for(method: &str, path: &str) -> Result<String, Unnameable> {
    let method = Method::parse(method).map_err(Unnameable::Method)?;
    // `OPTIONS *` is named so; everywhere else it is a pattern.
    if path != "*" && path.contains('*') {
        return Err(Unnameable::Wildcard);
    }
    if path.len() > LONGEST {
        return Err(Unnameable::Long);
    }
    let path = PathPattern::parse(path).map_err(Unnameable::Path)?;
    let (method, path) = (quoted(method.as_str()), quoted(path.as_str()));
    Ok(format!("{{methods: [{method}], paths: [{path}]}}"))
}

/// Whether a hint is something to ask for; else it says why there is nothing.
#[must_use]
pub fn can_be_asked_for(hint: &str) -> bool {
    !hint.starts_with(NOTHING)
}

/// For a name that no rule has: no port is known yet. Nothing of what no rule opens.
pub(crate) fn for_name(name: &Fqdn) -> String {
    match is_metadata_service(name) {
        true => String::new(),
        false => name.to_string(),
    }
}

/// For a host, port or protocol that no rule has: a value of `--allow`.
pub(crate) fn for_connection(host: &Host, port: Port, protocol: Option<AppProtocol>) -> String {
    if host.name().is_some_and(is_metadata_service) {
        return String::new();
    }
    let scheme = match protocol {
        Some(AppProtocol::Tcp) => "tcp:",
        // 443 and 80 mean https and http: the other one has to be written.
        Some(AppProtocol::Http) if port == Port::HTTPS => "http:",
        Some(AppProtocol::Https) if port == Port::HTTP => "https:",
        Some(AppProtocol::Http | AppProtocol::Https) | None => "",
    };
    format!("{scheme}{host}:{port}")
}

/// For a protocol that no rule of that port has: said outright, since a port alone may mean what is allowed already.
pub(crate) fn for_protocol(host: &Host, port: Port, protocol: Option<AppProtocol>) -> String {
    let scheme = protocol.map_or_else(String::new, |protocol| format!("{}:", protocol.as_str()));
    format!("{scheme}{host}:{port}")
}

/// For a method or path that no rule has: an `egress` entry.
pub(crate) fn for_request(host: &Host, port: Port, request: &RequestIntent<'_>) -> String {
    let target = match host {
        Host::Name(name) => format!("host: {name}"),
        Host::Ip(ip) => format!("ip: {}", quoted(&ip.to_string())),
    };
    match rule_for(request.method, request.path) {
        Ok(rule) => format!("{{{target}, ports: [{port}], rules: [{rule}]}}"),
        Err(why) => format!("{NOTHING}{why}"),
    }
}

/// A double-quoted string of JSON and YAML; plain where it can be.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '~');
    let word = text.starts_with(|c: char| c == '/' || c.is_ascii_uppercase());
    // YAML 1.1 reads these as something else.
    let special = ["TRUE", "FALSE", "YES", "NO", "ON", "OFF", "NULL", "Y", "N"];
    if word && text.chars().all(plain) && !special.contains(&text) {
        return text.to_owned();
    }
    serde_json::to_string(text).unwrap_or_default()
}

/// How a hint begins that is none.
const NOTHING: &str = "no rule is offered for it: ";
/// A hint goes into a header and a terminal line, and of longer paths a record holds head and tail.
const LONGEST: usize = 900;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Verdict};

    const HOST: &str = "a.example";

    fn asked<'a>(method: &'a str, path: &'a str) -> RequestIntent<'a> {
        RequestIntent {
            protocol: AppProtocol::Https,
            method,
            path,
        }
    }

    fn allows(policy: &Policy, method: &str, path: &str) -> bool {
        let host = Host::parse(HOST).unwrap();
        let verdict = policy.decide_request(&host, Port::HTTPS, &asked(method, path));
        matches!(verdict, Verdict::Allow(_))
    }

    #[test]
    fn a_protocol_that_no_rule_has_is_asked_for_by_its_name() {
        let allowing = |options: &[&str]| {
            let mut builder = crate::PolicyBuilder::new("p");
            for option in options {
                builder = builder.allow(option).unwrap();
            }
            builder.build().unwrap()
        };
        let host = Host::parse("y.test").unwrap();
        let port = Port::new(25).unwrap();
        let asked = Some(AppProtocol::Https);
        let Verdict::Deny(denial) =
            allowing(&["http:y.test:25"]).decide_connect(&host, port, asked)
        else {
            panic!("it is allowed")
        };
        assert_eq!(denial.hint, "https:y.test:25");
        let both = allowing(&["http:y.test:25", &denial.hint]);
        let verdict = both.decide_connect(&host, port, asked);
        assert!(matches!(verdict, Verdict::Allow(_)), "{verdict:?}");
        // Of what nothing opens nothing is asked for.
        let name = "metadata.google.internal";
        let metadata = Host::parse(name).unwrap();
        assert_eq!(for_connection(&metadata, port, asked), "");
        assert_eq!(for_name(&name.parse().unwrap()), "");
    }

    #[test]
    fn what_is_offered_allows_that_request_and_no_other() {
        let long = format!("/{}", "x".repeat(LONGEST - 1));
        for (method, path) in [
            ("GET", "/"),
            ("NO", "/x"),
            ("M-SEARCH", "/a%2Fb"),
            ("X#Y", "/[a]:{b}, c'\"&!|".replace(' ', "%20").as_str()),
            ("OPTIONS", "*"),
            ("GET", long.as_str()),
        ] {
            let host = Host::parse(HOST).unwrap();
            let hint = for_request(&host, Port::HTTPS, &asked(method, path));
            assert!(can_be_asked_for(&hint), "{hint}");
            let document = format!("version: 1\negress:\n  - {hint}\n");
            let policy = Policy::compile(&document, "p.yaml").expect(&document);
            assert!(allows(&policy, method, path), "{hint}");
            assert!(!allows(&policy, "PUT", path), "{hint}");
            assert!(!allows(&policy, method, &format!("{path}/y")), "{hint}");
        }
    }

    #[test]
    fn what_a_rule_would_read_otherwise_is_not_offered() {
        let long = format!("/{}", "x".repeat(LONGEST));
        for (method, path, why) in [
            ("GET", "/**", "`*`"),
            ("GET", "/a/*.png", "`*`"),
            ("get", "/", "write GET"),
            ("*", "/", "not a method"),
            ("GE T", "/", "not an HTTP method"),
            ("GET", long.as_str(), "longer"),
            ("GET", "/a…[9 octets]", "blank"),
        ] {
            let host = Host::parse(HOST).unwrap();
            let hint = for_request(&host, Port::HTTPS, &asked(method, path));
            assert!(!can_be_asked_for(&hint), "{hint}");
            assert!(hint.contains(why), "{hint}");
        }
    }
}
