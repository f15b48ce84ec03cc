//! What changes one body however long it takes.
//!
//! A value can be replaced by another one while an answer is open, and a host that relays what it is sent
//! shows the new one there. Behind the scrubber of what was known when the request was sent stands a second
//! one, of what is known now; where nothing has changed since there is none.

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
    now: Option<Scrubber>,
}

impl Scrubbers {
    /// For a body of which `scrub` was known when it was asked for.
    #[must_use]
    pub fn new(scrub: &Arc<Scrub>, fit: Fit) -> Self {
        Self {
            fit,
            then: scrub.scrubber(fit),
            now: None,
        }
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
        match &mut self.now {
            Some(now) => now.pass(data),
            None => data,
        }
    }

    /// The names of the secrets whose values were replaced since the last call.
    pub fn take_found(&mut self) -> BTreeSet<SecretName> {
        let mut found = self.then.take_found();
        found.extend(self.now.iter_mut().flat_map(Scrubber::take_found));
        found
    }

    /// Whether a value was replaced since the last call of [`Scrubbers::take_found`].
    #[must_use]
    pub fn has_found(&self) -> bool {
        self.then.has_found() || self.now.as_ref().is_some_and(Scrubber::has_found)
    }

    /// How many octets are held back that may go after a while.
    #[must_use]
    pub fn leaving(&mut self) -> usize {
        self.then.leaving() + self.now.as_mut().map_or(0, Scrubber::leaving)
    }

    /// Has the second one, where there is one, do with what the first one gives.
    fn both(
        &mut self,
        out: &mut Vec<u8>,
        does: impl Fn(&mut Scrubber, &mut Vec<u8>) -> Result<(), RewriteError>,
    ) -> Result<(), RewriteError> {
        let Some(now) = &mut self.now else {
            return does(&mut self.then, out);
        };
        let mut first = Vec::new();
        does(&mut self.then, &mut first)?;
        now.push(&first, out)?;
        does(now, out)
    }
}

impl Rewrite for Scrubbers {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let Some(now) = &mut self.now else {
            return self.then.push(octets, out);
        };
        let mut first = Vec::with_capacity(octets.len());
        self.then.push(octets, &mut first)?;
        now.push(&first, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.both(out, Scrubber::finish)
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.both(out, Scrubber::release)
    }

    fn held(&self) -> usize {
        self.then.held() + self.now.as_ref().map_or(0, Rewrite::held)
    }
}
