//! Letters and digits of texts, put one behind the other.
//!
//! Room is made before, so that an octet costs no more than looking up what it is: each is written, and what
//! follows overwrites it where it is none. Processors that can do so move those of sixty-four at once. What an
//! octet means in a text is for the asker to say.

use fearless_simd::{Level, Simd, mask8x64, prelude::*, u8x64};

use super::lanes::{BLOCK, digits};

mod contents;
mod pairs;

/// What is done at an octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Class {
    /// Left out.
    Other = 0,
    /// Taken; counts as one.
    Letter = 1,
    /// The asker has to look.
    Stop = 2,
}

/// A way of reading, known when the program is compiled.
pub(super) trait Reading {
    /// What it does at which octet.
    const CLASSES: Classes;
}

/// What is done at which octet.
pub(super) struct Classes {
    of: [Class; 256],
    stops: &'static [u8],
    /// Where the processor can, what a percent sign and two digits stand for is taken instead of them, so that no
    /// such sign stops of which nothing else can come.
    percent: bool,
    /// A line break stops that two hyphens follow: it may end a part of a multipart body.
    lines: bool,
}

impl Classes {
    /// Takes letters and digits of ASCII, and stops at these.
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "it runs to 127, when the program is compiled"
    )]
    pub(super) const fn stopping(stops: &'static [u8]) -> Self {
        let mut classes = [Class::Other; 256];
        let mut octet = 0;
        while octet < 128 {
            if (octet as u8).is_ascii_alphanumeric() {
                classes[octet] = Class::Letter;
            }
            octet += 1;
        }
        let mut stop = 0;
        while stop < stops.len() {
            classes[stops[stop] as usize] = Class::Stop;
            stop += 1;
        }
        Self {
            of: classes,
            stops,
            percent: false,
            lines: false,
        }
    }

    /// The same, and undoes percent-encoding as far as it can.
    pub(super) const fn undoing(self) -> Self {
        Self {
            percent: true,
            ..self
        }
    }

    /// The same, and stops at line breaks that two hyphens follow.
    pub(super) const fn up_to_lines(self) -> Self {
        Self {
            lines: true,
            ..self
        }
    }

    #[inline]
    fn of(&self, octet: u8) -> Class {
        let class = self.of.get(usize::from(octet));
        class.copied().unwrap_or(Class::Other)
    }
}

/// Letters and digits.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// Behind those that are taken: room.
    octets: Vec<u8>,
    taken: usize,
}

impl Letters {
    /// What is there.
    pub(super) fn as_slice(&self) -> &[u8] {
        self.octets.get(..self.taken).unwrap_or_default()
    }

    /// How many are there.
    pub(super) const fn len(&self) -> usize {
        self.taken
    }

    /// Leaves out what is behind so many.
    pub(super) fn truncate(&mut self, length: usize) {
        self.taken = self.taken.min(length);
    }

    /// Adds one, whatever it is.
    pub(super) fn push(&mut self, octet: u8) {
        self.extend(&[octet]);
    }

    /// Adds these, whatever they are.
    pub(super) fn extend(&mut self, octets: &[u8]) {
        let room = self.room(octets.len()).get_mut(..octets.len());
        if let Some(room) = room {
            room.copy_from_slice(octets);
            self.taken += octets.len();
        }
    }

    /// Adds letters and digits up to the first octet that stops; gives the rest.
    #[inline]
    pub(super) fn add<'a, R: Reading>(&mut self, octets: &'a [u8]) -> &'a [u8] {
        self.add_by::<R>(Level::new(), octets)
    }

    /// The same as some processor can.
    fn add_by<'a, R: Reading>(&mut self, level: Level, octets: &'a [u8]) -> &'a [u8] {
        let room = self.room(octets.len() + BLOCK);
        #[cfg(target_arch = "x86_64")]
        let added = match (level.as_avx512(), level.as_avx2()) {
            (Some(simd), _) => add_wide::<_, R>(simd, octets, room),
            (None, Some(simd)) => add_wide::<_, R>(simd, octets, room),
            (None, None) => add_each(octets, room, &R::CLASSES),
        };
        #[cfg(not(target_arch = "x86_64"))]
        let added = {
            let _ = level;
            add_each(octets, room, &R::CLASSES)
        };
        self.taken += added.taken;
        octets.get(added.read..).unwrap_or_default()
    }

    /// Moves what is behind `from` to the end of another.
    pub(super) fn move_to(&mut self, from: usize, other: &mut Self) {
        other.extend(self.octets.get(from..self.taken).unwrap_or_default());
        self.truncate(from);
    }

    /// Of what is before `end`, forgets all but the last so many, and keeps no more room than `most`; gives
    /// how many are gone.
    pub(super) fn leave(&mut self, end: usize, last: usize, most: usize) -> usize {
        let gone = end.min(self.taken).saturating_sub(last);
        if gone > 0 {
            self.octets.copy_within(gone..self.taken, 0);
            self.taken -= gone;
        }
        if self.octets.capacity() > most {
            self.octets.truncate(self.taken);
            self.octets.shrink_to_fit();
        }
        gone
    }

    /// Room for so many more.
    #[inline]
    fn room(&mut self, more: usize) -> &mut [u8] {
        let end = self.taken + more;
        if self.octets.len() < end {
            self.octets.resize(end, 0);
        }
        self.octets.get_mut(self.taken..).unwrap_or_default()
    }
}

