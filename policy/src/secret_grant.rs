//! What a policy says of a secret: that a request may carry it, and where in the request.
//!
//! A rule's grant holds for the rule's own requests; a [`Binding`] of the command line for every
//! request to its host that some rule allows. Neither allows anything by itself.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    allow_option::split_port,
    capture::EndpointPath,
    host::{Host, Port},
    host_pattern::{HostPattern, ParseHostPatternError},
    http_match::is_token,
    secret_name::SecretName,
};

/// A secret that may be swapped into a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretGrant {
    /// Which.
    pub name: SecretName,
    /// Where its sentinel may stand; `None` is everywhere. Of one that captures: header fields, cookies and
    /// members of the answer that hold tokens, beside those that are known to.
    pub places: Option<Arc<[SecretPlace]>>,
    /// The program may hold the value itself, if the secret is marked so too.
    pub entrusted: bool,
    /// Tokens in the answer become this secret. Such a grant lets nothing be swapped in.
    pub captures: bool,
    /// Of one that captures: the program gets ID tokens as they are, since it verifies them itself.
    pub shows_identity: bool,
}

impl SecretGrant {
    /// Everywhere in the request.
    #[must_use]
    pub const fn everywhere(name: SecretName) -> Self {
        Self {
            name,
            places: None,
            entrusted: false,
            captures: false,
            shows_identity: false,
        }
    }
}

impl fmt::Display for SecretGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        let places = self.places.as_deref().unwrap_or_default();
        let listed: Vec<_> = places.iter().map(ToString::to_string).collect();
        if self.captures {
            f.write_str(" (tokens in the answer become it")?;
            if !listed.is_empty() {
                write!(f, ", also from {}", listed.join(", "))?;
            }
            if self.shows_identity {
                f.write_str(", save ID tokens, which are shown")?;
            }
            return f.write_str(")");
        }
        if self.places.is_some() {
            write!(f, " (in {})", listed.join(", "))?;
        }
        if self.entrusted {
            f.write_str(" (entrusted: the program may hold the value)")?;
        }
        Ok(())
    }
}

/// A place in a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretPlace {
    /// A header field, its name in lower case; of `authorization` the Basic credentials too. `*` is any.
    Header(Box<str>),
    /// User or password of Basic credentials (RFC 7617).
    Basic,
    /// One cookie.
    Cookie(Box<str>),
    /// One parameter of the query.
    Query(Box<str>),
    /// The path.
    Path,
    /// The body: a form, JSON, multipart or text; or a WebSocket's messages.
    Body,
    /// Of an answer alone: what the body calls so, be it a member of JSON or a field of a form.
    Member(Box<str>),
}

/// Not a place of a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a place in an answer: write header:NAME, cookie:NAME, or body:NAME for a member of JSON or a field of a form"
)]
pub struct ParseTokenPlaceError(String);

/// Not a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a place in a request: write header:NAME, header:*, basic, cookie:NAME, query:NAME, path or body"
)]
pub struct ParseSecretPlaceError(String);

impl FromStr for SecretPlace {
    type Err = ParseSecretPlaceError;

    fn from_str(text: &str) -> Result<Self, ParseSecretPlaceError> {
        let wrong = || ParseSecretPlaceError(text.to_owned());
        Ok(match text.split_once(':') {
            None if text == "basic" => Self::Basic,
            None if text == "path" => Self::Path,
            None if text == "body" => Self::Body,
            Some(("header", name)) if is_token(name) => {
                Self::Header(name.to_ascii_lowercase().into())
            }
            Some(("cookie", name)) if is_token(name) => Self::Cookie(name.into()),
            Some(("query", name)) if !name.is_empty() && !name.chars().any(char::is_control) => {
                Self::Query(name.into())
            }
            _ => return Err(wrong()),
        })
    }
}

impl SecretPlace {
    /// A place in an answer, where a server's own name stands for a token.
    ///
    /// # Errors
    /// [`ParseTokenPlaceError`]; for `header:*` too, since most fields hold no token.
    pub fn of_answer(text: &str) -> Result<Self, ParseTokenPlaceError> {
        let wrong = || ParseTokenPlaceError(text.to_owned());
        if let Some(name) = text.strip_prefix("body:") {
            let plain = !name.chars().any(char::is_control) && name.trim() == name;
            let sound = plain && !name.is_empty();
            return sound.then(|| Self::Member(name.into())).ok_or_else(wrong);
        }
        match text.parse() {
            Ok(place) if place == Self::any_header() => Err(wrong()),
            Ok(place @ (Self::Header(_) | Self::Cookie(_))) => Ok(place),
            Ok(_) | Err(_) => Err(wrong()),
        }
    }

    /// Any header field.
    #[must_use]
    pub fn any_header() -> Self {
        Self::Header("*".into())
    }

    /// Whether it is the header field of this name, which is in lower case.
    #[must_use]
    pub fn is_header(&self, name: &str) -> bool {
        matches!(self, Self::Header(own) if **own == *name || **own == *"*")
    }
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Basic => f.write_str("basic"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Path => f.write_str("path"),
            Self::Body => f.write_str("body"),
            Self::Member(name) => write!(f, "body:{name}"),
        }
    }
}

/// `--secret NAME@HOST`: binds, and allows nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The grant.
    pub(crate) grant: SecretGrant,
    pub(crate) target: HostPattern,
    pub(crate) port: Port,
    /// The one path that it speaks of; `None`: all.
    pub(crate) path: Option<EndpointPath>,
}

