//! One line of the record: an entry with its place, its time and the hash that chains it.
//!
//! A line is JSON in printable ASCII: whatever else a sandbox managed to put into a host or a path
//! (controls, escapes, bidirectional overrides) stands as `\uXXXX`, so that a terminal that shows
//! the file obeys nobody. Long texts are cut, so that a sandbox cannot inflate the record.

use std::{fmt, io, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::ser::{CharEscape, Formatter};

use crate::entry::Entry;

/// An entry that is part of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Record {
    /// Its place, counted from 1.
    pub seq: u64,
    /// When it was written: RFC 3339, UTC, microseconds.
    pub time: String,
    /// The machine that wrote it.
    pub node: Arc<str>,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
    /// The hash of the record before; 64 zeros for the first.
    pub prev: ChainHash,
    /// SHA-256 of the line up to `,"hash":"`.
    pub hash: ChainHash,
}

/// A SHA-256 in a chain of records; 64 hex digits in text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash(pub [u8; 32]);

impl ChainHash {
    /// What the first record names as its predecessor.
    pub const NONE: Self = Self([0; 32]);

    /// Reads 64 lower-case hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut octets = [0; 32];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != octets.len() || !rest.is_empty() {
            return None;
        }
        for (octet, [high, low]) in octets.iter_mut().zip(pairs) {
            *octet = hex_digit(*high)? << 4 | hex_digit(*low)?;
        }
        Some(Self(octets))
    }
}

const fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

const fn digit_of(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' + nibble - 10,
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        let (pairs, _) = text.as_chunks_mut::<2>();
        for (pair, octet) in pairs.iter_mut().zip(self.0) {
            *pair = [digit_of(octet >> 4), digit_of(octet & 0xf)];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not 64 lower-case hex digits"))
    }
}

/// What the hash of a record covers.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    pub(crate) seq: u64,
    pub(crate) time: &'a str,
    pub(crate) node: &'a str,
    #[serde(flatten)]
    pub(crate) entry: &'a Entry,
    pub(crate) prev: ChainHash,
}

impl Body<'_> {
    /// The JSON object in printable ASCII, its closing brace included.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        self.serialize(&mut serde_json::Serializer::with_formatter(
            out,
            PrintableAscii,
        ))
    }
}

/// Compact JSON in which only `0x20..=0x7e` stands for itself.
#[derive(Debug)]
struct PrintableAscii;

impl Formatter for PrintableAscii {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|b| matches!(b, 0x20..=0x7e)) {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if matches!(character, ' '..='~') {
                write!(writer, "{character}")?;
            } else {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn write_char_escape<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

/// Cuts every text that a sandbox or an origin supplied to [`LONGEST_TEXT`].
pub(crate) fn bound_texts(entry: &mut Entry) {
    let tls = entry.tls.as_mut();
    let (version, alpn, sni) = tls.map_or((None, None, None), |tls| {
        (tls.version.as_mut(), tls.alpn.as_mut(), tls.sni.as_mut())
    });
    let single = [
        entry.host.as_mut(),
        entry.method.as_mut(),
        entry.path.as_mut(),
        entry.protocol.as_mut(),
        entry.rule.as_mut(),
        version,
        alpn,
        sni,
    ];
    for text in single.into_iter().flatten().chain(&mut entry.findings) {
        if text.len() > LONGEST_TEXT {
            let boundary = (0..=LONGEST_TEXT)
                .rev()
                .find(|at| text.is_char_boundary(*at));
            let (head, tail) = text.split_at(boundary.unwrap_or_default());
            *text = format!("{head}...({} octets cut)", tail.len()).into();
        }
    }
}

/// Longest text of one field: longer than any path seen in practice (servers refuse URLs from 8 KiB),
/// short enough that 10,000 records a second of them stay a tolerable 80 MB/s.
const LONGEST_TEXT: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    #[test]
    fn hash_text_round_trips_and_refuses_other_spellings() {
        let text = "00ff".repeat(16);
        assert_eq!(ChainHash::parse(&text).unwrap().to_string(), text);
        assert_eq!(ChainHash::parse(&text.to_uppercase()), None);
        assert_eq!(ChainHash::parse("00ff"), None);
        assert_eq!(ChainHash::parse(""), None);
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let mut entry = Entry::new(Event::Request);
        entry.path = Some("/ä".repeat(LONGEST_TEXT).into());
        bound_texts(&mut entry);
        let path = entry.path.unwrap();
        assert!(path.len() < LONGEST_TEXT + 64);
        assert!(path.ends_with("octets cut)"));
    }
}
