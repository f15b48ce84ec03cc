//! The values of a form, one after the other, as somebody would put pieces together.

use memchr::memchr2;

use crate::credential::watch::{Found, Watch};

/// What was read of a form, as far as a find may still come of it.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Values alone, escapes as they are.
    values: Vec<u8>,
    /// What the pair begins with that is read: its name, or all of it where no `=` comes.
    name: Vec<u8>,
    within: Within,
}

/// Where in a pair.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    #[default]
    Name,
    Value,
}

impl Pieces {
    /// Takes the next octets of the form and tells what is in pieces in it so far.
    pub(super) fn look<'a>(
        &mut self,
        octets: &[u8],
        watch: &'a Watch,
        tell: impl FnMut(&'a Found),
    ) {
        self.take(octets);
        // Until a `=` comes the pair may be a value alone.
        let whole = self.values.len();
        self.values.extend_from_slice(&self.name);
        watch.find_split(&self.values, tell);
        self.values.truncate(whole);
        let kept = watch.longest_piece().saturating_mul(SPREAD).min(MOST);
        drop(self.values.drain(..whole.saturating_sub(kept)));
    }

    /// Octets that are remembered.
    #[cfg(test)]
    pub(super) const fn kept(&self) -> usize {
        self.values.len() + self.name.len()
    }

    fn take(&mut self, octets: &[u8]) {
        let mut rest = octets;
        while let Some(at) = memchr2(b'&', b'=', rest) {
            let (before, after) = rest.split_at(at);
            self.add(before);
            let ends = after.first() == Some(&b'&');
            rest = after.get(1..).unwrap_or_default();
            match (ends, self.within) {
                (true, Within::Name) => self.values.append(&mut self.name),
                (true, Within::Value) => self.within = Within::Name,
                (false, Within::Name) => {
                    self.name.clear();
                    self.within = Within::Value;
                }
                (false, Within::Value) => self.values.push(b'='),
            }
        }
        self.add(rest);
    }

    fn add(&mut self, octets: &[u8]) {
        if self.within == Within::Value {
            self.values.extend_from_slice(octets);
            return;
        }
        self.name.extend_from_slice(octets);
        if self.name.len() > LONGEST_NAME {
            // No name: it counts as a value, whatever comes.
            self.values.append(&mut self.name);
            self.within = Within::Value;
        }
    }
}

/// Octets that may stand for a letter or a digit, with what stands between two.
const SPREAD: usize = 8;
/// What is remembered is looked at again with whatever comes, be it an octet: longer texts are put together
/// where they come at once.
const MOST: usize = 4096;
/// Longer than anybody's.
const LONGEST_NAME: usize = 1024;
