//! Pieces of answers: a value can be cut in two by who says where a piece begins, and neither half is one.
//!
//! A request to where a value may be placed asks for no piece, by the standard field or by those that some servers
//! take instead; and a piece of octets that comes all the same does not come back. Entries of a list
//! (`Content-Range: items 0-24/319`) are whole, each of them, and are no pieces.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{CONTENT_RANGE, CONTENT_TYPE, IF_RANGE, RANGE},
};

/// Has the request ask for all there is. What writes a piece (Azure's `Put Page`) says by the same fields
/// which, and keeps them.
pub(super) fn ask_for_all(method: &Method, headers: &mut HeaderMap) {
    headers.remove(RANGE);
    headers.remove(IF_RANGE);
    if *method == Method::PUT {
        return;
    }
    for name in OTHERS {
        headers.remove(name);
    }
}

/// Whether an answer is a piece that may begin or end anywhere.
pub(super) fn is_piece(status: StatusCode, headers: &HeaderMap) -> bool {
    if status == StatusCode::RANGE_NOT_SATISFIABLE {
        // It says how long the whole is, and holds nothing of it.
        return false;
    }
    let mut ranges = headers.get_all(CONTENT_RANGE).iter().peekable();
    if ranges.peek().is_none() {
        // Without the field a part is one of several (RFC 9110 §14.6), or of nobody knows what.
        return status == StatusCode::PARTIAL_CONTENT || is_several(headers);
    }
    ranges.any(counts_octets)
}

/// RFC 9110 §14.4: `bytes 0-9/20`. No word at all is PostgREST's way to count rows.
fn counts_octets(range: &HeaderValue) -> bool {
    let text = range.as_bytes().trim_ascii_start();
    let word = text.split(|octet| !octet.is_ascii_alphabetic()).next();
    let word = word.unwrap_or_default();
    word.eq_ignore_ascii_case(b"bytes") || word.eq_ignore_ascii_case(b"octets")
}

fn is_several(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = kind.unwrap_or_default().trim_ascii_start();
    let begins = kind.get(..SEVERAL.len());
    begins.is_some_and(|begins| begins.eq_ignore_ascii_case(SEVERAL))
}

/// Apache httpd's and nginx's older field, Azure's, and what Azure refuses without a range.
const OTHERS: [HeaderName; 4] = [
    HeaderName::from_static("request-range"),
    HeaderName::from_static("x-ms-range"),
    HeaderName::from_static("x-ms-range-get-content-md5"),
    HeaderName::from_static("x-ms-range-get-content-crc64"),
];
const SEVERAL: &[u8] = b"multipart/byteranges";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_pieces_and_entries_are_not() {
        let ok = StatusCode::OK;
        let partial = StatusCode::PARTIAL_CONTENT;
        let cases = [
            (partial, None, "text/plain", true),
            (partial, Some("bytes 0-9/20"), "text/plain", true),
            (ok, Some(" Bytes 0-9/*"), "text/plain", true),
            (ok, None, "Multipart/ByteRanges; boundary=b", true),
            (partial, Some("items 0-24/319"), "application/json", false),
            (
                partial,
                Some("id 01..99; max=200"),
                "application/json",
                false,
            ),
            (partial, Some("0-24/*"), "application/json", false),
            (
                StatusCode::RANGE_NOT_SATISFIABLE,
                Some("bytes */20"),
                "text/plain",
                false,
            ),
            (ok, None, "text/plain", false),
        ];
        for (status, range, kind, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            if let Some(range) = range {
                headers.insert(CONTENT_RANGE, HeaderValue::from_static(range));
            }
            assert_eq!(
                is_piece(status, &headers),
                expected,
                "{status} {range:?} {kind}"
            );
        }
    }

    #[test]
    fn who_writes_a_piece_says_which() {
        let all = || {
            let mut headers = HeaderMap::new();
            for name in OTHERS.into_iter().chain([RANGE, IF_RANGE]) {
                headers.insert(name, HeaderValue::from_static("bytes=0-9"));
            }
            headers
        };
        let mut asks = all();
        ask_for_all(&Method::GET, &mut asks);
        assert!(asks.is_empty(), "{asks:?}");
        let mut writes = all();
        ask_for_all(&Method::PUT, &mut writes);
        assert!(writes.contains_key("x-ms-range") && !writes.contains_key(RANGE));
    }
}
