//! Many texts that begin alike (`gigph-`, `ghp_`, the Base64 of either): looked for together.
//!
//! They are in order, letter case aside, and each octet that is read leaves a shorter range of them; so
//! that a place where a thousand may begin costs hardly more than one where one may. What is left when few
//! are left is tried one by one.

use super::{
    Finds, Spellings, Text,
    attempt::{BREAKS, left_of_escape},
    leading,
    special::{is_introducer, is_line_break},
    unit::{DEPTH, unit},
};
use crate::credential::{heads::ALIKE, needles::SHORTEST};

/// Texts in order.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    order: Vec<usize>,
    /// By place in the order: how many before it have a lead.
    led: Vec<usize>,
    /// Octets that the longest may take.
    room: usize,
}

/// A range of texts that begin with what was read.
#[derive(Debug, Clone, Copy)]
struct Reading {
    from: usize,
    to: usize,
    /// Octets of the texts.
    known: usize,
    at: usize,
    breaks: usize,
}

/// One look at one place.
struct Look<'a> {
    raw: &'a [u8],
    start: usize,
    last: bool,
    /// Readings that are left to take.
    budget: usize,
    /// Texts to try.
    likely: Vec<usize>,
    /// Some texts are worth a wait: which of those that may go on does matter.
    waits: bool,
    /// More octets may make a hit: of a text without a lead, of one with.
    open: [bool; 2],
    /// So many at least.
    needed: usize,
}

impl Crowd {
    pub(super) fn new(texts: &[Text]) -> Self {
        let lower = |text: &usize| {
            let octets = texts.get(*text).map(Text::octets).unwrap_or_default();
            octets.iter().map(u8::to_ascii_lowercase)
        };
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_unstable_by(|one, other| lower(one).cmp(lower(other)));
        let mut before = 0;
        let led = order.iter().map(|text| {
            let known = before;
            before += usize::from(texts.get(*text).is_some_and(|text| text.lead.is_some()));
            known
        });
        let mut led: Vec<usize> = led.collect();
        led.push(before);
        Self {
            led,
            room: texts.iter().map(Text::room).max().unwrap_or(0),
            order,
        }
    }

    fn led_before(&self, place: usize) -> usize {
        self.led.get(place).copied().unwrap_or(0)
    }
}

impl Spellings {
    /// Sees which texts stand at `at`, all of them at once.
    pub(super) fn attempt_any(&self, raw: &[u8], at: usize, last: bool, finds: &mut Finds) {
        let mut look = Look {
            raw,
            start: at,
            last,
            budget: READINGS,
            likely: Vec::new(),
            waits: finds.waiting.is_some(),
            open: [false; 2],
            needed: SHORTEST,
        };
        let all = Reading {
            from: 0,
            to: self.crowd.order.len(),
            known: 0,
            at,
            breaks: 0,
        };
        self.narrow(all, &mut look);
        let [open, open_led] = look.open;
        if open {
            finds.opens_for(at, look.needed);
        }
        if open_led {
            self.open_leads(raw, at, look.needed, finds);
        }
        look.likely.sort_unstable();
        look.likely.dedup();
        for text in look.likely {
            self.attempt(raw, at, text, last, finds);
        }
    }

    /// Reads on, as an attempt does, with every text that it may still be.
    fn narrow(&self, mut reading: Reading, look: &mut Look<'_>) {
        loop {
            if look.budget == 0 || reading.to - reading.from <= ALIKE {
                self.take(reading.from, reading.to, look);
                return;
            }
            look.budget -= 1;
            self.take_whole(&mut reading, look);
            if reading.at > look.start + self.crowd.room {
                return;
            }
            let Some(octet) = look.raw.get(reading.at).copied() else {
                self.open(reading, SHORTEST.saturating_sub(reading.known), look);
                return;
            };
            if is_introducer(octet) {
                self.narrow_escaped(reading, look);
                return;
            }
            if let Some(next) = self.with(reading, octet) {
                reading = Reading {
                    at: reading.at + 1,
                    breaks: 0,
                    ..next
                };
            } else if is_line_break(octet) && may_break(reading) {
                reading.at += 1;
                reading.breaks += 1;
            } else {
                return;
            }
        }
    }

