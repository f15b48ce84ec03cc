//! Texts looked for in every spelling: as they are, with escapes of three kinds in any mix and up to
//! three on one another, and with line breaks in them.
//!
//! What stands at a place depends on the octets from there on and on nothing before: whatever precedes a
//! spelling, it is found, and wherever a text is cut, the same is found. Most places are never looked at.
//! A spelling either begins with seven octets that are written as they are, and then [`super::heads`]
//! finds it; or one of its first seven is the first that is not, and then what is around that one tells
//! whether a text may stand there. The properties in `tests` hold this against trying every place.
//!
//! ```text
//! special    octets that may not be what they are
//! unit       what stands at one place
//! quick      the same, where only one reading can matter
//! attempt    whether a text is spelled at a place
//! idle       what special octets are before when nothing can come of them
//! marks      the same of many octets at once                   rows, references
//! sift       those of them of which something may come
//! look       the places that are worth an attempt
//! waiting    of which texts a beginning is worth a wait
//! ```

use std::{fmt, ops::Range, sync::Arc};

use gig_vault::SecretBytes;
use zeroize::Zeroizing;

use self::{
    attempt::{Attempt, BREAKS},
    crowd::Crowd,
    idle::Idle,
    marks::Marker,
    quick::{Quick, quick},
    special::{is_introducer, is_line_break, is_special},
    unit::{DEPTH, unit},
    waiting::Begins,
};
use super::heads::{ALIKE, ANY, Heads};

mod attempt;
mod crowd;
mod finds;
mod idle;
pub(super) mod look;
mod marks;
mod quick;
mod references;
mod rows;
mod sift;
pub(super) mod special;
#[cfg(test)]
mod tests;
pub(super) mod unit;
mod waiting;

pub(super) use {finds::Finds, waiting::Waiting};

/// One text.
pub(super) struct Text {
    octets: Octets,
    /// Letter case does not count.
    fold: bool,
    /// A Base64 character before it that belongs to it: the bits that are known of it, and which.
    lead: Option<Lead>,
}

/// Where a text's octets are.
enum Octets {
    /// As it was made.
    Made(Zeroizing<Vec<u8>>),
    /// Among those of all others.
    Kept(Arc<SecretBytes>, Range<usize>),
}

/// What is known of a Base64 character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lead {
    /// Its low bits.
    pub(super) bits: u8,
    /// Which of them.
    pub(super) mask: u8,
}

/// Texts to look for.
pub(super) struct Spellings {
    texts: Vec<Text>,
    crowd: Crowd,
    heads: Heads,
    /// For each octet, at which of the first places of a text it stands, the first in the lowest bit.
    places: [Places; 256],
    /// For each octet, the texts that begin with it, and their second octets; [`ANY`] where many do alike.
    begins: Vec<Vec<(usize, u8)>>,
    /// What texts begin with.
    known: Begins,
    idle: Idle,
    marker: Marker,
    /// The same, of those texts alone that have an octet among their first that may begin an escape. Of
    /// all others only the innermost reading can matter.
    odd: [Places; 256],
    /// At which places of a text such an octet stands.
    introducers: Places,
}

/// One spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    /// Where it begins, with its lead.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// Of which text, in the order they were given.
    pub(super) text: usize,
    /// The lead.
    pub(super) lead: Option<u8>,
}

impl Text {
    /// Line breaks count in no text: they are left out.
    pub(super) fn new(octets: &[u8], fold: bool, lead: Option<Lead>) -> Self {
        // Room for all of it: what grows would leave copies that are not wiped.
        let mut made = Zeroizing::new(Vec::with_capacity(octets.len()));
        made.extend(octets.iter().filter(|octet| !is_line_break(**octet)));
        Self {
            octets: Octets::Made(made),
            fold,
            lead,
        }
    }

    /// Its octets, without the lead.
    #[inline]
    pub(super) fn octets(&self) -> &[u8] {
        match &self.octets {
            Octets::Made(octets) => octets,
            Octets::Kept(all, range) => all.expose().get(range.clone()).unwrap_or_default(),
        }
    }

    /// Moves the octets of all of them to where values are kept.
    fn keep(texts: &mut [Self]) {
        let all: Vec<&[u8]> = texts.iter().map(Self::octets).collect();
        let all = Zeroizing::new(all.concat());
        let all = Arc::new(SecretBytes::compared(&all));
        let mut end = 0;
        for text in texts {
            let start = end;
            end += text.octets().len();
            text.octets = Octets::Kept(Arc::clone(&all), start..end);
        }
    }

