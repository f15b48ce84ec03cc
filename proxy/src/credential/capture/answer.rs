//! Where tokens stand in the answer of a token endpoint: in JSON, and in forms.
//!
//! The program gets what was understood, written anew, so that nothing reaches it that another reader
//! would have understood otherwise.

use std::sync::Arc;

use gig_policy::SecretPlace;
use gig_vault::SecretBytes;
use percent_encoding::percent_decode;
use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::{
    CaptureError, SHORTEST_TOKEN,
    names::{Field, is_called_credential, is_credential, lifetime},
    nested,
};
use crate::credential::{needles::SHORTEST, place::Escape};

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

/// Hands every token, also what `from` names, to `keep` and writes what that gives in its place.
pub(super) fn take_apart(
    body: &[u8],
    (media, from): (&str, &[SecretPlace]),
    keep: impl FnMut(Token) -> Result<Arc<str>, CaptureError>,
) -> Result<Shown, CaptureError> {
    let begins = body.trim_ascii_start().first().copied();
    if matches!(begins, Some(b'{' | b'[')) {
        return json(body, from, keep);
    }
    let form = matches!(media, "application/x-www-form-urlencoded" | "text/plain");
    // A form has no lines; what has some is a text, and may hold a token in any of them.
    let lines = memchr::memchr2(b'\r', b'\n', body.trim_ascii()).is_some();
    if !form || lines || memchr::memchr(b'=', body).is_none() {
        return Err(CaptureError::Unparsable);
    }
    match self::form(body, from, keep) {
        // It may as well be words with such a sign somewhere.
        Ok(shown) if media == "text/plain" && !shown.told => Err(CaptureError::Unparsable),
        shown => shown,
    }
}

/// Whether a header field's value holds a parameter with a token, as an implicit grant's redirect does
/// (RFC 6749 §4.2.2), or one that `from` names.
pub(super) fn holds_token_parameter(value: &[u8], from: &[SecretPlace]) -> bool {
    let apart = |octet: &u8| octet.is_ascii_whitespace() || b"?#&;,\"'".contains(octet);
    let mut names = value.split(apart);
    names.any(|pair| {
        let Some(equals) = memchr::memchr(b'=', pair) else {
            return false;
        };
        let (name, value) = pair.split_at(equals);
        std::str::from_utf8(name).is_ok_and(|name| {
            let long = value.len() > SHORTEST_TOKEN;
            named(name, from).is_some() || (long && is_credential(name))
        })
    })
}

/// What a name stands for: as servers call it, or as the policy says of this one.
fn named(name: &str, from: &[SecretPlace]) -> Option<Field> {
    let own = |place: &SecretPlace| matches!(place, SecretPlace::Member(own) if **own == *name);
    Field::named(name).or_else(|| from.iter().any(own).then_some(Field::Access))
}

fn json(
    body: &[u8],
    from: &[SecretPlace],
    mut keep: impl FnMut(Token) -> Result<Arc<str>, CaptureError>,
) -> Result<Shown, CaptureError> {
    let value = serde_json::from_slice(body).map_err(|_| CaptureError::Unparsable)?;
    let mut value = Wiped(value);
    let mut walk = Walk::new(from, &mut keep, DEEPEST);
    walk.told = is_empty(&value.0);
    walk.value(&mut value.0, false)?;
    let told = walk.told || (walk.error && !walk.long);
    let body = serde_json::to_vec(&value.0).map_err(|_| CaptureError::Unparsable)?;
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

/// What explains it is no token either: `error_description`, `error_uri`.
fn is_of_error(name: &str) -> bool {
    name.get(..5)
        .is_some_and(|head| head.eq_ignore_ascii_case("error"))
}

struct Walk<'a, K> {
    /// Members that hold tokens, whatever they are called elsewhere.
    from: &'a [SecretPlace],
    keep: &'a mut K,
    /// A token was found.
    told: bool,
    /// It says that it holds none.
    error: bool,
    /// And holds something else that is long enough to be one.
    long: bool,
    /// How many texts within texts may follow.
    deeper: u8,
}

impl<'a, K: FnMut(Token) -> Result<Arc<str>, CaptureError>> Walk<'a, K> {
    /// One that has seen nothing yet.
    const fn new(from: &'a [SecretPlace], keep: &'a mut K, deeper: u8) -> Self {
        Self {
            from,
            keep,
            told: false,
            error: false,
            long: false,
            deeper,
        }
    }

