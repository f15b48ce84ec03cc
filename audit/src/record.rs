//! One line of the record: an entry with its place, its time and the hash that chains it.
//!
//! Long texts are cut, so that a sandbox cannot inflate the record. How a line is written is
//! `line`'s.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{chain::Head, entry::Entry};

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

impl Record {
    /// What the next record names as its predecessor.
    pub(crate) const fn head(&self) -> Head {
        Head {
            seq: self.seq,
            hash: self.hash,
        }
    }
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

/// The 64 digits.
pub(crate) fn hex(hash: ChainHash) -> [u8; 64] {
    let mut text = [0; 64];
    let (pairs, _) = text.as_chunks_mut::<2>();
    for (pair, octet) in pairs.iter_mut().zip(hash.0) {
        *pair = [digit_of(octet >> 4), digit_of(octet & 0xf)];
    }
    text
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&hex(*self)).unwrap_or_default())
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

/// Cuts every text that somebody else supplied (a sandbox, an origin, who registers a server or asks for
/// it) to [`LONGEST_TEXT`], cut off texts and all.
pub(crate) fn bound_texts(entry: &mut Entry) {
    let tls = entry.tls.as_mut();
    let (version, alpn, sni) = tls.map_or((None, None, None), |tls| {
        (tls.version.as_mut(), tls.alpn.as_mut(), tls.sni.as_mut())
    });
    let single = [
        entry.subject.as_mut(),
        entry.host.as_mut(),
        entry.method.as_mut(),
        entry.path.as_mut(),
        entry.protocol.as_mut(),
        entry.rule.as_mut(),
        entry.server.as_mut(),
        entry.profile.as_mut(),
        entry.policy.as_mut(),
        entry.request.as_mut(),
        version,
        alpn,
        sni,
    ];
    let listed = entry.secrets.iter_mut().chain(&mut entry.findings);
    for text in single.into_iter().flatten().chain(listed) {
        if text.len() > LONGEST_TEXT {
            let boundary = (0..=LONGEST_TEXT - LONGEST_NOTE)
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
/// `...(18446744073709551615 octets cut)`.
const LONGEST_NOTE: usize = 36;

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
        let path = entry.path.clone().unwrap();
        assert!(path.len() <= LONGEST_TEXT);
        assert!(path.ends_with("octets cut)"));
        // What was cut is not cut again.
        bound_texts(&mut entry);
        assert_eq!(entry.path.unwrap(), path);
    }

    #[test]
    fn no_text_of_an_entry_is_without_bound() {
        let long: Arc<str> = "x".repeat(2 * LONGEST_TEXT).into();
        let text = serde_json::Value::from(&*long);
        // Every field that takes any text.
        let mut entry = serde_json::json!({ "event": "request" });
        let fields = entry.as_object_mut().unwrap();
        for name in [
            "subject", "server", "profile", "request", "policy", "rule", "host", "protocol",
            "method", "path",
        ] {
            fields.insert(name.to_owned(), text.clone());
        }
        for name in ["secrets", "findings"] {
            fields.insert(name.to_owned(), serde_json::json!([text]));
        }
        let tls = serde_json::json!({ "version": text, "alpn": text, "sni": text });
        fields.insert("tls".to_owned(), tls);
        let mut entry: Entry = serde_json::from_value(entry).unwrap();
        bound_texts(&mut entry);
        let written = serde_json::to_value(&entry).unwrap().to_string();
        assert_eq!(written.matches("8228 octets cut)").count(), 15, "{written}");
        assert!(written.len() < 16 * LONGEST_TEXT);
    }
}