/// What came of some octets.
struct Added {
    taken: usize,
    read: usize,
}

/// One by one.
fn add_each(octets: &[u8], room: &mut [u8], classes: &Classes) -> Added {
    let (mut taken, mut read) = (0, 0);
    for octet in octets {
        let class = classes.of(*octet);
        let line = || {
            octets
                .get(read..)
                .is_some_and(|rest| rest.starts_with(LINE))
        };
        if class == Class::Stop || classes.lines && *octet == b'\n' && line() {
            break;
        }
        if let Some(slot) = room.get_mut(taken) {
            *slot = *octet;
        }
        taken += class as usize;
        read += 1;
    }
    Added { taken, read }
}

/// Sixty-four at once; there is room for as many.
fn add_wide<S: Simd, R: Reading>(simd: S, octets: &[u8], room: &mut [u8]) -> Added {
    simd.vectorize(
        #[inline(always)]
        || {
            let mut added = Added { taken: 0, read: 0 };
            while let Some(rest) = octets.get(added.read..).filter(|rest| !rest.is_empty()) {
                let padded;
                let near = match rest.first_chunk() {
                    Some(near) => near,
                    None => {
                        padded = pad(rest);
                        &padded
                    }
                };
                let Some(slots) = room
                    .get_mut(added.taken..)
                    .and_then(<[u8]>::first_chunk_mut)
                else {
                    return added;
                };
                let block = add_block::<_, R>(simd, near, slots);
                added.taken += block.taken;
                added.read += block.read.min(rest.len());
                if block.stopped {
                    return added;
                }
            }
            added
        },
    )
}

/// The last octets with nothing behind them.
fn pad(rest: &[u8]) -> [u8; NEAR] {
    let mut padded = [0; NEAR];
    let length = rest.len().min(NEAR);
    if let Some((slots, rest)) = padded.get_mut(..length).zip(rest.get(..length)) {
        slots.copy_from_slice(rest);
    }
    padded
}

/// What came of a block.
struct Block {
    taken: usize,
    read: usize,
    stopped: bool,
}

/// Of a block, up to the first octet that stops.
#[inline(always)]
fn add_block<S: Simd, R: Reading>(simd: S, near: &[u8; NEAR], slots: &mut [u8; BLOCK]) -> Block {
    let classes = R::CLASSES;
    let load = |at: usize| {
        let octets = near.get(at..).and_then(<[u8]>::first_chunk);
        u8x64::simd_from(simd, octets.copied().unwrap_or([0; BLOCK]))
    };
    let mut octets = load(0);
    let mut stop = 0;
    for octet in classes.stops {
        stop |= octets.simd_eq(*octet).to_bitmask();
    }
    if classes.lines {
        let line = octets.simd_eq(b'\n');
        if line.any_true() {
            stop |= (line & load(1).simd_eq(b'-') & load(2).simd_eq(b'-')).to_bitmask();
        }
    }
    let (mut left_out, mut further) = (0, 0);
    let percent = octets.simd_eq(b'%');
    if classes.percent && percent.any_true() {
        let (high, is_high) = digits(load(1));
        let (low, is_low) = digits(load(2));
        let stands = high << 4 | low;
        let mut joins = stands.simd_eq(b'%');
        for octet in JOINING {
            joins |= stands.simd_eq(octet);
        }
        let undone = percent & is_high & is_low & !joins;
        octets = undone.select(stands, octets);
        let (percent, undone) = (percent.to_bitmask(), undone.to_bitmask());
        stop = stop & !percent | percent & !undone;
        // What a digit may be is no letter of the text.
        left_out = undone << 1 | undone << 2;
        further = undone >> 63 << 1 | undone >> 62 & 1;
    }
    let taken = is_letter(octets).to_bitmask() & !left_out & (stop.wrapping_sub(1) & !stop);
    let letters = octets.compress(mask8x64::from_bitmask(simd, taken));
    letters.store_slice(slots);
    let end = BLOCK + usize::try_from(further).unwrap_or(0);
    Block {
        taken: taken.count_ones() as usize,
        read: if stop == 0 {
            end
        } else {
            stop.trailing_zeros() as usize
        },
        stopped: stop != 0,
    }
}

