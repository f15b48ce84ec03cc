//! Digests of a body, in a header or trailer section: made anew where the body is another than was sent, or
//! left out and told. None that is wrong goes on.

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header::TRAILER};
use md5::{Digest as _, Md5};

use crate::credential::tally::Tally;

/// Whether a header section holds one, or says that the trailer section will.
pub(super) fn announced(headers: &HeaderMap) -> bool {
    let promised = |name: &HeaderName| {
        let lines = headers.get_all(TRAILER).iter();
        let mut words = lines.flat_map(|line| line.as_bytes().split(|octet| *octet == b','));
        words.any(|word| {
            word.trim_ascii()
                .eq_ignore_ascii_case(name.as_str().as_bytes())
        })
    };
    let any = |name| headers.contains_key(name) || promised(name);
    DIGESTS.iter().any(any)
}

/// Makes each that of `octets`.
pub(super) fn renew(fields: &mut HeaderMap, octets: &[u8], tally: &Tally) {
    for name in DIGESTS {
        let Some(value) = fields.remove(&name) else {
            continue;
        };
        match renewed(&name, value.as_bytes(), octets) {
            Some(value) => {
                fields.insert(name, value);
            }
            None => tally.found(format!(
                "{name} was left out: its algorithm is not known here"
            )),
        }
    }
}

/// Leaves them out: the body that they are of is not known when they are sent.
pub(super) fn forget(fields: &mut HeaderMap, tally: &Tally) {
    for name in DIGESTS {
        if fields.remove(&name).is_some() {
            tally.found(format!(
                "{name} was left out: the body is sent before it is known"
            ));
        }
    }
}

/// The field with the digest of what is sent (RFC 9530; RFC 3230 for `Digest`; RFC 1864 for
/// `Content-MD5`, which protects from nothing but faults of the network).
fn renewed(name: &HeaderName, old: &[u8], octets: &[u8]) -> Option<HeaderValue> {
    if name == CONTENT_MD5 {
        return HeaderValue::try_from(STANDARD.encode(Md5::digest(octets))).ok();
    }
    let old = std::str::from_utf8(old).ok()?;
    let structured = name != DIGEST;
    let mut digests = Vec::new();
    for member in old.split(',') {
        let (algorithm, _) = member.trim().split_once('=')?;
        let encoded = match algorithm.to_ascii_lowercase().as_str() {
            "sha-256" => STANDARD.encode(digest::digest(&digest::SHA256, octets)),
            "sha-512" => STANDARD.encode(digest::digest(&digest::SHA512, octets)),
            "md5" => STANDARD.encode(Md5::digest(octets)),
            _ => return None,
        };
        digests.push(if structured {
            format!("{algorithm}=:{encoded}:")
        } else {
            format!("{algorithm}={encoded}")
        });
    }
    HeaderValue::try_from(digests.join(", ")).ok()
}

const DIGEST: HeaderName = HeaderName::from_static("digest");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const DIGESTS: [HeaderName; 4] = [
    CONTENT_MD5,
    DIGEST,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];
