//! The shapes in which a text travels without being itself: Base64, hexadecimal, backwards, in UTF-16 and
//! UTF-32; and in names of hosts in Base32.
//!
//! Escapes (percent, `\u`, entities) are undone by [`super::unescape`] before anything is looked for,
//! and letter case does not count where it is looked for; so that these few are all there are.

use base64::{Engine, engine::general_purpose};
use zeroize::Zeroizing;

use super::{needles::SHORTEST, wide::wide};

/// How a text was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// As it is, or with escapes.
    Plain,
    /// Within Base64 of either alphabet, at any of the three alignments.
    Base64,
    /// Each octet as two digits.
    Hex,
    /// Within Base32 of either alphabet, at any of the five alignments, in a host's name.
    Base32,
    /// Last octet first.
    Reversed,
    /// In UTF-16 or UTF-32.
    Wide,
    /// In pieces, with something between them.
    Split,
}

impl Form {
    /// The word in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Base64 => "base64",
            Self::Hex => "hex",
            Self::Base32 => "base32",
            Self::Reversed => "reversed",
            Self::Wide => "UTF-16 or UTF-32",
            Self::Split => "split",
        }
    }
}

/// Every form of a text, each once. Of a form longer than `WHOLE` both ends are given instead: a
/// search holds back no more than that.
#[must_use]
pub fn forms(text: &[u8]) -> Vec<(Form, Zeroizing<Vec<u8>>)> {
    let mut forms = vec![(Form::Plain, Zeroizing::new(text.to_vec()))];
    for skipped in 0..3 {
        for engine in [
            general_purpose::STANDARD_NO_PAD,
            general_purpose::URL_SAFE_NO_PAD,
        ] {
            let core = base64_core(text, skipped, &engine);
            if !forms.iter().any(|(_, known)| *known == core) {
                forms.push((Form::Base64, core));
            }
        }
    }
    let hex = text.iter().flat_map(|octet| {
        [octet >> 4, octet & 0xf].map(|digit| HEX.get(usize::from(digit)).copied().unwrap_or(b'0'))
    });
    forms.push((Form::Hex, Zeroizing::new(hex.collect())));
    let reversed: Vec<u8> = text.iter().rev().copied().collect();
    let reversed = Zeroizing::new(reversed);
    if *reversed != text {
        forms.push((Form::Reversed, reversed));
    }
    forms.extend(wide(text).map(|wide| (Form::Wide, wide.octets)));
    // What keys of a kind begin with is the same of all of them, and more in their armour (RFC 7468).
    let unit = match text.starts_with(b"-----BEGIN ") {
        true => 2 * END,
        false => END,
    };
    let of = |(form, octets)| {
        let end = match form {
            Form::Hex => 2 * unit,
            Form::Wide => (2 * unit).min(WHOLE),
            _ => unit,
        };
        ends(octets, (WHOLE, end))
            .into_iter()
            .map(move |end| (form, end))
    };
    forms.into_iter().flat_map(of).collect()
}

/// What a name of a host holds of a text, in Base32 (RFC 4648 §6, §7), letter case aside. A name has room for some
/// 150 octets: of more both ends are given.
pub(super) fn in_names(text: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let mut forms: Vec<Zeroizing<Vec<u8>>> = Vec::new();
    for skipped in 0..5 {
        for alphabet in [BASE32, BASE32_HEX] {
            let core = base32_core(text, skipped, alphabet);
            if core.len() >= SHORTEST && !forms.contains(&core) {
                forms.push(core);
            }
        }
    }
    let of = |octets| ends(octets, (LONGEST_IN_NAME, END));
    forms.into_iter().flat_map(of).collect()
}

/// The digits that stand for `text` alone, when `skipped` octets of something else come before it in its group of
/// five.
fn base32_core(text: &[u8], skipped: usize, alphabet: &[u8; 32]) -> Zeroizing<Vec<u8>> {
    let (from, to) = ((skipped * 8).div_ceil(5), (skipped + text.len()) * 8 / 5);
    // Room for all of it: what grows would leave copies that are not wiped.
    let mut digits = Zeroizing::new(Vec::with_capacity(to));
    let (mut held, mut bits, mut digit) = (0_u32, 0, 0);
    for octet in std::iter::repeat_n(&0, skipped).chain(text) {
        (held, bits) = (held << 8 | u32::from(*octet), bits + 8);
        while bits >= 5 {
            bits -= 5;
            let value = usize::try_from(held >> bits & 31).unwrap_or_default();
            digits.extend(alphabet.get(value).filter(|_| digit >= from));
            digit += 1;
        }
        held &= (1 << bits) - 1;
    }
    digits
}

