//! The real values in every form that they are looked for, compiled once for each sandbox.
//!
//! As it is, in Base64 of either alphabet at each of the three alignments, in hexadecimal digits, in UTF-16
//! and UTF-32. All of them are looked for in every spelling, so that escapes and line breaks make no further
//! forms. Of a private key in PEM so are the octets within, and of any value its other writings.

use std::fmt;

use base64::{Engine, engine::general_purpose};
use gig_vault::Guarded;
use zeroize::Zeroizing;

use crate::credential::{
    needles::SHORTEST,
    spelling::{Finds, Lead, Spellings, Text, Waiting, unit::canonical},
    wide::{Wide, WideText, wide},
    writings::{in_json, other_texts},
};

/// What is looked for.
pub(in crate::credential) struct Patterns {
    spellings: Spellings,
    patterns: Vec<Pattern>,
    /// Of which values they are.
    guarded: Guarded,
}

/// One form of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Which value, in the order of the guarded.
    pub(super) value: usize,
    pub(super) form: Form,
    /// Octets of it, without the character before.
    pub(super) length: usize,
    /// Octets of what is written so: the value, another writing of it, or the key within it.
    pub(super) octets: usize,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Hex,
    Wide(Wide),
    Base64 {
        /// Octets of something else that share its first group of three.
        skipped: usize,
        url_safe: bool,
    },
}

/// Forms as they are gathered.
#[derive(Default)]
struct Forms {
    texts: Vec<Text>,
    patterns: Vec<Pattern>,
}

impl Patterns {
    /// Compiles what is guarded. Values that are too short to be told from chance are left out.
    pub(in crate::credential) fn new(guarded: Guarded) -> Self {
        let mut forms = Forms::default();
        for (number, guarded) in guarded.values.iter().enumerate() {
            let value = guarded.value.expose();
            if Text::new(value, false, None).octets().len() >= SHORTEST {
                forms.add_all(value, number);
                for other in other_texts(value) {
                    forms.add_all(&other, number);
                }
                for json in in_json(value) {
                    forms.add_coded(&json, number);
                }
            }
        }
        Self {
            spellings: Spellings::new(forms.texts),
            patterns: forms.patterns,
            guarded,
        }
    }

    /// The values that the patterns are of.
    pub(in crate::credential) const fn guarded(&self) -> &Guarded {
        &self.guarded
    }

    /// Whether there is nothing to look for.
    pub(in crate::credential) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    pub(super) fn pattern(&self, number: usize) -> Option<Pattern> {
        self.patterns.get(number).copied()
    }

    /// Makes those values worth a wait that `of` names, by their place among the guarded.
    pub(super) fn waiting(&self, of: impl Fn(usize) -> bool) -> Waiting {
        let value = |text: usize| self.patterns.get(text).map(|pattern| pattern.value);
        self.spellings.waiting(|text| value(text).is_some_and(&of))
    }

    /// Finds what stands in `raw`; nothing comes after it where it is the `last`.
    pub(super) fn look(&self, raw: &[u8], last: bool, finds: &mut Finds) {
        self.spellings.look(raw, last, finds);
    }
}

impl Forms {
    fn add(&mut self, text: Text, (value, octets): (usize, usize), form: Form) {
        let length = text.octets().len();
        // In a form that shrank below it, chance finds it everywhere.
        if length >= SHORTEST {
            self.texts.push(text);
            self.patterns.push(Pattern {
                value,
                form,
                length,
                octets,
            });
        }
    }

    fn add_all(&mut self, value: &[u8], number: usize) {
        let number = (number, value.len());
        // Whoever writes a host or a field's name may change its letter case, or somebody on the way.
        self.add(Text::new(value, true, None), number, Form::Plain);
        let undone = Zeroizing::new(canonical(value));
        if *undone != value {
            // What looks escaped itself may come back without its escapes.
            self.add(Text::new(&undone, true, None), number, Form::Plain);
        }
        self.add_coded(value, number.0);
        for WideText { octets, wide } in wide(value) {
            self.add(Text::new(&octets, true, None), number, Form::Wide(wide));
        }
    }

    /// In the encodings that leave no octet as it is.
    fn add_coded(&mut self, value: &[u8], number: usize) {
        let number = (number, value.len());
        for skipped in 0..3 {
            let standard = core(value, skipped, &general_purpose::STANDARD_NO_PAD);
            let url_safe = core(value, skipped, &general_purpose::URL_SAFE_NO_PAD);
            let lead = value.first().zip(
                [None, Some((4, 0x0f)), Some((6, 0x03))]
                    .get(skipped)
                    .copied()
                    .flatten(),
            );
            let lead = lead.map(|(first, (shift, mask))| Lead {
                bits: first >> shift,
                mask,
            });
            let form = |url_safe| Form::Base64 { skipped, url_safe };
            if url_safe != standard {
                self.add(Text::new(&url_safe, false, lead), number, form(true));
            }
            self.add(Text::new(&standard, false, lead), number, form(false));
        }
        let digits = value.iter().flat_map(|octet| [octet >> 4, octet & 15]);
        // Room for all of it: what grows would leave copies that are not wiped.
        let mut hex = Zeroizing::new(Vec::with_capacity(2 * value.len()));
        hex.extend(digits.filter_map(|digit| HEX.get(usize::from(digit)).copied()));
        self.add(Text::new(&hex, true, None), number, Form::Hex);
    }
}

/// The characters that are the value's alone.
fn core(
    value: &[u8],
    skipped: usize,
    engine: &general_purpose::GeneralPurpose,
) -> Zeroizing<Vec<u8>> {
    let mut octets = Zeroizing::new(vec![0; skipped]);
    octets.extend_from_slice(value);
    let encoded = Zeroizing::new(engine.encode(&*octets).into_bytes());
    let before = (skipped * 8).div_ceil(6);
    let whole = octets.len() * 8 / 6;
    Zeroizing::new(encoded.get(before..whole).unwrap_or_default().to_vec())
}

impl fmt::Debug for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Patterns({})", self.patterns.len())
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
