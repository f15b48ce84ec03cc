//! Sentinels to values in a body, while it streams.
//!
//! What may be the beginning of a sentinel is held back until it is one or is none. An interactive
//! stream does not wait for that for ever: who sends the octets on says when it was long enough.

use std::{fmt, sync::Arc};

use super::{
    around::{Around, in_part},
    exact::Exact,
    media::Beginning,
    needles::SHORTEST,
    parts::{Holds, Parts, Spot, Told},
    place::{Escape, Replacement},
    rewrite::{Rewrite, RewriteError},
    room::{Lengths, Room},
    tally::Tally,
};

/// Replaces sentinels.
#[derive(Debug)]
pub struct Swap {
    /// Exact spellings of them.
    spellings: Exact,
    /// By spelling: which of `replacements` it stands for.
    stands_for: Vec<usize>,
    /// Octets that a spelling begins with.
    firsts: [bool; 256],
    replacements: Vec<Swappable>,
    escape: Escape,
    /// What it is does not show yet.
    unknown: Option<Beginning>,
    tally: Arc<Tally>,
    held: Vec<u8>,
    /// In a multipart body: what stands where.
    parts: Option<Parts>,
    /// Where some value needs it: what stands around.
    around: Option<Around>,
    room: Room,
    /// Whose values were asked for in what came last.
    asked: Vec<usize>,
}

/// A sentinel that may stand in the body.
#[derive(Debug, Clone)]
pub enum Swappable {
    /// With its value.
    Ready(Replacement),
    /// Its secret cannot be had now: a body that holds it is stopped.
    Unavailable(Arc<str>),
}

impl Swappable {
    fn sentinel(&self) -> &Arc<str> {
        match self {
            Self::Ready(replacement) => &replacement.sentinel,
            Self::Unavailable(sentinel) => sentinel,
        }
    }
}

impl Swap {
    /// Replaces these, with values written as `escape` says.
    #[must_use]
    pub fn new(replacements: Vec<Swappable>, escape: Escape, tally: &Arc<Tally>) -> Self {
        let mut spellings = Vec::new();
        for (number, swappable) in replacements.iter().enumerate() {
            for spelling in escape.spellings(swappable.sentinel()) {
                // Minted sentinels are longer by far.
                if spelling.len() >= SHORTEST {
                    spellings.push((spelling, number));
                }
            }
        }
        // In order, so that the beginning of one is found without looking at all.
        spellings.sort_unstable();
        let mut firsts = [false; 256];
        for (octet, known) in (0..=u8::MAX).zip(&mut firsts) {
            *known = spellings
                .iter()
                .any(|(spelling, _)| spelling.first() == Some(&octet));
        }
        let (spellings, stands_for) = spellings.into_iter().unzip();
        let around = Around::of(escape, values(&replacements));
        Self {
            firsts,
            spellings: Exact::new(spellings),
            stands_for,
            replacements,
            escape,
            unknown: None,
            tally: Arc::clone(tally),
            held: Vec::new(),
            parts: None,
            around,
            room: Room::default(),
            asked: Vec::new(),
        }
    }

    /// The same in what says this of lengths.
    #[must_use]
    pub(super) fn in_room(mut self, lengths: Lengths) -> Self {
        self.room = Room::of(lengths);
        self
    }

    /// The same in parts that `boundary` divides: each is written in as its kind wants it, and no value ends the
    /// head that it stands in.
    #[must_use]
    pub fn in_parts(mut self, boundary: &Arc<[u8]>) -> Self {
        self.parts = Some(Parts::of(boundary));
        self.around = Around::in_parts(self.escape, values(&self.replacements));
        self
    }

    /// The same for text that may be something else than it says, or says nothing: what begins like JSON is
    /// taken for it, so that no value ends the string that it stands in; all else is as `otherwise` has it.
    #[must_use]
    pub fn untold(replacements: Vec<Swappable>, otherwise: Escape, tally: &Arc<Tally>) -> Self {
        Self {
            unknown: Some(Beginning::Blank),
            ..Self::new(replacements, otherwise, tally)
        }
    }

