//! Whether bytes begin an HTTP request: the HTTP/2 preface, a known method, or a whole request line.

use super::FirstBytes;

/// The answer, or `None` while the bytes could still become either.
pub(super) fn classify(front: &[u8]) -> Option<FirstBytes> {
    let line = skip_empty_lines(front);
    if line.is_empty() {
        // Only line ends so far.
        return (front.len() > MAX_LEADING).then_some(FirstBytes::Other);
    }
    if line.starts_with(PREFACE) {
        return Some(FirstBytes::Http { h2c: true });
    }
    if PREFACE.starts_with(line) {
        return None;
    }
    let Some(length) = line.iter().position(|octet| !is_token(*octet)) else {
        return (line.len() > MAX_METHOD).then_some(FirstBytes::Other);
    };
    let (method, rest) = line.split_at_checked(length)?;
    if method.is_empty() || length > MAX_METHOD || rest.first() != Some(&b' ') {
        return Some(FirstBytes::Other);
    }
    if METHODS.contains(&method) {
        return Some(FirstBytes::Http { h2c: false });
    }
    // RFC 9110 §9.1 leaves methods open: an unknown one counts when its whole line is a request line.
    match memchr::memchr(b'\n', rest) {
        Some(end) => Some(whole_line(rest.get(..end).unwrap_or_default())),
        None if rest.len() > MAX_LINE => Some(FirstBytes::Other),
        None => None,
    }
}

fn whole_line(line: &[u8]) -> FirstBytes {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.rsplit(|octet| *octet == b' ').next() {
        Some(b"HTTP/1.1" | b"HTTP/1.0") => FirstBytes::Http { h2c: false },
        _ => FirstBytes::Other,
    }
}

/// RFC 9112 §2.2: "at least one empty line (CRLF) received prior to the request-line" is ignored.
fn skip_empty_lines(front: &[u8]) -> &[u8] {
    let start = front
        .iter()
        .take(MAX_LEADING + 1)
        .position(|octet| !matches!(octet, b'\r' | b'\n'))
        .unwrap_or_else(|| front.len().min(MAX_LEADING + 1));
    front.get(start..).unwrap_or_default()
}

/// `tchar` of RFC 9110 §5.6.2.
const fn is_token(octet: u8) -> bool {
    octet.is_ascii_alphanumeric()
        || matches!(octet, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

/// RFC 9113 §3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The methods that are decided on at their first blank: RFC 9110, PATCH and WebDAV.
const METHODS: [&[u8]; 16] = [
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"CONNECT",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"REPORT",
    b"SEARCH",
];
/// `VERSION-CONTROL` and `UPDATEREDIRECTREF`, the longest registered, have 17 at most.
const MAX_METHOD: usize = 24;
/// RFC 9112 §3 recommends 8,000 octets.
const MAX_LINE: usize = 8192;
/// Two empty lines.
const MAX_LEADING: usize = 4;
