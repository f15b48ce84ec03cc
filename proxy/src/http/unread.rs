//! A request that hyper cannot read, as far as it can be told: who is asked, and for what.
//!
//! Nothing of it goes anywhere, and nothing is decided by what is made out here: hyper has refused it. What
//! a URL holds percent-encoded (`"`, `<`, `>`) stands bare in the targets of lax clients, and hyper answers
//! that with a status alone. It is answered in words instead, wherever on its connection it stands: what hyper
//! writes while it owes no answer to a request is one of its own.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use gig_policy::{AppProtocol, DenyReason};
use http::{HeaderValue, Method, StatusCode, header::CONTENT_LENGTH};

use super::{
    interject,
    refuse::Refusal,
    session::{Aim, Session},
    target,
};
use crate::{
    authority::Authority,
    enforce::{
        connect::denial,
        request::{Asked, refuse_request},
    },
    tls::downstream::Application,
};

/// What stands in place of hyper's own answer.
#[derive(Debug)]
pub struct Unread(Arc<Session>);

impl Unread {
    /// Of one connection.
    pub const fn new(session: Arc<Session>) -> Self {
        Self(session)
    }

    /// The answer to give in place of `octets`, where hyper wrote those by itself to what it could not read.
    pub(super) fn instead_of(&self, octets: &[u8]) -> Option<Bytes> {
        if self.0.heads().is_owed() {
            return None;
        }
        let own = std::str::from_utf8(octets).ok()?;
        let status = own.strip_prefix("HTTP/1.")?.get(2..5)?;
        let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
        let (reason, hint) = match status {
            StatusCode::BAD_REQUEST => (DenyReason::MalformedRequest, HINT),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => {
                (DenyReason::TooLarge, TOO_LARGE)
            }
            _ => return None,
        };
        let asked = self.0.unread()?;
        let policy = asked.subject.policy();
        let refusal = Refusal {
            denial: denial(&policy, reason, hint.to_owned()),
            asked: asked.clone(),
            grpc: false,
        };
        let (mut parts, body) = refusal.response().into_parts();
        parts.status = status;
        let length = HeaderValue::from(body.len());
        parts.headers.insert(CONTENT_LENGTH, length);
        let mut answer = BytesMut::new();
        interject::write(&mut answer, parts.status, &parts.headers);
        if *asked.method != *Method::HEAD.as_str() {
            answer.put_slice(&body);
        }
        Some(answer.freeze())
    }
}

/// Records that it was refused; `false` where it was none of HTTP/1.1.
pub(super) async fn record(session: &Session, reason: DenyReason) -> bool {
    let Some(asked) = session.unread() else {
        return false;
    };
    let policy = asked.subject.policy();
    let denial = denial(&policy, reason, String::new());
    refuse_request(session.worker().ledger(), asked, denial).await;
    tracing::info!(
        req.id = %asked.id, deny.reason = %reason,
        server.address = %asked.shown_host(), server.port = %asked.port, "denied"
    );
    true
}

/// The words for its record.
pub(super) fn asked(session: &Session) -> Option<Box<Asked>> {
    if session.application() != Application::Http1 {
        return None;
    }
    let words = session.heads().kept(Words::read);
    let named = words.authority.as_deref().map(Authority::parse);
    let destination = match (named, session.aim()) {
        // Where a connection goes is known of these.
        (_, Aim::Fixed(at) | Aim::Denied(at, _))
        | (None | Some(Err(_)), Aim::ByHost(at) | Aim::Explicit(at)) => at.clone(),
        (Some(Ok(authority)), Aim::ByHost(at) | Aim::Explicit(at)) => {
            let named = session.destination(&authority, words.protocol);
            named.unwrap_or_else(|_| at.clone())
        }
    };
    let caller = session.caller();
    Some(Box::new(Asked {
        subject: Arc::clone(caller.subject()),
        conn: caller.guard.id(),
        src: caller.src,
        id: session.worker().shared.ids.next(),
        host_word: destination.host.to_string().into(),
        host: destination.host,
        port: destination.port,
        protocol: match session.aim() {
            Aim::Explicit(_) => words.protocol,
            _ => session.protocol(),
        },
        method: words.method.into(),
        path: words.path.into(),
        tls: session.tls().cloned(),
        changes: caller.subject().changes(),
        heard: None,
        why: None,
        told: OnceLock::new(),
    }))
}

