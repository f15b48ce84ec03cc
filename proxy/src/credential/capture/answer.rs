//! Where tokens stand in the answer of a token endpoint: in JSON, and in forms.
//!
//! The program gets what was understood, written anew, so that nothing reaches it that another reader
//! would have understood otherwise.

use std::sync::Arc;

use gig_vault::SecretBytes;
use http::{HeaderMap, header::CONTENT_TYPE};
use percent_encoding::percent_decode;
use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::CaptureError;
use crate::credential::place::Escape;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    /// For requests to an API.
    Access,
    /// Says who logged in; some APIs take it instead of an access token.
    Identity,
    /// For more tokens.
    Refresh,
    /// For tokens, once somebody agreed (RFC 8628).
    Device,
}

/// A token that was found.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) field: Field,
    pub(super) value: SecretBytes,
    /// In seconds, where the answer says so.
    pub(super) lives: Option<u64>,
}

/// What the program may see.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) body: Vec<u8>,
    /// It holds a token or says why there is none.
    pub(super) told: bool,
}

impl Field {
    /// `access_token`, `accessToken`, and what some servers put before it, such as `bot_`.
    pub(super) fn named(name: &str) -> Option<Self> {
        let plain = |c: &char| *c != '_' && *c != '-';
        let bare: String = name.chars().filter(plain).collect();
        let bare = bare.to_ascii_lowercase();
        let fields = [
            ("accesstoken", Self::Access),
            ("refreshtoken", Self::Refresh),
            ("idtoken", Self::Identity),
            ("devicecode", Self::Device),
        ];
        let mut ends = fields.iter().filter(|(word, _)| bare.ends_with(word));
        ends.next().map(|(_, field)| *field)
    }

    /// As the RFC calls it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access_token",
            Self::Identity => "id_token",
            Self::Refresh => "refresh_token",
            Self::Device => "device_code",
        }
    }

    /// The fields that say how long such a token lives.
    const fn lifetimes(self) -> &'static [&'static str] {
        match self {
            Self::Access | Self::Identity | Self::Device => &["expires_in", "expiresIn"],
            Self::Refresh => &["refresh_token_expires_in", "refresh_expires_in"],
        }
    }
}

/// The media type, in lower case.
pub(super) fn media(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    let text = String::from_utf8_lossy(value.unwrap_or_default());
    let media = text.split(';').next().unwrap_or_default();
    media.trim().to_ascii_lowercase()
}

/// Hands every token to `keep` and writes what that gives in its place.
pub(super) fn take_apart(
    body: &[u8],
    media: &str,
    keep: impl FnMut(Token) -> Result<Arc<str>, CaptureError>,
) -> Result<Shown, CaptureError> {
    let begins = body.trim_ascii_start().first().copied();
    if matches!(begins, Some(b'{' | b'[')) {
        return json(body, keep);
    }
    let form = matches!(media, "application/x-www-form-urlencoded" | "text/plain");
    if form && memchr::memchr(b'=', body).is_some() {
        return self::form(body, keep);
    }
    Err(CaptureError::Unparsable)
}

/// Whether a header field's value holds a parameter with a token, as an implicit grant's redirect does
/// (RFC 6749 §4.2.2).
pub(super) fn holds_token_parameter(value: &[u8]) -> bool {
    let mut names = value.split(|octet| matches!(octet, b'?' | b'#' | b'&' | b' ' | b';'));
    names.any(|pair| {
        let name = pair.split(|octet| *octet == b'=').next();
        let pairs = pair.contains(&b'=');
        let field = name.and_then(|name| std::str::from_utf8(name).ok());
        pairs && field.is_some_and(|name| Field::named(name).is_some())
    })
}