    /// Every reading of what may be an escape.
    fn narrow_escaped(&self, reading: Reading, look: &mut Look<'_>) {
        let mut before = None;
        for depth in 0..=DEPTH {
            let Some(unit) = unit(look.raw, reading.at, depth, look.last) else {
                let left = SHORTEST.saturating_sub(reading.known);
                let begun = look.raw.len() - reading.at;
                self.open(reading, left_of_escape(left, begun), look);
                return;
            };
            if before.replace(unit.end) == Some(unit.end) {
                continue;
            }
            let mut next = Some(reading);
            for octet in unit.octets() {
                next = next.and_then(|next| self.with(next, *octet));
            }
            let at = unit.end;
            if let Some(next) = next {
                let breaks = 0;
                self.narrow(Reading { at, breaks, ..next }, look);
            } else if unit.is_line_break() && may_break(reading) {
                let breaks = reading.breaks + 1;
                self.narrow(
                    Reading {
                        at,
                        breaks,
                        ..reading
                    },
                    look,
                );
            }
        }
    }

    /// Those of a range that go on with `octet`.
    fn with(&self, reading: Reading, octet: u8) -> Option<Reading> {
        let range = self.crowd.order.get(reading.from..reading.to)?;
        let octet = octet.to_ascii_lowercase();
        // What is over already comes first, and before every octet.
        let here = |text: &usize| {
            let octets = self.texts.get(*text).map(Text::octets).unwrap_or_default();
            octets.get(reading.known).map(u8::to_ascii_lowercase)
        };
        let from = range.partition_point(|text| here(text) < Some(octet));
        let to = range.partition_point(|text| here(text) <= Some(octet));
        (from < to).then_some(Reading {
            from: reading.from + from,
            to: reading.from + to,
            known: reading.known + 1,
            ..reading
        })
    }

    /// Takes the texts of which all was read, and leaves the longer ones.
    fn take_whole(&self, reading: &mut Reading, look: &mut Look<'_>) {
        let range = self.crowd.order.get(reading.from..reading.to);
        let whole = range.unwrap_or_default().partition_point(|text| {
            let text = self.texts.get(*text);
            text.is_some_and(|text| text.octets().len() <= reading.known)
        });
        self.take(reading.from, reading.from + whole, look);
        reading.from += whole;
    }

    fn take(&self, from: usize, to: usize, look: &mut Look<'_>) {
        let texts = self.crowd.order.get(from..to).unwrap_or_default();
        look.likely.extend_from_slice(texts);
    }

    /// All that is left may go on after the end, and is whole with so many octets more, if not with one.
    fn open(&self, reading: Reading, needed: usize, look: &mut Look<'_>) {
        if look.last {
            return;
        }
        let (from, to) = (reading.from, reading.to);
        if look.waits {
            return self.take(from, to, look);
        }
        let led = self.crowd.led_before(to) - self.crowd.led_before(from);
        look.needed = look.needed.min(needed.max(1));
        let [open, open_led] = &mut look.open;
        *open |= led < to - from;
        *open_led |= led > 0;
    }

    /// Where a lead of any text stands that ends before `end`, a text may begin there.
    pub(super) fn open_leads(&self, raw: &[u8], end: usize, needed: usize, finds: &mut Finds) {
        if !self.known.has_leads() {
            return;
        }
        leading(raw, end, |start, octet| {
            if self.known.is_lead(octet) {
                finds.opens_for(start, needed);
            }
        });
    }
}

const fn may_break(reading: Reading) -> bool {
    reading.known > 0 && reading.breaks < BREAKS
}

