//! The shapes in which a text travels without being itself: Base64, hexadecimal, backwards, in UTF-16 and
//! UTF-32.
//!
//! Escapes (percent, `\u`, entities) are undone by [`super::unescape`] before anything is looked for,
//! and letter case does not count where it is looked for; so that these few are all there are.

use base64::{Engine, engine::general_purpose};
use zeroize::Zeroizing;

use super::wide::wide;

/// How a text was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// As it is, or with escapes.
    Plain,
    /// Within Base64 of either alphabet, at any of the three alignments.
    Base64,
    /// Each octet as two digits.
    Hex,
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
    let ends = |(form, octets): (Form, Zeroizing<Vec<u8>>)| {
        if octets.len() <= WHOLE {
            return vec![(form, octets)];
        }
        let (head, _) = octets.split_at(END);
        let (_, tail) = octets.split_at(octets.len() - END);
        [head, tail]
            .map(|end| (form, Zeroizing::new(end.to_vec())))
            .into()
    };
    forms.into_iter().flat_map(ends).collect()
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
