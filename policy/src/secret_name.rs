//! What a secret is called: in documents, on the command line, in records and as a variable.

use std::{fmt, str::FromStr, sync::Arc};

/// The name of a secret: a letter or `_`, then letters, digits and `_`, 128 characters at most
/// (POSIX.1-2024, 8.1: what every program takes as the name of a variable).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(Arc<str>);

/// Not the name of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a secret: use a letter or _, then letters, digits and _, at most {LONGEST} in all"
)]
pub struct ParseSecretNameError {
    text: String,
}

impl SecretName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as shared text.
    #[must_use]
    pub const fn shared(&self) -> &Arc<str> {
        &self.0
    }
}

impl FromStr for SecretName {
    type Err = ParseSecretNameError;

    fn from_str(text: &str) -> Result<Self, ParseSecretNameError> {
        let mut octets = text.bytes();
        let begins = octets
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
        let goes_on = octets.all(|octet| octet.is_ascii_alphanumeric() || octet == b'_');
        if !begins || !goes_on || text.len() > LONGEST {
            let text = text.chars().take(LONGEST).collect();
            return Err(ParseSecretNameError { text });
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Longer than any name in use, short enough for a record.
const LONGEST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_variables() {
        for good in ["GITHUB_TOKEN", "_x", "a1"] {
            assert_eq!(good.parse::<SecretName>().unwrap().as_str(), good);
        }
        let long = "a".repeat(129);
        for bad in ["", "1a", "a-b", "a.b", "a b", "é", "a\n", &long] {
            assert!(bad.parse::<SecretName>().is_err(), "{bad:?}");
        }
    }
}
