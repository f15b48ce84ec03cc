//! Which names a rule speaks of: one name, or everything below one.
//!
//! `api.example.com` is that name alone. `*.example.com` is every name with one or more labels before
//! `example.com`, never `example.com` itself. Anything wider is refused at load: `*`, a wildcard on a
//! public suffix (`*.com`, `*.github.io`: names of strangers), a wildcard inside a label. Addresses are
//! no names; `ip:` rules hold those.

use std::fmt;

use thiserror::Error;

use crate::fqdn::{Fqdn, ParseFqdnError};

/// One name or all names below one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This name alone.
    Exact(Fqdn),
    /// One or more labels before this name, never the name itself.
    Below(Fqdn),
}

/// Why a text is no host pattern. Each message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseHostPatternError {
    /// `*` alone.
    #[error(
        "`*` would allow every host: list the hosts, or observe to learn them (`gig run --observe`, or \
         `mode: observe` in a policy document)"
    )]
    Everything,
    /// A wildcard that is not a whole first label.
    #[error(
        "{0:?}: a wildcard must be the whole first label and the only one, as in `*.example.com`"
    )]
    MisplacedWildcard(String),
    /// A wildcard on a suffix under which strangers register names.
    #[error(
        "{0:?} covers a public suffix, under which anybody can own a name: name the domain, as in `*.acme.{1}`"
    )]
    PublicSuffix(String, String),
    /// `.example.com`, which other tools read in two ways.
    #[error("{0:?} starts with a dot: write `*{0}` for the names below it")]
    LeadingDot(String),
    /// A URL or a host with a port or path.
    #[error("{0:?} is not a host alone: write the name without scheme, port and path")]
    NotAHost(String),
    /// The name itself is not valid.
    #[error("{0}")]
    Name(ParseFqdnError),
}

impl HostPattern {
    /// Reads a pattern and makes it canonical.
    ///
    /// # Errors
    /// [`ParseHostPatternError`], when the text is no name or allows more than one owner's names.
    pub fn parse(text: &str) -> Result<Self, ParseHostPatternError> {
        use ParseHostPatternError as E;
        if text == "*" || text == "*." {
            return Err(E::Everything);
        }
        if text.starts_with('.') && text.len() > 1 {
            return Err(E::LeadingDot(text.to_owned()));
        }
        if text.contains(['/', ':', '@', '?', '#', ' ']) {
            return Err(E::NotAHost(text.to_owned()));
        }
        let Some(base) = text.strip_prefix("*.") else {
            if text.contains('*') {
                return Err(E::MisplacedWildcard(text.to_owned()));
            }
            return Fqdn::parse(text).map(Self::Exact).map_err(E::Name);
        };
        if base.contains('*') {
            return Err(E::MisplacedWildcard(text.to_owned()));
        }
        let base = Fqdn::parse(base).map_err(E::Name)?;
        if is_public_suffix(&base) {
            return Err(E::PublicSuffix(text.to_owned(), base.to_string()));
        }
        Ok(Self::Below(base))
    }

    /// Whether the pattern speaks of this name.
    #[must_use]
    pub fn matches(&self, name: &Fqdn) -> bool {
        match self {
            Self::Exact(own) => own == name,
            Self::Below(base) => name.is_below(base.as_str()),
        }
    }

    /// Whether every name that `other` speaks of is one of this pattern's.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(name)) => self.matches(name),
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(wide), Self::Below(narrow)) => {
                wide == narrow || narrow.is_below(wide.as_str())
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Below(base) => write!(f, "*.{base}"),
        }
    }
}

/// Whether strangers register names directly below `name`: a row of the Public Suffix List, ICANN or
/// private section, what such a row has all names below (`*.elb.amazonaws.com`), or a single label that the list
/// does not know and nobody set apart.
pub(crate) fn is_public_suffix(name: &Fqdn) -> bool {
    let below = format!("{ANY_LABEL}.{name}");
    let row = psl::suffix(below.as_bytes());
    if row.is_some_and(|row| row.is_known() && row.as_bytes() == below.as_bytes()) {
        return true;
    }
    let Some(suffix) = psl::suffix(name.as_str().as_bytes()) else {
        return false;
    };
    if suffix.as_bytes() != name.as_str().as_bytes() {
        return false;
    }
    suffix.is_known() || !PRIVATE_TOP_LEVEL.contains(&name.as_str())
}

/// A label that no row of the list names.
const ANY_LABEL: &str = "any-label";

/// Top-level labels that no public registry sells: RFC 6761, 6762, 8375, 9476, ICANN's `internal`, and
/// those that RFC 6762 appendix G found in private use.
const PRIVATE_TOP_LEVEL: &[&str] = &[
    "alt",
    "corp",
    "example",
    "home",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localhost",
    "private",
    "test",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> HostPattern {
        HostPattern::parse(text).unwrap()
    }

    #[test]
    fn wildcard_covers_one_or_more_labels_and_never_the_apex() {
        let wild = pattern("*.Example.COM.");
        for name in ["a.example.com", "a.b.example.com", "A.EXAMPLE.com."] {
            assert!(wild.matches(&Fqdn::parse(name).unwrap()), "{name}");
        }
        for name in [
            "example.com",
            "aexample.com",
            "example.com.evil.org",
            "com",
            "a.example.org",
        ] {
            assert!(!wild.matches(&Fqdn::parse(name).unwrap()), "{name}");
        }
    }

    #[test]
    fn patterns_wider_than_one_owner_are_refused() {
        for text in [
            "*",
            "*.",
            "*.com",
            "*.co.uk",
            "*.github.io",
            "*.s3.amazonaws.com",
            "*.uk",
            "*.ck",
            "*.foo.ck",
            "*.nosuchtopleveldomain",
            "*.vercel.app",
            "*.herokuapp.com",
            "*.elb.amazonaws.com",
            "*.compute.amazonaws.com",
            "*.linodeobjects.com",
            "*.r.appspot.com",
            "*.kawasaki.jp",
            "*.COM",
        ] {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
        for text in [
            "*.acme.github.io",
            "*.example.co.uk",
            "*.www.ck",
            "*.internal",
            "*.svc.local",
        ] {
            assert!(HostPattern::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn misplaced_wildcards_and_non_hosts_are_refused_with_the_cure() {
        for (text, cure) in [
            ("api*.example.com", "whole first label"),
            ("a.*.example.com", "whole first label"),
            ("*.*.example.com", "whole first label"),
            ("*example.com", "whole first label"),
            (".example.com", "*.example.com"),
            ("https://example.com", "without scheme"),
            ("example.com:443", "without scheme"),
            ("example.com/path", "without scheme"),
            ("user@example.com", "without scheme"),
            ("10.0.0.1", "IP address"),
            ("0x7f.1", "IP address"),
            ("2130706433", "IP address"),
            ("", "empty"),
        ] {
            let error = HostPattern::parse(text).unwrap_err().to_string();
            assert!(error.contains(cure), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_that_covers_another_matches_all_its_names(
            base in "[a-c]{1,2}\\.example\\.com", left in "[a-c]{1,3}", deep in any::<bool>(),
        ) {
            let wide = pattern("*.example.com");
            let narrow = pattern(&if deep { format!("*.{base}") } else { base.clone() });
            prop_assert!(wide.covers(&narrow));
            prop_assert!(!narrow.covers(&wide));
            let name = if deep { format!("{left}.{base}") } else { base };
            let name = Fqdn::parse(&name).unwrap();
            prop_assert!(narrow.matches(&name) && wide.matches(&name));
        }
    }
}