    /// Looks at how the text begins, behind what says in which Unicode encoding it is.
    fn recognise(&mut self, octets: &[u8]) {
        let Some(json) = self.unknown.as_mut().and_then(|begun| begun.read(octets)) else {
            return;
        };
        self.unknown = None;
        if json {
            // Nothing is held back yet: no sentinel begins with what may stand before.
            let replacements = std::mem::take(&mut self.replacements);
            *self = Self {
                room: std::mem::take(&mut self.room),
                ..Self::new(replacements, Escape::Json, &self.tally)
            };
        }
    }

    /// The exact occurrences in `octets`, in order.
    fn occurrences(&self, octets: &[u8]) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        self.spellings.find_each(octets, |spelling, at| {
            if let Some(replacement) = self.stands_for.get(spelling) {
                found.push((at.start, at.end, *replacement));
            }
        });
        found.sort_unstable();
        found
    }

    /// Appends the value of `replacement` as the place of its sentinel wants it, which has `length` octets.
    fn place(
        &mut self,
        (number, spot): (usize, Spot),
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RewriteError> {
        self.renew(number)?;
        let Some(Swappable::Ready(replacement)) = self.replacements.get(number) else {
            return Err(RewriteError::Unavailable);
        };
        let value = replacement.value();
        let value = value.map_err(|_| RewriteError::Unavailable)?;
        if spot.head && value.iter().any(|octet| ENDS_HEAD.contains(octet)) {
            return self.stays_out(replacement, "the head of a part, which it would end");
        }
        let escape = in_part(spot, self.escape);
        let secret = &replacement.secret;
        if !escape.takes(value) {
            return self.stays_out(replacement, "what is no more text with it");
        }
        let before = out.len();
        // What ends a head was looked for.
        let around = self.around.as_ref().filter(|_| !spot.head);
        let written = match around {
            Some(around) => around.write(escape, value, out),
            None => {
                escape.write(value, out);
                Ok(())
            }
        };
        if let Err(unplaced) = written {
            return self.stays_out(replacement, unplaced);
        }
        let written = out.get(before..).unwrap_or_default();
        if self
            .parts
            .as_ref()
            .is_some_and(|parts| parts.would_end(written))
        {
            return self.stays_out(replacement, "a part, which it would end");
        }
        let resized = out.len() - before != length;
        let told = match spot.told {
            Told::Nothing => false,
            Told::Length => resized,
            Told::Digest => true,
        };
        if told || resized && self.room.resized().is_err() {
            return self.stays_out(replacement, TELLS_LENGTH);
        }
        self.tally.swapped(&secret.name, secret.version);
        self.tally.changed_body();
        Ok(())
    }

    /// A value cannot stand there.
    fn stays_out(
        &self,
        replacement: &Replacement,
        of: impl fmt::Display,
    ) -> Result<(), RewriteError> {
        let name = &replacement.secret.name;
        self.tally
            .unplaced(format!("secret {name} stays out of {of}"));
        Err(RewriteError::Unplaceable)
    }

    /// Has the value be one that may still be used: a body can be open for long.
    fn renew(&mut self, number: usize) -> Result<(), RewriteError> {
        let (escape, around) = (self.escape, self.around.as_ref());
        let escape = self.parts.is_none().then_some(escape);
        let Some(Swappable::Ready(replacement)) = self.replacements.get_mut(number) else {
            return Err(RewriteError::Unavailable);
        };
        if self.asked.contains(&number) {
            return Ok(());
        }
        let newest = replacement.newest().ok_or(RewriteError::Unavailable)?;
        if !Arc::ptr_eq(&newest, &replacement.secret) {
            replacement.secret = newest;
            let value = replacement.value();
            let value = value.map_err(|_| RewriteError::Unavailable)?;
            if !Around::is_enough(around, escape, value) {
                return Err(RewriteError::Unavailable);
            }
        }
        self.asked.push(number);
        Ok(())
    }

    /// A sentinel stays what it is, as in a body that is no text.
    fn leaves(&self, number: usize) {
        if let Some(Swappable::Ready(replacement)) = self.replacements.get(number) {
            let name = &replacement.secret.name;
            self.tally.found(format!(
                "sentinel of {name} in a part that is no text, where no value goes"
            ));
        }
    }

    /// Appends what goes on as it came, and ends at `end` of what was read last.
    fn pass(&mut self, octets: &[u8], end: usize, out: &mut Vec<u8>) {
        match (&mut self.around, &self.parts) {
            (Some(around), Some(parts)) => around.read_part(parts, octets, end),
            (Some(around), None) => around.read(octets),
            (None, _) => {}
        }
        out.extend_from_slice(octets);
    }

    /// Appends `octets`, of which the last ones that came begin at `joint`, with what is replaced, up to where
    /// a sentinel may have begun; gives how far.
    fn replace(
        &mut self,
        (octets, joint): (&[u8], usize),
        out: &mut Vec<u8>,
        last: bool,
    ) -> Result<usize, RewriteError> {
        let occurrences = self.occurrences(octets);
        self.asked.clear();
        if let Some(parts) = &mut self.parts {
            let new = octets.get(joint..).unwrap_or_default();
            match occurrences.is_empty() {
                true => parts.skip(new),
                false => parts.read(new),
            }
        }
        let mut from = 0;
        for (start, end, number) in occurrences {
            if start < from {
                continue;
            }
            let parts = self.parts.as_ref();
            let spot = parts.map(|parts| parts.spot(end.saturating_sub(joint + 1)));
            let spot = spot.unwrap_or_default();
            if spot.holds == Holds::Binary {
                self.leaves(number);
                continue;
            }
            let before = octets.get(from..start).unwrap_or_default();
            self.pass(before, start.saturating_sub(joint), out);
            self.place((number, spot), end - start, out)?;
            if let Some(around) = &mut self.around {
                around.read(b"x");
            }
            from = end;
        }
        let rest = octets.get(from..).unwrap_or_default();
        let kept = if last { 0 } else { self.begun(rest) };
        let goes = rest.len() - kept;
        let end = (from + goes).saturating_sub(joint);
        self.pass(rest.get(..goes).unwrap_or_default(), end, out);
        Ok(from + goes)
    }

    /// How many of the last octets may be the beginning of a sentinel.
    fn begun(&self, octets: &[u8]) -> usize {
        let longest = self.spellings.longest();
        let most = longest.saturating_sub(1).min(octets.len());
        let tail = octets.get(octets.len() - most..).unwrap_or_default();
        let begins = |tail: &[u8]| {
            let first = tail
                .first()
                .and_then(|octet| self.firsts.get(usize::from(*octet)));
            first == Some(&true) && self.spellings.begins_with(tail)
        };
        let at = (0..tail.len()).find(|at| tail.get(*at..).is_some_and(begins));
        at.map_or(0, |at| tail.len() - at)
    }
}