/// Octets and escapes that are read at one place before all that is left is tried.
const READINGS: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::credential::spelling::Lead;

    /// So many that begin alike, some in part only, some with a lead.
    fn crowd() -> Spellings {
        let mut texts = Vec::new();
        for number in 0..40_u32 {
            let octets = format!("gigph-{:08x}", number.wrapping_mul(0x9e37_79b1));
            let lead = Lead {
                bits: 3,
                mask: 0x0f,
            };
            let lead = (number % 3 == 0).then_some(lead);
            texts.push(Text::new(octets.as_bytes(), number % 2 == 0, lead));
        }
        for short in [
            "gigph-00",
            "gigph-0000",
            "gigph-000000000000",
            "GIGPH-00%x",
            "gigph-00\\y",
        ] {
            texts.push(Text::new(short.as_bytes(), false, None));
        }
        Spellings::new(texts)
    }

    fn finds(spellings: &Spellings, wait: bool) -> Finds {
        let waiting = || Finds::waiting(Arc::new(spellings.waiting(|text| text % 2 == 0)));
        if wait { waiting() } else { Finds::empty() }
    }

    fn looked(spellings: &Spellings, raw: &[u8], last: bool, wait: bool) -> Finds {
        let mut finds = finds(spellings, wait);
        spellings.look(raw, last, &mut finds);
        finds
    }

    fn tried(spellings: &Spellings, raw: &[u8], last: bool, wait: bool) -> Finds {
        let mut finds = finds(spellings, wait);
        for at in 0..raw.len() {
            for text in 0..spellings.texts.len() {
                spellings.attempt(raw, at, text, last, &mut finds);
            }
        }
        finds.settle();
        finds
    }

    proptest! {
        #[test]
        fn a_crowd_is_found_as_each_of_it_is(
            pieces in prop::collection::vec((0_usize..45, 0_usize..20, 0_u8..5), 1..6),
            last in any::<bool>(),
            wait in any::<bool>(),
        ) {
            let spellings = crowd();
            let mut raw = Vec::new();
            for (text, length, how) in pieces {
                raw.extend_from_slice(b"D");
                let octets = spellings.texts[text].octets();
                for octet in &octets[..length.min(octets.len())] {
                    match how {
                        0 => raw.extend(format!("%{octet:02X}").bytes()),
                        1 => raw.extend(format!("&#{octet};").bytes()),
                        2 => raw.extend([*octet, b'\n']),
                        _ => raw.push(*octet),
                    }
                }
            }
            let looked = looked(&spellings, &raw, last, wait);
            let tried = tried(&spellings, &raw, last, wait);
            prop_assert_eq!(&looked.hits, &tried.hits);
            for open in tried.open {
                prop_assert!(looked.open.contains(&open), "{}", open);
            }
            for waits in tried.waits {
                prop_assert!(looked.waits.contains(&waits), "{}", waits);
            }
        }
    }

    #[test]
    fn what_a_place_costs_does_not_depend_on_how_many_begin_alike() {
        let texts = (0..20_000_u32).map(|number| {
            let octets = format!("gigph-{:08x}", number.wrapping_mul(0x9e37_79b1));
            Text::new(octets.as_bytes(), true, None)
        });
        let spellings = Spellings::new(texts.collect());
        for raw in [
            "gigph-".repeat(4),
            "gigph-0%66".repeat(3),
            "g%69gph-".repeat(3),
        ] {
            for at in 0..raw.len() {
                let mut look = Look {
                    raw: raw.as_bytes(),
                    start: at,
                    last: true,
                    budget: READINGS,
                    likely: Vec::new(),
                    waits: false,
                    open: [false; 2],
                    needed: SHORTEST,
                };
                let all = Reading {
                    from: 0,
                    to: 20_000,
                    known: 0,
                    at,
                    breaks: 0,
                };
                spellings.narrow(all, &mut look);
                assert!(READINGS - look.budget <= 16, "{raw} at {at}");
                assert!(look.likely.len() <= ALIKE, "{raw} at {at}");
            }
        }
        // Each row and each first octet stands for all of them, not for each.
        let mut attempts = 0;
        spellings
            .heads
            .each(b"gigph-gigph-gigph-gigph-gigph-gigph-", |_, _| {
                attempts += 1
            });
        assert!(attempts <= 12, "{attempts}");
        assert!(
            spellings
                .begins
                .iter()
                .all(|begun| begun.len() <= 256 * ALIKE)
        );
    }
}