fn json(
    body: &[u8],
    mut keep: impl FnMut(Token) -> Result<Arc<str>, CaptureError>,
) -> Result<Shown, CaptureError> {
    let mut value: Value = serde_json::from_slice(body).map_err(|_| CaptureError::Unparsable)?;
    let mut walk = Walk {
        keep: &mut keep,
        told: is_empty(&value),
    };
    let walked = walk.value(&mut value);
    let told = walk.told;
    if let Err(error) = walked {
        wipe(&mut value);
        return Err(error);
    }
    let body = serde_json::to_vec(&value).map_err(|_| CaptureError::Unparsable)?;
    Ok(Shown { body, told })
}

/// A server that says nothing: RFC 7009 §2.2.
fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// What an answer says with a word of its own: it holds no token (RFC 6749 §5.2).
fn is_error(name: &str) -> bool {
    name == "error"
}

struct Walk<'a, K> {
    keep: &'a mut K,
    told: bool,
}

impl<K: FnMut(Token) -> Result<Arc<str>, CaptureError>> Walk<'_, K> {
    fn value(&mut self, value: &mut Value) -> Result<(), CaptureError> {
        match value {
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.value(item)),
            Value::Object(fields) => self.object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn object(&mut self, fields: &mut serde_json::Map<String, Value>) -> Result<(), CaptureError> {
        let number = |name: &&str| {
            let value = fields.get(*name)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        };
        let lives = |field: Field| field.lifetimes().iter().find_map(number);
        let all = [
            Field::Access,
            Field::Identity,
            Field::Refresh,
            Field::Device,
        ];
        let lifetimes = all.map(|field| (field, lives(field)));
        for (name, value) in fields.iter_mut() {
            let Some(field) = Field::named(name) else {
                self.told |= is_error(name) && !value.is_null();
                self.value(value)?;
                continue;
            };
            match value {
                Value::Null => {}
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => {
                    let lives = lifetimes.iter().find(|(of, _)| *of == field);
                    let token = Token {
                        field,
                        value: SecretBytes::new(std::mem::take(text).into_bytes()),
                        lives: lives.and_then(|(_, lives)| *lives),
                    };
                    *text = (self.keep)(token)?.as_ref().to_owned();
                    self.told = true;
                }
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(CaptureError::Strange);
                }
            }
        }
        Ok(())
    }
}

fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(fields) => fields.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn form(
    body: &[u8],
    mut keep: impl FnMut(Token) -> Result<Arc<str>, CaptureError>,
) -> Result<Shown, CaptureError> {
    let pairs: Vec<(String, Zeroizing<Vec<u8>>)> = body
        .trim_ascii()
        .split(|octet| *octet == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let mut halves = pair.splitn(2, |octet| *octet == b'=');
            let name = unescaped(halves.next().unwrap_or_default());
            let value = unescaped(halves.next().unwrap_or_default());
            (String::from_utf8_lossy(&name).into_owned(), value)
        })
        .collect();
    let lives = |field: Field| {
        let (_, value) = pairs
            .iter()
            .find(|(name, _)| field.lifetimes().contains(&name.as_str()))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    let (mut out, mut told) = (Vec::new(), false);
    for (name, value) in &pairs {
        if !out.is_empty() {
            out.push(b'&');
        }
        Escape::Percent.write(name.as_bytes(), &mut out);
        out.push(b'=');
        match Field::named(name).filter(|_| !value.is_empty()) {
            Some(field) => {
                let token = Token {
                    field,
                    value: SecretBytes::copy_of(value),
                    lives: lives(field),
                };
                Escape::Percent.write(keep(token)?.as_bytes(), &mut out);
                told = true;
            }
            None => {
                told |= is_error(name);
                Escape::Percent.write(value, &mut out);
            }
        }
    }
    Ok(Shown { body: out, told })
}

/// As WHATWG URL §5.1 has it.
fn unescaped(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let spaced: Zeroizing<Vec<u8>> = text
        .iter()
        .map(|octet| if *octet == b'+' { b' ' } else { *octet })
        .collect::<Vec<_>>()
        .into();
    Zeroizing::new(percent_decode(&spaced).collect())
}

#[cfg(test)]
mod tests;
