//! Codes of a second factor: by time (RFC 6238: SHA-1, six digits, thirty seconds, as all apps do it), and
//! those that are written down for the day when the device is lost.

use aws_lc_rs::hmac;
use jiff::Timestamp;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::credential::{Digest, NoRandomness};

/// What a device and gig share: 160 bits, as RFC 4226 recommends.
pub(crate) struct Seed(Zeroizing<[u8; SEED]>);

/// What somebody typed as a code.
#[derive(Debug)]
pub(crate) enum Typed {
    /// Six digits, of a device.
    Device(Zeroizing<String>),
    /// One of those that were written down.
    WrittenDown(Digest),
}

impl Seed {
    pub(crate) fn random() -> Result<Self, NoRandomness> {
        let mut octets = Zeroizing::new([0; SEED]);
        aws_lc_rs::rand::fill(octets.as_mut()).map_err(|_| NoRandomness)?;
        Ok(Self(octets))
    }

    /// As it was sealed.
    pub(crate) fn of(octets: &[u8]) -> Option<Self> {
        let octets = <[u8; SEED]>::try_from(octets).ok()?;
        Some(Self(Zeroizing::new(octets)))
    }

    pub(crate) fn octets(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// As it is typed into a device.
    pub(crate) fn words(&self) -> Zeroizing<String> {
        base32(self.octets())
    }

    /// The step to which a code belongs: this one, or the one before or after, whose clock is a little off
    /// (RFC 6238, 5.2).
    pub(crate) fn step_of(&self, code: &str, now: Timestamp) -> Option<i64> {
        let current = now.as_second().div_euclid(STEP);
        let mut found = None;
        for step in [current - 1, current, current + 1] {
            let right = self.code(step);
            // All of them are compared, in a time that tells nothing.
            if bool::from(right.as_bytes().ct_eq(code.as_bytes())) {
                found = Some(step);
            }
        }
        found
    }

    /// RFC 4226, 5.3.
    pub(super) fn code(&self, step: i64) -> Zeroizing<String> {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, self.octets());
        let tag = hmac::sign(&key, &step.to_be_bytes());
        let tag = tag.as_ref();
        let at = usize::from(tag.last().copied().unwrap_or_default() & 0xf);
        let four = tag.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let number = u32::from_be_bytes(four.copied().unwrap_or_default()) & 0x7fff_ffff;
        Zeroizing::new(format!("{:06}", number % 1_000_000))
    }
}

impl Typed {
    /// `None` for what is no code at all. Blanks and hyphens are how people write them.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let plain: Zeroizing<String> = Zeroizing::new(
            text.chars()
                .filter(|c| !c.is_whitespace() && *c != '-')
                .map(|c| c.to_ascii_lowercase())
                .collect(),
        );
        let digits = plain.bytes().all(|octet| octet.is_ascii_digit());
        match plain.len() {
            6 if digits => Some(Self::Device(plain)),
            // Base32 has no 0, 1, 8 or 9.
            WRITTEN if plain.bytes().all(|octet| ALPHABET.contains(&octet)) => {
                Some(Self::WrittenDown(Digest::of(&plain)))
            }
            _ => None,
        }
    }
}

/// Codes to write down, each of use once: as they are shown, and as they are kept. They have 80 random bits:
/// nobody guesses them from a digest.
pub(crate) fn written_down() -> Result<Vec<(Zeroizing<String>, Digest)>, NoRandomness> {
    let one = || {
        let mut octets = Zeroizing::new([0; WRITTEN * 5 / 8]);
        aws_lc_rs::rand::fill(octets.as_mut()).map_err(|_| NoRandomness)?;
        let plain = Zeroizing::new(base32(octets.as_ref()).to_ascii_lowercase());
        let mut shown = Zeroizing::new(String::with_capacity(WRITTEN + 3));
        for (at, letter) in plain.chars().enumerate() {
            if at > 0 && at % 4 == 0 {
                shown.push('-');
            }
            shown.push(letter);
        }
        Ok((shown, Digest::of(&plain)))
    };
    (0..CODES).map(|_| one()).collect()
}

/// RFC 4648, 6; of whole groups of five octets alone, which need no padding.
fn base32(octets: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(octets.len() * 8 / 5));
    let (mut held, mut bits) = (0_u32, 0_u32);
    for octet in octets {
        held = (held << 8 | u32::from(*octet)) & 0xffff;
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            let letter = ALPHABET.get(usize::try_from(held >> bits & 31).unwrap_or_default());
            text.extend(letter.map(|letter| char::from(letter.to_ascii_uppercase())));
        }
    }
    text
}

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const SEED: usize = 20;
/// In seconds.
const STEP: i64 = 30;
/// Letters of a code that is written down: 80 bits.
const WRITTEN: usize = 16;
const CODES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// RFC 6238, appendix B, whose codes have two digits more in front.
    #[test]
    fn codes_are_those_of_the_rfc() {
        let seed = Seed::of(b"12345678901234567890").unwrap();
        for (second, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(*seed.code(second / 30), code);
            assert_eq!(seed.step_of(code, at(second)), Some(second / 30));
        }
    }

    #[test]
    fn a_code_is_good_for_its_step_and_the_ones_beside_it() {
        let seed = Seed::of(&[7; 20]).unwrap();
        let code = seed.code(1000);
        for (second, good) in [
            (29_969, false),
            (29_970, true),
            (30_000, true),
            (30_059, true),
            (30_060, false),
        ] {
            assert_eq!(seed.step_of(&code, at(second)).is_some(), good, "{second}");
        }
        for wrong in ["", "000000", "1", "12345678"] {
            assert_eq!(seed.step_of(wrong, at(30_000)), None, "{wrong}");
        }
    }

    #[test]
    fn a_seed_is_written_as_the_rfc_writes_it() {
        // RFC 4648, 10, whole groups.
        assert_eq!(*base32(b"fooba"), "MZXW6YTB");
        assert_eq!(
            *base32(b"12345678901234567890"),
            "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
        );
        assert_eq!(Seed::random().unwrap().words().len(), 32);
        assert!(Seed::of(&[0; 19]).is_none());
    }

    #[test]
    fn codes_that_are_written_down_are_read_however_they_are_typed() {
        let codes = written_down().unwrap();
        assert_eq!(codes.len(), CODES);
        for (shown, digest) in &codes {
            for typed in [
                shown.to_string(),
                shown.replace('-', " "),
                shown.to_uppercase(),
            ] {
                let read = Typed::read(&typed);
                assert!(
                    matches!(read, Some(Typed::WrittenDown(read)) if read.is(digest)),
                    "{typed}"
                );
            }
        }
        assert!(!codes[0].1.is(&codes[1].1));
        assert!(matches!(Typed::read(" 123 456 "), Some(Typed::Device(code)) if *code == "123456"));
        for wrong in [
            "",
            "12345",
            "1234567",
            "abcd-efgh-ijkl-mno",
            "abcd-efgh-ijkl-mno1",
            "no",
        ] {
            assert!(Typed::read(wrong).is_none(), "{wrong}");
        }
    }
}
