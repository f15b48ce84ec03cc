//! The places that are worth an attempt.

use fearless_simd::{Level, Simd};

use super::{
    Finds, Places, Spellings,
    attempt::{BREAKS, left_of_escape},
    idle::Near,
    marks::{Marks, Wide},
    quick::{Quick, quick},
    sift::{Batch, PART},
    special::{Specials, is_line_break, is_special},
    unit::{DEPTH, unit},
    waiting,
};
use crate::credential::{
    heads::{BLOCK, Heads, ROW, Row},
    needles::SHORTEST,
};

/// A place that is not what it is, or may not be.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) raw: &'a [u8],
    pub(super) at: usize,
    pub(super) last: bool,
}

/// What a text that goes on would have to go on with.
enum Next {
    /// This octet, up to there.
    Octet(u8, usize),
    /// Nothing: no text goes on like this.
    Nothing,
    /// It takes an attempt to tell.
    Odd,
}

/// How blocks are looked at.
trait Eyes: Copy {
    /// Tells which texts may begin where in a block.
    fn heads(self, heads: &Heads, block: (&[u8], usize), found: impl FnMut(usize, usize));

    /// Tells which special octets of the block at a place are worth a look, where it can.
    fn marks(self, spellings: &Spellings, raw: &[u8], from: usize) -> Option<Marks>;
}

/// One octet after the other.
#[derive(Clone, Copy)]
struct One;

impl Eyes for One {
    #[inline(always)]
    fn heads(self, heads: &Heads, (block, from): (&[u8], usize), found: impl FnMut(usize, usize)) {
        heads.each_in(block, from, found);
    }

    #[inline(always)]
    fn marks(self, _: &Spellings, _: &[u8], _: usize) -> Option<Marks> {
        None
    }
}

impl<S: Simd> Eyes for Wide<S> {
    #[inline(always)]
    fn heads(self, heads: &Heads, block: (&[u8], usize), found: impl FnMut(usize, usize)) {
        heads.each_by(self.0, block, found);
    }

    #[inline(always)]
    fn marks(self, spellings: &Spellings, raw: &[u8], from: usize) -> Option<Marks> {
        spellings.marker.marks(self, &spellings.heads, (raw, from))
    }
}

impl Spellings {
    /// Finds all that stands in `raw`; where nothing comes after it, it is the `last`.
    pub(in crate::credential) fn look(&self, raw: &[u8], last: bool, finds: &mut Finds) {
        self.look_by(Level::new(), (raw, last), finds);
    }

    /// The same as some processor can.
    pub(super) fn look_by(&self, level: Level, (raw, last): (&[u8], bool), finds: &mut Finds) {
        finds.clear();
        #[cfg(test)]
        LOOKED.set(LOOKED.get() + raw.len());
        if self.heads.is_empty() {
            return;
        }
        self.look_at_blocks(level, (raw, last), finds);
        if !last {
            self.look_at_end(raw, finds);
            waiting::wait_at_end(raw, finds);
        }
        finds.settle();
    }

