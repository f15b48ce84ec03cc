//! Which header fields cross the proxy.
//!
//! Fields of one connection (RFC 9110 §7.6.1) and proxy credentials end here; nothing is added that
//! would tell the origin of us (`Via`, `Forwarded`, `X-Forwarded-*`). What could mean two things to
//! two parsers is refused.

use http::{
    HeaderMap, HeaderName, HeaderValue, Request,
    header::{
        ALT_SVC, CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
        TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};

/// Readies the header section of a request for the origin.
pub fn outgoing(headers: &mut HeaderMap) {
    let found = Found::in_headers(headers);
    strip_hop_by_hop(headers, found);
    found.remove(headers, Going::ProxyAuthorization);
    found.remove(headers, Going::ProxyAuthenticate);
    in_plain_digits(headers);
}

/// A length as it was read: who takes a leading zero for base eight would read another one.
fn in_plain_digits(headers: &mut HeaderMap) {
    let Some(value) = headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes) else {
        return;
    };
    if value.len() > 1
        && value.first() == Some(&b'0')
        && let Some(length) = content_length(headers)
    {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}

/// Readies the header section of a response for the sandbox.
pub fn incoming(headers: &mut HeaderMap) {
    let found = Found::in_headers(headers);
    strip_hop_by_hop(headers, found);
    found.remove(headers, Going::Te);
    found.remove(headers, Going::ProxyAuthenticate);
    // QUIC never leaves a sandbox: an invitation to it would cost the client a failed attempt.
    found.remove(headers, Going::AltSvc);
    if found.has(Going::ProxyStatus) {
        forget_own_status(headers);
    }
}

/// Takes members that gig itself would have written (RFC 9209 §2) out of what an origin sent: a program tells by
/// them what was denied.
fn forget_own_status(headers: &mut HeaderMap) {
    let kept: Vec<HeaderValue> = headers
        .get_all(PROXY_STATUS)
        .iter()
        .filter_map(|value| {
            let members = members(value.as_bytes());
            let others: Vec<&[u8]> = members.into_iter().filter(|one| !is_own(one)).collect();
            let value = HeaderValue::from_bytes(&others.join(&b", "[..])).ok()?;
            (!others.is_empty()).then_some(value)
        })
        .collect();
    headers.remove(PROXY_STATUS);
    for value in kept {
        headers.append(PROXY_STATUS, value);
    }
}

/// Of a list (RFC 8941 §3.1): a comma in a string parts nothing.
fn members(list: &[u8]) -> Vec<&[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = list.split(|octet| {
        let ends = *octet == b',' && !quoted;
        match octet {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
        ends
    });
    parts.map(<[u8]>::trim_ascii).collect()
}

fn is_own(member: &[u8]) -> bool {
    let name = member
        .split(|octet| *octet == b';')
        .next()
        .unwrap_or_default();
    let name = name.trim_ascii();
    let bare = name
        .strip_prefix(b"\"")
        .and_then(|name| name.strip_suffix(b"\""));
    bare.unwrap_or(name).eq_ignore_ascii_case(b"gig")
}

/// RFC 9209.
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Everything that may be removed by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    Connection,
    Te,
    TransferEncoding,
    Upgrade,
    KeepAlive,
    ProxyConnection,
    ProxyAuthorization,
    ProxyAuthenticate,
    AltSvc,
    ProxyStatus,
}

impl Going {
    /// Header names are lower case in a map.
    fn named(name: &HeaderName) -> Option<Self> {
        Some(match name.as_str() {
            "connection" => Self::Connection,
            "te" => Self::Te,
            "transfer-encoding" => Self::TransferEncoding,
            "upgrade" => Self::Upgrade,
            "keep-alive" => Self::KeepAlive,
            "proxy-connection" => Self::ProxyConnection,
            "proxy-authorization" => Self::ProxyAuthorization,
            "proxy-authenticate" => Self::ProxyAuthenticate,
            "alt-svc" => Self::AltSvc,
            "proxy-status" => Self::ProxyStatus,
            _ => return None,
        })
    }

    const fn name(self) -> HeaderName {
        match self {
            Self::Connection => CONNECTION,
            Self::Te => TE,
            Self::TransferEncoding => TRANSFER_ENCODING,
            Self::Upgrade => UPGRADE,
            Self::KeepAlive => HeaderName::from_static("keep-alive"),
            Self::ProxyConnection => HeaderName::from_static("proxy-connection"),
            Self::ProxyAuthorization => PROXY_AUTHORIZATION,
            Self::ProxyAuthenticate => PROXY_AUTHENTICATE,
            Self::AltSvc => ALT_SVC,
            Self::ProxyStatus => PROXY_STATUS,
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Which of the fields that must go are there, found in one pass: most messages have one of them or
/// none, and each look-up hashes.
#[derive(Debug, Clone, Copy)]
struct Found(u16);

impl Found {
    fn in_headers(headers: &HeaderMap) -> Self {
        let going = headers.keys().filter_map(Going::named);
        Self(going.fold(0, |found, going| found | going.bit()))
    }

    const fn has(self, going: Going) -> bool {
        self.0 & going.bit() != 0
    }

    fn remove(self, headers: &mut HeaderMap, going: Going) {
        if self.has(going) {
            headers.remove(going.name());
        }
    }
}

/// Removes what belongs to one connection only, `te: trailers` excepted.
fn strip_hop_by_hop(headers: &mut HeaderMap, found: Found) {
    if found.has(Going::Connection) {
        strip_named(headers);
    }
    if found.has(Going::Te)
        && let Some(te) = headers.remove(TE)
        && offers_trailers(&te)
    {
        // RFC 9113 §8.2.2 lets this one value through, and gRPC needs it.
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    for going in [
        Going::TransferEncoding,
        Going::Upgrade,
        Going::KeepAlive,
        Going::ProxyConnection,
    ] {
        found.remove(headers, going);
    }
}

/// Fields that `Connection` names, and `Connection` itself.
fn strip_named(headers: &mut HeaderMap) {
    let mut values = headers.get_all(CONNECTION).iter();
    if let (Some(only), None) = (values.next(), values.next())
        && only.as_bytes().eq_ignore_ascii_case(b"keep-alive")
    {
        // What most messages say that say anything: that field goes anyway.
        headers.remove(CONNECTION);
        return;
    }
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

/// The octets of a request's header section that a program chooses: method, target, names and values, as it
/// wrote them; what HTTP/2 compresses counts in full.
#[must_use]
pub fn head_octets<B>(request: &Request<B>) -> u64 {
    let uri = request.uri();
    let target = uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    // HTTP/1.1 says it in Host, too.
    let authority = match uri.authority() {
        Some(authority) if !request.headers().contains_key(HOST) => authority.as_str().len(),
        _ => 0,
    };
    let line = octets(request.method().as_str().len() + target + authority);
    line.saturating_add(field_octets(request.headers()))
}

/// The octets of all names and values.
#[must_use]
pub fn field_octets(fields: &HeaderMap) -> u64 {
    let field = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    octets(fields.iter().map(field).sum())
}

fn octets(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Whether two parsers could disagree on where the message ends (RFC 9112 §6.1, §6.3).
#[must_use]
pub fn framing_is_ambiguous(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (codings.next(), lengths.next()) {
        (None, None) => false,
        (Some(_), Some(_)) => true,
        (None, Some(_)) => lengths.next().is_some(),
        (Some(coding), None) => {
            !coding.as_bytes().eq_ignore_ascii_case(b"chunked") || codings.next().is_some()
        }
    }
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

/// Never removed because `Connection` names them: an origin would see another request than policy.
const KEPT: [HeaderName; 5] = [
    HOST,
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
    fn an_origin_tells_nothing_in_gigs_name() {
        let told = |value: &str| {
            let mut fields = HeaderMap::new();
            fields.insert("proxy-status", HeaderValue::from_str(value).unwrap());
            incoming(&mut fields);
            fields
                .get("proxy-status")
                .map(|value| value.to_str().unwrap().to_owned())
        };
        for forged in [
            "gig; error=http_request_denied",
            "GIG;error=x, \"gig\"; a=b",
            " gig ",
        ] {
            assert_eq!(told(forged), None, "{forged}");
        }
        let cdn = "cdn; details=\"a, gig; \\\" b\"";
        assert_eq!(told(cdn).as_deref(), Some(cdn));
        assert_eq!(told(&format!("gig; x=y , {cdn}")).as_deref(), Some(cdn));
        assert_eq!(told("gigantic").as_deref(), Some("gigantic"));
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
    fn a_length_goes_on_as_it_was_read() {
        for (written, read) in [("010", "10"), ("10", "10"), ("0", "0"), ("000", "0")] {
            let mut sent = headers(&[("content-length", written)]);
            outgoing(&mut sent);
            assert_eq!(sent, headers(&[("content-length", read)]), "{written}");
        }
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
