//! Of special octets, those of which something may come: nearly all others are told by their neighbours, many
//! after one another and without a branch that depends on what they are.

use super::{
    Places, Spellings,
    look::{Around, FIRST_PLACES},
    special::{is_introducer, is_line_break, is_special},
};
use crate::credential::{
    heads::{ROW, Row},
    unescape::{hex, pair},
};

/// Where some of the special octets of one part are, and room for one more to write over.
pub(super) struct Batch {
    places: [u16; PART + 1],
    count: usize,
}

/// Octets of a part, a number of blocks.
pub(super) const PART: usize = 1024;

impl Batch {
    /// Of none.
    pub(super) const fn new() -> Self {
        Self {
            places: [0; PART + 1],
            count: 0,
        }
    }

    pub(super) const fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a place, if it is wanted.
    #[inline]
    pub(super) fn add(&mut self, place: u16, wanted: bool) {
        if let Some(slot) = self.places.get_mut(self.count) {
            *slot = place;
            self.count += usize::from(wanted);
        }
    }

    /// Leaves those that `stay`.
    #[inline]
    fn leave(&mut self, stay: impl Fn(usize) -> bool) {
        let mut left = 0;
        for number in 0..self.count {
            let place = self.places.get(number).copied().unwrap_or(0);
            if let Some(slot) = self.places.get_mut(left) {
                *slot = place;
            }
            left += usize::from(stay(usize::from(place)));
        }
        self.count = left;
    }

    /// Those that are there.
    pub(super) fn each(&self) -> impl Iterator<Item = usize> {
        let places = self.places.get(..self.count).unwrap_or_default();
        places.iter().map(|place| usize::from(*place))
    }
}

impl Spellings {
    /// Leaves those of the places, counted from `from` in `raw`, of which something may come.
    pub(super) fn sift(&self, (raw, last): (&[u8], bool), from: usize, batch: &mut Batch) {
        batch.leave(|at| {
            let at = from + at;
            self.is_likely(Around { raw, at, last })
        });
    }

    /// Whether looking around here, where it is told at a glance what stands here, comes to any row that a text
    /// may begin with.
    #[inline]
    pub(super) fn is_likely(&self, here: Around<'_>) -> bool {
        let Some(&[introducer, next, third, ..]) = here.raw.get(here.at..) else {
            return true;
        };
        let before = here.places_before(|octet| self.places_of(octet));
        let (octet, end) = match introducer {
            b'%' => match pair(next, third) {
                Some(octet) => (octet, here.at + 3),
                None => return true,
            },
            b'\\' => match next {
                b'n' | b'r' => (b'\n', here.at + 2),
                b'"' | b'\'' | b'/' => (next, here.at + 2),
                b'\\' => return self.run_is_likely(here),
                _ => {
                    let octet = here.raw.get(here.at..).and_then(wide);
                    return octet.is_none_or(|octet| self.places_of(octet) != 0);
                }
            },
            b'&' => {
                let told = here.raw.get(here.at..);
                let told = told.and_then(|octets| self.marker.references.first(octets));
                let Some((octet, length)) = told else {
                    return true;
                };
                return self.continues(here, before, (octet, here.at + length));
            }
            _ => (b'\n', here.at + 1),
        };
        if is_introducer(octet) {
            return true;
        }
        if !is_line_break(octet) {
            return self.continues(here, before, (octet, end));
        }
        // No text begins with one.
        let places = before & !1;
        places != 0
            && self
                .behind_breaks(here, end)
                .is_none_or(|plain| self.continues(here, places, plain))
    }

    /// The same of several backslashes: however they are read, they are so many or fewer of them, and what follows.
    fn run_is_likely(&self, here: Around<'_>) -> bool {
        let rest = here.raw.get(here.at..).unwrap_or_default();
        let run = rest.iter().take_while(|octet| **octet == b'\\').count();
        let behind = rest.get(run..).and_then(<[u8]>::first_chunk);
        let Some(&[first, second, third, fourth, fifth]) = behind else {
            return true;
        };
        let ahead = [first, second, third, fourth, fifth];
        if run > FEW + 1 || matches!(first, b'u' | b'x' | b't') || ahead.into_iter().any(is_special)
        {
            return true;
        }
        if self.follow_is_likely(here, [first, second, third, fourth]) {
            return true;
        }
        // A line break that is written in letters.
        matches!(first, b'n' | b'r') && self.follow_is_likely(here, [second, third, fourth, fifth])
    }