    /// `explains`: it stands in what says why there is no token.
    fn value(&mut self, value: &mut Value, explains: bool) -> Result<(), CaptureError> {
        match value {
            Value::Array(items) => {
                let mut items = items.iter_mut();
                items.try_for_each(|item| self.value(item, explains))
            }
            Value::Object(fields) => self.object(fields, explains),
            Value::String(text) => self.text(text, explains),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// A text that nobody calls a token: JSON of its own, as queues and signed payloads have it, is looked through.
    fn text(&mut self, text: &mut String, explains: bool) -> Result<(), CaptureError> {
        let explained = explains && !holds_token_parameter(text.as_bytes(), self.from);
        self.long |= !explained && text.len() >= SHORTEST_TOKEN;
        let Some((value, writing)) = nested::within(text) else {
            return Ok(());
        };
        let mut value = Wiped(value);
        let deeper = self.deeper.checked_sub(1).ok_or(CaptureError::Strange)?;
        let mut walk = Walk::new(self.from, &mut *self.keep, deeper);
        let walked = walk.value(&mut value.0, explains);
        let told = walk.told;
        if walked.is_ok() && told {
            let written = nested::write(&value.0, writing).ok_or(CaptureError::Unparsable);
            text.zeroize();
            *text = written?;
        }
        self.told |= told;
        walked
    }

    /// What is called a credential: words, or more that is looked through.
    fn credential(&mut self, value: &mut Value, explains: bool) -> Result<(), CaptureError> {
        match value {
            Value::String(text) if text.len() >= SHORTEST_CREDENTIAL => {
                self.take(text, Field::Access, None)
            }
            Value::Array(items) => {
                let mut items = items.iter_mut();
                items.try_for_each(|item| self.credential(item, explains))
            }
            value => self.value(value, explains),
        }
    }

    /// `{"channel": …, "url": …}`: whoever has the address may post there.
    fn webhook(&mut self, value: &mut Value, explains: bool) -> Result<(), CaptureError> {
        if let Some(url) = value.get_mut("url") {
            self.credential(url, explains)?;
        }
        self.value(value, explains)
    }

    fn take(
        &mut self,
        text: &mut String,
        field: Field,
        lives: Option<u64>,
    ) -> Result<(), CaptureError> {
        let token = Token {
            field,
            value: SecretBytes::new(std::mem::take(text).into_bytes()),
            lives,
        };
        *text = (self.keep)(token)?.as_ref().to_owned();
        self.told = true;
        Ok(())
    }

    fn object(
        &mut self,
        fields: &mut serde_json::Map<String, Value>,
        explains: bool,
    ) -> Result<(), CaptureError> {
        let number = |name: &&str| {
            let value = fields.get(*name)?;
            let seconds = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            seconds.and_then(lifetime)
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
            let Some(field) = named(name, self.from) else {
                if name == WEBHOOK {
                    self.webhook(value, explains)?;
                    continue;
                }
                if is_called_credential(name, value.as_str().unwrap_or_default().as_bytes()) {
                    self.credential(value, explains)?;
                    continue;
                }
                self.error |= is_error(name) && says(value);
                self.value(value, explains || is_of_error(name))?;
                continue;
            };
            match value {
                Value::Null => {}
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => {
                    let lives = lifetimes.iter().find(|(of, _)| *of == field);
                    self.take(text, field, lives.and_then(|(_, lives)| *lives))?;
                }
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(CaptureError::Strange);
                }
            }
        }
        Ok(())
    }
}

/// Whether there is any word in it.
fn says(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

/// JSON that holds tokens, or what came beside some: its texts are wiped when it goes, however that comes about.
struct Wiped(Value);

impl Drop for Wiped {
    fn drop(&mut self) {
        wipe(&mut self.0);
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
    from: &[SecretPlace],
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
        let seconds = std::str::from_utf8(value).ok()?.parse().ok();
        seconds.and_then(lifetime)
    };
    let (mut out, mut told) = (Vec::new(), false);
    let (mut error, mut long) = (false, false);
    for (name, value) in &pairs {
        if !out.is_empty() {
            out.push(b'&');
        }
        Escape::Percent.write(name.as_bytes(), &mut out);
        out.push(b'=');
        let named = named(name, from).filter(|_| !value.is_empty());
        let other = value.len() >= SHORTEST_CREDENTIAL && is_called_credential(name, value);
        match named.or_else(|| other.then_some(Field::Access)) {
            Some(field) => {
                let token = Token {
                    field,
                    value: SecretBytes::copy_of(value),
                    lives: named.and_then(lives),
                };
                Escape::Percent.write(keep(token)?.as_bytes(), &mut out);
                told = true;
            }
            None => {
                error |= is_error(name) && !value.is_empty();
                let mut text = Zeroizing::new(String::from_utf8_lossy(value).into_owned());
                let mut walk = Walk::new(from, &mut keep, DEEPEST);
                walk.text(&mut text, is_of_error(name))?;
                long |= walk.long;
                told |= walk.told;
                let value = if walk.told { text.as_bytes() } else { value };
                Escape::Percent.write(value, &mut out);
            }
        }
    }
    let told = told || (error && !long);
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

/// Slack's: who has its `url` may post.
const WEBHOOK: &str = "incoming_webhook";
/// Texts of JSON within texts of JSON; what goes deeper is refused.
const DEEPEST: u8 = 4;
/// What is shorter is not looked for anywhere, so that keeping it back would keep nothing.
const SHORTEST_CREDENTIAL: usize = SHORTEST;

#[cfg(test)]
mod tests;
