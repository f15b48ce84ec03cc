//! The name of an image: registry, repository, tag and digest.

use std::fmt;
use std::str::FromStr;

use super::digest::{Digest, ParseDigestError};

/// `[REGISTRY[:PORT]/]REPOSITORY[:TAG][@DIGEST]`. Without a registry it is Docker's, as for every tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text names no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseReferenceError {
    /// Its form.
    #[error("{text:?} names no image: REGISTRY/REPOSITORY@sha256:DIGEST does")]
    Form {
        /// What was given, cut.
        text: String,
    },
    /// The digest's.
    #[error("{text:?} names no image")]
    Digest {
        /// What was given, cut.
        text: String,
        /// What is wrong with it.
        #[source]
        source: ParseDigestError,
    },
}

/// Docker's own registry, as images name it, and where it answers.
const DOCKERS: &str = "docker.io";
const DOCKERS_HOST: &str = "registry-1.docker.io";
/// Octets of a repository's name, as registries bound it.
const LONGEST: usize = 255;
const LONGEST_TAG: usize = 128;

impl Reference {
    /// The registry, as it is named.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Where the registry answers: host and perhaps a port.
    #[must_use]
    pub fn host(&self) -> &str {
        match self.registry.as_str() {
            DOCKERS => DOCKERS_HOST,
            other => other,
        }
    }

    /// The repository in it.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if one is given.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if one is given.
    #[must_use]
    pub const fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The same image by its digest alone.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self {
            tag: None,
            digest: Some(digest),
            ..self.clone()
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Reference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Self, ParseReferenceError> {
        let shown = || text.chars().take(200).collect::<String>();
        let form = || ParseReferenceError::Form { text: shown() };
        let (name, digest) = match text.split_once('@') {
            None => (text, None),
            Some((name, digest)) => {
                let digest = digest
                    .parse()
                    .map_err(|source| ParseReferenceError::Digest {
                        text: shown(),
                        source,
                    })?;
                (name, Some(digest))
            }
        };
        let (registry, rest) = match name.split_once('/') {
            Some((first, rest)) if is_registry(first) => (first.to_owned(), rest),
            _ => (DOCKERS.to_owned(), name),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag.to_owned())),
            None => (rest, None),
        };
        let repository = match registry == DOCKERS && !path.contains('/') {
            true => format!("library/{path}"),
            false => path.to_owned(),
        };
        let tagged = tag.as_deref().is_none_or(is_tag);
        if !tagged || !is_host(&registry) || !is_repository(&repository) {
            return Err(form());
        }
        Ok(Self {
            registry,
            repository,
            tag,
            digest,
        })
    }
}

/// As every tool tells them apart: a registry has a dot or a port, or is this machine.
fn is_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':'])
}

/// Nothing here could end the host in a URL.
fn is_host(text: &str) -> bool {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b".-:[]".contains(&octet);
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(plain)
}

/// As the distribution specification has it, so that no name is a way out of `/v2/`.
fn is_repository(text: &str) -> bool {
    let component = |part: &str| {
        let inner = |octet: u8| {
            octet.is_ascii_lowercase() || octet.is_ascii_digit() || b"._-".contains(&octet)
        };
        let edge = |octet: Option<u8>| {
            octet.is_some_and(|octet| octet.is_ascii_lowercase() || octet.is_ascii_digit())
        };
        let bytes = part.as_bytes();
        part.bytes().all(inner)
            && edge(bytes.first().copied())
            && edge(bytes.last().copied())
            && !part.contains("..")
    };
    text.len() <= LONGEST && text.split('/').all(component)
}

fn is_tag(text: &str) -> bool {
    let word = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'_';
    let inner = |octet: u8| word(octet) || b".-".contains(&octet);
    text.len() <= LONGEST_TAG && text.bytes().next().is_some_and(word) && text.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parts(text: &str) -> Option<(String, String, Option<String>, bool)> {
        let parsed: Reference = text.parse().ok()?;
        let tag = parsed.tag().map(str::to_owned);
        let digest = parsed.digest().is_some();
        Some((
            parsed.registry().to_owned(),
            parsed.repository().to_owned(),
            tag,
            digest,
        ))
    }

    #[test]
    fn names_are_read_as_by_other_tools() {
        let read = |text: &str| parts(text).unwrap();
        let own = |registry: &str, repository: &str, tag: Option<&str>, digest| {
            (
                registry.into(),
                repository.into(),
                tag.map(str::to_owned),
                digest,
            )
        };
        let dockers = own("docker.io", "library/python", Some("3"), false);
        assert_eq!(read("python:3"), dockers);
        assert_eq!(read("docker.io/library/python:3"), dockers);
        let local = own("localhost:5000", "a/b", None, true);
        assert_eq!(read(&format!("localhost:5000/a/b@{DIGEST}")), local);
        let both = own("ghcr.example", "x", Some("v1.2"), true);
        assert_eq!(read(&format!("ghcr.example/x:v1.2@{DIGEST}")), both);
        let said: Reference = format!("ghcr.example/x:v1.2@{DIGEST}").parse().unwrap();
        assert_eq!(said.to_string(), format!("ghcr.example/x:v1.2@{DIGEST}"));
        let again = said.at(said.digest().unwrap()).to_string();
        assert_eq!(again, format!("ghcr.example/x@{DIGEST}"));
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_name() {
        for wrong in [
            "",
            "a/../b",
            "host.example/../../x",
            "host.example/a//b",
            "host.example/",
            "host.example/a b",
            "host.example/a?x",
            "host.example/a%2f",
            "host.example/A",
            "host.example/a:t/g",
            "host.example/a:.t",
            "user@host.example/a",
            "ho\u{a}st.example/a",
            "host.example#/a",
            "host.example/a@sha256:00",
            "host.example/a@md5:d41d8cd98f00b204e9800998ecf8427e",
        ] {
            assert!(parts(wrong).is_none(), "{wrong}");
        }
    }
}
