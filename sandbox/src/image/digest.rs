//! The name of bytes by what they are.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use aws_lc_rs::digest::{Context, SHA256};

/// A SHA-256 digest; written `sha256:` and 64 hex digits of the lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no digest: sha256: and 64 hex digits (0-9, a-f) are one")]
pub struct ParseDigestError {
    /// What was given, cut.
    text: String,
}

/// A digest in the making.
pub struct Digesting(Context);

impl fmt::Debug for Digesting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digesting")
    }
}

impl Default for Digesting {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Digesting {
    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was taken.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(self.0.finish().as_ref()) {
            *to = *from;
        }
        Digest(bytes)
    }
}

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut digesting = Digesting::default();
        digesting.update(bytes);
        digesting.finish()
    }

    /// The 64 digits.
    #[must_use]
    pub fn hex(&self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            // Writing to a text does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// As a file's name: `sha256-…`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("sha256-{}", self.hex())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let wrong = || ParseDigestError {
            text: text.chars().take(100).collect(),
        };
        let hex = text.strip_prefix("sha256:").ok_or_else(wrong)?;
        let digit = |octet: u8| match octet {
            b'0'..=b'9' => Some(octet - b'0'),
            b'a'..=b'f' => Some(octet - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (to, [high, low]) in bytes.iter_mut().zip(pairs) {
            let (high, low) = digit(*high).zip(digit(*low)).ok_or_else(wrong)?;
            *to = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written_and_not_otherwise() {
        let empty = Digest::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(empty.to_string(), text);
        assert_eq!(text.parse(), Ok(empty));
        for wrong in [
            "",
            "sha256:",
            text.trim_start_matches("sha256:"),
            text.trim_end_matches('5'),
            &format!("{text}0"),
            &text.to_uppercase(),
            &text.replace("sha256", "sha512"),
            &text.replace('e', "g"),
        ] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
