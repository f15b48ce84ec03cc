//! Where one of many texts may begin: every fourth place is looked at, and nothing in between; every
//! eighth, where all texts are long enough.
//!
//! The first seven octets of each text hold four rows of four (the first eleven, eight), and wherever a
//! text begins, one of them stands at a place that is looked at. A set of bits says of nearly every row
//! that no text begins with it, without waiting for what the place before it said. Letter case does not
//! count here; whether the text really stands there is for the asker to see. What is known of texts here is
//! wiped when it goes: they may be values.

use std::fmt;

use fearless_simd::{Level, Simd, prelude::*, u8x64, u32x16};
use zeroize::Zeroize;

/// The beginnings of texts.
#[derive(Default)]
pub(super) struct Heads {
    /// A bit for each row that may begin a text, by its hash.
    filter: Box<[u64]>,
    filter_bits: u32,
    /// By hash, with room between: where a row's entries begin.
    slots: Box<[Slot]>,
    slot_bits: u32,
    /// By row.
    entries: Vec<Entry>,
    /// Every eighth place is looked at.
    wide: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    row: u32,
    first: usize,
}

/// A row of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    row: u32,
    /// Which text, in the order they were given; [`ANY`] stands for all that have this row there, where
    /// they are many.
    pub(super) text: usize,
    /// Octets of the text before the row.
    pub(super) offset: usize,
}

/// Four octets, letter case aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row(u32);

impl Row {
    /// Of these octets.
    #[inline]
    pub(super) const fn of(octets: [u8; ROW]) -> Self {
        let row = u32::from_le_bytes(octets);
        // Blanks and digits stay what they are: indented text is full of what UTF-32 would be otherwise.
        Self(row | row >> 1 & BLANK)
    }

    /// The first octets of a slice.
    #[inline]
    pub(super) fn at(octets: &[u8]) -> Option<Self> {
        octets.first_chunk().map(|row| Self::of(*row))
    }

    #[inline]
    const fn hash(self, bits: u32) -> u32 {
        self.0.wrapping_mul(FACTOR) >> (u32::BITS - bits)
    }
}

impl fmt::Debug for Heads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rows are octets of values.
        write!(f, "Heads({} rows)", self.entries.len())
    }
}

impl Drop for Heads {
    fn drop(&mut self) {
        wipe(&mut self.entries);
        self.slots.iter_mut().for_each(|slot| slot.row.zeroize());
        self.filter.zeroize();
    }
}

fn wipe(entries: &mut [Entry]) {
    entries.iter_mut().for_each(|entry| entry.row.zeroize());
}

impl Heads {
    /// Of these texts; one shorter than [`SHORTEST`] is never found.
    pub(super) fn new<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Self {
        let texts: Vec<(usize, &[u8])> = texts.enumerate().collect();
        let mut sound = texts.iter().map(|(_, text)| text.len());
        let wide = sound.all(|length| length < SHORTEST || length >= head(true));
        // Room for all of them: what grows would leave copies that are not wiped.
        let rows = texts.iter().map(|(_, text)| {
            let head = text.len().min(head(wide));
            (head + 1).saturating_sub(ROW)
        });
        let mut entries = Vec::with_capacity(rows.sum());
        for (text, octets) in texts {
            let head = octets.get(..head(wide)).unwrap_or_default();
            for (offset, row) in head.windows(ROW).enumerate() {
                if let Some(Row(row)) = Row::at(row) {
                    entries.push(Entry { row, text, offset });
                }
            }
        }
        if entries.is_empty() {
            return Self::default();
        }
        let entries = together(entries);
        let bits = |room: usize| usize::BITS - (entries.len() * room).leading_zeros();
        let filter_bits = filter_bits(entries.len() * SPARSE);
        let slot_bits = bits(2).clamp(4, 30);
        let empty = Slot {
            row: 0,
            first: usize::MAX,
        };
        let mut filter = vec![0_u64; 1 << (filter_bits - 6)].into_boxed_slice();
        let mut slots = vec![empty; 1 << slot_bits].into_boxed_slice();
        let mut before = None;
        for (first, entry) in entries.iter().enumerate() {
            if before.replace(entry.row) == Some(entry.row) {
                continue;
            }
            let hash = Row(entry.row).hash(filter_bits);
            if let Some(word) = filter.get_mut((hash >> 6) as usize) {
                *word |= 1 << (hash & 63);
            }
            let mut at = Row(entry.row).hash(slot_bits) as usize;
            while slots.get(at).is_some_and(|slot| slot.first != usize::MAX) {
                at = (at + 1) & (slots.len() - 1);
            }
            if let Some(slot) = slots.get_mut(at) {
                let row = entry.row;
                *slot = Slot { row, first };
            }
        }
        Self {
            filter,
            filter_bits,
            slots,
            slot_bits,
            entries,
            wide,
        }
    }

