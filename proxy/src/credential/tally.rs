//! What a request did with secrets, by name: for its records, never with a value.

use std::{collections::BTreeSet, sync::Arc};

use gig_policy::SecretName;
use parking_lot::Mutex;

/// Shared by everything that handles one request.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    swapped: BTreeSet<Arc<str>>,
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
        if counted.swapped.insert(Arc::clone(name.shared())) {
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
        self.0.lock().swapped.iter().cloned().collect()
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
