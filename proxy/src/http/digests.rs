//! Digests of a body, in a header or trailer section: made anew where the body is another than was sent, or
//! left out and told. None that is wrong goes on. All of them may be left out (RFC 9530 §2: who sends one
//! chooses to; S3 and Google make their own where none comes, and with S3's goes the word that one comes); what a signature demands is not among them,
//! and is made by who signs.

use aws_lc_rs::digest;
use flate2::Crc;
use http::{HeaderMap, HeaderName, HeaderValue, header::TRAILER};
use md5::{Digest as _, Md5};

use crate::credential::{
    digested::{CONTENT_SHA256, DIGEST, DIGESTS, GOOGLE},
    sums::{Sum, Writing},
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

/// Makes each that of `octets`. Those of a body with a value in it are kept in mind, so that an answer that repeats
/// them does not hand them in; a cyclic sum of one is left out, since it gives the value away by itself.
pub(super) fn renew(fields: &mut HeaderMap, octets: &[u8], tally: &Tally) {
    let secret = tally.body_changed();
    for name in DIGESTS {
        let Some(value) = fields.remove(&name) else {
            continue;
        };
        let anew = Anew { octets, secret };
        match anew.of(&name, value.as_bytes()) {
            Ok((value, sums)) => {
                fields.insert(name, value);
                for sum in sums.into_iter().filter(|_| secret) {
                    tally.summed(sum);
                }
            }
            Err(why) => {
                unname(&name, fields);
                tally.found(format!("{name} was left out: {}", why.as_str()));
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

/// What a signature demands was made anew by who signs: `said` before, as it is in `fields` now.
pub(super) fn resigned(said: Option<&HeaderValue>, fields: &HeaderMap, tally: &Tally) {
    let now = fields.get(CONTENT_SHA256);
    let made = now.and_then(|now| Writing::Hexadecimal.read(now.as_bytes()));
    if let Some((said, made)) = said.zip(made)
        && tally.body_changed()
    {
        tally.summed(Sum::of(&made, said.as_bytes(), Writing::Hexadecimal));
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

/// Why one is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Unknown,
    Weak,
}

/// What is summed anew.
#[derive(Clone, Copy)]
struct Anew<'a> {
    octets: &'a [u8],
    /// There is a value in it.
    secret: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Crc32,
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

/// A field, and the sums in it.
type Renewed = (HeaderValue, Vec<Sum>);

impl Anew<'_> {
    /// The field with the digest of what is sent (RFC 9530; RFC 3230 for `Digest`; RFC 1864 for
    /// `Content-MD5`, which protects from nothing but faults of the network).
    fn of(self, name: &HeaderName, old: &[u8]) -> Result<Renewed, LeftOut> {
        let Some((algorithm, writing)) = alone(name) else {
            return self.listed(name, old);
        };
        // Backblaze takes other words there: what says that nothing is looked at stays, and who says that the sum
        // stands in the body itself has one there that is of another body.
        if writing == Writing::Hexadecimal {
            if old == b"do_not_verify" {
                let stays = HeaderValue::from_bytes(old).map_err(|_| LeftOut::Unknown)?;
                return Ok((stays, Vec::new()));
            }
            let length = writing.read(old).map(|old| old.len());
            if length != Some(algorithm.length()) {
                return Err(LeftOut::Unknown);
            }
        }
        let (text, sum) = self.sum(algorithm, (writing, old))?;
        let value = HeaderValue::try_from(text).map_err(|_| LeftOut::Unknown)?;
        Ok((value, vec![sum]))
    }

    /// A field with several, each behind the name of its algorithm.
    fn listed(self, name: &HeaderName, old: &[u8]) -> Result<Renewed, LeftOut> {
        let old = std::str::from_utf8(old).map_err(|_| LeftOut::Unknown)?;
        let structured = name != DIGEST && name != GOOGLE;
        let (mut digests, mut sums) = (Vec::new(), Vec::new());
        for member in old.split(',') {
            let split = member.trim().split_once('=');
            let (named, said) = split.ok_or(LeftOut::Unknown)?;
            let algorithm = match named.to_ascii_lowercase().as_str() {
                "sha-256" => Algorithm::Sha256,
                "sha-512" => Algorithm::Sha512,
                "md5" => Algorithm::Md5,
                _ => return Err(LeftOut::Unknown),
            };
            let said = said.trim_matches(':').as_bytes();
            let (text, sum) = self.sum(algorithm, (Writing::Base64, said))?;
            sums.push(sum);
            digests.push(if structured {
                format!("{named}=:{text}:")
            } else {
                format!("{named}={text}")
            });
        }
        let value = HeaderValue::try_from(digests.join(", "));
        Ok((value.map_err(|_| LeftOut::Unknown)?, sums))
    }

    fn sum(
        self,
        algorithm: Algorithm,
        (writing, said): (Writing, &[u8]),
    ) -> Result<(String, Sum), LeftOut> {
        if self.secret && algorithm == Algorithm::Crc32 {
            return Err(LeftOut::Weak);
        }
        let made = algorithm.of(self.octets);
        Ok((writing.write(&made), Sum::of(&made, said, writing)))
    }
}

impl Algorithm {
    fn of(self, octets: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Crc32 => {
                let mut crc = Crc::new();
                crc.update(octets);
                return crc.sum().to_be_bytes().to_vec();
            }
            Self::Md5 => return Md5::digest(octets).to_vec(),
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, octets).as_ref().to_vec()
    }

    /// Octets of one.
    const fn length(self) -> usize {
        match self {
            Self::Crc32 => 4,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// Of a field that has one alone: by what it is made, and how it is written.
fn alone(name: &HeaderName) -> Option<(Algorithm, Writing)> {
    Some(match name.as_str() {
        "content-md5" => (Algorithm::Md5, Writing::Base64),
        "x-amz-checksum-crc32" => (Algorithm::Crc32, Writing::Base64),
        "x-amz-checksum-sha1" => (Algorithm::Sha1, Writing::Base64),
        "x-amz-checksum-sha256" => (Algorithm::Sha256, Writing::Base64),
        "x-checksum-md5" => (Algorithm::Md5, Writing::Hexadecimal),
        "x-checksum-sha1" | "x-bz-content-sha1" => (Algorithm::Sha1, Writing::Hexadecimal),
        "x-checksum-sha256" => (Algorithm::Sha256, Writing::Hexadecimal),
        "x-checksum-sha512" => (Algorithm::Sha512, Writing::Hexadecimal),
        _ => return None,
    })
}

impl LeftOut {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "its algorithm is not known here",
            Self::Weak => "a cyclic sum of a body with a value in it gives the value away",
        }
    }
}

/// What a program says that its checksum is made by; S3 refuses a request that says so and holds none.
const SDK_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-sdk-checksum-algorithm");
const CHECKSUM: &str = "x-amz-checksum-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_signature_says_of_a_body_with_a_value_is_kept_in_mind() {
        let mut fields = HeaderMap::new();
        let said = HeaderValue::from_static("UNSIGNED-PAYLOAD");
        let sha256 = "11".repeat(32);
        fields.insert(CONTENT_SHA256, sha256.parse().unwrap());
        let tally = Tally::default();
        resigned(Some(&said), &fields, &tally);
        assert_eq!(tally.sums(), []);
        tally.changed_body();
        resigned(None, &fields, &tally);
        assert_eq!(tally.sums(), []);
        resigned(Some(&said), &fields, &tally);
        let sum = Sum::of(&[0x11; 32], said.as_bytes(), Writing::Hexadecimal);
        assert_eq!(tally.sums(), [sum]);
    }

    #[test]
    fn a_cyclic_sum_is_made_of_what_has_no_value_in_it_alone() {
        let name = "x-amz-checksum-crc32";
        for secret in [false, true] {
            let tally = Tally::default();
            if secret {
                tally.changed_body();
            }
            let mut fields = HeaderMap::new();
            fields.insert(name, HeaderValue::from_static("AAAAAA=="));
            fields.insert(SDK_ALGORITHM, HeaderValue::from_static("CRC32"));
            renew(&mut fields, b"v4lue", &tally);
            let sum = fields.get(name).map(HeaderValue::as_bytes);
            assert_eq!(sum, (!secret).then_some(&b"4aSnpA=="[..]));
            assert_eq!(fields.contains_key(SDK_ALGORITHM), !secret);
            assert_eq!(tally.sums(), []);
        }
    }
}
