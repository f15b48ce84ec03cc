//! What a request did with secrets, by name: for its records, never with a value.

use std::{collections::BTreeSet, fmt, pin::Pin, sync::Arc};

use gig_policy::SecretName;
use parking_lot::Mutex;

use super::{rewrite::RewriteError, sums::Sum};

/// Shared by everything that handles one request.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// By name and version: what is open for long sees more than one.
    swapped: BTreeSet<(Arc<str>, u64)>,
    findings: BTreeSet<Arc<str>>,
    misuses: Vec<Misuse>,
    /// Where a value could not be written, and why.
    unplaced: Option<Arc<str>>,
    /// Why the request did not go, in the words that its program was told.
    why: Option<Arc<str>>,
    /// Uses that a record tells of, or is about to.
    told: BTreeSet<(Arc<str>, u64)>,
    /// Uses that no record tells of yet.
    untold: Vec<(Arc<str>, u64)>,
    /// A value went into the body.
    body: bool,
    /// What was made anew of what says what that hashes to.
    sums: Vec<Sum>,
}

/// Uses of secrets, in the words of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// The names of the secrets.
    pub secrets: Vec<Arc<str>>,
    /// Each with its version.
    pub findings: Vec<Arc<str>>,
}

/// A record of uses that is being written. Nothing that came with them may go before it is.
pub type Telling = Pin<Box<dyn Future<Output = Result<(), RewriteError>> + Send>>;

/// A sentinel or a value on its way to where its secret is not bound.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Misuse {
    /// Of which secret.
    pub name: SecretName,
    /// What, where and in which form.
    pub text: Arc<str>,
    /// The sandbox holds what stands for it, so that its program may be told which it is.
    pub own: bool,
    /// It is a value that goes nowhere any more.
    pub revoked: bool,
}

impl Misuse {
    /// Of a sentinel that the sandbox holds itself.
    pub fn of_own(name: &SecretName, text: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.clone(),
            text: text.into(),
            own: true,
            revoked: false,
        }
    }
}

impl Tally {
    /// A value of this version went in its sentinel's place.
    pub fn swapped(&self, name: &SecretName, version: u64) {
        let mut counted = self.0.lock();
        counted.used(name, version);
        let known = counted.swapped.len();
        let first = known < MOST || !counted.swapped.iter().any(|(of, _)| of == name.shared());
        if first && counted.swapped.insert((Arc::clone(name.shared()), version)) {
            counted.findings.insert(text(name, version));
        }
    }

    /// This version is about to be used, and no record need tell of it but the one that is made now.
    pub fn uses(&self, name: &SecretName, version: u64) {
        self.0.lock().used(name, version);
    }

    /// Takes the uses that no record tells of yet.
    #[must_use]
    pub fn take_untold(&self) -> Option<Used> {
        let mut counted = self.0.lock();
        if counted.untold.is_empty() {
            return None;
        }
        let mut untold = std::mem::take(&mut counted.untold);
        drop(counted);
        untold.sort_unstable();
        let findings = untold.iter().map(|(name, version)| text(name, *version));
        let findings = findings.collect();
        let mut secrets: Vec<_> = untold.into_iter().map(|(name, _)| name).collect();
        secrets.dedup();
        Some(Used { secrets, findings })
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

    /// A digest of the body was made anew.
    pub fn summed(&self, sum: Sum) {
        let mut counted = self.0.lock();
        if !counted.sums.contains(&sum) {
            counted.sums.push(sum);
        }
    }

    /// Those that were made until now.
    #[must_use]
    pub fn sums(&self) -> Vec<Sum> {
        self.0.lock().sums.clone()
    }

    /// Something that a person may want to know.
    pub fn found(&self, text: String) {
        let mut counted = self.0.lock();
        if counted.findings.len() < MOST {
            counted.findings.insert(text.into());
        }
    }

    /// A value could not be written where its sentinel stands.
    pub fn unplaced(&self, text: String) {
        self.0.lock().unplaced = Some(text.as_str().into());
        self.found(text);
    }

    /// Where one could not be.
    #[must_use]
    pub fn why_unplaced(&self) -> Option<Arc<str>> {
        self.0.lock().unplaced.clone()
    }

    /// The request does not go, and this is why.
    pub fn told_why(&self, why: &Arc<str>) {
        self.0.lock().why = Some(Arc::clone(why));
    }

    /// Why it did not go.
    #[must_use]
    pub fn why(&self) -> Option<Arc<str>> {
        self.0.lock().why.clone()
    }

    /// The first of what was refused and is not taken yet.
    #[must_use]
    pub fn first_misuse(&self) -> Option<Misuse> {
        self.0.lock().misuses.first().cloned()
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

impl Counted {
    fn used(&mut self, name: &SecretName, version: u64) {
        if self.told.len() >= REMEMBERED {
            // Told twice is better than not at all.
            self.told.clear();
        }
        let used = (Arc::clone(name.shared()), version);
        if self.told.insert(used.clone()) {
            self.untold.push(used);
        }
    }
}

fn text(name: &(impl fmt::Display + ?Sized), version: u64) -> Arc<str> {
    format!("secret {name} version {version}").into()
}

/// A record stays readable.
const MOST: usize = 32;
/// A socket that is open for a year sees an access token each hour.
const REMEMBERED: usize = 16 * 1024;

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
            // What the last record has no room for has one of its own.
            assert!(tally.take_untold().is_some());
        }
        tally.swapped(&"LAST".parse().unwrap(), 1);
        assert!(tally.findings().len() < 100);
        assert_eq!(tally.names(), ["LAST".into(), "ONE".into(), "TWO".into()]);
    }

    #[test]
    fn each_use_is_told_once() {
        let tally = Tally::default();
        let (one, two) = ("ONE".parse().unwrap(), "TWO".parse().unwrap());
        assert_eq!(tally.take_untold(), None);
        tally.uses(&two, 1);
        for version in [2, 1, 2] {
            tally.swapped(&one, version);
        }
        let told = tally.take_untold().unwrap();
        assert_eq!(told.secrets, ["ONE".into(), "TWO".into()]);
        let found = [
            "secret ONE version 1",
            "secret ONE version 2",
            "secret TWO version 1",
        ];
        assert_eq!(told.findings, found.map(Arc::from));
        tally.swapped(&one, 2);
        tally.swapped(&two, 1);
        assert_eq!(tally.take_untold(), None);
        assert_eq!(tally.names(), ["ONE".into(), "TWO".into()]);
    }
}