    /// Finds what does not begin shortly before the end.
    fn look_at_blocks(&self, level: Level, text: (&[u8], bool), finds: &mut Finds) {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(simd) = level.as_avx512() {
                return self.look_wide(simd, text, finds);
            }
            if let Some(simd) = level.as_avx2() {
                return self.look_wide(simd, text, finds);
            }
        }
        self.look_in_parts(text, One, finds);
    }

    /// The same with instructions for sixty-four octets, or thirty-two.
    fn look_wide<S: Simd>(&self, simd: S, text: (&[u8], bool), finds: &mut Finds) {
        simd.vectorize(
            #[inline(always)]
            || self.look_in_parts(text, Wide(simd), finds),
        );
    }

    /// The same as `eyes` can.
    #[inline(always)]
    fn look_in_parts(&self, (raw, last): (&[u8], bool), eyes: impl Eyes, finds: &mut Finds) {
        let mut batch = Batch::new();
        for (number, part) in raw.chunks(PART).enumerate() {
            let from = number * PART;
            batch.clear();
            for (block, within) in part.chunks(BLOCK).zip((0_u16..).step_by(BLOCK)) {
                let block_from = from + usize::from(within);
                eyes.heads(&self.heads, (block, block_from), |text, at| {
                    self.attempt(raw, at, text, last, finds);
                });
                let asked = |at: u16| {
                    let near = Near::of(raw, block_from + usize::from(at));
                    !near.is_some_and(|near| self.idle.is_idle(near))
                };
                match eyes.marks(self, raw, block_from) {
                    Some(Marks { busy, ask }) => {
                        each(busy, |at| batch.add(within | at, true));
                        each(ask, |at| batch.add(within | at, asked(at)));
                    }
                    None => Specials::of(block).each(|at| batch.add(within | at, asked(at))),
                }
            }
            self.sift((raw, last), from, &mut batch);
            for place in batch.each() {
                let at = from + place;
                self.look_around(Around { raw, at, last }, finds);
            }
        }
    }

    /// What begins so shortly before the end that no row of it is whole, written as it is.
    fn look_at_end(&self, raw: &[u8], finds: &mut Finds) {
        for length in 1..self.heads.head().min(raw.len() + 1) {
            let at = raw.len() - length;
            let Some(&[first, ref rest @ ..]) = raw.get(at..) else {
                continue;
            };
            let second = rest.first().copied();
            let mut rest = rest.iter().enumerate();
            if !rest.all(|(place, octet)| self.places_of(*octet) >> (place + 1) & 1 == 1) {
                continue;
            }
            if length == 1 {
                if self.known.is_first(first) {
                    finds.opens_for(at, SHORTEST - 1);
                }
                if self.known.is_led(first) {
                    self.open_leads(raw, at, SHORTEST - 1, finds);
                }
            } else {
                self.attempt_all(
                    Around {
                        raw,
                        at,
                        last: false,
                    },
                    first,
                    second,
                    finds,
                );
            }
        }
        self.open_leads(raw, raw.len(), SHORTEST, finds);
    }

    /// What a special octet may be the first of in a text that is not written as it is.
    #[inline]
    pub(super) fn look_around(&self, here: Around<'_>, finds: &mut Finds) {
        let Some(&octet) = here.raw.get(here.at) else {
            return;
        };
        let before = here.places_before(|octet| self.places_of(octet));
        if is_line_break(octet) {
            // No text begins with one.
            self.after_break(here, before & !1, here.at + 1, finds);
            return;
        }
        let layers = if self.may_be_itself(here, &[]) {
            0
        } else {
            DEPTH
        };
        match quick(here.raw, here.at, layers) {
            // Itself: then another is the first that is not, or all are.
            Quick::Octet(_, end) if end == here.at + 1 => {}
            Quick::Octet(octet, end) => self.weigh(here, before, (octet, end), finds),
            Quick::Break(end) => self.after_break(here, before & !1, end, finds),
            Quick::Wide(first) if self.places_of(first) == 0 => {}
            Quick::Wide(_) | Quick::Odd => self.look_into(here, before, finds),
        }
    }

    /// All readings of an octet that may begin an escape, save as itself.
    fn look_into(&self, here: Around<'_>, before: Places, finds: &mut Finds) {
        let mut known = here.at + 1;
        for depth in 1..=DEPTH {
            let Some(unit) = unit(here.raw, here.at, depth, here.last) else {
                self.goes_on(here, before, finds);
                return;
            };
            if unit.end == known {
                continue;
            }
            known = unit.end;
            match unit.octets() {
                [octet] if is_line_break(*octet) => {
                    self.after_break(here, before & !1, unit.end, finds);
                }
                [octet] => self.weigh(here, before, (*octet, unit.end), finds),
                [octet, ..] => {
                    self.attempt_from(here, before & self.places_of(*octet), *octet, finds);
                }
                [] => {}
            }
        }
    }

    /// What comes after a line break at `here`.
    #[inline]
    fn after_break(&self, here: Around<'_>, places: Places, end: usize, finds: &mut Finds) {
        if places == 0 || here.is_followed_by_its_like(end) && !self.may_be_itself(here, &[]) {
            return;
        }
        match self.read(here, &[], end) {
            Next::Octet(octet, end) => self.weigh(here, places, (octet, end), finds),
            Next::Nothing => {}
            Next::Odd => self.attempt_places(here, places, finds),
        }
    }

    /// An escape that goes on after the end: it may be anything.
    fn goes_on(&self, here: Around<'_>, before: Places, finds: &mut Finds) {
        let needed = left_of_escape(SHORTEST, here.raw.len() - here.at);
        finds.opens_for(here.at, needed);
        self.open_leads(here.raw, here.at, needed, finds);
        self.attempt_places(here, before & !1, finds);
    }

    /// The next octet of a text behind what is `known` of it from `here` on, if it has only one reading
    /// that can matter, and where that ends.
    #[inline]
    fn read(&self, here: Around<'_>, known: &[u8], mut at: usize) -> Next {
        for _ in 0..=BREAKS {
            let Some(&octet) = here.raw.get(at) else {
                return Next::Odd;
            };
            if !is_special(octet) {
                return Next::Octet(octet, at + 1);
            }
            if is_line_break(octet) {
                at += 1;
                continue;
            }
            if self.may_be_itself(here, known) {
                return Next::Odd;
            }
            match quick(here.raw, at, DEPTH) {
                Quick::Octet(octet, end) => return Next::Octet(octet, end),
                Quick::Break(end) => at = end,
                Quick::Wide(first) if self.places_of(first) == 0 => return Next::Octet(first, at),
                Quick::Wide(_) | Quick::Odd => return Next::Odd,
            }
        }
        // More breaks than a text may have in a row, and none of them can be read as anything else.
        Next::Nothing
    }

    /// Whether the octet behind what is `known` from `here` on may be meant as one that begins an escape,
    /// because some text has one there among its first.
    #[inline]
    pub(super) fn may_be_itself(&self, here: Around<'_>, known: &[u8]) -> bool {
        self.introducers != 0 && self.has_introducer(here, known)
    }

    fn has_introducer(&self, here: Around<'_>, known: &[u8]) -> bool {
        let odd = |octet: u8| self.odd.get(usize::from(octet)).copied().unwrap_or(0);
        let mut places = here.places_before(odd);
        for (ahead, octet) in known.iter().enumerate() {
            places &= odd(*octet) >> ahead;
        }
        places & self.introducers >> known.len() != 0
    }

    /// A text goes on at `here` with `octet`, as far as is known.
    #[inline]
    fn weigh(
        &self,
        here: Around<'_>,
        before: Places,
        (octet, end): (u8, usize),
        finds: &mut Finds,
    ) {
        let places = before & self.places_of(octet);
        if places != 0 {
            self.weigh_on(here, places, (octet, end), finds);
        }
    }

    fn weigh_on(
        &self,
        here: Around<'_>,
        places: Places,
        (octet, mut end): (u8, usize),
        finds: &mut Finds,
    ) {
        if places & !FIRST_PLACES != 0
            && let Some(from) = here.at.checked_sub(ROW - 1)
            && let Some(&[a, b, c]) = here.raw.get(from..here.at)
        {
            self.attempt_row(here, from, [a, b, c, octet], finds);
        }
        // From each of these on, all that is read ahead is among the first octets of a text.
        let mut left = places & FIRST_PLACES;
        if left == 0 {
            return;
        }
        if let Some(&[a, b, c]) = here.raw.get(end..).and_then(<[u8]>::first_chunk)
            && !(is_special(a) | is_special(b) | is_special(c))
        {
            // Nothing of the row is written otherwise: whether it is a head's is one look.
            self.attempt_row(here, here.at, [octet, a, b, c], finds);
            return;
        }
        let mut row = [octet, 0, 0, 0];
        for ahead in 1..ROW {
            let known = row.get(..ahead).unwrap_or_default();
            let (octet, next) = match self.read(here, known, end) {
                Next::Octet(octet, next) => (octet, next),
                Next::Nothing => return,
                Next::Odd => return self.attempt_from(here, left, octet, finds),
            };
            left &= self.places_of(octet) >> ahead;
            if left == 0 {
                return;
            }
            if let Some(slot) = row.get_mut(ahead) {
                *slot = octet;
            }
            end = next;
        }
        self.attempt_row(here, here.at, row, finds);
    }

    /// Attempts with the texts that have this row, which is at `at`.
    fn attempt_row(&self, here: Around<'_>, at: usize, row: [u8; ROW], finds: &mut Finds) {
        for entry in self.heads.entries(Row::of(row)) {
            if let Some(at) = at.checked_sub(entry.offset) {
                self.attempt(here.raw, at, entry.text, here.last, finds);
            }
        }
    }

    /// Attempts with the first of the text at so many places before `here`, or at it with `octet`.
    fn attempt_from(&self, here: Around<'_>, places: Places, octet: u8, finds: &mut Finds) {
        if places & 1 == 1 {
            self.attempt_all(here, octet, None, finds);
        }
        self.attempt_places(here, places & !1, finds);
    }

    /// Attempts where a text begins with an octet that is written as it is, so many places before.
    fn attempt_places(&self, here: Around<'_>, places: Places, finds: &mut Finds) {
        for place in (0..Places::BITS as usize).filter(|place| places >> place & 1 == 1) {
            let Some(at) = here.at.checked_sub(place) else {
                return;
            };
            if let Some(&[octet, next]) = here.raw.get(at..at + 2) {
                let next = (place > 1).then_some(next);
                self.attempt_all(Around { at, ..here }, octet, next, finds);
            }
        }
    }

    /// Attempts with every text that begins with `first`, if it is known what comes `next`.
    fn attempt_all(&self, here: Around<'_>, first: u8, next: Option<u8>, finds: &mut Finds) {
        let begun = self.begins.get(usize::from(first));
        for (text, second) in begun.into_iter().flatten() {
            if next.is_none_or(|next| next.eq_ignore_ascii_case(second)) {
                self.attempt(here.raw, here.at, *text, here.last, finds);
            }
        }
    }

    #[inline]
    pub(super) fn places_of(&self, octet: u8) -> Places {
        self.places.get(usize::from(octet)).copied().unwrap_or(0)
    }
}

