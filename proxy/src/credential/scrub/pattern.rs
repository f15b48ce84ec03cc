//! The real values in every form that they are looked for, compiled once for all sandboxes.
//!
//! As it is, in Base64 of either alphabet at each of the three alignments, in hexadecimal digits. All of
//! them are looked for in a [`super::view`], so that escapes and line breaks make no further forms.

use std::{collections::HashMap, fmt, sync::Arc};

use base64::{Engine, engine::general_purpose};
use gig_vault::Guarded;
use zeroize::Zeroizing;

use super::view::canonical;
use crate::credential::needles::{Needles, SHORTEST};

/// What is looked for.
pub(in crate::credential) struct Patterns {
    needles: Needles,
    patterns: Vec<Pattern>,
    /// By their first two octets, the patterns that begin so.
    begins: HashMap<[u8; 2], Vec<usize>>,
    pairs: Pairs,
    firsts: [bool; 256],
    longest: usize,
    /// Of which values they are.
    guarded: Arc<Guarded>,
}

/// One form of one value.
pub(super) struct Pattern {
    /// As it stands in a view, without the character before.
    text: Zeroizing<Vec<u8>>,
    /// Which value, in the order of the guarded.
    pub(super) value: usize,
    pub(super) form: Form,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Hex,
    Base64 {
        /// Octets of something else that share its first group of three.
        skipped: usize,
        url_safe: bool,
        /// The low bits of the character before, which are the value's; `0` when there are none.
        lead_bits: u8,
        lead_mask: u8,
    },
}

/// An occurrence in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) pattern: usize,
}

impl Patterns {
    /// Compiles what is guarded. Values that are too short to be told from chance are left out.
    pub(in crate::credential) fn new(guarded: Arc<Guarded>) -> Self {
        let mut patterns = Vec::new();
        for (value, guarded) in guarded.values.iter().enumerate() {
            let text = canonical(guarded.value.expose());
            if text.len() >= SHORTEST {
                forms(guarded.value.expose(), &text, value, &mut patterns);
            }
        }
        let mut begins: HashMap<[u8; 2], Vec<usize>> = HashMap::new();
        let (mut pairs, mut firsts) = (Pairs::default(), [false; 256]);
        for (number, pattern) in patterns.iter().enumerate() {
            for [first, second] in pattern.beginnings() {
                if let Some(slot) = firsts.get_mut(usize::from(first)) {
                    *slot = true;
                }
                pairs.insert([first, second]);
                begins.entry([first, second]).or_default().push(number);
            }
        }
        let longest = patterns.iter().map(|p| p.text.len() + p.form.lead());
        Self {
            needles: Needles::new(patterns.iter().map(|p| p.text.as_slice())),
            longest: longest.max().unwrap_or(0),
            patterns,
            begins,
            pairs,
            firsts,
            guarded,
        }
    }

    /// The values that the patterns are of.
    pub(in crate::credential) const fn guarded(&self) -> &Arc<Guarded> {
        &self.guarded
    }

    /// Whether there is nothing to look for.
    pub(in crate::credential) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Octets of the longest form.
    pub(super) const fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn pattern(&self, number: usize) -> Option<&Pattern> {
        self.patterns.get(number)
    }

    /// What stands in a view: leftmost first, of those that begin alike the longest, none over another.
    pub(super) fn find(&self, view: &[u8], hits: &mut Vec<Hit>) {
        hits.clear();
        self.needles.find_each(view, |at| {
            if let Some(pattern) = self.patterns.get(at.needle)
                && let Some(start) = at.start.checked_sub(pattern.form.lead())
                && let Some(here) = view.get(start..at.end)
                && pattern.is(here)
            {
                hits.push(Hit {
                    start,
                    end: at.end,
                    pattern: at.needle,
                });
            }
        });
        if hits.len() > 1 {
            hits.sort_unstable_by_key(|hit| (hit.start, usize::MAX - hit.end, hit.pattern));
            let mut free = 0;
            hits.retain(|hit| {
                let stays = hit.start >= free;
                free = if stays { hit.end } else { free };
                stays
            });
        }
    }

    /// Where the longest end of a view begins that a pattern may begin with; its length if none does.
    pub(super) fn begun(&self, view: &[u8]) -> usize {
        let from = (view.len() + 1).saturating_sub(self.longest);
        let tail = view.get(from..).unwrap_or_default();
        for (at, pair) in tail.windows(2).enumerate() {
            let &[first, second] = pair else { continue };
            if !self.pairs.contains([first, second]) {
                continue;
            }
            let end = tail.get(at..).unwrap_or_default();
            let known = self.begins.get(&[first, second]);
            let begun = |number: &usize| self.pattern(*number).is_some_and(|p| p.begins_with(end));
            if known.into_iter().flatten().any(begun) {
                return from + at;
            }
        }
        let last = view.last().copied().map(usize::from);
        if last.and_then(|last| self.firsts.get(last)) == Some(&true) {
            return view.len() - 1;
        }
        view.len()
    }
}