    /// Whether a text may be there that goes on with `ahead`, behind some backslashes or none.
    fn follow_is_likely(&self, here: Around<'_>, ahead: [u8; ROW]) -> bool {
        let [first, second, third, _] = ahead;
        let before = here.at.checked_sub(ROW - 1);
        let before = before.and_then(|from| here.raw.get(from..)?.first_chunk());
        let goes_on = |octet: u8| {
            before.is_some_and(|&[x, y, z]| self.heads.may_have(Row::of([x, y, z, octet])))
        };
        const B: u8 = b'\\';
        let rows = [
            [B, first, second, third],
            [B, B, first, second],
            [B, B, B, first],
            [B; ROW],
        ];
        let backslashes = || {
            goes_on(B)
                || rows
                    .into_iter()
                    .any(|row| self.heads.may_have(Row::of(row)))
        };
        goes_on(first)
            || self.heads.may_have(Row::of(ahead))
            || self.places_of(B) != 0 && backslashes()
    }

    /// The first octet behind line breaks that is none, and where it ends.
    #[inline]
    fn behind_breaks(&self, here: Around<'_>, mut end: usize) -> Option<(u8, usize)> {
        for _ in 0..FEW {
            let (octet, behind) = self.plain(here, &[], end)?;
            if !is_line_break(octet) {
                return Some((octet, behind));
            }
            end = behind;
        }
        None
    }

    /// What stands at a place, if that is told at a glance, and where it ends.
    #[inline]
    fn plain(&self, here: Around<'_>, known: &[u8], at: usize) -> Option<(u8, usize)> {
        let octet = *here.raw.get(at)?;
        if !is_introducer(octet) {
            return Some((octet, at + 1));
        }
        let (b'%', Some(&[high, low])) = (octet, here.raw.get(at + 1..at + 3)) else {
            return None;
        };
        let octet = pair(high, low)?;
        let plain = !is_introducer(octet) && !self.may_be_itself(here, known);
        plain.then_some((octet, at + 3))
    }

    /// Whether a text that may be there by what stands before may go on so.
    #[inline]
    fn continues(&self, here: Around<'_>, before: Places, (octet, mut end): (u8, usize)) -> bool {
        let places = before & self.places_of(octet);
        if places & !FIRST_PLACES != 0
            && let Some(from) = here.at.checked_sub(ROW - 1)
            && let Some(&[x, y, z]) = here.raw.get(from..here.at)
            && self.heads.may_have(Row::of([x, y, z, octet]))
        {
            return true;
        }
        if places & FIRST_PLACES == 0 {
            return false;
        }
        let mut row = [octet, 0, 0, 0];
        for ahead in 1..ROW {
            let known = row.get(..ahead).unwrap_or_default();
            let Some((octet, behind)) = self.plain(here, known, end) else {
                return true;
            };
            if is_line_break(octet) {
                return true;
            }
            if let Some(slot) = row.get_mut(ahead) {
                *slot = octet;
            }
            end = behind;
        }
        self.heads.may_have(Row::of(row))
    }
}

/// What a character of several octets begins with, which is written by its number.
fn wide(octets: &[u8]) -> Option<u8> {
    let [b'\\', b'u', digits @ ..] = octets.first_chunk::<6>()? else {
        return None;
    };
    let digits = digits.iter().map(|digit| hex(*digit).map(u32::from));
    let number = digits.reduce(|number, digit| Some(number? << 4 | digit?))??;
    let character = char::from_u32(number).filter(|character| !character.is_ascii())?;
    character.encode_utf8(&mut [0; 4]).bytes().next()
}

/// Line breaks in a row that are read here.
const FEW: usize = 3;
