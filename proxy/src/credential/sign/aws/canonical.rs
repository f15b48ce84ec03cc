//! The one spelling of a request that both sides sign.

use aws_lc_rs::digest;
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use super::request::{Form, Signed};
use crate::credential::digits::hex;

/// A canonical request's hash.
#[derive(Debug)]
pub(super) struct Canonical(String);

/// What a signature covers of a request, beside its query and payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Covered<'a> {
    pub(super) method: &'a Method,
    pub(super) host: &'a HeaderValue,
    pub(super) path: &'a str,
    pub(super) headers: &'a HeaderMap,
}

impl Canonical {
    /// Of `request` as `signed` covers it.
    pub(super) fn new(signed: &Signed, request: Covered<'_>, payload: &str) -> Self {
        let mut text = String::new();
        for line in [
            request.method.as_str(),
            &path(request.path, signed.is_s3()),
            &query(signed),
        ] {
            text.push_str(line);
            text.push('\n');
        }
        for name in &signed.fields {
            text.push_str(name);
            text.push(':');
            if name == "host" {
                text.push_str(request.host.to_str().unwrap_or_default());
            } else {
                values(request.headers, name, &mut text);
            }
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&signed.fields.join(";"));
        text.push('\n');
        text.push_str(payload);
        Self(hex_digest(text.as_bytes()))
    }

    /// The text that is signed.
    pub(super) fn to_sign(&self, signed: &Signed) -> String {
        let algorithm = signed.algorithm.word();
        format!(
            "{algorithm}\n{}\n{}\n{}",
            signed.date,
            signed.scope(),
            self.0
        )
    }
}

/// S3 takes a path as it is, once encoded; the others as it was sent, encoded once more.
fn path(sent: &str, is_s3: bool) -> String {
    let encode = |octets: &[u8]| percent_encode(octets, &IN_PATH).to_string();
    if is_s3 {
        return encode(&percent_decode_str(sent).collect::<Vec<_>>());
    }
    let mut joined = String::with_capacity(sent.len());
    for c in sent.chars() {
        if c != '/' || !joined.ends_with('/') {
            joined.push(c);
        }
    }
    encode(joined.as_bytes())
}

/// Sorted by name, then by value, both encoded; without the signature.
fn query(signed: &Signed) -> String {
    let encode = |text: &str| {
        let octets: Vec<u8> = percent_decode_str(text).collect();
        percent_encode(&octets, &IN_QUERY).to_string()
    };
    let covered = |name: &str| signed.form == Form::Header || name != "X-Amz-Signature";
    let mut pairs: Vec<(String, String)> = signed
        .query
        .iter()
        .filter(|(name, _)| covered(name))
        .map(|(name, value)| (encode(name), encode(value.as_deref().unwrap_or_default())))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(n, v)| format!("{n}={v}")).collect();
    pairs.join("&")
}

/// All values of a field in order, runs of spaces made one.
fn values(headers: &HeaderMap, name: &str, text: &mut String) {
    for (number, value) in headers.get_all(name).iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        let mut words = value.split_ascii_whitespace();
        if let Some(first) = words.next() {
            text.push_str(first);
        }
        for word in words {
            text.push(' ');
            text.push_str(word);
        }
    }
}

/// SHA-256 in lower-case hexadecimal digits.
pub(super) fn hex_digest(octets: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, octets).as_ref())
}

/// Everything but RFC 3986's unreserved characters.
pub(super) const IN_QUERY: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const IN_PATH: AsciiSet = IN_QUERY.remove(b'/');