/// It, or both ends of that length where it is longer than `whole`.
fn ends(octets: Zeroizing<Vec<u8>>, (whole, end): (usize, usize)) -> Vec<Zeroizing<Vec<u8>>> {
    if octets.len() <= whole {
        return vec![octets];
    }
    let (head, _) = octets.split_at(end);
    let (_, tail) = octets.split_at(octets.len() - end);
    [head, tail].map(|end| Zeroizing::new(end.to_vec())).into()
}

/// The characters that stand for `text` alone, when `skipped` octets of something else come before it
/// in its group of three (RFC 4648 §4).
fn base64_core(
    text: &[u8],
    skipped: usize,
    engine: &general_purpose::GeneralPurpose,
) -> Zeroizing<Vec<u8>> {
    let mut padded = Zeroizing::new(vec![0; skipped]);
    padded.extend_from_slice(text);
    let encoded = Zeroizing::new(engine.encode(&*padded).into_bytes());
    // Characters that hold bits of what stands before or after.
    let before = (skipped * 8).div_ceil(6);
    let whole = padded.len() * 8 / 6;
    Zeroizing::new(encoded.get(before..whole).unwrap_or_default().to_vec())
}

const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE32_HEX: &[u8; 32] = b"0123456789ABCDEFGHIJKLMNOPQRSTUV";
/// RFC 1035 §2.3.4: a name has 255 octets, and each 63 of them a length.
const LONGEST_IN_NAME: usize = 240;
/// Longer than any sentinel in any form.
const WHOLE: usize = 512;
/// A piece of a key that is in nothing else.
const END: usize = 96;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn base64_of_anything_around_a_text_holds_a_form_of_it(
            before in prop::collection::vec(any::<u8>(), 0..20),
            text in prop::collection::vec(any::<u8>(), 8..60),
            after in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let whole = [before, text.clone(), after].concat();
            for engine in [general_purpose::STANDARD, general_purpose::URL_SAFE_NO_PAD] {
                let encoded = engine.encode(&whole);
                let found = forms(&text).into_iter().any(|(form, octets)| {
                    form == Form::Base64
                        && encoded.as_bytes().windows(octets.len()).any(|w| w == *octets)
                });
                prop_assert!(found, "{}", encoded);
            }
        }
    }

    /// RFC 4648 §6, without padding.
    fn base32(octets: &[u8], alphabet: &[u8; 32]) -> String {
        let bits: Vec<u8> = octets
            .iter()
            .flat_map(|octet| (0..8).rev().map(move |place| octet >> place & 1))
            .collect();
        let digit = |bits: &[u8]| {
            let mut five = [0; 5];
            five[..bits.len()].copy_from_slice(bits);
            let value = five.iter().fold(0, |value, bit| value << 1 | bit);
            char::from(alphabet[usize::from(value)])
        };
        bits.chunks(5).map(digit).collect()
    }

    proptest! {
        #[test]
        fn base32_of_anything_around_a_text_holds_a_form_of_it(
            before in prop::collection::vec(any::<u8>(), 0..20),
            text in prop::collection::vec(any::<u8>(), 8..60),
            after in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let whole = [before, text.clone(), after].concat();
            for alphabet in [BASE32, BASE32_HEX] {
                let encoded = base32(&whole, alphabet);
                let found = in_names(&text).into_iter().any(|octets| {
                    encoded.as_bytes().windows(octets.len()).any(|w| w == *octets)
                });
                prop_assert!(found, "{}", encoded);
            }
        }
    }

    #[test]
    fn base32_is_that_of_others() {
        // RFC 4648 §10.
        let of = |alphabet| base32_core(b"foobar", 0, alphabet);
        assert_eq!(of(BASE32).as_slice(), &b"MZXW6YTBOI"[..9]);
        assert_eq!(of(BASE32_HEX).as_slice(), &b"CPNMUOJ1E8"[..9]);
        assert_eq!(base32(b"foobar", BASE32), "MZXW6YTBOI");
    }

    #[test]
    fn hexadecimal_and_backwards() {
        let forms = forms(b"gigph-0a");
        let holds = |form, text: &[u8]| forms.contains(&(form, Zeroizing::new(text.to_vec())));
        assert!(holds(Form::Hex, b"67696770682d3061"));
        assert!(holds(Form::Reversed, b"a0-hpgig"));
    }

    #[test]
    fn of_a_long_text_both_ends_are_given() {
        let text: Vec<u8> = (0..2000_u32)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let forms = forms(&text);
        assert!(forms.iter().all(|(_, octets)| octets.len() <= WHOLE));
        assert_eq!(
            forms
                .iter()
                .filter(|(form, _)| *form == Form::Plain)
                .count(),
            2
        );
    }
}
