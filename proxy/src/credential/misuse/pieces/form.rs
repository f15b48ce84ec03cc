//! Pieces in the values of a form (`application/x-www-form-urlencoded`).

use memchr::memchr2;

use super::{MOST, Row, end};
use crate::credential::watch::{Found, Watch};

/// What was read of a form, as far as a find may still come of it.
#[derive(Debug, Default)]
pub(super) struct Form {
    values: Row,
    /// Of the value that is read, escapes as they are.
    value: Vec<u8>,
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
            Within::Name => &self.name,
            Within::Value => &self.value,
        };
        self.values.tell((pending, end), watch, tell);
    }

    #[cfg(test)]
    pub(super) const fn kept(&self) -> usize {
        self.values.bare.len() + self.value.len() + self.name.len()
    }

    fn take(&mut self, octets: &[u8], end: usize) {
        let mut rest = octets;
        while let Some(at) = memchr2(b'&', b'=', rest) {
            let (before, after) = rest.split_at(at);
            let ends = after.first() == Some(&b'&');
            rest = after.get(1..).unwrap_or_default();
            match (ends, self.within) {
                (true, within) => {
                    self.over(within, before, end);
                    self.within = Within::Name;
                }
                (false, Within::Name) => {
                    self.name.clear();
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
            self.values.add(known, end);
            known.clear();
        }
    }

    fn add(&mut self, octets: &[u8], end: usize) {
        if self.within == Within::Name {
            self.name.extend_from_slice(octets);
            if self.name.len() <= LONGEST_NAME {
                return;
            }
            // No name: it counts as a value, whatever comes.
            std::mem::swap(&mut self.value, &mut self.name);
            self.name.clear();
            self.within = Within::Value;
        } else {
            self.value.extend_from_slice(octets);
        }
        self.values.shorten(&mut self.value, end);
    }
}

impl Row {
    /// Of a value that goes on, takes what it begins with and leaves what may be its end.
    pub(super) fn shorten(&mut self, value: &mut Vec<u8>, end: usize) {
        if value.len() <= 2 * end.max(1) {
            return;
        }
        let (head, _) = value.split_at(end);
        super::add_bare(head, &mut self.view, &mut self.bare);
        self.part();
        drop(value.drain(..value.len() - end));
        if value.capacity() > 4 * MOST {
            value.shrink_to(2 * MOST);
        }
    }
}

/// Longer than anybody's.
const LONGEST_NAME: usize = 1024;
