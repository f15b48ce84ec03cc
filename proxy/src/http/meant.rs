//! Whether a request tells its origin the method and path that it was decided on, and no others.
//!
//! Frameworks, and the servers before them, take some fields for the method or path that is meant; WebDAV names
//! a second path in a field. Where a rule speaks of the one or the other, or a secret is granted by one that does,
//! a request that says something else is refused: it would be decided on otherwise. Where the policy only
//! observes, that is recorded and it goes, without the secrets that it was granted as what it is not; its answer is
//! captured where that of any request to its host is.

use gig_policy::{
    AppProtocol, DecidedOn, Denial, DenyReason, Host, Policy, Port, RequestIntent, RequestPermit,
    Verdict,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::{target, trailers::forget};
use crate::{authority::Authority, enforce::connect::denial};

/// What a request was decided as.
#[derive(Debug, Clone, Copy)]
pub struct Decided<'a> {
    /// In force.
    pub policy: &'a Policy,
    /// That all its names agree on.
    pub host: &'a Host,
    /// The connection's.
    pub port: Port,
    /// Its method and path.
    pub intent: RequestIntent<'a>,
}

/// Refuses a request that says something else than it was decided on, or notes it where a policy only observes.
///
/// # Errors
/// The denial, not recorded yet.
pub fn is_meant(
    headers: &HeaderMap,
    decided: Decided<'_>,
    permit: &mut RequestPermit,
) -> Result<(), Box<Denial>> {
    let field = |decided_on: DecidedOn, permit: &RequestPermit| {
        overriding(headers, decided_on).or_else(|| {
            let leads = decided_on.path && leads_elsewhere(headers, decided, permit);
            leads.then_some(DESTINATION)
        })
    };
    let told = |field: &str| {
        let hint =
            format!("{field} overrides what the rule is about: send the request as it is meant");
        denial(decided.policy, DenyReason::MalformedRequest, hint)
    };
    if let Some(field) = field(permit.decided_on(), permit) {
        return Err(told(field));
    }
    if let Some(field) = field(permit.observed_on(), permit) {
        permit.observe(told(field));
    } else if permit.would_deny().is_some() && overriding(headers, ANY).is_some() {
        // No rule lets it go, so that none says what it is decided on. Tokens must not come in all the same.
        permit.capture_as_any();
    }
    Ok(())
}

/// Takes the fields that override out of a trailer section: they come when all is decided, and what takes them for
/// header fields would take them for those.
pub fn forget_overrides(trailers: &mut HeaderMap) {
    forget(trailers, |field| {
        let mut names = METHOD_OVERRIDES.iter().chain(&PATH_OVERRIDES);
        names.any(|name| is_named(field, name))
    });
}

/// The field, if any, that tells origins to take the request for one with another method or path than it was
/// allowed with.
fn overriding(headers: &HeaderMap, decided_on: DecidedOn) -> Option<&'static str> {
    if decided_on == DecidedOn::default() {
        return None;
    }
    let method = sent(headers, &METHOD_OVERRIDES);
    let path = sent(headers, &PATH_OVERRIDES);
    let both = decided_on.either && path.is_some();
    method
        .filter(|_| decided_on.method || both)
        .or_else(|| path.filter(|_| decided_on.path))
}

/// Whether a second path (RFC 4918 §10.3) is none that the same request, or all that it carries, may go to.
fn leads_elsewhere(headers: &HeaderMap, decided: Decided<'_>, permit: &RequestPermit) -> bool {
    let moves = matches!(decided.intent.method, "COPY" | "MOVE");
    if !moves && sent(headers, &METHOD_OVERRIDES).is_none() {
        return false;
    }
    let destinations = headers.get_all(DESTINATION).iter();
    destinations.into_iter().any(|destination| {
        let Some(path) = path_here(destination, decided) else {
            return true;
        };
        let intent = RequestIntent {
            path: &path,
            ..decided.intent
        };
        let Decided {
            policy, host, port, ..
        } = decided;
        match policy.decide_request(host, port, &intent) {
            Verdict::Allow(there) => {
                let granted = |grant| there.secrets().contains(grant);
                there.would_deny().is_some() || !permit.secrets().iter().all(granted)
            }
            Verdict::Deny(_) => true,
        }
    })
}

/// The path that a destination names at the host that was asked; `None`: it is elsewhere, or not one path.
fn path_here(destination: &HeaderValue, decided: Decided<'_>) -> Option<String> {
    let uri: Uri = destination.to_str().ok()?.trim().parse().ok()?;
    if let Some(authority) = uri.authority() {
        let there = Authority::parse(authority.as_str()).ok()?;
        let default = match decided.intent.protocol {
            AppProtocol::Http => Port::HTTP,
            AppProtocol::Https | AppProtocol::Tcp => Port::HTTPS,
        };
        if there.host != *decided.host || there.port.unwrap_or(default) != decided.port {
            return None;
        }
    }
    target::path(&uri).ok().map(|(path, _)| path)
}

/// The first of `names` that is among the fields.
fn sent(headers: &HeaderMap, names: &[&'static str]) -> Option<&'static str> {
    let mut names = names.iter().copied();
    names.find(|name| headers.keys().any(|field| is_named(field, name)))
}

/// CGI makes one name of all that differ in what is no letter or digit (RFC 3875 §4.1.18): servers do so with low
/// lines, and some with dots and all else.
fn is_named(field: &HeaderName, name: &str) -> bool {
    let field = field.as_str().bytes().map(|octet| match octet {
        octet if octet.is_ascii_alphanumeric() => octet,
        _ => b'-',
    });
    field.eq(name.bytes())
}

/// Whatever a rule may be about.
const ANY: DecidedOn = DecidedOn {
    method: true,
    path: true,
    either: false,
};
const DESTINATION: &str = "destination";
/// Rails, Symfony, Laravel, Express, ASP.NET and Google's APIs read one or more of these.
const METHOD_OVERRIDES: [&str; 3] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];
/// IIS and what was written for it, Symfony until 3.4, Zend; nginx's, Traefik's and Caddy's to who authenticates
/// for them, and Envoy's, which takes its own for true where it trusts the sender.
const PATH_OVERRIDES: [&str; 6] = [
    "x-original-url",
    "x-rewrite-url",
    "x-original-uri",
    "x-rewrite-uri",
    "x-forwarded-uri",
    "x-envoy-original-path",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_in_trailers_go_nowhere_however_they_are_spelled() {
        let mut trailers = HeaderMap::new();
        for name in [
            "x-http-method-override",
            "x_method.override",
            "x-envoy-original-path",
            "x.original.uri",
            "x-checksum",
        ] {
            trailers.insert(name, HeaderValue::from_static("DELETE"));
        }
        forget_overrides(&mut trailers);
        assert_eq!(trailers.keys().collect::<Vec<_>>(), ["x-checksum"]);
    }
}