impl Pattern {
    /// Whether `here`, with the character before, is this.
    fn is(&self, here: &[u8]) -> bool {
        here.len() == self.text.len() + self.form.lead() && self.agrees(here)
    }

    /// Whether this is longer than `end` and begins so.
    fn begins_with(&self, end: &[u8]) -> bool {
        end.len() < self.text.len() + self.form.lead() && self.agrees(end)
    }

    fn agrees(&self, octets: &[u8]) -> bool {
        let (lead, rest) = octets
            .split_at_checked(self.form.lead())
            .unwrap_or((octets, &[]));
        let Some(text) = self.text.get(..rest.len()) else {
            return false;
        };
        let led = lead.iter().all(|octet| self.form.led_by(*octet));
        led && match self.form {
            Form::Hex => rest.eq_ignore_ascii_case(text),
            Form::Plain | Form::Base64 { .. } => rest == text,
        }
    }

    /// Every pair of octets that it may begin with.
    fn beginnings(&self) -> Vec<[u8; 2]> {
        let (Some(&first), Some(&second)) = (self.text.first(), self.text.get(1)) else {
            return Vec::new();
        };
        match self.form {
            Form::Plain => vec![[first, second]],
            Form::Hex => {
                let both = |octet: u8| [octet, octet.to_ascii_uppercase()];
                let pairs = both(first).map(|one| both(second).map(|two| [one, two]));
                pairs.concat()
            }
            Form::Base64 { lead_mask: 0, .. } => vec![[first, second]],
            Form::Base64 { .. } => {
                let leads = (0..=u8::MAX).filter(|octet| self.form.led_by(*octet));
                leads.map(|lead| [lead, first]).collect()
            }
        }
    }
}

impl Form {
    /// How many characters before the pattern belong to it.
    pub(super) const fn lead(self) -> usize {
        match self {
            Self::Base64 { lead_mask, .. } => (lead_mask != 0) as usize,
            Self::Plain | Self::Hex => 0,
        }
    }

    fn led_by(self, octet: u8) -> bool {
        match self {
            Self::Base64 {
                lead_bits,
                lead_mask,
                ..
            } => sextet(octet).is_some_and(|bits| bits & lead_mask == lead_bits),
            Self::Plain | Self::Hex => false,
        }
    }
}

/// The six bits of a Base64 character of either alphabet (RFC 4648 §4, §5).
pub(super) const fn sextet(octet: u8) -> Option<u8> {
    match octet {
        b'A'..=b'Z' => Some(octet - b'A'),
        b'a'..=b'z' => Some(octet - b'a' + 26),
        b'0'..=b'9' => Some(octet - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

fn forms(value: &[u8], text: &[u8], number: usize, patterns: &mut Vec<Pattern>) {
    let mut add = |text: Vec<u8>, form| {
        // In a form that shrank below it, chance finds it everywhere.
        if text.len() >= SHORTEST && !patterns.iter().any(|p| *p.text == text && p.form == form) {
            patterns.push(Pattern {
                text: Zeroizing::new(text),
                value: number,
                form,
            });
        }
    };
    add(text.to_vec(), Form::Plain);
    for skipped in 0..3 {
        let standard = core(value, skipped, &general_purpose::STANDARD_NO_PAD);
        let url_safe = core(value, skipped, &general_purpose::URL_SAFE_NO_PAD);
        let (lead_bits, lead_mask) = match (skipped, value.first()) {
            (1, Some(first)) => (first >> 4, 0x0f),
            (2, Some(first)) => (first >> 6, 0x03),
            _ => (0, 0),
        };
        let form = |url_safe| Form::Base64 {
            skipped,
            url_safe,
            lead_bits,
            lead_mask,
        };
        if url_safe != standard {
            add(url_safe, form(true));
        }
        add(standard, form(false));
    }
    let digits = value.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    let hex = digits.filter_map(|digit| HEX.get(usize::from(digit)).copied());
    add(hex.collect(), Form::Hex);
}

/// The characters that are the value's alone.
fn core(value: &[u8], skipped: usize, engine: &general_purpose::GeneralPurpose) -> Vec<u8> {
    let mut octets = Zeroizing::new(vec![0; skipped]);
    octets.extend_from_slice(value);
    let encoded = Zeroizing::new(engine.encode(&*octets).into_bytes());
    let before = (skipped * 8).div_ceil(6);
    let whole = octets.len() * 8 / 6;
    encoded.get(before..whole).unwrap_or_default().to_vec()
}

/// A set of pairs of octets.
struct Pairs(Vec<u64>);

impl Default for Pairs {
    fn default() -> Self {
        Self(vec![0; 1024])
    }
}

impl Pairs {
    fn insert(&mut self, pair: [u8; 2]) {
        let number = usize::from(u16::from_be_bytes(pair));
        if let Some(word) = self.0.get_mut(number / 64) {
            *word |= 1 << (number % 64);
        }
    }

    fn contains(&self, pair: [u8; 2]) -> bool {
        let number = usize::from(u16::from_be_bytes(pair));
        self.0
            .get(number / 64)
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

impl fmt::Debug for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Patterns({})", self.patterns.len())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern(value {}, {:?})", self.value, self.form)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
