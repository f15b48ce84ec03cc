//! References by name (`&lt;`, `&gt;`, `&quot;`, `&amp;`) of sixty-four octets at once: HTML is full of them.
//!
//! One is told where it has one reading: no text goes on as it is written, among its first octets, and nothing
//! behind an `&amp;` makes another reference of it. All others are left to those who look at each by itself.

use fearless_simd::{mask8x64, prelude::*, u8x64};

use super::{Text, marks::NEAR, special::is_special, unit::NAMES};
use crate::credential::lanes::{BLOCK, Set};

/// For one set of texts.
pub(super) struct References {
    /// What the name of a reference may begin with, or what is written otherwise.
    names: Set,
    /// Of each of [`TOLD`], whether it is: all bits or none.
    told: [u64; TOLD.len()],
    /// The same of whether some text has what it stands for among its first.
    known: [u64; TOLD.len()],
}

/// What is told of a block, a bit for each place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    /// Where they begin.
    pub(super) all: u64,
    /// Those of what some text has among its first.
    pub(super) known: u64,
    /// By what they stand for: `<`, `>` and quotation marks.
    each: [u64; 3],
}

impl References {
    /// For these texts, of which so many octets are the first, and `known` knows them.
    pub(super) fn new(known: impl Fn(u8) -> bool, (texts, head): (&[Text], usize)) -> Self {
        let named = |next: u8| NAMES.iter().any(|(name, _)| name.first() == Some(&next));
        let told = TOLD.map(|(written, _)| {
            let is_one = |text: &Text| has(text.octets(), head, written);
            if texts.iter().any(is_one) {
                0
            } else {
                u64::MAX
            }
        });
        Self {
            names: Set::of(|next| next == b'#' || is_special(next) || named(next)),
            told,
            known: TOLD.map(|(_, octet)| if known(octet) { u64::MAX } else { 0 }),
        }
    }

    /// Whether an ampersand with this behind it may be a reference.
    #[inline(always)]
    pub(super) fn may_be<S: Simd>(&self, next: u8x64<S>) -> u64 {
        self.names.has(next).to_bitmask()
    }

    /// What is told of the ampersands of a block, which is in `near` behind one octet.
    #[inline(always)]
    pub(super) fn of<S: Simd>(&self, simd: S, near: &[u8; NEAR], ampersand: u64) -> Told {
        let load = |on: usize| {
            let octets = near.get(1 + on..).and_then(<[u8]>::first_chunk::<BLOCK>);
            u8x64::simd_from(simd, octets.copied().unwrap_or([0; BLOCK]))
        };
        let (next, third, fourth) = (load(1), load(2), load(3));
        let (fifth, sixth) = (load(4), load(5));
        let short = fourth_ends(third, fourth);
        let long = fifth.simd_eq(b';') | sixth.simd_eq(b';');
        if ampersand & (short | long).to_bitmask() == 0 {
            return Told::default();
        }
        let amp = next.simd_eq(b'a') & third.simd_eq(b'm') & fourth.simd_eq(b'p');
        let quot = next.simd_eq(b'q') & third.simd_eq(b'u') & fourth.simd_eq(b'o');
        let [of_lt, of_gt, of_quot, of_amp] = self.told;
        let lt = ampersand & of_lt & (short & next.simd_eq(b'l')).to_bitmask();
        let gt = ampersand & of_gt & (short & next.simd_eq(b'g')).to_bitmask();
        let quot = quot & fifth.simd_eq(b't') & sixth.simd_eq(b';');
        let quot = ampersand & of_quot & quot.to_bitmask();
        let amp = (amp & fifth.simd_eq(b';')).to_bitmask() & !self.may_be(sixth);
        let amp = ampersand & of_amp & amp;
        let all = lt | gt | quot | amp;
        let [known_lt, known_gt, known_quot, known_amp] = self.known;
        let known = lt & known_lt | gt & known_gt | quot & known_quot | amp & known_amp;
        Told {
            all,
            known,
            each: [lt, gt, quot],
        }
    }

    /// What `octets` begin with that is told, and how long it is.
    #[inline]
    pub(super) fn first(&self, octets: &[u8]) -> Option<(u8, usize)> {
        let mut known = TOLD.iter().zip(self.told);
        let ((written, octet), _) =
            known.find(|((written, _), told)| *told != 0 && octets.starts_with(written))?;
        let length = written.len();
        let over = *octet != b'&' || !self.names.has_one(*octets.get(length)?);
        over.then_some((*octet, length))
    }
}

impl Told {
    /// `octets` with what they stand for in their places.
    #[inline(always)]
    pub(super) fn in_place<S: Simd>(&self, octets: u8x64<S>) -> u8x64<S> {
        let simd = octets.simd;
        let in_place = |of: u64, octet: u8, octets: u8x64<S>| {
            mask8x64::from_bitmask(simd, of).select(u8x64::splat(simd, octet), octets)
        };
        let [lt, gt, quot] = self.each;
        in_place(lt, b'<', in_place(gt, b'>', in_place(quot, b'"', octets)))
    }

    /// What belongs to them but what they begin with.
    #[inline(always)]
    pub(super) const fn within(&self) -> u64 {
        let [lt, gt, quot] = self.each;
        let all = self.all;
        all << 1 | all << 2 | all << 3 | (all & !(lt | gt)) << 4 | quot << 5
    }
}

/// Where a reference of two letters ends in `t;`.
#[inline(always)]
fn fourth_ends<S: Simd>(third: u8x64<S>, fourth: u8x64<S>) -> mask8x64<S> {
    third.simd_eq(b't') & fourth.simd_eq(b';')
}

/// Whether a text goes on so from one of its first octets on, as far as it goes.
fn has(octets: &[u8], head: usize, written: &[u8]) -> bool {
    let begins = |at: usize| {
        let rest = octets.get(at..).unwrap_or_default();
        let mut both = rest.iter().zip(written);
        both.all(|(one, other)| one.eq_ignore_ascii_case(other))
    };
    (0..head.min(octets.len())).any(begins)
}

/// How they are written, and what they stand for.
const TOLD: [(&[u8], u8); 4] = [
    (b"&lt;", b'<'),
    (b"&gt;", b'>'),
    (b"&quot;", b'"'),
    (b"&amp;", b'&'),
];
