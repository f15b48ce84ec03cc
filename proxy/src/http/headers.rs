//! Which header fields cross the proxy.
//!
//! Fields of one connection (RFC 9110 §7.6.1) and proxy credentials end here; nothing is added that
//! would tell the origin of us (`Via`, `Forwarded`, `X-Forwarded-*`). What could mean two things to
//! two parsers is refused.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        ALT_SVC, CONNECTION, CONTENT_LENGTH, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
        TRANSFER_ENCODING, UPGRADE,
    },
};

/// Readies the header section of a request for the origin.
pub fn outgoing(headers: &mut HeaderMap) {
    let found = Found::in_headers(headers);
    strip_hop_by_hop(headers, found);
    found.remove(headers, &PROXY_AUTHORIZATION);
    found.remove(headers, &PROXY_AUTHENTICATE);
}

/// Readies the header section of a response for the sandbox.
pub fn incoming(headers: &mut HeaderMap) {
    let found = Found::in_headers(headers);
    strip_hop_by_hop(headers, found);
    found.remove(headers, &TE);
    found.remove(headers, &PROXY_AUTHENTICATE);
    // QUIC never leaves a sandbox: an invitation to it would cost the client a failed attempt.
    found.remove(headers, &ALT_SVC);
}

/// Which of the fields that must go are there, found in one pass: most messages have one of them or
/// none, and each look-up hashes.
#[derive(Debug, Clone, Copy)]
struct Found([bool; GOING.len()]);

impl Found {
    fn in_headers(headers: &HeaderMap) -> Self {
        let mut found = [false; GOING.len()];
        for name in headers.keys() {
            for (going, found) in GOING.iter().zip(&mut found) {
                *found |= going == name;
            }
        }
        Self(found)
    }

    fn has(self, name: &HeaderName) -> bool {
        let mut both = GOING.iter().zip(self.0);
        both.any(|(going, found)| found && going == name)
    }

    fn remove(self, headers: &mut HeaderMap, name: &HeaderName) {
        if self.has(name) {
            headers.remove(name);
        }
    }
}

/// Removes what belongs to one connection only, `te: trailers` excepted.
fn strip_hop_by_hop(headers: &mut HeaderMap, found: Found) {
    if found.has(&CONNECTION) {
        strip_named(headers);
    }
    if found.has(&TE)
        && let Some(te) = headers.remove(TE)
        && offers_trailers(&te)
    {
        // RFC 9113 §8.2.2 lets this one value through, and gRPC needs it.
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    for name in [&TRANSFER_ENCODING, &UPGRADE, &KEEP_ALIVE, &PROXY_CONNECTION] {
        found.remove(headers, name);
    }
}

/// Fields that `Connection` names, and `Connection` itself.
fn strip_named(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|token| token.trim().parse().ok())
        // RFC 9110 §7.6.1: a sender must not name end-to-end fields; these would change what is sent.
        .filter(|name| !KEPT.contains(name))
        .collect();
    for name in named {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
}

/// Whether two parsers could disagree on where the message ends (RFC 9112 §6.1, §6.3).
#[must_use]
pub fn framing_is_ambiguous(headers: &HeaderMap) -> bool {
    let coded = headers.contains_key(TRANSFER_ENCODING);
    if coded && headers.contains_key(CONTENT_LENGTH) {
        return true;
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let only_chunked = codings
        .next()
        .is_none_or(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"));
    !only_chunked || codings.next().is_some() || headers.get_all(CONTENT_LENGTH).iter().count() > 1
}

/// Whether `Connection` holds `token`.
#[must_use]
pub fn connection_has(headers: &HeaderMap, token: &str) -> bool {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|found| found.trim().eq_ignore_ascii_case(token))
}

/// Whether the body is a gRPC message stream.
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The body's announced length.
#[must_use]
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn offers_trailers(te: &HeaderValue) -> bool {
    te.to_str().is_ok_and(|value| {
        value
            .split(',')
            .any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
    })
}

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// Everything that may be removed by its name.
static GOING: [HeaderName; 9] = [
    CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHORIZATION,
    PROXY_AUTHENTICATE,
    ALT_SVC,
];
/// Never removed because `Connection` names them: an origin would see another request than policy.
const KEPT: [HeaderName; 5] = [
    http::header::HOST,
    CONTENT_LENGTH,
    TRAILER,
    http::header::AUTHORIZATION,
    http::header::COOKIE,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn fields_named_by_connection_go_and_end_to_end_fields_stay() {
        let mut sent = headers(&[
            ("connection", "x-one, Host, close"),
            ("x-one", "1"),
            ("host", "a"),
            ("keep-alive", "5"),
            ("te", "trailers, gzip"),
            ("proxy-authorization", "Basic x"),
        ]);
        outgoing(&mut sent);
        assert_eq!(sent, headers(&[("host", "a"), ("te", "trailers")]));
    }

    #[test]
    fn nothing_that_belongs_to_one_connection_comes_back() {
        let mut answered = headers(&[
            ("connection", "keep-alive, x-two"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "trailers"),
            ("proxy-authenticate", "Basic"),
            ("alt-svc", "h3=\":443\""),
            ("x-two", "2"),
            ("etag", "1"),
        ]);
        incoming(&mut answered);
        assert_eq!(answered, headers(&[("etag", "1")]));
    }

    #[test]
    fn only_plain_chunked_is_one_framing() {
        let coded = |value| headers(&[("transfer-encoding", value)]);
        assert!(!framing_is_ambiguous(&coded("chunked")));
        assert!(framing_is_ambiguous(&coded("gzip, chunked")));
        let mut both = coded("chunked");
        both.insert(CONTENT_LENGTH, HeaderValue::from_static("3"));
        assert!(framing_is_ambiguous(&both));
        let mut twice = headers(&[("content-length", "3")]);
        twice.append(CONTENT_LENGTH, HeaderValue::from_static("3"));
        assert!(framing_is_ambiguous(&twice));
    }
}
