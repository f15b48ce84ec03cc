//! Special octets behind which something may come, told of sixty-four octets at once.
//!
//! The same as [`super::special`] and [`super::idle`] have it, on processors that compare as many octets with as
//! many others in a few instructions, and find what an octet is in a table of sixteen. What an escape stands for is
//! known here without a look at it alone, so that text full of them is looked through as fast as any other.

use fearless_simd::{mask8x64, prelude::*, u8x64};

use super::{Text, references::References, rows::Units, special::is_special};
use crate::credential::{
    heads::Heads,
    lanes::{BLOCK, Set, digits},
    unescape::hex,
};

/// For one set of texts.
pub(super) struct Marker {
    /// What some text has among its first.
    known: Set,
    /// That and all special octets.
    busy: Set,
    /// Octets behind which a backslash is one and nothing comes of it.
    plain: Set,
    /// Of ampersands.
    pub(super) references: References,
    /// No text has a backslash among its first.
    lone: bool,
    /// What stands for an octet behind a percent sign among a text's first octets; nothing where no text has one.
    signs: Option<Set>,
}

/// Special octets of a block, a bit for each place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Something may come of these.
    pub(super) busy: u64,
    /// Of these it has to be asked.
    pub(super) ask: u64,
}

/// The processor can.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wide<S>(pub(super) S);

/// The octets of a block, and those one and two places on, and one before.
struct Around<S: Simd> {
    before: u8x64<S>,
    here: u8x64<S>,
    next: u8x64<S>,
    third: u8x64<S>,
}

/// What escapes in a block stand for, a bit for the place of each.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Escapes {
    /// All of them.
    pub(super) all: u64,
    /// What some text has among its first, and what does not begin an escape itself.
    known: u64,
    /// None of these.
    nothing: u64,
    /// Line breaks.
    pub(super) breaks: u64,
    /// What may begin an escape.
    introducers: u64,
    /// The sign may stand for itself, since some text has one with what follows it.
    pub(super) signs: u64,
}

impl Marker {
    /// For these texts, of which so many octets are the first, and `known` knows them.
    pub(super) fn new(known: impl Fn(u8) -> bool, (texts, head): (&[Text], usize)) -> Self {
        let unknown = |octet: u8| !is_special(octet) && !known(octet);
        let plain = |next: u8| match next {
            b'n' | b'r' | b'u' | b'x' => false,
            b't' => unknown(b'\t'),
            _ => !is_special(next) && (unknown(next) || next.is_ascii_alphanumeric()),
        };
        Self {
            known: Set::of(&known),
            busy: Set::of(|octet| !unknown(octet)),
            plain: Set::of(plain),
            references: References::new(&known, (texts, head)),
            lone: !known(b'\\'),
            signs: known(b'%').then(|| behind_signs(texts, head)),
        }
    }

    /// Looks at the block that begins at `from`; `None` where that is too near to an end.
    #[inline(always)]
    pub(super) fn marks<S: Simd>(
        &self,
        Wide(simd): Wide<S>,
        heads: &Heads,
        (raw, from): (&[u8], usize),
    ) -> Option<Marks> {
        let near = raw.get(from.checked_sub(1)?..)?.first_chunk::<NEAR>()?;
        let load = |at: usize| {
            let octets = near.get(at..)?.first_chunk::<BLOCK>()?;
            Some(u8x64::simd_from(simd, *octets))
        };
        let around = Around {
            before: load(0)?,
            here: load(1)?,
            next: load(2)?,
            third: load(3)?,
        };
        let is = |octet: u8| around.here.simd_eq(octet);
        let percent = is(b'%').to_bitmask();
        let backslash = is(b'\\').to_bitmask();
        let ampersand = is(b'&').to_bitmask();
        let line_break = (is(b'\r') | is(b'\n')).to_bitmask();
        let mut marks = Marks::default();
        if percent | line_break != 0 {
            let (octets, escapes) = if percent == 0 {
                (around.here, Escapes::default())
            } else {
                self.escapes(&around, percent)
            };
            let here = self.known.has(around.here).to_bitmask();
            // What is before the block may be.
            let known = here << 1 | 1;
            // That and all special octets.
            let busy = here | percent | backslash | ampersand | line_break;
            let goes_on = goes_on(busy & !escapes.nothing, line_break, &escapes);
            let mut busy = line_break & known & then(goes_on, 1);
            busy |= escapes.breaks & known & then(goes_on, 3);
            busy |= escapes.known & (known | then(goes_on, 3));
            if busy != 0 {
                let clear = escapes.all & !(escapes.introducers | escapes.signs);
                let unclear = backslash | ampersand | percent & !clear;
                let units = Units::of(octets, &escapes, (line_break, unclear));
                busy = units.likely(busy, near, heads);
            }
            // One that begins within another is read with it.
            let introducers = percent | backslash | ampersand;
            busy |= escapes.introducers | percent & (introducers >> 1 | introducers >> 2);
            marks.ask |= percent & LAST & !busy;
            marks.busy |= busy;
        }
        if backslash != 0 {
            let idle = self.backslash(&around, backslash);
            marks.busy |= backslash & !idle & !LAST;
            marks.ask |= backslash & !idle & LAST;
        }
        if ampersand != 0 {
            // Most begin nothing, and that is told first.
            let named = ampersand & self.references.may_be(around.next);
            if named != 0 {
                let others = percent | backslash | ampersand & !named;
                let these = self.ampersands(&around, (named, line_break, others), near, heads);
                marks.busy |= these.busy;
                marks.ask |= these.ask;
            }
        }
        Some(marks)
    }

