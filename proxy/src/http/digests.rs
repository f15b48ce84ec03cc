//! Digests of a body, in a header or trailer section: made anew where the body is another than was sent, or
//! left out and told. None that is wrong goes on. All of them may be left out (RFC 9530 §2: who sends one
//! chooses to; S3 and Google make their own where none comes, and with S3's goes the word that one comes); what a signature demands is not among them,
//! and is made by who signs.

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::Crc;
use http::{HeaderMap, HeaderName, HeaderValue, header::TRAILER};
use md5::{Digest as _, Md5};

use crate::credential::{
    digested::{CONTENT_MD5, DIGEST, DIGESTS, GOOGLE},
    tally::Tally,
};

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
            None => {
                unname(&name, fields);
                tally.found(format!(
                    "{name} was left out: its algorithm is not known here"
                ));
            }
        }
    }
}

/// Leaves them out: the body that they are of is not known when they are sent.
pub(super) fn forget(fields: &mut HeaderMap, tally: &Tally) {
    for name in DIGESTS {
        if fields.remove(&name).is_some() {
            unname(&name, fields);
            tally.found(format!(
                "{name} was left out: the body is sent before it is known"
            ));
        }
    }
}

/// With the checksum `name` goes the word that it comes.
fn unname(name: &HeaderName, fields: &mut HeaderMap) {
    let algorithm = name.as_str().strip_prefix(CHECKSUM);
    let named = fields.get(SDK_ALGORITHM).zip(algorithm);
    if named.is_some_and(|(named, gone)| named.as_bytes().eq_ignore_ascii_case(gone.as_bytes())) {
        fields.remove(SDK_ALGORITHM);
    }
}

/// The field with the digest of what is sent (RFC 9530; RFC 3230 for `Digest`; RFC 1864 for
/// `Content-MD5`, which protects from nothing but faults of the network).
fn renewed(name: &HeaderName, old: &[u8], octets: &[u8]) -> Option<HeaderValue> {
    if name == CONTENT_MD5 {
        return HeaderValue::try_from(STANDARD.encode(Md5::digest(octets))).ok();
    }
    if name == "x-amz-checksum-crc32" {
        let mut crc = Crc::new();
        crc.update(octets);
        return HeaderValue::try_from(STANDARD.encode(crc.sum().to_be_bytes())).ok();
    }
    let checksum = match name.as_str() {
        "x-amz-checksum-sha256" => Some(&digest::SHA256),
        "x-amz-checksum-sha1" => Some(&digest::SHA1_FOR_LEGACY_USE_ONLY),
        _ => None,
    };
    if let Some(algorithm) = checksum {
        return HeaderValue::try_from(STANDARD.encode(digest::digest(algorithm, octets))).ok();
    }
    if let Some(text) = hexadecimal(name, octets) {
        // Backblaze takes other words there: what says that nothing is looked at stays, and who says that the sum
        // stands in the body itself has one there that is of another body.
        return match old {
            b"do_not_verify" => HeaderValue::from_bytes(old).ok(),
            _ if old.len() == text.len() && old.iter().all(u8::is_ascii_hexdigit) => {
                HeaderValue::try_from(text).ok()
            }
            _ => None,
        };
    }
    let old = std::str::from_utf8(old).ok()?;
    let structured = name != DIGEST && name != GOOGLE;
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

/// Those that are written in hexadecimal digits.
fn hexadecimal(name: &HeaderName, octets: &[u8]) -> Option<String> {
    let algorithm = match name.as_str() {
        "x-checksum-md5" => return Some(hex(&Md5::digest(octets))),
        "x-checksum-sha1" | "x-bz-content-sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "x-checksum-sha256" => &digest::SHA256,
        "x-checksum-sha512" => &digest::SHA512,
        _ => return None,
    };
    Some(hex(digest::digest(algorithm, octets).as_ref()))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// What a program says that its checksum is made by; S3 refuses a request that says so and holds none.
const SDK_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-sdk-checksum-algorithm");
const CHECKSUM: &str = "x-amz-checksum-";
