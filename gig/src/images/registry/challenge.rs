//! How a registry asks who somebody is, and what it gives them (RFC 9110 §11, RFC 6750).

use anyhow::{Context, bail};
use hyper::header::HeaderValue;

/// One `WWW-Authenticate` field with one challenge, as registries send it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    scheme: String,
    values: Vec<(String, String)>,
}

impl Challenge {
    /// Reads `Bearer realm="…",service="…"`; `None` if it is nothing of the kind.
    pub(super) fn parse(field: &str) -> Option<Self> {
        let field = field.trim();
        let (scheme, mut rest) = field.split_once(' ').unwrap_or((field, ""));
        let mut values = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', ',', '\t']);
            if rest.is_empty() {
                break;
            }
            let (name, after) = rest.split_once('=')?;
            let (value, after) = match after.strip_prefix('"') {
                // No registry escapes anything in it, and what is escaped is no URL.
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_at(after.find(',').unwrap_or(after.len())),
            };
            values.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            rest = after;
        }
        Some(Self {
            scheme: scheme.to_ascii_lowercase(),
            values,
        })
    }

    /// Whether it is of this scheme, in lower case.
    pub(super) fn is(&self, scheme: &str) -> bool {
        self.scheme == scheme
    }

    /// A parameter.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The field that a token's document comes to.
///
/// # Errors
/// When it holds none.
pub(super) fn token(body: &[u8]) -> anyhow::Result<HeaderValue> {
    let document: serde_json::Value =
        serde_json::from_slice(body).context("what it sends is no JSON")?;
    let named = ["token", "access_token"]
        .iter()
        .find_map(|name| document.get(name)?.as_str());
    let Some(token) = named.filter(|token| !token.is_empty()) else {
        bail!("what it sends holds none");
    };
    let mut field =
        HeaderValue::from_str(&format!("Bearer {token}")).context("it cannot be sent")?;
    field.set_sensitive(true);
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_registries_are_read() {
        let read = Challenge::parse(
            r#"Bearer realm="https://auth.example/token",service="reg, one",scope="repository:a:pull""#,
        );
        let read = read.unwrap();
        assert!(read.is("bearer") && !read.is("basic"));
        assert_eq!(read.value("realm"), Some("https://auth.example/token"));
        assert_eq!(read.value("service"), Some("reg, one"));
        assert_eq!(read.value("nothing"), None);
        assert!(Challenge::parse("Basic realm=plain").unwrap().is("basic"));
        assert!(Challenge::parse("Negotiate").unwrap().is("negotiate"));
        for wrong in ["Bearer realm", r#"Bearer realm="open"#] {
            assert_eq!(Challenge::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_token_is_a_field_or_nothing() {
        assert_eq!(token(br#"{"access_token": "abc"}"#).unwrap(), "Bearer abc");
        for wrong in ["", "{}", r#"{"token": ""}"#, r#"{"token": "a\r\nHost: b"}"#] {
            assert!(token(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
