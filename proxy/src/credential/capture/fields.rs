//! Tokens in header fields of a token endpoint's answer.
//!
//! Some fields are known to hold them (OpenStack's `X-Subject-Token`, `X-Auth-Token`, a bearer token in
//! `Authorization`, whatever is called an access, refresh or ID token); others, and cookies, the policy
//! names. What is called a token and stands where none can be taken out (a redirect's target) refuses the
//! answer.

use std::{str, sync::Arc};

use gig_policy::SecretPlace;
use gig_vault::SecretBytes;
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, SET_COOKIE},
};

use super::{
    CaptureError, SHORTEST_TOKEN,
    answer::{Token, holds_token_parameter},
    names::{Field, is_credential},
};

/// Hands every token in the header section to `keep` and puts what that gives in its place. Whether there
/// was one.
pub(super) fn take_apart(
    headers: &mut HeaderMap,
    from: &[SecretPlace],
    mut keep: impl FnMut(Token) -> Result<Arc<str>, CaptureError>,
) -> Result<bool, CaptureError> {
    let mut told = false;
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        let http::header::Entry::Occupied(mut entry) = headers.entry(&name) else {
            continue;
        };
        for value in entry.iter_mut() {
            let Some(found) = find(&name, value, from) else {
                if holds_token_parameter(value.as_bytes(), from) {
                    return Err(CaptureError::InHeader);
                }
                continue;
            };
            *value = put(value, found, &mut keep)?;
            told = true;
        }
    }
    Ok(told)
}

/// A token in a field's value.
struct Found {
    field: Field,
    start: usize,
    end: usize,
    lives: Option<u64>,
}

fn find(name: &HeaderName, value: &HeaderValue, from: &[SecretPlace]) -> Option<Found> {
    let octets = value.as_bytes();
    let found = if *name == SET_COOKIE {
        cookie(octets, from)?
    } else {
        let named = SecretPlace::Header(name.as_str().into());
        let known = KNOWN.contains(name)
            || *name == AUTHORIZATION
            || from.contains(&named)
            || is_long_credential(name.as_str(), octets);
        let field = Field::named(name.as_str()).or_else(|| known.then_some(Field::Access))?;
        // `Bearer TOKEN`, or the token alone.
        let end = octets.trim_ascii_end().len();
        let before = octets.get(..end)?.iter().rposition(u8::is_ascii_whitespace);
        Found {
            field,
            start: before.map_or(0, |at| at + 1),
            end,
            lives: None,
        }
    };
    (found.start < found.end).then_some(found)
}

/// `NAME=TOKEN; Max-Age=60; …` (RFC 6265 §4.1.1).
fn cookie(octets: &[u8], from: &[SecretPlace]) -> Option<Found> {
    let mut attributes = octets.split(|octet| *octet == b';');
    let pair = attributes.next()?;
    let equals = memchr::memchr(b'=', pair)?;
    let (name, _) = pair.split_at(equals);
    let name = str::from_utf8(name.trim_ascii()).ok()?;
    let named = from.contains(&SecretPlace::Cookie(name.into()));
    let value = pair.get(equals + 1..)?;
    let named = named || is_long_credential(name, value);
    let field = Field::named(name).or_else(|| named.then_some(Field::Access))?;
    let blank = |octet: &u8| octet.is_ascii_whitespace() || *octet == b'"';
    let before = value.iter().take_while(|octet| blank(octet)).count();
    let after = value.iter().rev().take_while(|octet| blank(octet)).count();
    let lives = attributes.find_map(|attribute| {
        let text = str::from_utf8(attribute).ok()?;
        let (name, value) = text.split_once('=')?;
        let age = name.trim().eq_ignore_ascii_case("max-age");
        age.then(|| value.trim().parse().ok())?
    });
    Some(Found {
        field,
        start: equals + 1 + before,
        end: pair.len().saturating_sub(after),
        lives,
    })
}

/// Whether it is called as credentials are, and long enough to be one.
fn is_long_credential(name: &str, value: &[u8]) -> bool {
    is_credential(name) && value.trim_ascii().len() >= SHORTEST_TOKEN
}

fn put(
    value: &HeaderValue,
    found: Found,
    keep: &mut impl FnMut(Token) -> Result<Arc<str>, CaptureError>,
) -> Result<HeaderValue, CaptureError> {
    let octets = value.as_bytes();
    let (before, rest) = octets
        .split_at_checked(found.start)
        .unwrap_or((octets, &[]));
    let (token, after) = rest
        .split_at_checked(found.end - found.start)
        .unwrap_or((rest, &[]));
    let sentinel = keep(Token {
        field: found.field,
        value: SecretBytes::copy_of(token),
        lives: found.lives,
    })?;
    let new = [before, sentinel.as_bytes(), after].concat();
    HeaderValue::from_bytes(&new).map_err(|_| CaptureError::Strange)
}

/// OpenStack Identity v3, and what its followers call it.
const KNOWN: [HeaderName; 3] = [
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-subject-token"),
    HeaderName::from_static("x-session-token"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program sees of a field.
    fn shown(name: &'static str, value: &str) -> Result<(String, bool), CaptureError> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        let from = ["header:x-own", "cookie:sid"].map(|place| place.parse().unwrap());
        let told = take_apart(&mut headers, &from, |token| {
            assert_eq!(token.value.expose(), b"T0ken", "{name}: {value}");
            let lives = token.lives.map_or(0, |lives| lives);
            Ok(format!("{}{lives}", token.field.as_str()).into())
        })?;
        Ok((headers[name].to_str().unwrap().to_owned(), told))
    }

    #[test]
    fn tokens_are_found_in_header_fields() {
        let cases = [
            ("x-subject-token", "T0ken", "access_token0"),
            ("x-auth-token", "T0ken ", "access_token0 "),
            ("authorization", "Bearer T0ken", "Bearer access_token0"),
            ("refresh-token", "T0ken", "refresh_token0"),
            ("x-id-token", "T0ken", "id_token0"),
            ("x-own", "T0ken", "access_token0"),
            (
                "set-cookie",
                "sid=T0ken; Path=/; HttpOnly",
                "sid=access_token0; Path=/; HttpOnly",
            ),
            (
                "set-cookie",
                "sid = \"T0ken\";max-age=60",
                "sid = \"access_token60\";max-age=60",
            ),
            (
                "set-cookie",
                "refresh_token=T0ken",
                "refresh_token=refresh_token0",
            ),
        ];
        for (name, value, expected) in cases {
            assert_eq!(shown(name, value).unwrap(), (expected.to_owned(), true));
        }
        for (name, value) in [
            ("set-cookie", "sid=; Max-Age=0"),
            ("set-cookie", "other=T0ken"),
            ("x-auth-token", ""),
            ("x-csrf-token", "T0ken"),
            ("www-authenticate", "Bearer error=\"invalid_token\""),
        ] {
            assert_eq!(shown(name, value).unwrap(), (value.to_owned(), false));
        }
        let redirect = shown("location", "https://app.test/#access_token=T0ken");
        assert_eq!(redirect.unwrap_err(), CaptureError::InHeader);
    }
}
