//! A fully qualified domain name in the one form that is ever compared.
//!
//! Lower-case, A-labels (IDNA 2008 by UTS 46), absolute, without the trailing dot. Two spellings of
//! one name are one value. A text that any C library would read as an IPv4 address (`127.1`,
//! `0x7f.1`, `2130706433`) is not a name. Resolution and patterns are left to others.

use std::{fmt, str::FromStr, sync::Arc};

use thiserror::Error;

/// A canonical host name: 1 to 253 octets, labels of 1 to 63 octets (RFC 1035 §2.3.4).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fqdn(Arc<str>);

/// Why a text is not a host name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseFqdnError {
    /// Nothing, or only dots.
    #[error("a host name must not be empty")]
    Empty,
    /// Over 253 octets in A-label form.
    #[error("host name is {0} octets long, 253 is the most")]
    TooLong(usize),
    /// A label is empty, over 63 octets, or starts or ends with a hyphen.
    #[error("label {0:?} is not a valid DNS label")]
    BadLabel(String),
    /// An octet outside letters, digits, hyphen and underscore after IDNA.
    #[error("host name holds {0:?}, which no host name may")]
    BadCharacter(char),
    /// UTS 46 refused the name.
    #[error("host name is not valid under IDNA (UTS 46)")]
    Idna,
    /// The text is, or could be read as, an IP address.
    #[error("{0:?} is an IP address or a spelling of one, not a host name")]
    IpSpelling(String),
}

impl Fqdn {
    /// Reads a name in any spelling and makes it canonical.
    ///
    /// # Errors
    /// When the text is empty, too long, holds a character no host name may, or spells an address.
    pub fn parse(text: &str) -> Result<Self, ParseFqdnError> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        if bare.is_empty() {
            return Err(ParseFqdnError::Empty);
        }
        // U-labels take at most four octets where their A-label takes one; longer text is not mapped.
        if bare.len() > MAX_NAME * 4 {
            return Err(ParseFqdnError::TooLong(bare.len()));
        }
        let ascii = if bare.is_ascii() {
            bare.to_ascii_lowercase()
        } else {
            idna::domain_to_ascii_strict(bare).map_err(|_| ParseFqdnError::Idna)?
        };
        if ascii.len() > MAX_NAME {
            return Err(ParseFqdnError::TooLong(ascii.len()));
        }
        for label in ascii.split('.') {
            check_label(label)?;
        }
        if spells_an_address(&ascii) {
            return Err(ParseFqdnError::IpSpelling(bare.to_owned()));
        }
        Ok(Self(ascii.into()))
    }

    /// The canonical text, without a trailing dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is one of the names below `base`, which is written as [`Fqdn::as_str`] writes names.
    #[must_use]
    pub fn is_below(&self, base: &str) -> bool {
        let labels = self.0.strip_suffix(base);
        labels.is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
    }

    /// The canonical text, shared.
    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The names above this one, nearest first, the top-level label last.
    pub(crate) fn parents(&self) -> impl Iterator<Item = Self> {
        let above = |name: &str| name.split_once('.').map(|(_, rest)| rest.to_owned());
        std::iter::successors(above(&self.0), move |name| above(name)).map(|name| Self(name.into()))
    }

    /// The labels, leftmost first.
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('.')
    }
}

fn check_label(label: &str) -> Result<(), ParseFqdnError> {
    if let Some(bad) = label
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || *c == '-' || *c == '_'))
    {
        return Err(ParseFqdnError::BadCharacter(bad));
    }
    let bad_edge = label.starts_with('-') || label.ends_with('-');
    if label.is_empty() || label.len() > MAX_LABEL || bad_edge {
        return Err(ParseFqdnError::BadLabel(label.to_owned()));
    }
    // An A-label must decode and encode to itself, or two spellings of one name would differ.
    if label.starts_with("xn--") {
        let (unicode, outcome) = idna::domain_to_unicode(label);
        let again = outcome
            .ok()
            .and_then(|()| idna::domain_to_ascii_strict(&unicode).ok());
        if again.as_deref() != Some(label) {
            return Err(ParseFqdnError::Idna);
        }
    }
    Ok(())
}

