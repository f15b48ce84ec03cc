//! How a value is written so that it is one value in its place: escapes, and what cannot be escaped.

use std::sync::Arc;

use gig_policy::{SecretGrant, SecretName, SecretPlace};
use gig_vault::{Keeper, Secret};
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// A sentinel and what goes in its place.
#[derive(Debug, Clone)]
pub struct Replacement {
    /// The sentinel.
    pub sentinel: Arc<str>,
    /// The secret, with the part that the sentinel stands for.
    pub secret: Arc<Secret>,
    /// Which part.
    pub part: usize,
    /// Where the sentinel may stand.
    pub places: Places,
    /// Who says whether it may still be used, where it was fetched long before it is placed; `None` of what no
    /// keeper has.
    pub keeper: Option<Arc<dyn Keeper>>,
}

/// Where a secret's sentinels may stand in one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    everywhere: bool,
    some: Vec<SecretPlace>,
}

/// Why a value cannot stand where its sentinel stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unplaceable {
    /// It would end its field, or be something else than a value.
    #[error("it has characters that would end its place there")]
    Ends,
    /// What was said of a length or a digest would be wrong.
    #[error("its length or digest is told there")]
    Resizes,
    /// The path would be another than the one that was decided on.
    #[error(
        "servers would read a dot segment in it then (. or ..), and so another path than the one that was allowed"
    )]
    Moves,
    /// Path and query would be longer than any server takes.
    #[error("it would make that longer than a request's target can be")]
    Long,
    /// There is no value for this sentinel any more.
    #[error("the secret has no such part any more")]
    Gone,
    /// It is a certificate, and another one is shown.
    #[error("one connection shows one certificate")]
    Second,
}

impl Unplaceable {
    /// What a person can do.
    #[must_use]
    pub const fn cure(self) -> &'static str {
        match self {
            Self::Ends => {
                "send it in a place that takes it as it is (a JSON string, a form), or set the secret without \
                 line breaks and marks"
            }
            Self::Resizes => {
                "send it where no length or digest is told (a message of JSON or text, a header field), or take a value \
                 as long as its sentinel"
            }
            Self::Moves => {
                "send it in a header field, the query or the body, or set the secret without a segment of dots"
            }
            Self::Long => "send it in a header field or the body",
            Self::Gone => {
                "start the program anew: it gets a sentinel for each part that there is now"
            }
            Self::Second => "bind one of the two secrets alone to this host and port",
        }
    }
}

/// A value that could not be written where its sentinel stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value of {name} cannot stand in {place}: {why}")]
pub struct Unplaced {
    /// Of which secret.
    pub name: SecretName,
    /// In words.
    pub place: String,
    /// Why not.
    pub why: Unplaceable,
}

impl Places {
    /// The union of all grants of this secret.
    #[must_use]
    pub fn of(name: &SecretName, granted: &[SecretGrant]) -> Self {
        let mut places = Self::default();
        let of = |grant: &&SecretGrant| grant.name == *name && !grant.captures;
        for grant in granted.iter().filter(of) {
            match &grant.places {
                None => places.everywhere = true,
                Some(some) => places.some.extend(some.iter().cloned()),
            }
        }
        places
    }

    /// Whether the sentinel may stand in a place that fits.
    pub fn allow(&self, fits: impl Fn(&SecretPlace) -> bool) -> bool {
        self.everywhere || self.some.iter().any(fits)
    }
}

impl Replacement {
    /// What may be placed now: the version that was fetched, or the one that took its place. `None`: there is
    /// none any more.
    pub(super) fn newest(&self) -> Option<Arc<Secret>> {
        match &self.keeper {
            Some(keeper) if !keeper.stands(&self.secret) => keeper.usable(&self.secret.name),
            _ => Some(Arc::clone(&self.secret)),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// [`Unplaceable`], when the secret has no such part any more.
    pub fn value(&self) -> Result<&[u8], Unplaceable> {
        let part = self.secret.parts.get(self.part).ok_or(Unplaceable::Gone)?;
        Ok(part.value.expose())
    }
}

/// How a value is written in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// As it is.
    Raw,
    /// Percent-encoded, unreserved characters alone as they are (RFC 3986 §2.3).
    Percent,
    /// Inside a JSON string (RFC 8259 §7).
    Json,
    /// As text in XML or HTML.
    Markup,
}

impl Escape {
    /// Whether it can be written so: JSON, XML and HTML are text (RFC 8259 §8.1).
    #[must_use]
    pub fn takes(self, value: &[u8]) -> bool {
        matches!(self, Self::Raw | Self::Percent) || str::from_utf8(value).is_ok()
    }

    /// Appends the value, written so.
    pub fn write(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Raw => out.extend_from_slice(value),
            Self::Percent => {
                for piece in percent_encode(value, RESERVED) {
                    out.extend_from_slice(piece.as_bytes());
                }
            }
            Self::Json => json(value, out),
            Self::Markup => markup(value, out),
        }
    }

    /// Every spelling that an ordinary encoder gives a sentinel in such a place.
    #[must_use]
    pub fn spellings(self, sentinel: &str) -> Vec<Vec<u8>> {
        let mut spellings = vec![sentinel.as_bytes().to_vec()];
        let mut add = |spelling: Vec<u8>| {
            if !spellings.contains(&spelling) {
                spellings.push(spelling);
            }
        };
        match self {
            Self::Raw => {}
            Self::Percent => {
                let encoded = percent_encode(sentinel.as_bytes(), RESERVED).to_string();
                add(lower_digits(&encoded).into_bytes());
                add(encoded.into_bytes());
            }
            Self::Json => {
                let mut escaped = Vec::new();
                json(sentinel.as_bytes(), &mut escaped);
                add(escaped);
                add(sentinel.replace('/', "\\/").into_bytes());
            }
            Self::Markup => {
                let mut escaped = Vec::new();
                markup(sentinel.as_bytes(), &mut escaped);
                add(escaped);
            }
        }
        spellings
    }
}

/// `text` with every spelling of the sentinel replaced; `None` where there is none of it.
#[must_use]
pub fn replaced(text: &[u8], sentinel: &str, value: &[u8], escape: Escape) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    for spelling in escape.spellings(sentinel) {
        let from = out.as_deref().unwrap_or(text);
        let finder = memmem::Finder::new(&spelling);
        let mut rest = from;
        let mut next = Vec::new();
        let mut any = false;
        while let Some(at) = finder.find(rest) {
            let (before, after) = rest.split_at(at);
            next.extend_from_slice(before);
            escape.write(value, &mut next);
            rest = after.get(spelling.len()..).unwrap_or_default();
            any = true;
        }
        if any {
            next.extend_from_slice(rest);
            out = Some(next);
        }
    }
    out
}

fn json(value: &[u8], out: &mut Vec<u8>) {
    for octet in value {
        match octet {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f | 0x7f => out.extend_from_slice(format!("\\u{octet:04x}").as_bytes()),
            _ => out.push(*octet),
        }
    }
}

fn markup(value: &[u8], out: &mut Vec<u8>) {
    for octet in value {
        match octet {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            _ => out.push(*octet),
        }
    }
}

/// `%2F` as `%2f`.
fn lower_digits(encoded: &str) -> String {
    let mut left = 0;
    let lower = |c: char| {
        if c == '%' {
            left = 2;
            return c;
        }
        if left == 0 {
            return c;
        }
        left -= 1;
        c.to_ascii_lowercase()
    };
    encoded.chars().map(lower).collect()
}

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
