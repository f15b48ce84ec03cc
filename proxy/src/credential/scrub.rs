//! Real values on their way back into a sandbox become the sentinels that stand for them there.
//!
//! A value is found as it is and in Base64, hexadecimal, percent-encoding, JSON, HTML and any mix of
//! escapes, wherever the network cut it, and its sentinel is written in the same way. A value shorter than
//! eight octets cannot be told from chance and is not looked for; whoever sets one is told so.
//!
//! # What an answer may tell
//!
//! Who looks for values in an answer may be asked about them: by a program and a host that work together,
//! of which one chooses what is sent and the other sees what became of it, and when. So:
//!
//! | a value | what ends a piece and may begin it | the whole of it |
//! | --- | --- | --- |
//! | that may be placed in this very request, or was before a newer one | is held back | is replaced |
//! | of another secret that the sandbox holds a sentinel for | passes at once | is replaced |
//! | of any other secret | is not looked for | is not looked for |
//!
//! To hold back is to say that a beginning was right, and octet by octet that would say all. It says
//! nothing to a host that is sent the value whenever the program likes, or was: a former version may be good
//! for long, and so may be one that cannot be had anew. Of what only signs, of what gig alone uses and of what
//! is bound elsewhere nobody learns a beginning. That a *whole* value was right can be asked of the second row,
//! as it can of any request (which is refused where it holds one): that is guessing a key, and is answered by
//! the length of the key.
//!
//! ```text
//! following  what becomes known while a body is on its way
//! own        the values of one sandbox, and which of them are held back for
//! pattern    every form of every value
//! stream     holds back and replaces                         piece, run, style
//! answer     what happens to one answer: lengths, codings, ranges     validators
//! work       one body on its way
//! grpc       messages that say their own length
//! ```

use std::{collections::BTreeSet, fmt, sync::Arc};

use gig_policy::{SecretGrant, SecretName};
use gig_vault::Guarded;
use http::{HeaderMap, HeaderName, HeaderValue};

use self::own::{Granted, Own};

pub mod answer;
mod following;
pub mod grpc;
mod kept;
mod moved;
mod own;
pub(super) mod pattern;
mod piece;
mod run;
pub mod stream;
mod style;
mod validators;
mod whole;
pub mod work;
mod wrap;

pub use following::{Found, Scrubbers};
pub(super) use kept::KeptScrub;
pub(super) use own::is_told;
pub use stream::{Fit, Scrubber};
pub use validators::Weakened;

/// What one sandbox must not see in the answer to one request, and what it sees instead.
pub struct Scrub {
    own: Arc<Own>,
    granted: Arc<Granted>,
}

impl Scrub {
    /// For the answer to a request that may carry `granted`.
    pub(super) fn granted(own: Arc<Own>, granted: &[SecretGrant]) -> Arc<Self> {
        let granted = own.granted(granted);
        Arc::new(Self { own, granted })
    }

    /// For values that stand for themselves, as tests and measurements have them; beginnings of all that
    /// are `granted` are held back. `None` when there is nothing to look for.
    #[must_use]
    pub fn of(guarded: Guarded, sentinels: &[&str], granted: &[SecretGrant]) -> Option<Arc<Self>> {
        let own = Own::of(guarded, sentinels)?;
        Some(Self::granted(Arc::new(own), granted))
    }

    /// What changes one body or message.
    #[must_use]
    pub fn scrubber(self: &Arc<Self>, fit: Fit) -> Scrubber {
        Scrubber::new(Arc::clone(self), fit)
    }

    /// Replaces values in a header or trailer section, and adds the names of the secrets to `found`.
    /// Binary metadata keeps its length: messages say their own within (`grpc-status-details-bin`), and so does
    /// `grpc-message`, which clients compare with what stands there.
    pub fn headers(self: &Arc<Self>, headers: &mut HeaderMap, found: &mut BTreeSet<SecretName>) {
        let mut scrubber = self.scrubber(Fit::Free);
        let mut binary = None;
        let mut out = Vec::new();
        for (name, value) in headers.iter_mut() {
            out.clear();
            let keeps_length = name.as_str().ends_with(BINARY) || name == GRPC_MESSAGE;
            let scrubber = match keeps_length {
                true => binary.get_or_insert_with(|| self.scrubber(Fit::Exact)),
                false => &mut scrubber,
            };
            if scrubber.whole(value.as_bytes(), &mut out) {
                let withheld = |_| HeaderValue::from_static(WITHHELD);
                *value = HeaderValue::from_bytes(&out).unwrap_or_else(withheld);
            }
        }
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
        found.extend(binary.iter_mut().flat_map(Scrubber::take_found));
    }

    /// Whether the other looks for the same and waits for the same.
    #[must_use]
    pub fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.own, &other.own) && self.granted.is(&other.granted)
    }

    /// Whether some value may take its sentinel's place, so that the origin may keep it where it likes.
    pub(super) fn places(&self) -> bool {
        self.granted.any_placed()
    }

    /// Whether the origin may be sent a value of this secret, so that one may come back.
    pub(super) fn takes(&self, name: &SecretName) -> bool {
        self.own.takes(&self.granted, name)
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
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.fmt(f)
    }
}

/// Ends the names of gRPC's binary metadata, which is written in Base64.
const BINARY: &str = "-bin";
const GRPC_MESSAGE: &str = "grpc-message";
/// Stands in a field that cannot be written with a sentinel.
const WITHHELD: &str = "gigph-withheld";

#[cfg(test)]
mod tests;
