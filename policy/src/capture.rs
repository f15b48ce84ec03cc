//! Capturing logins: tokens that a server gives a program become secrets of its sandbox.
//!
//! A policy names the requests whose answers hold tokens (RFC 6749 §5.1), and the secret that they
//! become; where that secret may go is said as for any other. What is only ever exchanged for tokens, a
//! refresh token or a device code, is a secret of its own, `NAME_GRANT`, which goes to where the tokens
//! came from, in the body, and nowhere else.

use std::sync::Arc;

use crate::{
    host::Port,
    host_pattern::{HostPattern, ParseHostPatternError},
    path,
    secret_grant::{Binding, ParseBindingError, SecretGrant, SecretPlace},
    secret_name::{ParseSecretNameError, SecretName},
};

/// The path of a token endpoint. Servers forgive letter case and a slash at the end, and so does this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointPath {
    text: Box<str>,
    /// What a lax server takes for it.
    loose: Box<str>,
}

/// Not a token endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseEndpointError {
    /// No URL of the kind that is needed.
    #[error("{0:?}: a token endpoint is written https://HOST[:PORT]/PATH")]
    NotAUrl(String),
    /// A query, a fragment or an unreadable path.
    #[error("{0:?}: write the path alone, without query, fragment or wildcard")]
    BadPath(String),
    /// Not a host.
    #[error("{0:?}: {1}")]
    BadHost(String, ParseHostPatternError),
    /// A wildcard: a login is made at one server.
    #[error("{0:?}: name one host: a login is made at one server")]
    ManyHosts(String),
    /// Not a port.
    #[error("{0:?}: {1:?} is not a port: ports are 1 to 65535")]
    BadPort(String, String),
    /// The name cannot be made longer.
    #[error(transparent)]
    Name(#[from] ParseSecretNameError),
}

impl EndpointPath {
    fn parse(text: &str) -> Option<Self> {
        let path = path::normalise(text).ok()?;
        let text = path.as_str().trim_end_matches('/');
        (!text.is_empty() && !text.contains('*')).then(|| Self {
            text: text.into(),
            loose: path::loosely(text).into(),
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a normalised path is this one.
    pub(crate) fn is(&self, path: &str) -> bool {
        path.trim_end_matches('/').eq_ignore_ascii_case(&self.text)
    }

    /// Whether some server might take a normalised path for this one.
    pub(crate) fn may_be(&self, path: &str) -> bool {
        let loose = path::loosely(path);
        let is = |form: &String| **form == *self.loose;
        self.is(path) || is(&loose) || path::undressed(&loose).iter().any(is)
    }
}

impl SecretName {
    /// What the grants of a captured login are called: its refresh tokens and device codes.
    ///
    /// # Errors
    /// [`ParseSecretNameError`], when the name is too long already.
    pub fn of_grants(&self) -> Result<Self, ParseSecretNameError> {
        format!("{self}_GRANT").parse()
    }
}

impl SecretGrant {
    /// Tokens in the answer become secret `name`.
    #[must_use]
    pub fn capturing(name: SecretName) -> Self {
        Self {
            captures: true,
            places: Some(Arc::default()),
            ..Self::everywhere(name)
        }
    }

    /// All that a token endpoint is granted: answers are captured, and what came from there may go there.
    pub(crate) fn of_endpoint(
        name: &SecretName,
        places: Option<Arc<[SecretPlace]>>,
    ) -> Result<[Self; 3], ParseSecretNameError> {
        let token = Self {
            places,
            ..Self::everywhere(name.clone())
        };
        let grant = Self {
            places: Some([SecretPlace::Body].into()),
            ..Self::everywhere(name.of_grants()?)
        };
        Ok([Self::capturing(name.clone()), token, grant])
    }
}

impl Binding {
    /// Whether it names where tokens are given.
    #[must_use]
    pub const fn captures(&self) -> bool {
        self.grant.captures
    }

    /// The one path that it speaks of, if it is one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_ref().map(EndpointPath::as_str)
    }

    /// Captures the tokens that `https://HOST[:PORT]/PATH` gives as secret `name`.
    ///
    /// # Errors
    /// [`ParseEndpointError`], which says what to write.
    pub fn capture(name: &SecretName, url: &str) -> Result<[Self; 3], ParseEndpointError> {
        let own = || url.to_owned();
        let rest = url.strip_prefix("https://");
        let rest = rest.ok_or_else(|| ParseEndpointError::NotAUrl(own()))?;
        let slash = rest.find('/');
        let slash = slash.ok_or_else(|| ParseEndpointError::NotAUrl(own()))?;
        let (place, path) = rest.split_at(slash);
        let path = EndpointPath::parse(path).ok_or_else(|| ParseEndpointError::BadPath(own()))?;
        let bound = Self::parse(name.clone(), place).map_err(|error| match error {
            ParseBindingError::NotAHost(_) => ParseEndpointError::NotAUrl(own()),
            ParseBindingError::BadPort(_, port) => ParseEndpointError::BadPort(own(), port),
            ParseBindingError::BadHost(_, why) => ParseEndpointError::BadHost(own(), why),
        })?;
        let (target, port): (HostPattern, Port) = (bound.target, bound.port);
        if matches!(target, HostPattern::Below(_)) {
            return Err(ParseEndpointError::ManyHosts(own()));
        }
        let grants = SecretGrant::of_endpoint(name, None)?;
        Ok(grants.map(|grant| Self {
            grant,
            target: target.clone(),
            port,
            path: Some(path.clone()),
        }))
    }
}