/// A place that no secret can be bound to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseBindingError {
    /// A URL or a path.
    #[error("{0:?}: write the host alone, as in api.example.com or api.example.com:8443")]
    NotAHost(String),
    /// Not a port.
    #[error("{0:?}: {1:?} is not a port: ports are 1 to 65535")]
    BadPort(String, String),
    /// Not a host.
    #[error("{0:?}: {1}")]
    BadHost(String, ParseHostPatternError),
}

impl Binding {
    /// Binds `name` to `HOST` or `HOST:PORT`; without a port, to 443.
    ///
    /// # Errors
    /// [`ParseBindingError`], when `place` names no host.
    pub fn parse(name: SecretName, place: &str) -> Result<Self, ParseBindingError> {
        let own = || place.to_owned();
        if place.contains('/') {
            return Err(ParseBindingError::NotAHost(own()));
        }
        let (host, port) = split_port(place);
        let port = match port {
            None => Port::HTTPS,
            Some(digits) => digits
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| digits.parse().ok())
                .flatten()
                .and_then(Port::new)
                .ok_or_else(|| ParseBindingError::BadPort(own(), digits.to_owned()))?,
        };
        let target =
            HostPattern::parse(host).map_err(|error| ParseBindingError::BadHost(own(), error))?;
        Ok(Self {
            grant: SecretGrant::everywhere(name),
            target,
            port,
            path: None,
        })
    }

    /// Where in a request alone it may stand; `None`: anywhere.
    #[must_use]
    pub fn places(&self) -> Option<&[SecretPlace]> {
        self.grant.places.as_deref()
    }

    /// The same for these places alone.
    #[must_use]
    pub fn within(mut self, places: Arc<[SecretPlace]>) -> Self {
        self.grant.places = Some(places);
        self
    }

    /// Whether it speaks of this request. What is captured is captured on every port, in clear text and
    /// by whatever spelling of the path a server might take, too: a token must not come in by another door.
    pub(crate) fn covers(&self, host: &Host, port: Port, encrypted: bool, path: &str) -> bool {
        let captures = self.grant.captures;
        let door = captures || (encrypted && self.port == port);
        door && self.names(host)
            && self.path.as_ref().is_none_or(|own| match captures {
                true => own.may_be(path),
                false => own.is(path),
            })
    }

    /// Whether it speaks of some request to there.
    pub(crate) fn speaks_of(&self, host: &Host, port: Port) -> bool {
        (self.grant.captures || self.port == port) && self.names(host)
    }

    /// Whether it names this host, at whatever port.
    #[must_use]
    pub fn names(&self, host: &Host) -> bool {
        host.name().is_some_and(|name| self.target.matches(name))
    }

    /// The host pattern, as text.
    #[must_use]
    pub fn host(&self) -> String {
        self.target.to_string()
    }

    /// The host pattern with its port, as the option has it: 443 needs no telling.
    #[must_use]
    pub fn place(&self) -> String {
        match self.port {
            Port::HTTPS => self.host(),
            port => format!("{}:{port}", self.target),
        }
    }

    pub(crate) const fn target(&self) -> &HostPattern {
        &self.target
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> Port {
        self.port
    }

    /// The secret.
    #[must_use]
    pub const fn name(&self) -> &SecretName {
        &self.grant.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_told_alike() {
        for text in [
            "header:authorization",
            "basic",
            "cookie:sid",
            "query:key",
            "path",
            "body",
        ] {
            assert_eq!(text.parse::<SecretPlace>().unwrap().to_string(), text);
        }
        let folded: SecretPlace = "header:X-Api-Key".parse().unwrap();
        assert_eq!(folded, SecretPlace::Header("x-api-key".into()));
        for wrong in [
            "",
            "header",
            "header:",
            "header:a b",
            "Basic",
            "body:x",
            "cookie:",
            "anywhere",
        ] {
            assert!(wrong.parse::<SecretPlace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn places_of_an_answer_are_read_and_told_alike() {
        for text in [
            "header:x-own",
            "cookie:sid",
            "body:key",
            "body:Zugangs-Schlüssel",
        ] {
            assert_eq!(SecretPlace::of_answer(text).unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "key",
            "header:*",
            "basic",
            "query:a",
            "path",
            "body",
            "body:",
            "body:a\nb",
            "body: key",
        ] {
            assert!(SecretPlace::of_answer(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_binding_speaks_of_one_port() {
        let name: SecretName = "T".parse().unwrap();
        let host = |text: &str| Host::parse(text).unwrap();
        let binding = Binding::parse(name.clone(), "*.example.com").unwrap();
        let covers =
            |binding: &Binding, name: &str, port| binding.covers(&host(name), port, true, "/");
        assert!(covers(&binding, "api.example.com", Port::HTTPS));
        assert!(!covers(&binding, "example.com", Port::HTTPS));
        assert!(!covers(&binding, "api.example.com", Port::HTTP));
        assert!(!binding.covers(&host("api.example.com"), Port::HTTPS, false, "/"));
        let binding = Binding::parse(name.clone(), "api.example.com:8443").unwrap();
        assert!(!covers(&binding, "api.example.com", Port::HTTPS));
        for wrong in [
            "",
            "*",
            "*.com",
            "https://a.example",
            "a.example:0",
            "a.example:x",
        ] {
            assert!(Binding::parse(name.clone(), wrong).is_err(), "{wrong}");
        }
    }
}
