//! Real values on their way back into a sandbox become the sentinels that stand for them there.
//!
//! A value is found as it is and in Base64, hexadecimal, percent-encoding, JSON, HTML and any mix of
//! escapes, wherever the network cut it, and its sentinel is written in the same way. What is held back
//! is what may be the beginning of a value and nothing more. A value shorter than eight octets cannot be
//! told from chance and is not looked for; whoever sets one is told so.
//!
//! ```text
//! pattern    every form of every value, for all sandboxes
//! stream     holds back and replaces                         run, style
//! answer     what happens to one answer: lengths, codings, ranges, validators
//! work       one body on its way
//! grpc       messages that say their own length
//! ```

use std::{collections::BTreeSet, fmt, sync::Arc};

use gig_policy::SecretName;
use gig_vault::{Guarded, Keeper};
use http::{HeaderMap, HeaderName, HeaderValue};

use self::pattern::Patterns;
use super::wallet::Held;

pub mod answer;
pub mod grpc;
mod kept;
pub(super) mod pattern;
mod run;
pub mod stream;
mod style;
pub mod work;

pub(super) use kept::{KeptPatterns, KeptScrub};
pub use stream::{Fit, Scrubber};

/// What one sandbox must not see, and what it sees instead.
pub struct Scrub {
    patterns: Arc<Patterns>,
    /// By value; `None` for one that this sandbox may see.
    standing: Vec<Option<Arc<str>>>,
}

impl Scrub {
    /// For a sandbox that holds these sentinels; `None` when there is nothing to look for.
    pub(super) fn new(
        patterns: &Arc<Patterns>,
        held: &[Held],
        keeper: &dyn Keeper,
    ) -> Option<Arc<Self>> {
        if patterns.is_empty() {
            return None;
        }
        let values = &patterns.guarded().values;
        let standing = values.iter().map(|guarded| {
            let of_login = |held: &&Held| {
                let captured = held.captured.as_ref();
                captured.is_some_and(|captured| captured.value == guarded.value)
            };
            if let Some(held) = held.iter().find(of_login) {
                return Some(Arc::clone(&held.sentinel));
            }
            let secret = keeper.at_hand(&guarded.name);
            let held = held.iter().filter(|held| held.captured.is_none());
            let mut own = held.filter(|held| held.name == guarded.name);
            let part = secret.as_ref().and_then(|secret| {
                let same = |value: &[u8]| value == guarded.value.expose();
                secret.parts.iter().position(|p| same(p.value.expose()))
            });
            let of_part = own.clone().find(|held| Some(held.part) == part);
            match of_part.or_else(|| own.next()) {
                Some(held) => Some(Arc::clone(&held.sentinel)),
                None if secret.is_some_and(|secret| secret.entrusted) => None,
                None => Some(WITHHELD.into()),
            }
        });
        Some(Arc::new(Self {
            standing: standing.collect(),
            patterns: Arc::clone(patterns),
        }))
    }

    /// For values that stand for themselves, as tests and measurements have them.
    #[must_use]
    pub fn of(guarded: Guarded, sentinels: &[&str]) -> Arc<Self> {
        Arc::new(Self {
            patterns: Arc::new(Patterns::new(Arc::new(guarded))),
            standing: sentinels.iter().map(|text| Some((*text).into())).collect(),
        })
    }

    /// What changes one body or message.
    #[must_use]
    pub fn scrubber(self: &Arc<Self>, fit: Fit) -> Scrubber {
        Scrubber::new(Arc::clone(self), fit)
    }

    /// Replaces values in a header or trailer section, and adds the names of the secrets to `found`.
    pub fn headers(self: &Arc<Self>, headers: &mut HeaderMap, found: &mut BTreeSet<SecretName>) {
        let mut scrubber = self.scrubber(Fit::Free);
        let mut out = Vec::new();
        for value in headers.values_mut() {
            out.clear();
            if scrubber.whole(value.as_bytes(), &mut out)
                && let Ok(scrubbed) = HeaderValue::from_bytes(&out)
            {
                *value = scrubbed;
            }
        }
        // A name is in lower case here, and so hides nothing but letter case.
        let named: Vec<HeaderName> = headers
            .keys()
            .filter(|name| {
                out.clear();
                name.as_str().len() >= super::needles::SHORTEST
                    && scrubber.whole(name.as_str().as_bytes(), &mut out)
            })
            .cloned()
            .collect();
        for name in named {
            headers.remove(name);
        }
        found.extend(scrubber.take_found());
    }

    /// A whole text with its values replaced; `None` where it holds none.
    #[must_use]
    pub fn text(
        self: &Arc<Self>,
        octets: &[u8],
        found: &mut BTreeSet<SecretName>,
    ) -> Option<Vec<u8>> {
        let mut scrubber = self.scrubber(Fit::Free);
        let mut out = Vec::new();
        let changed = scrubber.whole(octets, &mut out);
        found.extend(scrubber.take_found());
        changed.then_some(out)
    }

    fn standing(&self, value: usize) -> Option<&Arc<str>> {
        self.standing.get(value)?.as_ref()
    }

    fn name(&self, value: usize) -> Option<&SecretName> {
        Some(&self.patterns.guarded().values.get(value)?.name)
    }
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrub({} values)", self.standing.len())
    }
}

/// Stands for a value of which the sandbox holds no sentinel.
pub const WITHHELD: &str = "gigph-withheld";

#[cfg(test)]
mod tests;
