//! Special octets behind which something may come, told of sixty-four octets at once.
//!
//! The same as [`super::special`] and [`super::idle`] have it, on processors that compare as many octets with as
//! many others in a few instructions, and find what an octet is in a table of sixteen. What an escape stands for is
//! known here without a look at it alone, so that text full of them is looked through as fast as any other.

use fearless_simd::{mask8x64, prelude::*, u8x64};

use super::{
    special::{is_introducer, is_special},
    unit::NAMES,
};
use crate::credential::lanes::{BLOCK, Set, digits};

/// For one set of texts.
pub(super) struct Marker {
    /// What some text has among its first.
    known: Set,
    /// That and all special octets.
    busy: Set,
    /// That and those that begin an escape.
    stands: Set,
    /// Octets behind which a backslash is one and nothing comes of it.
    plain: Set,
    /// What the name of a reference may begin with.
    names: Set,
    /// No text has a backslash among its first.
    lone: bool,
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

impl Marker {
    /// For texts among whose first octets are those that `known` knows.
    pub(super) fn new(known: impl Fn(u8) -> bool) -> Self {
        let unknown = |octet: u8| !is_special(octet) && !known(octet);
        let plain = |next: u8| match next {
            b'n' | b'r' | b'u' | b'x' => false,
            b't' => unknown(b'\t'),
            _ => !is_special(next) && (unknown(next) || next.is_ascii_alphanumeric()),
        };
        let named = |next: u8| NAMES.iter().any(|(name, _)| name.first() == Some(&next));
        Self {
            known: Set::of(&known),
            busy: Set::of(|octet| !unknown(octet)),
            stands: Set::of(|octet| known(octet) || is_introducer(octet)),
            plain: Set::of(plain),
            names: Set::of(|next| next == b'#' || is_special(next) || named(next)),
            lone: !known(b'\\'),
        }
    }

    /// Looks at the block that begins at `from`; `None` where that is too near to an end.
    #[inline(always)]
    pub(super) fn marks<S: Simd>(
        &self,
        Wide(simd): Wide<S>,
        raw: &[u8],
        from: usize,
    ) -> Option<Marks> {
        let near = raw
            .get(from.checked_sub(1)?..)?
            .first_chunk::<{ BLOCK + 3 }>()?;
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
        if percent != 0 {
            marks.busy |= percent & self.percent(&around);
            // One that begins within another is read with it.
            let introducers = percent | backslash | ampersand;
            marks.busy |= percent & (introducers >> 1 | introducers >> 2);
            marks.ask |= percent & LAST & !marks.busy;
        }
        if backslash != 0 {
            let idle = self.backslash(&around, backslash);
            marks.busy |= backslash & !idle & !LAST;
            marks.ask |= backslash & !idle & LAST;
        }
        if line_break != 0 {
            marks.busy |= line_break & !self.line_break(&around);
        }
        if ampersand != 0 {
            marks.ask |= ampersand & self.names.has(around.next).to_bitmask();
        }
        Some(marks)
    }

    /// Where a percent sign with two digits stands for something that may matter.
    #[inline(always)]
    fn percent<S: Simd>(&self, around: &Around<S>) -> u64 {
        let (high, is_high) = digits(around.next);
        let (low, is_low) = digits(around.third);
        let octet = high << 4 | low;
        // No text begins with a line break, so that what is before it is a part of one.
        let breaks = is_break(octet) & self.known.has(around.before);
        (is_high & is_low & (self.stands.has(octet) | breaks)).to_bitmask()
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

    /// Where nothing comes of a line break.
    #[inline(always)]
    fn line_break<S: Simd>(&self, around: &Around<S>) -> u64 {
        let unknown = !self.busy.has(around.next);
        let long = is_break(around.next) & !self.busy.has(around.third);
        (unknown | long | !self.known.has(around.before)).to_bitmask()
    }
}

#[inline(always)]
fn is_break<S: Simd>(octets: u8x64<S>) -> mask8x64<S> {
    octets.simd_eq(b'\r') | octets.simd_eq(b'\n')
}

/// Of these places more would have to be known than is loaded.
const LAST: u64 = 0b11 << 62;