    /// The same of ampersands that may begin references, among line breaks and what is not told here.
    #[inline(always)]
    fn ampersands<S: Simd>(
        &self,
        around: &Around<S>,
        (all, line_break, unclear): (u64, u64, u64),
        near: &[u8; NEAR],
        heads: &Heads,
    ) -> Marks {
        let told = self.references.of(around.here.simd, near, all);
        let left = all & !told.all;
        let mut busy = told.known;
        if busy != 0 {
            let left_out = line_break | told.within();
            let octets = told.in_place(around.here);
            let units = Units::of(octets, &Escapes::default(), (left_out, unclear | left));
            busy = units.likely(busy, near, heads);
        }
        Marks { busy, ask: left }
    }

    /// The block with what percent signs with two digits stand for in their places.
    #[inline(always)]
    fn escapes<S: Simd>(&self, around: &Around<S>, percent: u64) -> (u8x64<S>, Escapes) {
        let (high, is_high) = digits(around.next);
        let (low, is_low) = digits(around.third);
        let octet = high << 4 | low;
        let all = percent & (is_high & is_low).to_bitmask();
        let is = |octets: mask8x64<S>| all & octets.to_bitmask();
        let introducers = octet.simd_eq(b'%') | octet.simd_eq(b'\\') | octet.simd_eq(b'&');
        let (known, breaks) = (is(self.known.has(octet)), is(is_break(octet)));
        let introducers = is(introducers);
        let signs = self.signs.as_ref();
        let signs = signs.map_or(0, |signs| is(signs.has(octet)));
        let escapes = Escapes {
            all,
            known: known & !introducers,
            nothing: all & !(known | breaks | introducers | signs),
            breaks,
            introducers,
            signs,
        };
        let escaped = mask8x64::from_bitmask(octet.simd, all);
        (escaped.select(octet, around.here), escapes)
    }

    /// Where nothing comes of a backslash.
    #[inline(always)]
    fn backslash<S: Simd>(&self, around: &Around<S>, all: u64) -> u64 {
        let breaks = around.next.simd_eq(b'n') | around.next.simd_eq(b'r');
        let idle = self.plain.has(around.next) | breaks & !self.busy.has(around.third);
        let apart = !self.known.has(around.before).to_bitmask();
        let (breaks, idle) = (breaks.to_bitmask(), idle.to_bitmask());
        if !self.lone {
            return idle | breaks & apart;
        }
        // Whichever of several it is read as, nothing comes of that.
        let (second, third) = (all & all >> 1, all & all >> 1 & all >> 2);
        let first = !second & (idle | breaks & apart);
        let second = second & !third & (idle >> 1 | breaks >> 1 & apart);
        first | second | third & (idle >> 2 | breaks >> 2 & apart)
    }
}

/// Where a text may go on: with one of `all`, which are what it has among its first and what is not told here, if
/// need be behind line breaks.
#[inline(always)]
const fn goes_on(all: u64, line_breaks: u64, escapes: &Escapes) -> u64 {
    let escaped = escapes.breaks & !escapes.signs;
    let ends = line_breaks & !then(all, 1) | escaped & !then(all, 3);
    let once = all & !ends;
    let ends = line_breaks & !then(once, 1) | escaped & !then(once, 3);
    all & !ends
}

/// What is so many places on; what is not known there may be.
#[inline(always)]
const fn then(marks: u64, places: u32) -> u64 {
    marks >> places | !(u64::MAX >> places)
}

/// The octets that escapes stand for which begin as texts do behind a percent sign among their first octets; where a
/// text ends before, whatever it may go on with.
fn behind_signs(texts: &[Text], head: usize) -> Set {
    let mut behind = [false; 256];
    for text in texts {
        let octets = text.octets();
        let signs = text.first_octets(head).enumerate();
        for (at, _) in signs.filter(|(_, octet)| *octet == b'%') {
            let may_be = |on: usize, half: u8| {
                let digit = octets.get(at + on);
                digit.is_none_or(|digit| hex(*digit) == Some(half))
            };
            for (octet, known) in (0..=u8::MAX).zip(&mut behind) {
                *known |= may_be(1, octet >> 4) && may_be(2, octet & 0x0f);
            }
        }
    }
    Set::of(|octet| behind.get(usize::from(octet)) == Some(&true))
}

#[inline(always)]
fn is_break<S: Simd>(octets: u8x64<S>) -> mask8x64<S> {
    octets.simd_eq(b'\r') | octets.simd_eq(b'\n')
}

/// And one octet before, and five behind.
pub(super) const NEAR: usize = BLOCK + 6;
/// Of these places more would have to be known than is loaded.
const LAST: u64 = 0b11 << 62;
