//! Of which texts a beginning is worth a wait for the rest.
//!
//! Whoever sends octets may see how long they took to pass. So what waits must tell nothing of a text
//! that is not to be waited for: it is decided from the texts that are, and from what escapes look like,
//! and from nothing else. The property in `tests` holds this against looking for those texts alone.

use super::{
    Finds, Text, leading,
    quick::{Quick, quick},
    special::is_introducer,
    unit::{DEPTH, unit},
};

/// Texts that are worth a wait.
#[derive(Debug)]
pub(in crate::credential) struct Waiting {
    /// By text: how much of it may be shown when nothing more comes; 0 of those that are not worth a wait.
    texts: Box<[usize]>,
    known: Begins,
    any: bool,
}

/// What texts begin with.
#[derive(Debug)]
pub(super) struct Begins {
    /// Octets that some text without a lead begins with.
    firsts: [bool; 256],
    leads: [bool; 256],
    /// Octets that some text with a lead begins with.
    led: [bool; 256],
    any_led: bool,
}

impl Begins {
    pub(super) fn of<'a>(texts: impl Iterator<Item = &'a Text>) -> Self {
        let mut begins = Self {
            firsts: [false; 256],
            leads: [false; 256],
            led: [false; 256],
            any_led: false,
        };
        for text in texts {
            begins.any_led |= text.lead.is_some();
            let known = match text.lead {
                Some(_) => &mut begins.led,
                None => &mut begins.firsts,
            };
            for octet in text.first() {
                if let Some(slot) = known.get_mut(usize::from(octet)) {
                    *slot = true;
                }
            }
            for (octet, slot) in (0..=u8::MAX).zip(&mut begins.leads) {
                *slot |= text.lead.is_some_and(|lead| lead.is(octet));
            }
        }
        begins
    }

    pub(super) fn is_first(&self, octet: u8) -> bool {
        self.firsts.get(usize::from(octet)) == Some(&true)
    }

    pub(super) fn is_lead(&self, octet: u8) -> bool {
        self.leads.get(usize::from(octet)) == Some(&true)
    }

    /// Whether any text has a lead.
    pub(super) const fn has_leads(&self) -> bool {
        self.any_led
    }

    pub(super) fn is_led(&self, octet: u8) -> bool {
        self.led.get(usize::from(octet)) == Some(&true)
    }
}

impl Waiting {
    /// For those of `texts` that `of` names by their number.
    pub(super) fn new(texts: &[Text], of: impl Fn(usize) -> bool) -> Self {
        let few = |(number, text): (usize, &Text)| match of(number) {
            true => LITTLE.max(text.octets().len() / SHOWN),
            false => 0,
        };
        let wanted: Box<[usize]> = texts.iter().enumerate().map(few).collect();
        let those = texts.iter().zip(&wanted).filter(|(_, few)| **few > 0);
        Self {
            known: Begins::of(those.map(|(text, _)| text)),
            any: wanted.iter().any(|few| *few > 0),
            texts: wanted,
        }
    }

    /// How many octets of this text may be shown; `None` where it is not worth a wait.
    pub(super) fn few(&self, text: usize) -> Option<usize> {
        self.texts.get(text).copied().filter(|few| *few > 0)
    }
}

/// So little ends many texts, and begins hardly any value.
pub(super) const LITTLE: usize = 5;
/// Of a longer text one octet in so many: what many keys of a kind begin with, and of none so much that the rest
/// could be guessed.
const SHOWN: usize = 4;

/// What is worth a wait at the end of `raw` and that no attempt tells: the first octet of a text, a
/// character before it that belongs to it, and an escape of which the rest is not there yet. That one may
/// be anything, so that it is worth a wait whatever is looked for.
pub(super) fn wait_at_end(raw: &[u8], finds: &mut Finds) {
    let Some(waiting) = finds.waiting.clone().filter(|waiting| waiting.any) else {
        return;
    };
    let known = &waiting.known;
    let mut leads = |end| {
        if !known.has_leads() {
            return;
        }
        leading(raw, end, |start, octet| {
            if known.is_lead(octet) {
                finds.waits.push(start);
            }
        });
    };
    leads(raw.len());
    let mut escapes = Vec::new();
    // From the end back, as far as one escape may reach.
    let (mut plain, from) = (0, raw.len().saturating_sub(LONGEST));
    for (at, octet) in raw.iter().enumerate().skip(from).rev() {
        if is_introducer(*octet) {
            plain = 0;
            if is_cut(raw, at) {
                leads(at);
                escapes.push(at);
            }
            continue;
        }
        plain += 1;
        if plain > LONGEST_PLAIN || !(octet.is_ascii_alphanumeric() || matches!(octet, b'#' | b';'))
        {
            break;
        }
    }
    if let Some((first, before)) = raw.split_last() {
        if known.is_led(*first) {
            leads(before.len());
        }
        if known.is_first(*first) {
            finds.waits.push(before.len());
        }
    }
    finds.waits.append(&mut escapes);
}

/// Whether an escape may stand at `at` that goes on after the end.
fn is_cut(raw: &[u8], at: usize) -> bool {
    match quick(raw, at, DEPTH) {
        Quick::Octet(..) | Quick::Break(_) | Quick::Wide(_) => false,
        Quick::Odd => (1..=DEPTH).any(|depth| unit(raw, at, depth, false).is_none()),
    }
}

/// Octets in a row within an escape that are not the beginning of another: `&amp;#x0000026;#x0000041;`, and
/// something to spare.
const LONGEST_PLAIN: usize = 40;
/// Octets of an escape at most, each of its characters an escape, and each of theirs.
const LONGEST: usize = 1024;
