//! Sentinels to values in a body, while it streams.
//!
//! What may be the beginning of a sentinel is held back until it is one or is none. An interactive
//! stream does not wait for that for ever: who sends the octets on says when it was long enough.

use std::sync::Arc;

use super::{
    needles::{Needles, SHORTEST},
    place::{Escape, Replacement},
    rewrite::{Rewrite, RewriteError},
    tally::Tally,
};

/// Replaces sentinels.
#[derive(Debug)]
pub struct Swap {
    needles: Needles,
    /// By needle: its exact spelling, and which of `replacements` it stands for.
    spellings: Vec<(Vec<u8>, usize)>,
    replacements: Vec<Swappable>,
    escape: Escape,
    tally: Arc<Tally>,
    held: Vec<u8>,
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
        Self {
            needles: Needles::new(spellings.iter().map(|(spelling, _)| spelling)),
            spellings,
            replacements,
            escape,
            tally: Arc::clone(tally),
            held: Vec::new(),
        }
    }

    /// The exact occurrences in `octets`, in order.
    fn occurrences(&self, octets: &[u8]) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        self.needles.find_each(octets, |at| {
            if let Some((spelling, replacement)) = self.spellings.get(at.needle)
                && octets.get(at.start..at.end) == Some(spelling)
            {
                found.push((at.start, at.end, *replacement));
            }
        });
        found.sort_unstable();
        found
    }

    /// Appends `octets` with what is replaced, up to where a sentinel may have begun; gives how far.
    fn replace(&self, octets: &[u8], out: &mut Vec<u8>, last: bool) -> Result<usize, RewriteError> {
        let mut from = 0;
        for (start, end, number) in self.occurrences(octets) {
            if start < from {
                continue;
            }
            out.extend_from_slice(octets.get(from..start).unwrap_or_default());
            match self.replacements.get(number) {
                Some(Swappable::Ready(replacement)) => {
                    let value = replacement.value();
                    let value = value.map_err(|_| RewriteError::Unavailable)?;
                    self.escape.write(value, out);
                    let secret = &replacement.secret;
                    self.tally.swapped(&secret.name, secret.version);
                    self.tally.changed_body();
                }
                Some(Swappable::Unavailable(_)) | None => return Err(RewriteError::Unavailable),
            }
            from = end;
        }
        let rest = octets.get(from..).unwrap_or_default();
        let kept = if last { 0 } else { self.begun(rest) };
        let goes = rest.len() - kept;
        out.extend_from_slice(rest.get(..goes).unwrap_or_default());
        Ok(from + goes)
    }

    /// How many of the last octets may be the beginning of a sentinel.
    fn begun(&self, octets: &[u8]) -> usize {
        let most = self.needles.longest().saturating_sub(1).min(octets.len());
        let tail = octets.get(octets.len() - most..).unwrap_or_default();
        let begins = |tail: &[u8]| self.spellings.iter().any(|(s, _)| s.starts_with(tail));
        let at = (0..tail.len()).find(|at| tail.get(*at..).is_some_and(begins));
        at.map_or(0, |at| tail.len() - at)
    }
}

impl Rewrite for Swap {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        if self.held.is_empty() {
            let gone = self.replace(octets, out, false)?;
            self.held
                .extend_from_slice(octets.get(gone..).unwrap_or_default());
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(octets);
        let gone = self.replace(&held, out, false)?;
        drop(held.drain(..gone));
        self.held = held;
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let held = std::mem::take(&mut self.held);
        self.replace(&held, out, true)?;
        Ok(())
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.finish(out)
    }

    fn held(&self) -> usize {
        self.held.len()
    }
}
