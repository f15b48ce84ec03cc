//! The media type of a body, as its header section says it (RFC 9110 §8.3), or as it begins where that says little.

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};

/// In lower case and without parameters; empty where nothing is said.
pub(super) fn media(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let text = String::from_utf8_lossy(value.unwrap_or_default());
    let media = text.split(';').next().unwrap_or_default();
    media.trim().to_ascii_lowercase()
}

/// Whether several lines say what it is, and not the same.
pub(super) fn is_doubted(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let first = lines.next();
    lines.any(|line| Some(line) != first)
}

/// Whether a media subtype is JSON, be it under another name.
#[must_use]
pub(super) fn is_json(sub: &str) -> bool {
    let aws = sub.starts_with("x-amz-json-");
    let suffix = || sub.rsplit_once('+').map(|(_, suffix)| suffix);
    aws || is_plain_json(sub) || suffix().is_some_and(is_plain_json)
}

fn is_plain_json(name: &str) -> bool {
    name == "json" || JSON.contains(&name)
}

/// Whether a media type, in small letters and without parameters, is one of text, of whatever form.
pub(super) fn is_text(media: &str) -> bool {
    let (main, sub) = media.split_once('/').unwrap_or((media, ""));
    let application = || TEXT.contains(&sub) || FORMS.contains(&sub);
    matches!(main, "text" | "multipart")
        || is_json(sub)
        || is_xml(sub)
        || main == "application" && application()
}

pub(super) fn is_xml(sub: &str) -> bool {
    sub == "xml" || sub.ends_with("+xml")
}

/// How a text begins, as far as it came: whether it is JSON. A bracket alone says little: forms, logs and INI files
/// begin with one, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Nothing but blanks.
    Blank,
    /// In an array that has no member yet.
    Array,
    /// In an object that has no member yet.
    Object,
    /// JSON.
    Json,
    /// Something else.
    Other,
}

impl Beginning {
    /// Takes the next octets; whether it is JSON, once that shows.
    pub(super) fn read(&mut self, octets: &[u8]) -> Option<bool> {
        self.read_to(octets).map(|(json, _)| json)
    }

    /// The same with the place in `octets` of the one that shows it.
    pub(super) fn read_to(&mut self, octets: &[u8]) -> Option<(bool, usize)> {
        for (at, octet) in octets.iter().enumerate() {
            *self = match (*self, octet) {
                (Self::Json | Self::Other, _) => return Some((*self == Self::Json, at)),
                (state, octet) if is_before(*octet) => state,
                (Self::Blank | Self::Array, b'[') => Self::Array,
                (Self::Blank | Self::Array, b'{') => Self::Object,
                (Self::Array | Self::Object, b'"') => Self::Json,
                _ => Self::Other,
            };
            if let Self::Json | Self::Other = self {
                return Some((*self == Self::Json, at));
            }
        }
        match self {
            Self::Json | Self::Other => Some((*self == Self::Json, 0)),
            _ => None,
        }
    }
}

/// A blank, an octet of a byte order mark (Unicode 16.0 §23.8), or the first half of a letter in UTF-16: none
/// of them says what the text is.
const fn is_before(octet: u8) -> bool {
    octet.is_ascii_whitespace() || matches!(octet, 0xef | 0xbb | 0xbf | 0xfe | 0xff | 0)
}

/// Text that does not say so.
pub(super) const TEXT: [&str; 19] = [
    "csv",
    "ecmascript",
    "javascript",
    "jose",
    "jwt",
    "pem-certificate-chain",
    "sparql-query",
    "sparql-update",
    "sql",
    "toml",
    "typescript",
    "x-csh",
    "x-javascript",
    "x-pem-file",
    "x-sh",
    "x-sql",
    "x-yaml",
    "xml-dtd",
    "yaml",
];
const FORMS: [&str; 2] = ["x-www-form-urlencoded", "graphql"];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_by_how_it_begins_wherever_it_is_cut() {
        for (text, json) in [
            ("{\"k\":1}", Some(true)),
            (" \r\n[ \"k\"]", Some(true)),
            ("\u{feff}[[{ \"k\":1}]]", Some(true)),
            ("\0{\0\"\0", Some(true)),
            ("[default]\nk=v", Some(false)),
            ("[2026-11-23] used", Some(false)),
            ("[[table]]", Some(false)),
            ("[]=a&token=b", Some(false)),
            ("[0][token]=b", Some(false)),
            ("{=1&k=v", Some(false)),
            ("the log said {\"k\": 1}", Some(false)),
            ("k={\"a\":1}", Some(false)),
            (" [", None),
            ("", None),
        ] {
            for cut in 0..=text.len() {
                let (one, two) = text.as_bytes().split_at(cut);
                let mut beginning = Beginning::Blank;
                let first = beginning.read(one);
                assert!(first.is_none() || first == json, "{text:?} at {cut}");
                assert_eq!(beginning.read(two), json, "{text:?} at {cut}");
            }
        }
    }
}
