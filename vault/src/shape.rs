//! What a sentinel looks like, as a definition spells it, and as a value suggests it.
//!
//! A well-known beginning stays, with the length and the alphabet of what follows, so that a client's
//! own check of its key's form lets the sentinel through.

use serde::{Deserialize, Serialize};

use crate::secret::Shape;

/// `plain`, `jwt`, or a prefix with the length and alphabet of what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeDefinition {
    /// `gigph-` and 32 hexadecimal digits.
    Plain,
    /// Three base64url parts.
    Jwt,
    /// Like the real thing.
    Like(LikeDefinition),
}

/// A beginning, and how it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LikeDefinition {
    /// Such as `ghp_`.
    pub prefix: String,
    /// Characters after it.
    pub length: usize,
    /// What to draw from.
    #[serde(default)]
    pub alphabet: Alphabet,
}

/// Alphabets of tokens in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alphabet {
    /// `0-9A-Za-z`.
    #[default]
    Alphanumeric,
    /// `0-9a-f`.
    Hexadecimal,
    /// `A-Z2-7` (RFC 4648 §6).
    Base32,
    /// `0-9A-Za-z_-` (RFC 4648 §5).
    Base64url,
    /// `0-9`.
    Digits,
}

impl Alphabet {
    /// Its characters, each once.
    #[must_use]
    pub const fn characters(self) -> &'static str {
        match self {
            Self::Alphanumeric => "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            Self::Hexadecimal => "0123456789abcdef",
            Self::Base32 => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            Self::Base64url => "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-",
            Self::Digits => "0123456789",
        }
    }
}

/// A shape would make sentinels that can be guessed or be mistaken for text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sentinel of {length} characters from an alphabet of {alphabet} could be guessed: use at least {needed} characters after the prefix"
)]
pub struct WeakShapeError {
    length: usize,
    alphabet: usize,
    needed: usize,
}

impl ShapeDefinition {
    /// The shape itself.
    ///
    /// # Errors
    /// When its sentinels could be guessed.
    pub fn shape(&self) -> Result<Shape, WeakShapeError> {
        match self {
            Self::Plain => Ok(Shape::Plain),
            Self::Jwt => Ok(Shape::Jwt),
            Self::Like(like) => {
                let characters = like.alphabet.characters();
                let needed = enough(characters.len());
                if !(needed..=LONGEST).contains(&like.length) || like.prefix.len() > LONGEST {
                    return Err(WeakShapeError {
                        length: like.length,
                        alphabet: characters.len(),
                        needed,
                    });
                }
                Ok(Shape::Like {
                    prefix: like.prefix.clone(),
                    length: like.length,
                    alphabet: characters.to_owned(),
                })
            }
        }
    }

    /// The look of a well-known kind of key. `None` for a value that looks like none; where what
    /// follows the prefix is too short to be safe, too.
    #[must_use]
    pub fn guessed(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        if is_jwt(text) {
            return Some(Self::Jwt);
        }
        let prefix = PREFIXES.iter().find(|prefix| text.starts_with(**prefix))?;
        let rest = text.strip_prefix(prefix)?;
        Self::like(prefix, rest)
    }

    /// Like `value`, whose beginning is `prefix`; `None` when it does not begin so, or when what
    /// follows fits no alphabet or is too short.
    #[must_use]
    pub fn with_prefix(prefix: &str, value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        Self::like(prefix, text.strip_prefix(prefix)?)
    }

    fn like(prefix: &str, rest: &str) -> Option<Self> {
        let alphabet = ALPHABETS
            .into_iter()
            .find(|alphabet| rest.chars().all(|c| alphabet.characters().contains(c)))?;
        let like = Self::Like(LikeDefinition {
            prefix: prefix.to_owned(),
            length: rest.len(),
            alphabet,
        });
        like.shape().is_ok().then_some(like)
    }
}

/// Characters of an alphabet of `size` that carry 80 bits: what a program may try over the network in
/// the life of a sandbox is far below that, and real keys of 16 characters (AWS) still fit.
fn enough(size: usize) -> usize {
    let bits = usize::try_from(size.max(2).ilog2()).unwrap_or(1);
    BITS.div_ceil(bits)
}

fn is_jwt(text: &str) -> bool {
    let base64url = Alphabet::Base64url.characters();
    let parts: Vec<&str> = text.split('.').collect();
    let [header, payload, signature] = parts.as_slice() else {
        return false;
    };
    // `{"` in base64url begins with `eyJ`.
    [header, payload].iter().all(|part| part.starts_with("eyJ"))
        && !signature.is_empty()
        && parts
            .iter()
            .all(|part| part.chars().all(|c| base64url.contains(c)))
}

/// Longer ones first where one begins another.
const PREFIXES: [&str; 31] = [
    "github_pat_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "glpat-",
    "sk-ant-api03-",
    "sk-ant-",
    "sk-proj-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "npm_",
    "pypi-",
    "hf_",
    "gsk_",
    "xai-",
    "whsec_",
    "shpat_",
    "dop_v1_",
    "dckr_pat_",
    "glptt-",
    "lin_api_",
    "AKIA",
    "ASIA",
    "AIza",
];
/// The narrowest that fits is chosen.
const ALPHABETS: [Alphabet; 5] = [
    Alphabet::Digits,
    Alphabet::Hexadecimal,
    Alphabet::Base32,
    Alphabet::Alphanumeric,
    Alphabet::Base64url,
];
const BITS: usize = 80;
/// Longer than any token in use, short enough to travel in a header.
const LONGEST: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn like(prefix: &str, length: usize, alphabet: Alphabet) -> Option<ShapeDefinition> {
        Some(ShapeDefinition::Like(LikeDefinition {
            prefix: prefix.to_owned(),
            length,
            alphabet,
        }))
    }

    #[test]
    fn well_known_keys_keep_their_look() {
        let github = format!("ghp_{}", "aB3".repeat(12));
        let aws = "AKIAIOSFODNN7EXAMPLE";
        let slack = format!("xoxb-123456789012-{}", "x".repeat(24));
        let ant = format!("sk-ant-api03-{}", "a_-B".repeat(20));
        let guessed = |text: &str| ShapeDefinition::guessed(text.as_bytes());
        assert_eq!(guessed(&github), like("ghp_", 36, Alphabet::Alphanumeric));
        assert_eq!(guessed(aws), like("AKIA", 16, Alphabet::Base32));
        assert_eq!(guessed(&slack), like("xoxb-", 37, Alphabet::Base64url));
        assert_eq!(
            guessed(&ant),
            like("sk-ant-api03-", 80, Alphabet::Base64url)
        );
        assert_eq!(
            guessed("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"),
            Some(ShapeDefinition::Jwt)
        );
    }

    #[test]
    fn what_looks_like_nothing_known_gets_a_plain_sentinel() {
        for value in ["", "hunter2", "sk-short", "ghp_with space in it", "a.b.c"] {
            assert_eq!(ShapeDefinition::guessed(value.as_bytes()), None, "{value}");
        }
        assert_eq!(ShapeDefinition::guessed(&[0xff; 40]), None);
    }

    #[test]
    fn a_shape_that_can_be_guessed_is_refused() {
        let weak = ShapeDefinition::Like(LikeDefinition {
            prefix: "sk-".to_owned(),
            length: 8,
            alphabet: Alphabet::Alphanumeric,
        });
        assert!(weak.shape().is_err());
    }
}