impl Rewrite for Swap {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.room.read(octets);
        self.room.holds()?;
        if self.unknown.is_some() {
            self.recognise(octets);
        }
        if self.held.is_empty() {
            let gone = self.replace((octets, 0), out, false)?;
            self.held
                .extend_from_slice(octets.get(gone..).unwrap_or_default());
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        let joint = held.len();
        held.extend_from_slice(octets);
        let gone = self.replace((&held, joint), out, false)?;
        drop(held.drain(..gone));
        self.held = held;
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.room.ends()?;
        self.release(out)
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let held = std::mem::take(&mut self.held);
        self.replace((&held, held.len()), out, true)?;
        Ok(())
    }

    fn held(&self) -> usize {
        self.held.len()
    }
}

/// Those that there are now.
fn values(replacements: &[Swappable]) -> impl Iterator<Item = &[u8]> {
    let ready = replacements.iter().filter_map(|swappable| match swappable {
        Swappable::Ready(replacement) => Some(replacement),
        Swappable::Unavailable(_) => None,
    });
    ready.filter_map(|replacement| replacement.value().ok())
}

/// What would end a field of a part's head, or a quoted word in it.
const ENDS_HEAD: [u8; 4] = *b"\r\n\"\0";

/// How is told that a value of another length, or any, would make what was said of it wrong.
pub(crate) const TELLS_LENGTH: &str = "what says its own length or digest";

#[cfg(test)]
mod tests;
