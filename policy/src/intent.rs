//! What a program asks for, in the terms that a policy decides on.

use std::fmt;

/// What was recognised in the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AppProtocol {
    /// HTTP in TLS, any version of either.
    Https,
    /// HTTP in clear text.
    Http,
    /// Anything else: bytes that are not looked into.
    Tcp,
}

impl AppProtocol {
    /// The word used in policy documents and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Tcp => "tcp",
        }
    }

    /// What [`AppProtocol::as_str`] spells so.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let all = [Self::Https, Self::Http, Self::Tcp];
        all.into_iter().find(|protocol| protocol.as_str() == word)
    }
}

impl fmt::Display for AppProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One HTTP request on a connection that is already permitted.
#[derive(Debug, Clone, Copy)]
pub struct RequestIntent<'a> {
    /// `Https` or `Http`.
    pub protocol: AppProtocol,
    /// The method token, as sent (RFC 9110 §9.1: case-sensitive).
    pub method: &'a str,
    /// The *normalised* path: starts with `/`, dot segments removed, unreserved octets decoded,
    /// without the query. `*` for `OPTIONS *`.
    pub path: &'a str,
}
