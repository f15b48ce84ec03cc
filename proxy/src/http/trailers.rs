//! Which fields cross the proxy in a trailer section.
//!
//! RFC 9110 §6.5.1: what frames a message, routes it, authenticates, controls it or says how its content is to be
//! read is no trailer field. It comes when all is decided, and who merges trailers into the header section would
//! take it for what it is not. The same list both ways and over both versions.

use http::{HeaderMap, HeaderName};

/// Takes out what is no trailer field.
pub fn forget_unfit(trailers: &mut HeaderMap) {
    forget(trailers, |name| is_unfit(name.as_str()));
}

/// Takes out such fields.
pub(super) fn forget(trailers: &mut HeaderMap, such: impl Fn(&HeaderName) -> bool) {
    let names: Vec<HeaderName> = trailers.keys().filter(|name| such(name)).cloned().collect();
    for name in names {
        trailers.remove(name);
    }
}

/// Header names are lower case in a map; some origins read `_` as `-`.
fn is_unfit(name: &str) -> bool {
    let name = name.replace('_', "-");
    UNFIT.contains(&name.as_str()) || FAMILIES.iter().any(|family| name.starts_with(family))
}

const FAMILIES: [&str; 3] = ["if-", "proxy-", "x-forwarded-"];
const UNFIT: [&str; 38] = [
    // Framing and the connection.
    "connection",
    "content-length",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    // Routing, and who asks.
    "host",
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "origin",
    "referer",
    // Authentication and sessions.
    "authorization",
    "www-authenticate",
    "authentication-info",
    "cookie",
    "set-cookie",
    // Controls.
    "cache-control",
    "expect",
    "max-forwards",
    "pragma",
    "range",
    "age",
    "date",
    "expires",
    "location",
    "retry-after",
    "vary",
    "alt-svc",
    // How the content is to be read.
    "content-encoding",
    "content-range",
    "content-type",
    "content-location",
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_is_decided_by_the_header_section_comes_in_no_trailers() {
        let mut trailers = HeaderMap::new();
        for name in [
            "host",
            "authorization",
            "cookie",
            "set-cookie",
            "content-length",
            "transfer_encoding",
            "te",
            "x-forwarded-for",
            "x_forwarded_host",
            "if-match",
            "proxy-status",
            "grpc-status",
            "grpc-message",
            "content-digest",
            "etag",
            "server-timing",
            "x-checksum",
        ] {
            trailers.insert(name, HeaderValue::from_static("1"));
        }
        forget_unfit(&mut trailers);
        let mut left: Vec<_> = trailers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        let stay = [
            "content-digest",
            "etag",
            "grpc-message",
            "grpc-status",
            "server-timing",
            "x-checksum",
        ];
        assert_eq!(left, stay);
    }
}
