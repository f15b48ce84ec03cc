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

    /// Whether a sandbox sets the variable of this name itself, or a loader or a runtime reads it before the
    /// program does: a sentinel in its place would break the program without a word.
    ///
    /// `gig-sandbox` holds its own variables against this.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        TAKEN.contains(&self.as_str()) || TAKEN_FROM.iter().any(|from| self.0.starts_with(from))
    }

    /// What is wrong with [a name that is taken](Self::is_taken), and what to do.
    #[must_use]
    pub fn taken(&self) -> Option<String> {
        self.is_taken().then(|| {
            format!(
                "no secret can be called {self}: inside a sandbox that variable is gig's own or is read by what \
                 starts programs; use a name of its own"
            )
        })
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

/// What a sandbox sets, and what changes how programs are found, started and connected.
const TAKEN: [&str; 59] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "USER",
    "LOGNAME",
    "TERM",
    "SHELL",
    "PWD",
    "IFS",
    "ENV",
    "BASH_ENV",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "https_proxy",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "ALL_PROXY",
    "all_proxy",
    "FTP_PROXY",
    "ftp_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_NO_VERIFY",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "npm_config_cafile",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NODE_OPTIONS",
    // The dynamic loader's: ld.so(8). Others begin so, too.
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "LD_BIND_NOW",
    "LD_BIND_NOT",
    "LD_DEBUG",
    "LD_DEBUG_OUTPUT",
    "LD_DYNAMIC_WEAK",
    "LD_HWCAP_MASK",
    "LD_ORIGIN_PATH",
    "LD_PROFILE",
    "LD_PROFILE_OUTPUT",
    "LD_SHOW_AUXV",
    "LD_TRACE_LOADED_OBJECTS",
    "LD_TRACE_PRELINKING",
    "LD_USE_LOAD_BIAS",
    "LD_VERBOSE",
    "LD_WARN",
    "LD_PREFER_MAP_32BIT_EXEC",
    "LD_POINTER_GUARD",
    "LD_ASSUME_KERNEL",
];
/// gig's own.
const TAKEN_FROM: [&str; 2] = ["GIG_SANDBOX_", "GIG_PLACEHOLDER"];

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

    #[test]
    fn what_a_sandbox_sets_itself_names_no_secret() {
        let taken = |text: &str| text.parse::<SecretName>().unwrap().taken();
        for name in ["HOME", "https_proxy", "LD_PRELOAD", "GIG_PLACEHOLDER"] {
            assert!(
                taken(name).is_some_and(|words| words.contains(name)),
                "{name}"
            );
        }
        for name in [
            "HOME_TOKEN",
            "GITHUB_TOKEN",
            "GIG_TOKEN",
            "LD_SDK_KEY",
            "LD_ACCESS_TOKEN",
            "path",
        ] {
            assert_eq!(taken(name), None);
        }
    }
}
