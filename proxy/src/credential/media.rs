//! The media type of a body, as its header section says it (RFC 9110 §8.3).

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};

/// In lower case and without parameters; empty where nothing is said.
pub(super) fn media(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let text = String::from_utf8_lossy(value.unwrap_or_default());
    let media = text.split(';').next().unwrap_or_default();
    media.trim().to_ascii_lowercase()
}