    /// Octets that a spelling may take at most.
    fn room(&self) -> usize {
        let length = self.octets().len();
        (length * SPREAD).min(length * OF_LONG.0 + OF_LONG.1) + FEW
    }

    #[inline]
    const fn same(&self, one: u8, other: u8) -> bool {
        one == other || self.fold && one.eq_ignore_ascii_case(&other)
    }

    /// The octets of it that are looked at wherever it may begin.
    fn first_octets(&self, head: usize) -> impl Iterator<Item = u8> {
        self.octets().iter().copied().take(head)
    }

    /// Adds at which of the first places which octets stand.
    fn add_places(&self, head: usize, places: &mut [Places; 256]) {
        for (place, octet) in self.first_octets(head).enumerate() {
            for octet in cases(Some(octet), self.fold) {
                if let Some(slot) = places.get_mut(usize::from(octet)) {
                    *slot |= 1 << place;
                }
            }
        }
    }

    /// Every octet that it may begin with.
    fn first(&self) -> impl Iterator<Item = u8> + use<> {
        cases(self.octets().first().copied(), self.fold)
    }
}

impl Lead {
    fn is(self, octet: u8) -> bool {
        sextet(octet).is_some_and(|bits| bits & self.mask == self.bits)
    }
}

impl Spellings {
    /// Prepares the search. Texts shorter than [`super::needles::SHORTEST`] must not be among them.
    pub(super) fn new(mut texts: Vec<Text>) -> Self {
        Text::keep(&mut texts);
        let heads = Heads::new(texts.iter().map(Text::octets));
        let (mut places, mut odd, mut introducers) = ([0; 256], [0; 256], 0);
        let mut begins = vec![Vec::new(); 256];
        for (number, text) in texts.iter().enumerate() {
            text.add_places(heads.head(), &mut places);
            if text.first_octets(heads.head()).any(is_introducer) {
                text.add_places(heads.head(), &mut odd);
            }
            for octet in text.first() {
                if let Some(slot) = begins.get_mut(usize::from(octet)) {
                    slot.push((number, text.octets().get(1).copied().unwrap_or(0)));
                }
            }
        }
        for octet in (0..=u8::MAX).filter(|octet| is_introducer(*octet)) {
            introducers |= odd.get(usize::from(octet)).copied().unwrap_or(0);
        }
        let place = |octet: u8| places.get(usize::from(octet)).copied().unwrap_or(0);
        Self {
            idle: Idle::new(|octet| place(octet) != 0),
            marker: Marker::new(|octet| place(octet) != 0, (&texts, heads.head())),
            odd,
            introducers,
            heads,
            known: Begins::of(texts.iter()),
            crowd: Crowd::new(&texts),
            texts,
            places,
            begins: begins.into_iter().map(together).collect(),
        }
    }

    /// Makes those texts worth a wait that `of` names, by their number.
    pub(super) fn waiting(&self, of: impl Fn(usize) -> bool) -> Waiting {
        Waiting::new(&self.texts, of)
    }

    /// Sees whether a text stands at `at`, which is where it begins without its lead.
    fn attempt(&self, raw: &[u8], at: usize, number: usize, last: bool, finds: &mut Finds) {
        if number == ANY {
            return self.attempt_any(raw, at, last, finds);
        }
        let Some(text) = self.texts.get(number) else {
            return;
        };
        let outcome = Attempt { raw, last, text }.read(at);
        if outcome.end.is_none() && outcome.open.is_none() {
            return;
        }
        let mut add = |start, lead| {
            if let Some(end) = outcome.end {
                finds.hits.push(Hit {
                    start,
                    end,
                    text: number,
                    lead,
                });
            }
            if let Some(needed) = outcome.open {
                finds.opens(start, number, needed);
            }
        };
        match text.lead {
            None => add(at, None),
            Some(lead) => leading(raw, at, |start, octet| {
                if lead.is(octet) {
                    add(start, Some(octet));
                }
            }),
        }
    }
}

/// Texts that share both octets are one entry where they are many.
fn together(mut begun: Vec<(usize, u8)>) -> Vec<(usize, u8)> {
    begun.sort_unstable_by_key(|(text, second)| (second.to_ascii_lowercase(), *text));
    let alike = |one: &(usize, u8), other: &(usize, u8)| one.1.eq_ignore_ascii_case(&other.1);
    let groups = begun.chunk_by(alike).flat_map(|group| match group {
        [(_, second), ..] if group.len() > ALIKE => vec![(ANY, *second)],
        few => few.to_vec(),
    });
    groups.collect()
}

