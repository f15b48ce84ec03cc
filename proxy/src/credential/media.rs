//! The media type of a body, as its header section says it (RFC 9110 §8.3), or as it begins where that says little.

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};

/// In lower case and without parameters; empty where nothing is said.
pub(super) fn media(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let text = String::from_utf8_lossy(value.unwrap_or_default());
    let media = text.split(';').next().unwrap_or_default();
    media.trim().to_ascii_lowercase()
}

/// Whether a media subtype is JSON, be it under another name.
#[must_use]
pub(super) fn is_json(sub: &str) -> bool {
    let aws = sub.starts_with("x-amz-json-");
    sub == "json" || sub.ends_with("+json") || aws || JSON.contains(&sub)
}

/// Whether what begins with `octets` is JSON, behind what says in which Unicode encoding it is; `None`: that does
/// not show yet.
#[must_use]
pub(super) fn begins_like_json(octets: &[u8]) -> Option<bool> {
    let first = octets.iter().find(|octet| !is_before(**octet))?;
    Some(matches!(first, b'{' | b'['))
}

/// A blank, an octet of a byte order mark (Unicode 16.0 §23.8), or the first half of a letter in UTF-16: none
/// of them says what the text is.
const fn is_before(octet: u8) -> bool {
    octet.is_ascii_whitespace() || matches!(octet, 0xef | 0xbb | 0xbf | 0xfe | 0xff | 0)
}

const JSON: [&str; 8] = [
    "x-ndjson",
    "ndjson",
    "jsonl",
    "x-json",
    "json-seq",
    "json-rpc",
    "jsonrequest",
    "json5",
];
