//! Names of users, policies, servers and tokens: short, plain, safe in a path, a record and a terminal.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// 1 to 64 of `a-z A-Z 0-9 . _ - @`, beginning with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A text is no name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "a name has 1 to 64 letters, digits, dots, dashes, underscores or @, and begins with a letter or \
     digit"
)]
pub struct ParseNameError;

/// A name of a person as such names are compared: they are of ASCII, and two spellings are one person.
pub(crate) fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

impl Name {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && text.len() <= LONGEST && text.chars().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseNameError)
        }
    }
}

impl TryFrom<String> for Name {
    type Error = ParseNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fits a line of a table.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_names_and_nothing_else_is() {
        for name in ["ana", "a.b@c.example", "github-readonly", "9_x"] {
            assert_eq!(name.parse::<Name>().unwrap().as_str(), name);
        }
        let long = "x".repeat(65);
        for text in ["", ".", "..", "-x", "a b", "a/b", "ä", "a\u{202e}", &long] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
    }
}
