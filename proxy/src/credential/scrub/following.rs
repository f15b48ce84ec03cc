//! What changes one body however long it takes.
//!
//! A value can be replaced by another one while an answer is open, and a host that relays what it is sent
//! shows the new one there. Behind the scrubber of what was known when the request was sent stands a second
//! one, of what is known now; where nothing has changed since there is none. Between them stands one of the digests
//! that were made of what was sent, where there are any.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use gig_policy::SecretName;

use super::{Fit, Scrub, Scrubber};
use crate::credential::rewrite::{Rewrite, RewriteError};

/// Replaces the values of one body, those of then and those of now.
#[derive(Debug)]
pub struct Scrubbers {
    fit: Fit,
    then: Scrubber,
    /// Of digests that were made of what was sent.
    sums: Option<Scrubber>,
    now: Option<Scrubber>,
}

/// What was replaced.
#[derive(Debug, Default)]
pub struct Found {
    /// The secrets whose values were.
    pub names: BTreeSet<SecretName>,
    /// A digest was.
    pub sum: bool,
}

impl Found {
    /// Takes what `other` has.
    pub fn append(&mut self, mut other: Self) {
        self.names.append(&mut other.names);
        self.sum |= other.sum;
    }
}

impl Scrubbers {
    /// For a body of which `scrub` was known when it was asked for.
    #[must_use]
    pub fn new(scrub: &Arc<Scrub>, fit: Fit) -> Self {
        Self {
            fit,
            then: scrub.scrubber(fit),
            sums: None,
            now: None,
        }
    }

    /// Looks for the digests that `sums` has, too.
    #[must_use]
    pub fn with_sums(mut self, sums: Option<&Arc<Scrub>>) -> Self {
        self.sums = sums.map(|sums| sums.scrubber(self.fit));
        self
    }

    /// Looks for what `scrub` has in all that comes from here on, too. What was held back stays so.
    pub fn renew(&mut self, scrub: &Arc<Scrub>) {
        if self.then.is_of(scrub) {
            // As it was; what is remembered of what was known meanwhile goes its way.
            return;
        }
        match &mut self.now {
            Some(now) => now.renew(scrub),
            None => self.now = Some(scrub.scrubber(self.fit)),
        }
    }

    /// Takes the next piece; gives what may go on, uncopied where it can be.
    pub fn pass(&mut self, data: Bytes) -> Bytes {
        let data = self.then.pass(data);
        let others = [&mut self.sums, &mut self.now].into_iter().flatten();
        others.fold(data, |data, next| next.pass(data))
    }

    /// What was replaced since the last call.
    pub fn take_found(&mut self) -> Found {
        let mut names = self.then.take_found();
        names.extend(self.now.iter_mut().flat_map(Scrubber::take_found));
        let sums = self.sums.as_mut().map(Scrubber::take_found);
        Found {
            names,
            sum: sums.is_some_and(|sums| !sums.is_empty()),
        }
    }

    /// Whether something was replaced since the last call of [`Scrubbers::take_found`].
    #[must_use]
    pub fn has_found(&self) -> bool {
        self.all().any(Scrubber::has_found)
    }

    /// How many octets are held back that may go after a while.
    #[must_use]
    pub fn leaving(&mut self) -> usize {
        let others = [&mut self.sums, &mut self.now].into_iter().flatten();
        self.then.leaving() + others.map(Scrubber::leaving).sum::<usize>()
    }

    fn all(&self) -> impl Iterator<Item = &Scrubber> {
        let others = [&self.sums, &self.now].into_iter().flatten();
        std::iter::once(&self.then).chain(others)
    }

    /// Has each do with what the one before gives: the first what `begins`, those behind it, where there are some, what
    /// `goes_on` when they have taken that.
    fn each(
        &mut self,
        out: &mut Vec<u8>,
        begins: impl FnOnce(&mut Scrubber, &mut Vec<u8>) -> Result<(), RewriteError>,
        goes_on: impl Fn(&mut Scrubber, &mut Vec<u8>) -> Result<(), RewriteError>,
    ) -> Result<(), RewriteError> {
        let others = [&mut self.sums, &mut self.now];
        if others.iter().all(|other| other.is_none()) {
            return begins(&mut self.then, out);
        }
        let mut gives = Vec::new();
        begins(&mut self.then, &mut gives)?;
        for next in others.into_iter().flatten() {
            let mut takes = Vec::with_capacity(gives.len());
            next.push(&gives, &mut takes)?;
            goes_on(next, &mut takes)?;
            gives = takes;
        }
        out.append(&mut gives);
        Ok(())
    }
}

impl Rewrite for Scrubbers {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.each(out, |first, out| first.push(octets, out), |_, _| Ok(()))
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.each(out, Scrubber::finish, Scrubber::finish)
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.each(out, Scrubber::release, Scrubber::release)
    }

    fn held(&self) -> usize {
        self.all().map(Rewrite::held).sum()
    }
}
