//! Which requests a rule speaks of: methods, and globs over the normalised path.
//!
//! In a path pattern `*` stands for any text inside one segment (a whole segment `*` is not empty) and
//! a segment `**` for any number of segments: `/a/**` is everything below `/a/`, not `/a`;
//! `/a/**/b` is also `/a/b`. All else is literal and compared as [`crate::path`] spells it. A segment
//! that servers read in two ways ([`crate::path::is_ambiguous`]) matches no wildcard; a pattern that
//! wants one says so literally, `/@*%2F*`. Queries take no part.

use std::fmt;

use thiserror::Error;

use crate::path;

pub(crate) mod trie;

/// A method token (RFC 9110 §9.1), case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Method(Box<str>);

/// Why a text is no method.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseMethodError {
    /// Not a token.
    #[error("{0:?} is not an HTTP method")]
    NotAToken(String),
    /// Lower case, which no client means.
    #[error("method {0:?} is in lower case and methods are case-sensitive: write {1}")]
    LowerCase(String, String),
    /// A wildcard.
    #[error("`*` is not a method: leave `methods` out to allow every method")]
    Wildcard,
}

impl Method {
    /// Reads a method.
    ///
    /// # Errors
    /// When the text is no token, or a well-known method in the wrong case.
    pub fn parse(text: &str) -> Result<Self, ParseMethodError> {
        if text == "*" {
            return Err(ParseMethodError::Wildcard);
        }
        if text.len() > MAX_METHOD || !is_token(text) {
            return Err(ParseMethodError::NotAToken(text.to_owned()));
        }
        if text.bytes().any(|b| b.is_ascii_lowercase()) {
            let upper = text.to_ascii_uppercase();
            return Err(ParseMethodError::LowerCase(text.to_owned(), upper));
        }
        Ok(Self(text.into()))
    }

    /// The token.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text is a token (RFC 9110 §5.6.2), which every method is, and the name of every field.
#[must_use]
pub fn is_token(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(token)
}

/// A glob over the normalised path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPattern {
    text: Box<str>,
    segments: Box<[SegmentPattern]>,
}

/// One segment of a path pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SegmentPattern {
    /// This text, in its one spelling.
    Literal(Box<str>),
    /// Text with `*` inside.
    Glob(Box<str>),
    /// `**`: any number of segments.
    Deep,
}

/// Why a text is no path pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParsePathPatternError {
    /// Not absolute.
    #[error("path {0:?} must start with a slash")]
    NotAbsolute(String),
    /// `**` beside other text.
    #[error("path {0:?}: `**` must stand alone between slashes, as in `/repos/**`")]
    MisplacedDeep(String),
    /// `?` or `#`.
    #[error("path {0:?}: rules match the path alone; leave the query and the fragment out")]
    Query(String),
    /// `.` or `..` in it: requests are compared without dot segments, so it could never match.
    #[error(
        "path {0:?} has dot segments, which no normalised path has: write the path without them"
    )]
    DotSegments(String),
    /// Not a path.
    #[error("path {0:?}: {1}")]
    Path(String, path::NormalisePathError),
}

impl PathPattern {
    /// Reads a pattern. `*` alone speaks of `OPTIONS *`.
    ///
    /// # Errors
    /// When it could never match, or would not match what it seems to.
    pub fn parse(text: &str) -> Result<Self, ParsePathPatternError> {
        use ParsePathPatternError as E;
        let own = || text.to_owned();
        if text == "*" {
            let segments = Box::default();
            return Ok(Self {
                text: text.into(),
                segments,
            });
        }
        if !text.starts_with('/') {
            return Err(E::NotAbsolute(own()));
        }
        if text.contains(['?', '#']) {
            return Err(E::Query(own()));
        }
        let normal = path::normalise(text).map_err(|why| {
            if why == path::NormalisePathError::AboveRoot {
                return E::DotSegments(own());
            }
            E::Path(own(), why)
        })?;
        let normal = normal.as_str();
        if normal.split('/').count() != text.split('/').count() {
            return Err(E::DotSegments(own()));
        }
        let mut segments = Vec::new();
        for segment in normal.split('/').skip(1) {
            segments.push(match segment {
                "**" if segments.last() == Some(&SegmentPattern::Deep) => continue,
                "**" => SegmentPattern::Deep,
                s if s.contains("**") => return Err(E::MisplacedDeep(own())),
                s if s.contains('*') => SegmentPattern::Glob(s.into()),
                s => SegmentPattern::Literal(s.into()),
            });
        }
        Ok(Self {
            text: normal.into(),
            segments: segments.into(),
        })
    }

