//! Digests that were made of a body with a value in it, and what the program had said in their places.
//!
//! Of a value that can be guessed each of them is an oracle: who has it tries values without a request and without a
//! record. An origin that repeats the request would hand them in, so they are looked for in its answer, as they are
//! written and in the other usual writings, and become there what the program said. Answers to other requests, and
//! whatever the origin sums up itself, are not compared with them. Sums of a few octets cannot be looked for, and
//! are not made.

use std::sync::Arc;

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use gig_policy::{SecretGrant, SecretName};
use gig_vault::{Guarded, GuardedValue, SecretBytes};

use super::{
    digits::{hex, unhex},
    scrub::Scrub,
};

/// One that went in another's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    made: Vec<u8>,
    said: Vec<u8>,
}

/// How a field writes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// RFC 4648 §4.
    Base64,
    /// Two digits for each octet.
    Hexadecimal,
}

impl Sum {
    /// `made` went where the program had written `said`; what is none of that length counts as zeros.
    #[must_use]
    pub fn of(made: &[u8], said: &[u8], writing: Writing) -> Self {
        let said = writing.read(said).filter(|said| said.len() == made.len());
        Self {
            made: made.to_vec(),
            said: said.unwrap_or_else(|| vec![0; made.len()]),
        }
    }

    /// As it may be written, each with what stands for it. Without padding, which both have alike.
    fn texts(&self) -> impl Iterator<Item = (String, String)> {
        let Self { made, said } = self;
        let standard = (PLAIN.encode(made), PLAIN.encode(said));
        let url_safe = (SAFE.encode(made), SAFE.encode(said));
        let other = (url_safe != standard).then_some(url_safe);
        [(hex(made), hex(said)), standard].into_iter().chain(other)
    }
}

impl Writing {
    /// Writes one.
    #[must_use]
    pub fn write(self, octets: &[u8]) -> String {
        match self {
            Self::Base64 => base64::engine::general_purpose::STANDARD.encode(octets),
            Self::Hexadecimal => hex(octets),
        }
    }

    /// `None`: it is not written so.
    #[must_use]
    pub fn read(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Base64 => PLAIN.decode(text).ok(),
            Self::Hexadecimal => unhex(text),
        }
    }
}

/// What takes these out of an answer; `None` where there are none.
#[must_use]
pub fn scrub_of(sums: &[Sum]) -> Option<Arc<Scrub>> {
    let name: SecretName = NAME.parse().ok()?;
    // Who was right before says nothing that is not known.
    let sums = sums.iter().filter(|sum| sum.made != sum.said);
    let (made, said): (Vec<_>, Vec<_>) = sums.flat_map(Sum::texts).unzip();
    let values = made.into_iter().map(|made| GuardedValue {
        name: name.clone(),
        version: 1,
        part: None,
        value: Arc::new(SecretBytes::new(made.into_bytes())),
        current: true,
    });
    let guarded = Guarded {
        generation: 0,
        values: values.collect(),
    };
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    Scrub::of(guarded, &said, &[SecretGrant::everywhere(name)])
}

const EITHER: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, EITHER);
const SAFE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, EITHER);
/// Names no secret: nobody is told it.
const NAME: &str = "DIGEST";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_sum_becomes_what_was_said_however_it_is_written() {
        // printf v4lue | openssl md5
        let made = Writing::Hexadecimal.read(b"20a5bae3857cb1c74673da35278e0758");
        let made = made.unwrap();
        for (said, writing, shown) in [
            (
                "XUFAKrxLKna5cZ2REBfFkg==",
                Writing::Base64,
                "XUFAKrxLKna5cZ2REBfFkg==",
            ),
            (
                "5d41402abc4b2a76b9719d911017c592",
                Writing::Hexadecimal,
                "XUFAKrxLKna5cZ2REBfFkg==",
            ),
            ("AAAA", Writing::Base64, "AAAAAAAAAAAAAAAAAAAAAA=="),
            (
                "no digest",
                Writing::Hexadecimal,
                "AAAAAAAAAAAAAAAAAAAAAA==",
            ),
        ] {
            let scrub = scrub_of(&[Sum::of(&made, said.as_bytes(), writing)]).unwrap();
            let text = |text: &str| {
                let mut found = BTreeSet::new();
                let text = scrub.text(text.as_bytes(), &mut found).unwrap();
                String::from_utf8(text).unwrap()
            };
            assert_eq!(text("md5=IKW644V8scdGc9o1J44HWA=="), format!("md5={shown}"));
            let digits = Writing::Base64.read(shown.as_bytes()).unwrap();
            let digits = hex(&digits);
            assert_eq!(text("20A5BAE3857CB1C74673DA35278E0758"), digits);
            assert_eq!(
                text(r#"{"md5":"\u0049KW644V8scdGc9o1J44HWA=="}"#),
                format!(r#"{{"md5":"{shown}"}}"#)
            );
        }
    }

    #[test]
    fn what_was_right_before_is_not_looked_for() {
        let sum = |said: &str| Sum::of(&[1; 16], said.as_bytes(), Writing::Base64);
        assert!(scrub_of(&[sum(&Writing::Base64.write(&[1; 16]))]).is_none());
        assert!(scrub_of(&[sum("")]).is_some());
        assert!(scrub_of(&[]).is_none());
    }
}
