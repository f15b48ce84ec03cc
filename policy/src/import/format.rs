//! Whose documents can be imported: the one list of them, with the word and the description that command line, API and
//! console have.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};
use thiserror::Error;

/// Whose document it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One host a line: `host`, `host:port`, `*.host`, `.host`, a URL.
    Hosts,
    /// `squid.conf`: `acl … dstdomain|dst|port|method` and `http_access`.
    Squid,
    /// Settings of sandbox-runtime (`srt`): JSON with `network.allowedDomains`.
    SandboxRuntime,
    /// A policy of OpenShell: YAML with `network_policies`.
    OpenShell,
    /// Configuration of iron-proxy: YAML whose `transforms` hold an `allowlist`.
    IronProxy,
    /// Docker sandboxes: lines of `sbx policy …` or `docker sandbox network proxy …`.
    Docker,
}

/// A word is no format's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown format {0:?}: it is one of {words}", words = Format::ALL.map(Format::as_str).join(", "))]
pub struct ParseFormatError(String);

impl Format {
    /// All, the plainest first.
    pub const ALL: [Self; 6] = [
        Self::Hosts,
        Self::Squid,
        Self::SandboxRuntime,
        Self::OpenShell,
        Self::IronProxy,
        Self::Docker,
    ];

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Squid => "squid",
            Self::SandboxRuntime => "sandbox-runtime",
            Self::OpenShell => "openshell",
            Self::IronProxy => "iron-proxy",
            Self::Docker => "docker",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Hosts => "a list of hosts, one a line",
            Self::Squid => "squid.conf",
            Self::SandboxRuntime => "settings of sandbox-runtime",
            Self::OpenShell => "a policy of OpenShell",
            Self::IronProxy => "configuration of iron-proxy",
            Self::Docker => "commands of Docker's sandboxes",
        }
    }
}

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.as_str() == text);
        found.ok_or_else(|| ParseFormatError(text.to_owned()))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_a_word_of_its_own() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert!(!format.words().is_empty());
            let read: Format = serde_json::from_value(format.as_str().into()).unwrap();
            assert_eq!(read, format);
        }
        let told = "hotss".parse::<Format>().unwrap_err().to_string();
        assert!(told.contains("hosts, squid, sandbox-runtime"), "{told}");
    }
}