    /// Whether there is nothing to look for.
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries that begin with a row.
    pub(super) fn entries(&self, row: Row) -> &[Entry] {
        if self.filter.is_empty() || !self.may_have(row) {
            return &[];
        }
        self.entries_of(row)
    }

    /// The same where the filter was asked.
    fn entries_of(&self, row: Row) -> &[Entry] {
        let mut at = row.hash(self.slot_bits) as usize;
        while let Some(slot) = self.slots.get(at)
            && slot.first != usize::MAX
        {
            if slot.row == row.0 {
                let of_row = self.entries.get(slot.first..).unwrap_or_default();
                let count = of_row.iter().take_while(|entry| entry.row == row.0).count();
                return of_row.get(..count).unwrap_or_default();
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        &[]
    }

    /// Whether some entries may begin with a row: hardly ever where none do.
    #[inline]
    pub(super) fn may_have(&self, row: Row) -> bool {
        let hash = row.hash(self.filter_bits);
        let word = self.filter.get((hash >> 6) as usize);
        word.copied().unwrap_or(u64::MAX) >> (hash & 63) & 1 == 1
    }

    /// Octets of a text that are looked at.
    pub(super) const fn head(&self) -> usize {
        head(self.wide)
    }

    /// Tells in `block`, which begins at `from`, which texts may begin where; a place before the first
    /// octet is none.
    #[inline]
    pub(super) fn each_in(&self, block: &[u8], from: usize, found: impl FnMut(usize, usize)) {
        let which = if self.wide {
            self.which::<{ stride(true) }>(block)
        } else {
            self.which::<{ stride(false) }>(block)
        };
        self.each_of(which, (block, from), found);
    }

    /// The same by a processor that can look up a block's rows at once.
    #[inline(always)]
    pub(super) fn each_by<S: Simd>(
        &self,
        simd: S,
        (block, from): (&[u8], usize),
        found: impl FnMut(usize, usize),
    ) {
        let Some(whole) = block.first_chunk::<BLOCK>() else {
            return self.each_in(block, from, found);
        };
        let rows: u32x16<S> = u8x64::simd_from(simd, *whole).bitcast();
        let rows = rows | rows >> 1 & BLANK;
        let hashes = (rows * FACTOR) >> (u32::BITS - self.filter_bits);
        let which = self.which_of(&hashes.to_array());
        self.each_of(which, (block, from), found);
    }

    /// Tells which texts may begin where, by the rows that may be theirs.
    #[inline(always)]
    fn each_of(
        &self,
        mut which: u32,
        (block, from): (&[u8], usize),
        mut found: impl FnMut(usize, usize),
    ) {
        while which != 0 {
            let at = which.trailing_zeros() as usize * stride(self.wide);
            which &= which - 1;
            let row = block.get(at..).and_then(Row::at);
            for entry in row.map_or(&[][..], |row| self.entries_of(row)) {
                if let Some(start) = (from + at).checked_sub(entry.offset) {
                    found(entry.text, start);
                }
            }
        }
    }

    /// Of the hashes of all rows of a block, those that a text may begin with: a bit for each that is looked at.
    #[inline(always)]
    fn which_of(&self, hashes: &[u32; BLOCK / ROW]) -> u32 {
        let bit = |hash: u32| {
            let word = self.filter.get((hash >> 6) as usize);
            u32::from(word.copied().unwrap_or(u64::MAX) >> (hash & 63) & 1 == 1)
        };
        let all = |bits: u32, (hash, number): (&u32, u32)| bits | bit(*hash) << number;
        if self.wide {
            let hashes = hashes.iter().step_by(2);
            return hashes.zip(0_u32..).fold(0, all);
        }
        hashes.iter().zip(0_u32..).fold(0, all)
    }

    /// Tells which texts may begin where in `octets`.
    pub(super) fn each(&self, octets: &[u8], found: impl FnMut(usize, usize)) {
        if self.is_empty() {
            return;
        }
        self.each_as(Level::new(), octets, found);
    }

    /// The same as some processor can.
    fn each_as(&self, level: Level, octets: &[u8], mut found: impl FnMut(usize, usize)) {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(simd) = level.as_avx512() {
                return self.each_wide(simd, octets, found);
            }
            if let Some(simd) = level.as_avx2() {
                return self.each_wide(simd, octets, found);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = level;
        for (number, block) in octets.chunks(BLOCK).enumerate() {
            self.each_in(block, number * BLOCK, &mut found);
        }
    }

    fn each_wide<S: Simd>(&self, simd: S, octets: &[u8], mut found: impl FnMut(usize, usize)) {
        simd.vectorize(
            #[inline(always)]
            || {
                for (number, block) in octets.chunks(BLOCK).enumerate() {
                    self.each_by(simd, (block, number * BLOCK), &mut found);
                }
            },
        );
    }

    /// Which rows a text may begin with, of those of which so many octets on is another: a bit for each.
    #[inline]
    fn which<const STRIDE: usize>(&self, octets: &[u8]) -> u32 {
        // The size is known where the bits are read, so that nothing about it is asked there.
        match self.filter_bits {
            12 => which::<{ 1 << 6 }, STRIDE>(&self.filter, octets),
            14 => which::<{ 1 << 8 }, STRIDE>(&self.filter, octets),
            16 => which::<{ 1 << 10 }, STRIDE>(&self.filter, octets),
            17 => which::<{ 1 << 11 }, STRIDE>(&self.filter, octets),
            18 => which::<{ 1 << 12 }, STRIDE>(&self.filter, octets),
            20 => which::<{ 1 << 14 }, STRIDE>(&self.filter, octets),
            _ => which::<{ 1 << 16 }, STRIDE>(&self.filter, octets),
        }
    }
}

/// The least size of a filter, as bits of it, that has room for so many.
fn filter_bits(room: usize) -> u32 {
    let mut sizes = [12, 14, 16, 17, 18, 20].into_iter();
    sizes.find(|bits| room <= 1 << bits).unwrap_or(22)
}

/// Looks rows up in so many words.
#[inline]
fn which<const WORDS: usize, const STRIDE: usize>(filter: &[u64], octets: &[u8]) -> u32 {
    let Some(filter) = filter.first_chunk::<WORDS>() else {
        // What is not there tells nothing.
        return u32::MAX;
    };
    let bits = WORDS.ilog2() + u64::BITS.ilog2();
    let bit = |row: Row| {
        let hash = row.hash(bits);
        let word = filter.get((hash >> 6) as usize);
        u32::from(word.copied().unwrap_or(u64::MAX) >> (hash & 63) & 1 == 1)
    };
    // How many there are is known where a block is whole.
    if let Some(block) = octets.first_chunk::<BLOCK>() {
        let (rows, _) = block.as_chunks::<STRIDE>();
        let rows = rows.iter().zip(0_u32..);
        return rows.fold(0, |all, (row, number)| {
            all | Row::at(row).map_or(0, bit) << number
        });
    }
    let rows = octets.chunks(STRIDE).zip(0_u32..);
    rows.fold(0, |all, (row, number)| {
        all | Row::at(row).map_or(0, bit) << number
    })
}

/// In order, many that share row and offset as one.
fn together(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_unstable_by_key(|entry| (entry.row, entry.offset, entry.text));
    let alike = |one: &Entry, other: &Entry| (one.row, one.offset) == (other.row, other.offset);
    let mut groups = Vec::with_capacity(entries.len());
    for group in entries.chunk_by(alike) {
        match group {
            [first, ..] if group.len() > ALIKE => groups.push(Entry {
                text: ANY,
                ..*first
            }),
            few => groups.extend_from_slice(few),
        }
    }
    wipe(&mut entries);
    groups
}

/// Stands for every text that may begin at a place, where they are many.
pub(super) const ANY: usize = usize::MAX;
/// So many texts that begin alike are looked for one by one.
pub(super) const ALIKE: usize = 4;
/// What the case of a letter is told by, in each octet of a row.
const BLANK: u32 = 0x2020_2020;
/// Spreads rows over hashes.
const FACTOR: u32 = 0x9e37_79b1;
/// Octets of a row.
pub(super) const ROW: usize = 4;
/// Shorter texts are not looked for.
const SHORTEST: usize = 7;

/// Octets from one place that is looked at to the next.
const fn stride(wide: bool) -> usize {
    if wide { 2 * ROW } else { ROW }
}

/// Octets of a text that are looked at.
const fn head(wide: bool) -> usize {
    stride(wide) + ROW - 1
}

/// Octets that are looked at before anything is decided.
pub(super) const BLOCK: usize = 64;
/// So many times more bits than rows: one row in so many is taken for one by chance.
const SPARSE: usize = 64;