/// What a header section that could not be read says. Where it has no request line, nothing.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    /// Empty where it is none.
    method: String,
    protocol: AppProtocol,
    /// Of the target, or of the one Host field.
    authority: Option<String>,
    /// Without the query, bounded.
    path: String,
}

impl Words {
    const NONE: Self = Self {
        method: String::new(),
        protocol: AppProtocol::Http,
        authority: None,
        path: String::new(),
    };

    fn read(octets: &[u8]) -> Self {
        Self::of_request(octets).unwrap_or(Self::NONE)
    }

    fn of_request(octets: &[u8]) -> Option<Self> {
        let ends = |octet: &u8| matches!(octet, b'\r' | b'\n');
        let start = octets.iter().position(|octet| !ends(octet))?;
        let mut lines = octets.get(start..)?.split(|octet| *octet == b'\n');
        let line = lines.next()?;
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        let (method, rest) = line.split_once(' ')?;
        // One without an end was cut at the bound.
        let (target, version) = rest.rsplit_once(' ').unwrap_or((rest, "HTTP/"));
        let method = Method::from_bytes(method.as_bytes());
        let method = method.map_or_else(|_| String::new(), |method| method.to_string());
        if !version.starts_with("HTTP/") || method == Method::CONNECT.as_str() {
            return None;
        }
        let (scheme, authority, rest) = match target.split_once("://") {
            Some((scheme, rest)) if !target.starts_with('/') => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                let (authority, rest) = rest.split_at_checked(end)?;
                (scheme, Some(authority.to_owned()), rest)
            }
            _ => ("", None, target),
        };
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        Some(Self {
            method,
            protocol: if scheme.eq_ignore_ascii_case("https") {
                AppProtocol::Https
            } else {
                AppProtocol::Http
            },
            authority: authority.or_else(|| host(lines)),
            path: target::bounded(path),
        })
    }
}

/// The value of the one Host field.
fn host<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let fields = lines
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take_while(|line| !line.is_empty());
    let mut values = fields.filter_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let (name, value) = line.split_once(':')?;
        name.trim()
            .eq_ignore_ascii_case("host")
            .then(|| value.trim())
    });
    let value = values.next()?;
    values.next().is_none().then(|| value.to_owned())
}

const HINT: &str = "the request line or a field holds what HTTP does not allow there; in a URL, write \" < > ` \
                    and blanks percent-encoded";
const TOO_LARGE: &str = "a header section may have 64 KiB and 100 fields";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> (String, Option<String>, String) {
        let words = Words::read(text.as_bytes());
        (words.method, words.authority, words.path)
    }

    #[test]
    fn what_is_asked_for_is_made_out_and_its_query_left_out() {
        for (text, host, path) in [
            (
                "GET /s?q={\"a\"} HTTP/1.1\r\nHost: a.test\r\n\r\n",
                Some("a.test"),
                "/s",
            ),
            (
                "\r\nGET /<x> y HTTP/1.1\r\nhost:a.test:81\r\n\r\n",
                Some("a.test:81"),
                "/<x> y",
            ),
            (
                "GET http://b.test:8/p?\" HTTP/1.1\r\nHost: a.test\r\n\r\n",
                Some("b.test:8"),
                "/p",
            ),
            ("GET http://b.test?\" HTTP/1.1\r\n\r\n", Some("b.test"), ""),
            (
                "GET /a HTTP/1.1\r\nHost : a.test\r\n\r\n",
                Some("a.test"),
                "/a",
            ),
            ("GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", None, "/a"),
            ("GET /a HTTP/1.1\r\n\r\nHost: of.a.body\r\n", None, "/a"),
            ("GET /a HTTP/2\r\nHost: a\r\n", Some("a"), "/a"),
        ] {
            let wanted = ("GET".to_owned(), host.map(str::to_owned), path.to_owned());
            assert_eq!(words(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_method_that_is_none_is_left_out() {
        let line = "G\u{e9}T /a HTTP/1.1\r\nHost: a.test\r\n\r\n";
        let wanted = (String::new(), Some("a.test".to_owned()), "/a".to_owned());
        assert_eq!(words(line), wanted);
    }

    #[test]
    fn what_begins_with_no_request_line_is_not_guessed_at() {
        for text in [
            "",
            "\r\n\r\n",
            "of a body\r\nHost: a.test\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nX : y\r\n\r\n",
        ] {
            assert_eq!(Words::read(text.as_bytes()), Words::NONE, "{text:?}");
        }
    }
}
