//! What a program holds in a secret's place.
//!
//! Random for each sandbox, secret and part, so that one tells nothing of another; shaped like the real
//! thing where a client would look. It proves nothing and opens nothing: it only says which value is
//! meant.

use aws_lc_rs::rand;
use gig_policy::SandboxId;
use gig_vault::{SecretBytes, Shape};

use super::watch::Watch;

mod jwt;

/// What a sentinel stands for, where it says something that a client reads.
#[derive(Debug, Clone, Copy)]
pub struct Original<'a> {
    /// The value now.
    pub value: &'a SecretBytes,
    /// What no sentinel may hold.
    pub watch: &'a Watch,
    /// Who will hold the sentinel: tokens of others' logins are what their servers say, and may stand in it.
    pub sandbox: SandboxId,
}

/// No sentinel could be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random numbers for a sentinel")]
pub struct MintSentinelError;

/// Makes a sentinel of this shape for a value of `length` octets, which says of the `original` what a client may check. A shape with too few characters to be unguessable is not followed:
/// such a secret gets a plain sentinel.
///
/// # Errors
/// [`MintSentinelError`].
pub fn mint(
    shape: &Shape,
    length: usize,
    original: Option<Original<'_>>,
) -> Result<String, MintSentinelError> {
    match shape {
        Shape::Plain => plain(length),
        Shape::Like {
            prefix,
            length: drawn,
            alphabet,
        } if is_unguessable(*drawn, alphabet) => Ok(format!("{prefix}{}", draw(*drawn, alphabet)?)),
        Shape::Like { .. } => plain(length),
        Shape::Jwt => jwt::mint(original),
    }
}

/// `gigph-` and 128 random bits or a little more: as many octets as the value has, but for whole groups of three, so
/// that nothing that stands behind it in a Base64 text moves where one comes in the place of the other.
fn plain(length: usize) -> Result<String, MintSentinelError> {
    let digits = (32..35).find(|digits| (PLAIN.len() + digits) % 3 == length % 3);
    Ok(format!("{PLAIN}{}", draw(digits.unwrap_or(32), HEX)?))
}

/// `length` characters of `alphabet`, each as likely as the other.
fn draw(length: usize, alphabet: &str) -> Result<String, MintSentinelError> {
    let letters: Vec<char> = alphabet.chars().collect();
    let many = letters.len();
    // The largest multiple of `many` that fits: what is above would favour the first letters.
    let fair = 256 - 256 % many.clamp(1, 256);
    let mut text = String::with_capacity(length);
    let mut random = [0; 64];
    let mut left = length;
    while left > 0 {
        rand::fill(&mut random).map_err(|_| MintSentinelError)?;
        let drawn = random.iter().map(|octet| usize::from(*octet));
        for letter in drawn.filter(|n| *n < fair).take(left) {
            text.extend(letters.get(letter % many));
            left -= 1;
        }
    }
    Ok(text)
}

/// At least 80 bits, of characters that stand for themselves in a header.
fn is_unguessable(length: usize, alphabet: &str) -> bool {
    let sound = alphabet.chars().all(|c| c.is_ascii_graphic());
    let bits = alphabet.len().checked_ilog2().unwrap_or(0) as usize;
    sound && alphabet.len() <= 256 && length.saturating_mul(bits) >= 80
}

/// How a plain sentinel begins.
pub const PLAIN: &str = "gigph-";
const HEX: &str = "0123456789abcdef";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn plain_sentinels_are_gigph_and_32_to_34_digits_and_never_the_same() {
        let mut many = HashSet::new();
        for (length, digits) in [(38, 32), (39, 33), (40, 34), (41, 32)] {
            for _ in 0..300 {
                let sentinel = mint(&Shape::Plain, length, None).unwrap();
                let random = sentinel.strip_prefix("gigph-").unwrap();
                assert_eq!(random.len(), digits);
                assert!(random.bytes().all(|b| b.is_ascii_hexdigit()));
                many.insert(sentinel);
            }
        }
        assert_eq!(many.len(), 1200);
    }

    #[test]
    fn a_plain_sentinel_moves_nothing_in_a_base64_text() {
        for length in 0..40 {
            let sentinel = mint(&Shape::Plain, length, None).unwrap();
            assert_eq!(sentinel.len() % 3, length % 3);
            assert!((38..=40).contains(&sentinel.len()), "{sentinel}");
        }
    }

    #[test]
    fn a_shaped_sentinel_passes_for_the_real_thing() {
        let shape = Shape::Like {
            prefix: "ghp_".into(),
            length: 36,
            alphabet: ('a'..='z').chain('A'..='Z').chain('0'..='9').collect(),
        };
        let (one, other) = (
            mint(&shape, 8, None).unwrap(),
            mint(&shape, 8, None).unwrap(),
        );
        assert_ne!(one, other);
        let rest = one.strip_prefix("ghp_").unwrap();
        assert!(rest.len() == 36 && rest.bytes().all(|b| b.is_ascii_alphanumeric()));
    }

    #[test]
    fn a_shape_that_could_be_guessed_is_not_followed() {
        for (length, alphabet) in [(4, "0123456789"), (400, "0"), (0, "abc"), (64, "")] {
            let shape = Shape::Like {
                prefix: "pin".into(),
                length,
                alphabet: alphabet.into(),
            };
            assert!(
                mint(&shape, 8, None).unwrap().starts_with(PLAIN),
                "{length} {alphabet}"
            );
        }
    }

    #[test]
    fn a_token_has_three_parts_and_two_decode() {
        let token = mint(&Shape::Jwt, 8, None).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        for part in &parts[..2] {
            let json = URL_SAFE_NO_PAD.decode(part).unwrap();
            assert!(
                serde_json::from_slice::<serde_json::Value>(&json)
                    .unwrap()
                    .is_object()
            );
        }
        assert_eq!(URL_SAFE_NO_PAD.decode(parts[2]).unwrap().len(), 32);
    }
}