/// The rule of the WHATWG URL standard: a name whose last label is a number is an IPv4 address.
fn spells_an_address(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last
        .strip_prefix("0x")
        .is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || last.bytes().all(|b| b.is_ascii_digit())
}

impl FromStr for Fqdn {
    type Err = ParseFqdnError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Fqdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Fqdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fqdn({})", self.0)
    }
}

/// RFC 1035 §2.3.4 less the root label and its length octet.
const MAX_NAME: usize = 253;
/// RFC 1035 §2.3.4.
const MAX_LABEL: usize = 63;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> String {
        Fqdn::parse(text).unwrap().to_string()
    }

    #[test]
    fn spellings_of_one_name_are_one_value() {
        for (given, expected) in [
            ("EXAMPLE.com", "example.com"),
            ("example.com.", "example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example.", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("ｅｘａｍｐｌｅ.com", "example.com"),
            ("example。com", "example.com"),
            ("exam\u{ad}ple.com", "example.com"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("r3---sn-x.googlevideo.com", "r3---sn-x.googlevideo.com"),
            ("localhost", "localhost"),
            ("1.example", "1.example"),
        ] {
            assert_eq!(name(given), expected, "{given}");
        }
    }

    #[test]
    fn addresses_in_any_spelling_are_no_names() {
        for text in [
            "127.0.0.1",
            "127.1",
            "127.0.0.1.",
            "2130706433",
            "0x7f000001",
            "0x7f.0.0.1",
            "0x",
            "0177.0.0.01",
            "017700000001",
            "1.2.3",
            "1.2.3.4.5",
            "a.1",
            "a.0x1",
            "256.256.256.256",
            "１２７.0.0.1",
            "127。0。0。1",
            "①.①.①.①",
            "1.0X7F",
        ] {
            let error = Fqdn::parse(text).unwrap_err();
            assert!(
                matches!(error, ParseFqdnError::IpSpelling(_)),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a..",
            "-a.example",
            "a-.example",
            "a b",
            "a\0b",
            "a/b",
            "a:1",
            "a@b",
            "a%2eb",
            "[::1]",
            "::1",
            "a\\b",
            "a?b",
            "*.a",
            "a,b",
            "a\nb",
            "xn--",
            "xn--a.example",
            "xn--0.example",
            "xn--example-.com",
            "\u{202e}a.example",
            "a\u{200d}.example",
        ] {
            assert!(
                Fqdn::parse(text).is_err(),
                "{text:?} is {:?}",
                Fqdn::parse(text)
            );
        }
        let label = "a".repeat(63);
        assert!(Fqdn::parse(&format!("{label}.example")).is_ok());
        assert!(Fqdn::parse(&format!("{label}a.example")).is_err());
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(name(&longest).len(), MAX_NAME);
        assert!(Fqdn::parse(&format!("{longest}a")).is_err());
        assert!(Fqdn::parse(&"ü".repeat(1_000_000)).is_err());
    }

    proptest! {
        #[test]
        fn a_canonical_name_stays_itself_in_any_case(text in "(xn--)?[a-zA-Z0-9_üß。.-]{1,20}") {
            if let Ok(once) = Fqdn::parse(&text) {
                prop_assert_eq!(&Fqdn::parse(once.as_str()).unwrap(), &once);
                prop_assert_eq!(&Fqdn::parse(&once.as_str().to_uppercase()).unwrap(), &once);
                prop_assert_eq!(&Fqdn::parse(&format!("{once}.")).unwrap(), &once);
                prop_assert!(once.as_str().parse::<std::net::IpAddr>().is_err());
            }
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in any::<String>()) {
            if let Ok(name) = Fqdn::parse(&text) {
                prop_assert!(name.as_str().is_ascii() && name.as_str().len() <= MAX_NAME);
            }
        }
    }
}
