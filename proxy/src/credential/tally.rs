//! What a request did with secrets, by name: for its records, never with a value.

use std::{collections::BTreeSet, sync::Arc};

use gig_policy::SecretName;
use parking_lot::Mutex;

/// Shared by everything that handles one request.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// By name and version: what is open for long sees more than one.
    swapped: BTreeSet<(Arc<str>, u64)>,
    findings: BTreeSet<Arc<str>>,
    misuses: Vec<Misuse>,
    /// A value went into the body.
    body: bool,
}

/// A sentinel or a value on its way to where its secret is not bound.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Misuse {
    /// Of which secret.
    pub name: SecretName,
    /// What, where and in which form.
    pub text: Arc<str>,
}

impl Tally {
    /// A value of this version went in its sentinel's place.
    pub fn swapped(&self, name: &SecretName, version: u64) {
        let mut counted = self.0.lock();
        let known = counted.swapped.len();
        let first = known < MOST || !counted.swapped.iter().any(|(of, _)| of == name.shared());
        if first && counted.swapped.insert((Arc::clone(name.shared()), version)) {
            let text = format!("secret {name} version {version}");
            counted.findings.insert(text.into());
        }
    }

    /// The body is not what it was.
    pub fn changed_body(&self) {
        self.0.lock().body = true;
    }

    /// Whether the body is not what it was.
    #[must_use]
    pub fn body_changed(&self) -> bool {
        self.0.lock().body
    }

    /// Something that a person may want to know.
    pub fn found(&self, text: String) {
        let mut counted = self.0.lock();
        if counted.findings.len() < MOST {
            counted.findings.insert(text.into());
        }
    }

    /// Something that was refused.
    pub fn misused(&self, misuse: Misuse) {
        let mut counted = self.0.lock();
        if counted.misuses.len() < MOST && !counted.misuses.contains(&misuse) {
            counted.misuses.push(misuse);
        }
    }

    /// The names of secrets that were swapped in so far.
    #[must_use]
    pub fn names(&self) -> Vec<Arc<str>> {
        let counted = self.0.lock();
        let names = counted.swapped.iter().map(|(name, _)| Arc::clone(name));
        let mut names: Vec<_> = names.collect();
        names.dedup();
        names
    }

    /// What was found so far.
    #[must_use]
    pub fn findings(&self) -> Vec<Arc<str>> {
        self.0.lock().findings.iter().cloned().collect()
    }

    /// Takes what was refused since the last call.
    #[must_use]
    pub fn take_misuses(&self) -> Vec<Misuse> {
        std::mem::take(&mut self.0.lock().misuses)
    }
}

/// A record stays readable.
const MOST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_found_and_a_name_is_told_once() {
        let tally = Tally::default();
        let (one, two) = ("ONE".parse().unwrap(), "TWO".parse().unwrap());
        for (name, version) in [(&one, 1), (&two, 7), (&one, 2), (&one, 2)] {
            tally.swapped(name, version);
        }
        assert_eq!(tally.names(), ["ONE".into(), "TWO".into()]);
        let found = [
            "secret ONE version 1",
            "secret ONE version 2",
            "secret TWO version 7",
        ];
        assert_eq!(tally.findings(), found.map(Arc::from));
        for version in 3..1000 {
            tally.swapped(&one, version);
        }
        tally.swapped(&"LAST".parse().unwrap(), 1);
        assert!(tally.findings().len() < 100);
        assert_eq!(tally.names(), ["LAST".into(), "ONE".into(), "TWO".into()]);
    }
}