/// Tells every unit of one octet before `end` with nothing but line breaks between.
fn leading(raw: &[u8], end: usize, mut found: impl FnMut(usize, u8)) {
    let from = end.saturating_sub(LEAD);
    let known = raw.get(..end).unwrap_or(raw);
    let near = known.get(from..).unwrap_or_default();
    // No lead, no escape and no line break is written with anything else.
    let run = near.iter().rev().take_while(|octet| may_lead(**octet));
    let (_, near) = near.split_at(near.len() - run.count());
    let from = known.len() - near.len();
    let specials = (0..).zip(near).fold(0_u64, |all, (place, octet)| {
        all | u64::from(is_special(*octet)) << place
    });
    // The last, what may be an escape, and what is before one or before a line break.
    let mut left = specials | specials >> 1 | (1_u64 << near.len()) >> 1;
    while left != 0 {
        let start = from + left.trailing_zeros() as usize;
        left &= left - 1;
        let Some(octet) = known.get(start) else {
            return;
        };
        if !is_introducer(*octet) {
            let next = known.get(start + 1);
            if next.is_none_or(|next| is_special(*next)) && broken_to(known, start + 1, BREAKS) {
                found(start, *octet);
            }
            continue;
        }
        // No lead may begin an escape: the innermost reading counts.
        match quick(known, start, DEPTH) {
            Quick::Octet(octet, at) => {
                if broken_to(known, at, BREAKS) {
                    found(start, octet);
                }
                continue;
            }
            Quick::Break(_) | Quick::Wide(_) => continue,
            Quick::Odd => {}
        }
        let mut before = start;
        for depth in 0..=DEPTH {
            let Some(unit) = unit(known, start, depth, true) else {
                break;
            };
            let &[octet] = unit.octets() else { continue };
            if unit.end != before && broken_to(known, unit.end, BREAKS) {
                found(start, octet);
            }
            before = unit.end;
        }
    }
}

/// Whether a Base64 character, an escape or a line break may be written with it.
#[inline]
const fn may_lead(octet: u8) -> bool {
    octet.is_ascii_alphanumeric()
        || is_special(octet)
        || matches!(
            octet,
            b'#' | b';' | b'/' | b'"' | b'\'' | b'-' | b'_' | b'.' | b'=' | b'+'
        )
}

/// Whether only line breaks are left, so many at most.
fn broken_to(known: &[u8], at: usize, breaks: usize) -> bool {
    let Some(octet) = known.get(at) else {
        return at == known.len();
    };
    if breaks == 0 {
        return false;
    }
    if !is_introducer(*octet) {
        return is_line_break(*octet) && broken_to(known, at + 1, breaks - 1);
    }
    match quick(known, at, DEPTH) {
        Quick::Break(end) => return broken_to(known, end, breaks - 1),
        Quick::Octet(..) | Quick::Wide(_) => return false,
        Quick::Odd => {}
    }
    (1..=DEPTH).any(|depth| {
        let unit = unit(known, at, depth, true);
        unit.is_some_and(|unit| unit.is_line_break() && broken_to(known, unit.end, breaks - 1))
    })
}

fn cases(octet: Option<u8>, fold: bool) -> impl Iterator<Item = u8> {
    let cases = octet.map(|octet| {
        if fold {
            [octet.to_ascii_lowercase(), octet.to_ascii_uppercase()]
        } else {
            [octet; 2]
        }
    });
    let [one, other] = cases.map_or([None; 2], |[one, other]| {
        [Some(one), (one != other).then_some(other)]
    });
    one.into_iter().chain(other)
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

impl fmt::Debug for Spellings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spellings({})", self.texts.len())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({})", self.octets().len())
    }
}

/// A bit for each of the first octets of a text, the first the lowest.
type Places = u16;

/// Octets that may stand for one: three escapes of six on one another, as where `\u002d` is written in numeric
/// references and those again.
const SPREAD: usize = 6 * 6 * 6;
/// The same of a long text, which is held back as long as it goes on, and what it may take beyond.
const OF_LONG: (usize, usize) = (16, 64 * 1024);
/// Room for an escape or two.
const FEW: usize = 256;
/// Octets of a lead and the line breaks after it; fewer than `leading` has bits.
const LEAD: usize = 63;