    /// Every path: `/**`.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            text: "/**".into(),
            segments: [SegmentPattern::Deep].into(),
        }
    }

    /// The pattern in its one spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it speaks of every path.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(*self.segments, [SegmentPattern::Deep])
    }

    /// Whether every path that `other` speaks of is surely one of this pattern's: equal patterns, and
    /// those below a literal prefix that ends in `/**`.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        let Some((SegmentPattern::Deep, prefix)) = self.segments.split_last() else {
            return false;
        };
        let literal = |s: &SegmentPattern| match s {
            SegmentPattern::Literal(text) => !path::is_ambiguous(text),
            SegmentPattern::Glob(_) | SegmentPattern::Deep => false,
        };
        let rest = other.segments.strip_prefix(prefix);
        rest.is_some_and(|rest| {
            // `**` takes one segment or more, and none that servers read in two ways.
            let certain = rest
                .iter()
                .all(|s| literal(s) || !matches!(s, SegmentPattern::Literal(_)));
            let ambiguous_glob = rest.iter().any(|s| match s {
                SegmentPattern::Glob(glob) => path::is_ambiguous(glob),
                SegmentPattern::Literal(_) | SegmentPattern::Deep => false,
            });
            !rest.is_empty() && certain && !ambiguous_glob
        })
    }

    /// The same over loose forms; `None` for `*` alone, which is no path.
    pub(crate) fn loosely(&self) -> Option<Self> {
        if self.segments.is_empty() {
            return None;
        }
        let text = path::loosely(&self.text);
        let segment = |segment: &str| match segment {
            "**" => SegmentPattern::Deep,
            glob if glob.contains('*') => SegmentPattern::Glob(glob.into()),
            literal => SegmentPattern::Literal(literal.into()),
        };
        let segments = text.split('/').skip(1).map(segment).collect();
        Some(Self {
            text: text.into(),
            segments,
        })
    }

    pub(crate) fn segments(&self) -> &[SegmentPattern] {
        &self.segments
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a glob segment speaks of this normalised segment.
pub(crate) fn glob_matches(glob: &str, segment: &str, ambiguous: bool) -> bool {
    if !ambiguous {
        return plain_glob(glob, segment);
    }
    // Between encoded slashes each piece stands for itself, as if it were a segment.
    let mut pieces = segment.split("%2F");
    for pattern in glob.split("%2F") {
        let Some(piece) = pieces.next() else {
            return false;
        };
        let honest = !path::is_ambiguous(piece) && piece != "." && piece != "..";
        let matched = if pattern.contains('*') {
            honest && plain_glob(pattern, piece)
        } else {
            pattern == piece
        };
        if !matched {
            return false;
        }
    }
    pieces.next().is_none()
}

/// `*` inside a segment is any text; a segment that is `*` alone is not empty.
fn plain_glob(glob: &str, text: &str) -> bool {
    if glob == "*" {
        return !text.is_empty();
    }
    let Some((prefix, rest)) = glob.split_once('*') else {
        return glob == text;
    };
    let Some(mut left) = text.strip_prefix(prefix) else {
        return false;
    };
    let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
    // Leftmost matches suffice: whatever follows may start later, never earlier.
    for part in middle.split('*').filter(|p| !p.is_empty()) {
        let Some((_, after)) = left.split_once(part) else {
            return false;
        };
        left = after;
    }
    left.ends_with(suffix)
}

/// Longer than any registered method (IANA's longest is 17 octets).
const MAX_METHOD: usize = 64;

#[cfg(test)]
mod tests;
