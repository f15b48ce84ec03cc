//! One spelling for every request path, so that a path rule cannot be walked around.
//!
//! [`normalise`] decodes what RFC 3986 §2.3 calls unreserved, writes other escapes in upper case,
//! escapes what is not ASCII, and removes dot segments (§5.2.4). It refuses what no honest client
//! sends: broken escapes, control characters, climbing above the root. What some honest client does
//! send but servers read in two ways (an encoded slash, npm's `/@scope%2fname`) is kept and marked:
//! [`is_ambiguous`] segments match no wildcard of a path rule, only their own literal spelling.
//! Empty segments are kept: servers differ, and no pattern's `*` matches an empty one.
//! Queries are cut off by the caller.

use std::{borrow::Cow, fmt};

use thiserror::Error;

pub(crate) use self::loose::{loosely, undressed};

mod loose;

/// A path in its one spelling: absolute, without query; or `*` alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NormalPath<'a>(Cow<'a, str>);

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NormalisePathError {
    /// Neither absolute nor `*`.
    #[error("a request path must start with a slash")]
    NotAbsolute,
    /// `%` without two hexadecimal digits.
    #[error("a percent sign is not followed by two hexadecimal digits")]
    BadEscape,
    /// A control character or a space, plain or encoded.
    #[error("a request path must not hold a blank (write %20) or a control character")]
    Control,
    /// `?` or `#`.
    #[error("a request path must not hold a query or a fragment")]
    NotPath,
    /// More `..` than there are segments.
    #[error("the path climbs above the root")]
    AboveRoot,
}

impl NormalPath<'_> {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the text is the one that was given.
    #[must_use]
    pub const fn is_unchanged(&self) -> bool {
        matches!(self.0, Cow::Borrowed(_))
    }

    /// Whether any segment is one that servers read in two ways; see [`is_ambiguous`].
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.0.split('/').any(is_ambiguous)
    }

    /// The text by value; copies nothing that was already copied.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl fmt::Display for NormalPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Brings a path, without its query, to its one spelling. The empty path is `/` (RFC 9110 §4.2.3).
///
/// # Errors
/// [`NormalisePathError`], when no honest client sends such a path.
pub fn normalise(path: &str) -> Result<NormalPath<'_>, NormalisePathError> {
    if path.is_empty() {
        return Ok(NormalPath(Cow::Borrowed("/")));
    }
    if path == "*" {
        return Ok(NormalPath(Cow::Borrowed(path)));
    }
    if !path.starts_with('/') {
        return Err(NormalisePathError::NotAbsolute);
    }
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'%' | b'?' | b'#');
    let dots = path.split('/').any(|s| s == "." || s == "..");
    if path.bytes().all(plain) && !dots {
        return Ok(NormalPath(Cow::Borrowed(path)));
    }
    let decoded = decode_unreserved(path)?;
    let resolved = remove_dot_segments(&decoded)?;
    if resolved == path {
        return Ok(NormalPath(Cow::Borrowed(path)));
    }
    Ok(NormalPath(Cow::Owned(resolved)))
}

/// Whether a normalised segment is one that servers read in two ways.
///
/// An encoded slash or backslash, also in the overlong UTF-8 that lax decoders take for one (RFC 3629
/// §10) or in the full width that compatibility normalisation makes narrow (UAX #15), as a dot does; a
/// plain backslash; a dot segment hidden behind `;` (servlet containers cut parameters off before they
/// resolve dots) or with blanks beside it (Windows cuts them off); or an escape of an escape that becomes
/// one of these when a second server decodes it.
#[must_use]
pub fn is_ambiguous(segment: &str) -> bool {
    let plain = |b| !matches!(b, b'%' | b'\\' | b';' | b'+');
    if segment.bytes().all(plain) {
        return false;
    }
    let mut text = segment.to_ascii_lowercase();
    loop {
        let name = text.split(';').next().unwrap_or("");
        let encoded = ENCODED.iter().any(|e| text.contains(e));
        let dots = (name == "." || name == "..") && text.contains(';');
        if encoded || dots || is_dots_and_blanks(name) || text.contains('\\') {
            return true;
        }
        let once = text.replace("%3b", ";").replace("%25", "%");
        if once == text {
            return false;
        }
        text = once;
    }
}

/// Dots, and blanks before, between or after them.
fn is_dots_and_blanks(name: &str) -> bool {
    if !name.contains('.') {
        return false;
    }
    let mut rest = name;
    let mut blanks = false;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
        } else if let Some(after) = BLANKS.iter().find_map(|blank| rest.strip_prefix(blank)) {
            (rest, blanks) = (after, true);
        } else {
            return false;
        }
    }
    blanks
}

/// Escapes that some servers read as a separator, a dot or an end: overlong forms by their first octets, then
/// U+FF0E, U+FF0F and U+FF3C, and the leaders U+2024 and U+2025.
const ENCODED: [&str; 14] = [
    "%2f",
    "%5c",
    "%00",
    "%2e",
    "%c0",
    "%c1",
    "%e0%8",
    "%e0%9",
    "%f0%8",
    "%ef%bc%8e",
    "%ef%bc%8f",
    "%ef%bc%bc",
    "%e2%80%a4",
    "%e2%80%a5",
];
/// What some servers take for a blank: the space, as forms write it too, U+00A0 and U+0085 in UTF-8 and in
/// Latin-1, U+3000.
const BLANKS: [&str; 7] = ["%20", "+", "%c2%a0", "%a0", "%c2%85", "%85", "%e3%80%80"];

fn decode_unreserved(path: &str) -> Result<String, NormalisePathError> {
    let mut out = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let high = bytes.next().and_then(hex_value);
                let low = bytes.next().and_then(hex_value);
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(NormalisePathError::BadEscape);
                };
                let value = high * 16 + low;
                if value.is_ascii_control() {
                    return Err(NormalisePathError::Control);
                }
                if value.is_ascii_alphanumeric() || matches!(value, b'-' | b'.' | b'_' | b'~') {
                    out.push(char::from(value));
                } else {
                    push_escape(&mut out, value);
                }
            }
            b'?' | b'#' => return Err(NormalisePathError::NotPath),
            b' ' => return Err(NormalisePathError::Control),
            byte if byte.is_ascii_control() => return Err(NormalisePathError::Control),
            byte if byte.is_ascii() => out.push(char::from(byte)),
            byte => push_escape(&mut out, byte),
        }
    }
    Ok(out)
}

/// RFC 3986 §5.2.4, except that climbing above the root is refused and empty segments stay.
fn remove_dot_segments(path: &str) -> Result<String, NormalisePathError> {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." if last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop().ok_or(NormalisePathError::AboveRoot)?;
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    let mut out = String::with_capacity(path.len());
    for segment in &kept {
        out.push('/');
        out.push_str(segment);
    }
    if out.is_empty() {
        out.push('/');
    }
    Ok(out)
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn push_escape(out: &mut String, value: u8) {
    let digit = |v: u8| {
        char::from_digit(u32::from(v), 16)
            .unwrap_or('0')
            .to_ascii_uppercase()
    };
    out.push('%');
    out.push(digit(value >> 4));
    out.push(digit(value & 15));
}

#[cfg(test)]
mod tests;
