//! How what replaces something is written so that it stands where that stood.

use std::borrow::Cow;

/// How characters are escaped around a find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Bare,
    Percent,
    Backslash,
    Reference,
}

impl Style {
    /// As a find is spelled.
    pub(super) fn of(spelled: &[u8]) -> Self {
        let first = spelled
            .iter()
            .find(|octet| matches!(octet, b'%' | b'\\' | b'&'));
        match first {
            Some(b'%') => Self::Percent,
            Some(b'\\') => Self::Backslash,
            Some(b'&') => Self::Reference,
            _ => Self::Bare,
        }
    }

    /// Writes what would not stand for itself with an escape.
    pub(super) fn write(self, octets: &[u8], out: &mut Vec<u8>) {
        for octet in octets {
            match (self, *octet) {
                (Self::Percent, octet) if !is_unreserved(octet) => {
                    out.extend_from_slice(format!("%{octet:02X}").as_bytes());
                }
                (Self::Backslash, octet @ (b'"' | b'\\')) => out.extend_from_slice(&[b'\\', octet]),
                (Self::Backslash, octet) if octet < b' ' => {
                    out.extend_from_slice(format!("\\u{octet:04x}").as_bytes());
                }
                (Self::Reference, octet @ (b'&' | b'<' | b'>' | b'"' | b'\'')) => {
                    out.extend_from_slice(format!("&#{octet};").as_bytes());
                }
                (_, octet) => out.push(octet),
            }
        }
    }
}

/// RFC 3986 §2.3.
const fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~')
}

/// A sentinel in so many octets, of which none needs an escape anywhere.
pub(super) fn fitted(sentinel: &str, length: usize) -> Cow<'_, [u8]> {
    if sentinel.len() == length {
        return Cow::Borrowed(sentinel.as_bytes());
    }
    if sentinel.is_empty() {
        return Cow::Owned(vec![b'x'; length]);
    }
    let sound = |octet: u8| if is_unreserved(octet) { octet } else { b'x' };
    Cow::Owned(sentinel.bytes().map(sound).cycle().take(length).collect())
}

/// Two digits for an octet, in the letter case of what they stand for.
pub(super) fn hex(octets: &[u8], like: &[u8], out: &mut Vec<u8>) {
    let upper = like.iter().any(u8::is_ascii_uppercase);
    for octet in octets {
        let digits = if upper {
            format!("{octet:02X}")
        } else {
            format!("{octet:02x}")
        };
        out.extend_from_slice(digits.as_bytes());
    }
}