/// Which octets are letters or digits of ASCII.
#[inline(always)]
fn is_letter<S: Simd>(octets: u8x64<S>) -> mask8x64<S> {
    ((octets | 0x20) - b'a').simd_lt(26) | (octets - b'0').simd_lt(10)
}

/// Octets that are moved at once, and two on, which may be the digits of an escape.
const NEAR: usize = BLOCK + 2;
/// What begins a line between two parts, behind what ends the one before.
const LINE: &[u8] = b"\n--";
/// What may be part of another escape once it stands there.
pub(super) const JOINING: [u8; 5] = *b"%\\&#;";

/// What is left of a name when its letters' case and all that divides its words is gone.
pub(super) fn word(name: &[u8]) -> Vec<u8> {
    let letters = name.iter().filter(|octet| octet.is_ascii_alphanumeric());
    letters.map(u8::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::credential::lanes::levels;

    struct Stopping;

    impl Reading for Stopping {
        const CLASSES: Classes = Classes::stopping(b"%\"");
    }

    struct Lines;

    impl Reading for Lines {
        const CLASSES: Classes = NoLines::CLASSES.up_to_lines();
    }

    struct NoLines;

    impl Reading for NoLines {
        const CLASSES: Classes = Classes::stopping(b"%").undoing();
    }

    proptest! {
        #[test]
        fn letters_are_taken_up_to_a_line_between_parts(
            parts in prop::collection::vec(prop_oneof![
                "[a-zA-Z0-9 -]{0,30}", Just("\r\n".to_owned()), Just("\n".to_owned()), Just("\n-".to_owned()),
                Just("\n--".to_owned()), Just("%41".to_owned()), Just("%".to_owned()), Just("%0A--".to_owned()),
            ], 0..20),
        ) {
            let octets = parts.concat().into_bytes();
            let line = octets.windows(LINE.len()).position(|near| near == LINE);
            let before = &octets[..line.unwrap_or(octets.len())];
            for level in levels() {
                let (mut expected, mut letters) = (Letters::default(), Letters::default());
                let stopped = expected.add_by::<NoLines>(level, before).len();
                let rest = letters.add_by::<Lines>(level, &octets);
                prop_assert_eq!(rest.len(), octets.len() - before.len() + stopped);
                prop_assert_eq!(letters.as_slice(), expected.as_slice());
            }
        }

        #[test]
        fn letters_are_taken_up_to_what_stops(
            before in "[a-z]{0,9}",
            octets in prop::collection::vec(prop_oneof![
                any::<u8>(), prop::sample::select(b"azAZ09/:@[`{%\"\x80\xe1".to_vec()),
            ], 0..300),
            last in 0_usize..20,
        ) {
            let stop = octets.iter().position(|octet| b"%\"".contains(octet));
            let (read, expected_rest) = octets.split_at(stop.unwrap_or(octets.len()));
            let mut expected = before.clone().into_bytes();
            expected.extend(read.iter().filter(|octet| octet.is_ascii_alphanumeric()));
            for level in levels() {
                let mut letters = Letters::default();
                letters.extend(before.as_bytes());
                prop_assert_eq!(letters.add_by::<Stopping>(level, &octets), expected_rest);
                prop_assert_eq!(letters.as_slice(), &expected);
            }
            let mut letters = Letters::default();
            letters.extend(&expected);
            let mut other = Letters::default();
            letters.move_to(before.len(), &mut other);
            prop_assert_eq!(letters.as_slice(), before.as_bytes());
            prop_assert_eq!(other.as_slice(), &expected[before.len()..]);
            let gone = letters.leave(letters.len(), last, 0);
            prop_assert_eq!(gone, before.len().saturating_sub(last));
            prop_assert_eq!(letters.as_slice(), &before.as_bytes()[gone..]);
        }
    }
}
