//! What stands between the parts of a multipart body, as whoever reads it takes it from `Content-Type`.
//!
//! It reads what parsers read that are not strict: blanks around the sign, any letter case, a quoted text with
//! escapes, and the form that says its character set. Parts are told apart elsewhere.

use std::sync::Arc;

use http::{HeaderMap, header::CONTENT_TYPE};
use percent_encoding::percent_decode;

/// The boundary (RFC 2046 §5.1.1), where the type is multipart and says one.
pub(super) fn boundary(headers: &HeaderMap) -> Option<Arc<[u8]>> {
    let value = headers.get(CONTENT_TYPE)?.as_bytes();
    if !value
        .trim_ascii_start()
        .get(..10)?
        .eq_ignore_ascii_case(b"multipart/")
    {
        return None;
    }
    let mut extended = None;
    let mut plain = None;
    for (name, value) in parameters(value) {
        if name.eq_ignore_ascii_case(b"boundary") {
            plain.get_or_insert(value);
        } else if name.eq_ignore_ascii_case(b"boundary*") {
            // RFC 2231 §4: `charset'language'text`.
            let text = value.splitn(3, |octet| *octet == b'\'').last();
            extended = text.map(|text| percent_decode(text).collect());
        }
    }
    let named: Vec<u8> = plain.or(extended)?;
    (!named.is_empty() && named.len() <= LONGEST).then(|| named.into())
}

/// Names and values behind the type, the values without their quotes and escapes.
fn parameters(value: &[u8]) -> Vec<(&[u8], Vec<u8>)> {
    let mut found = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, octet) in value.iter().chain([&b';']).enumerate() {
        match octet {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            // What is quoted and not closed ends with the field.
            b';' if !quoted || at == value.len() => {
                let one = value.get(start..at).unwrap_or_default();
                let equals = memchr::memchr(b'=', one);
                if let Some((name, text)) = equals.and_then(|equals| one.split_at_checked(equals)) {
                    let text = text.get(1..).unwrap_or_default();
                    found.push((name.trim_ascii(), unquoted(text.trim_ascii())));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

fn unquoted(text: &[u8]) -> Vec<u8> {
    let Some(text) = text.strip_prefix(b"\"") else {
        return text.to_vec();
    };
    let text = text.strip_suffix(b"\"").unwrap_or(text);
    let mut out = Vec::with_capacity(text.len());
    let mut octets = text.iter();
    while let Some(octet) = octets.next() {
        match octet {
            b'\\' => out.extend(octets.next()),
            octet => out.push(*octet),
        }
    }
    out
}

/// RFC 2046 §5.1.1 has seventy; nobody is held to it.
const LONGEST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, value.parse().unwrap());
        let named = boundary(&headers)?;
        Some(String::from_utf8(named.to_vec()).unwrap())
    }

    #[test]
    fn a_boundary_is_read_however_it_is_written() {
        for (value, expected) in [
            ("multipart/form-data; boundary=b1", "b1"),
            ("Multipart/Mixed;BOUNDARY=b1;x=y", "b1"),
            (r#"multipart/form-data; Boundary = "b;1" ; x=y"#, "b;1"),
            (r#"multipart/form-data; boundary="a\b\"c""#, "ab\"c"),
            ("multipart/form-data; boundary*=utf-8''b%201", "b 1"),
            ("multipart/form-data; boundary*=utf-8''x; boundary=b1", "b1"),
            ("multipart/form-data; boundary=\"b1", "b1"),
            (
                r#"multipart/form-data; x="; boundary=no"; boundary=b1"#,
                "b1",
            ),
        ] {
            assert_eq!(of(value).as_deref(), Some(expected), "{value}");
        }
        for value in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "text/plain; boundary=b1",
        ] {
            assert_eq!(of(value), None, "{value}");
        }
    }
}