impl Around<'_> {
    /// Whether the line break from here to `end` is followed by more that are written like it than a text
    /// may have in a row: whoever wants looking to take long would have each of them read as often.
    #[inline]
    fn is_followed_by_its_like(&self, end: usize) -> bool {
        let length = BREAKS * (end - self.at);
        let here = self.raw.get(self.at..self.at + length);
        here.is_some() && here == self.raw.get(end..end + length)
    }

    /// At which places of a text this may be by what stands before.
    #[inline]
    pub(super) fn places_before(&self, of: impl Fn(u8) -> Places) -> Places {
        let before = |n: usize| {
            let octet = self.at.checked_sub(n).and_then(|at| self.raw.get(at));
            octet.map_or(0, |octet| of(*octet))
        };
        (before(1) << 1 | 1) & (before(2) << 2 | 3) & (before(3) << 3 | 7)
    }
}

/// Tells the places of the bits, the first first.
#[inline(always)]
fn each(mut bits: u64, mut found: impl FnMut(u16)) {
    while bits != 0 {
        let at = bits.trailing_zeros();
        bits &= bits - 1;
        found(u16::try_from(at).unwrap_or(0));
    }
}

/// Those from which a row that begins there is one of the heads, however few octets these are.
pub(super) const FIRST_PLACES: Places = 0b111;

#[cfg(test)]
thread_local! {
    /// Octets that this thread looked at.
    pub(in crate::credential) static LOOKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
