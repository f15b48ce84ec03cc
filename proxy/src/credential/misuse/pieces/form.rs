//! Pieces in the values of a form (`application/x-www-form-urlencoded`).

use memchr::memchr2;

use super::{Row, end, leave_ends};
use crate::credential::watch::{Found, Watch};

/// What was read of a form, as far as a find may still come of it.
#[derive(Debug, Default)]
pub(super) struct Form {
    values: Row,
    /// Of the value that is read, escapes as they are.
    value: Vec<u8>,
    /// What the pair begins with that is read: its name, or all of it where no `=` comes.
    name: Vec<u8>,
    /// What that begins with, where it is long.
    head: Vec<u8>,
    within: Within,
}

/// Where in a pair.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    #[default]
    Name,
    Value,
}

impl Form {
    pub(super) fn look<'a>(
        &mut self,
        octets: &[u8],
        watch: &'a Watch,
        tell: &mut impl FnMut(&'a Found),
    ) {
        let end = end(watch);
        self.take(octets, end);
        // Until a `=` comes the pair may be a value alone.
        let pending = match self.within {
            Within::Name => (&*self.head, &*self.name, end),
            Within::Value => (&[][..], &*self.value, end),
        };
        self.values.tell(pending, watch, tell);
    }

    pub(super) fn renew(&mut self) {
        self.values.settle();
    }

    #[cfg(test)]
    pub(super) const fn kept(&self) -> usize {
        self.values.bare.len() + self.value.len() + self.name.len() + self.head.len()
    }

    fn take(&mut self, octets: &[u8], end: usize) {
        let mut rest = octets;
        loop {
            if self.within == Within::Name && self.name.is_empty() && self.head.is_empty() {
                let over = self.briefly(rest, end);
                rest = rest.get(over..).unwrap_or_default();
            }
            let Some(at) = memchr2(b'&', b'=', rest) else {
                break;
            };
            let (before, after) = rest.split_at(at);
            let ends = after.first() == Some(&b'&');
            rest = after.get(1..).unwrap_or_default();
            match (ends, self.within) {
                (true, within) => {
                    self.over(within, before, end);
                    self.within = Within::Name;
                }
                (false, Within::Name) => {
                    self.values.settle();
                    self.name.clear();
                    self.head.clear();
                    self.within = Within::Value;
                }
                (false, Within::Value) => {
                    self.add(before, end);
                    self.value.push(b'=');
                }
            }
        }
        self.add(rest, end);
    }

    /// Takes pairs whose values are short; gives how much of `octets`, which begin with one, that is.
    fn briefly(&mut self, octets: &[u8], end: usize) -> usize {
        if octets.len() < BRIEF {
            return 0;
        }
        self.values.settle();
        self.values.bare.add_pairs(octets, 2 * end)
    }

    /// The value ends with `before`.
    fn over(&mut self, within: Within, before: &[u8], end: usize) {
        let known = match within {
            Within::Name => &mut self.name,
            Within::Value => &mut self.value,
        };
        if known.is_empty() {
            self.values.add(before, end);
        } else {
            known.extend_from_slice(before);
            self.values.add_ends(&self.head, known, end);
            known.clear();
            self.head.clear();
        }
    }

    fn add(&mut self, octets: &[u8], end: usize) {
        if self.within == Within::Name {
            self.name.extend_from_slice(octets);
            // Nothing of it is a value before what follows says so.
            if leave_ends(&mut self.head, &mut self.name, end) {
                self.values.settle();
            }
        } else {
            self.value.extend_from_slice(octets);
            self.values.shorten(&mut self.value, end);
        }
    }
}

/// What is shorter is not worth a look at many octets at once.
const BRIEF: usize = 128;
