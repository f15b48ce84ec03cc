//! What connections share: with all others, and with those of their own thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustls::crypto::CryptoProvider;
use tokio::sync::{Notify, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    deadlines::Deadlines,
    descriptors::Descriptors,
    enforce::ledger::Ledger,
    hold::Desk,
    identity::Identity,
    tls::{downstream::Terminator, roots::LazyVerifier},
    upstream::{dial::Dialer, pool::Pool},
};

/// Shared by all threads.
#[derive(Debug)]
pub struct Shared {
    /// How long things may take.
    pub deadlines: Deadlines,
    /// The record.
    pub ledger: Ledger,
    /// The only way to an origin.
    pub dialer: Dialer,
    /// TLS with sandboxes.
    pub terminator: Terminator,
    /// Whom origins' certificates may come from.
    pub verifier: LazyVerifier,
    /// Cryptography for both sides.
    pub provider: Arc<CryptoProvider>,
    /// Numbers requests.
    pub ids: RequestIds,
    /// What connections may take.
    pub descriptors: Descriptors,
    /// Who is asked about what a policy holds.
    pub desk: Option<Arc<dyn Desk>>,
}

/// One thread's own.
#[derive(Debug)]
pub struct Worker {
    /// What is shared by all.
    pub shared: Arc<Shared>,
    /// Connections to origins that wait for their next request.
    pub pool: Pool,
    /// Owns every task of this thread.
    pub tasks: TaskTracker,
    /// No new connections, and no further requests on open ones.
    pub drain: CancellationToken,
    /// Connections that this thread serves now.
    pub load: AtomicUsize,
    /// Refused clients that are being told why at once.
    pub refusing: Arc<Semaphore>,
    soon: Soon,
}

/// One clock for all who wait a short while for something that nearly always comes before: setting
/// a clock of its own for each request would cost two system calls where one is served at a time.
#[derive(Debug, Default)]
struct Soon {
    running: AtomicBool,
    over: Notify,
}

impl Worker {
    /// A thread's own things; everything that it spawns ends up in `tasks`.
    #[must_use]
    pub fn new(shared: Arc<Shared>, drain: CancellationToken) -> Arc<Self> {
        let tasks = TaskTracker::new();
        Arc::new(Self {
            pool: Pool::new(tasks.clone()),
            shared,
            tasks,
            drain,
            load: AtomicUsize::new(0),
            refusing: Arc::new(Semaphore::new(TELLING)),
            soon: Soon::default(),
        })
    }

    /// Completes within `SOON`; when, depends on what else waits.
    pub fn soon(self: &Arc<Self>) -> impl Future<Output = ()> + use<'_> {
        // From here on it hears the clock, though it is not polled yet.
        let over = self.soon.over.notified();
        if !self.soon.running.swap(true, Ordering::Relaxed) {
            let worker = Arc::clone(self);
            drop(self.tasks.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(SOON) => {}
                    () = worker.drain.cancelled() => {}
                }
                worker.soon.running.store(false, Ordering::Relaxed);
                worker.soon.over.notify_waiters();
            }));
        }
        over
    }

    /// Shorthand.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Shorthand.
    #[must_use]
    pub fn deadlines(&self) -> &Deadlines {
        &self.shared.deadlines
    }
}

/// A policy change shall reach every request within a second, and what waits longer than this is
/// watched.
const SOON: Duration = Duration::from_millis(300);
/// Telling holds a descriptor for up to a second; beyond this many, refusal is a reset.
const TELLING: usize = 32;

/// Finds who calls; shared by the accept loops.
pub type Identities = Arc<dyn Identity>;

/// Gives each request an id that no other request has, in this process or another.
#[derive(Debug)]
pub struct RequestIds {
    /// 16 hexadecimal digits and a dash.
    process: [u8; 17],
    next: AtomicU64,
}

impl RequestIds {
    /// Ids that begin with a random number of this process.
    #[must_use]
    pub fn new() -> Self {
        let mut octets = [0; 8];
        // Without random numbers ids are unique in this process only; they prove nothing either way.
        if aws_lc_rs::rand::fill(&mut octets).is_err() {
            tracing::error!("the system gave no random numbers for request ids");
        }
        let mut process = [b'-'; 17];
        hexadecimal(&mut process[..16], u64::from_be_bytes(octets));
        Self {
            process,
            next: AtomicU64::new(1),
        }
    }

    /// The next one: 16 hexadecimal digits of the process, a dash, a count.
    #[must_use]
    pub fn next(&self) -> Arc<str> {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let digits = usize::try_from(count.checked_ilog2().unwrap_or(0) / 4).unwrap_or(0) + 1;
        let mut text = [0; 33];
        let (process, place) = text.split_at_mut(self.process.len());
        process.copy_from_slice(&self.process);
        let length = process.len() + digits;
        if let Some(place) = place.get_mut(..digits) {
            hexadecimal(place, count);
        }
        let text = text.get(..length).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default().into()
    }
}

/// The last digits of `value`, as many as there is room for.
fn hexadecimal(place: &mut [u8], mut value: u64) {
    for digit in place.iter_mut().rev() {
        // Below sixteen.
        let nibble = u8::try_from(value & 0xf).unwrap_or_default();
        *digit = nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
        value >>= 4;
    }
}

impl Default for RequestIds {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_sixteen_digits_a_dash_and_a_count() {
        let ids = RequestIds {
            process: *b"00ff00ff00ff00ff-",
            next: AtomicU64::new(1),
        };
        for (count, text) in [
            (1, "00ff00ff00ff00ff-1"),
            (9, "00ff00ff00ff00ff-9"),
            (0x10, "00ff00ff00ff00ff-10"),
            (0xabc, "00ff00ff00ff00ff-abc"),
            (u64::MAX, "00ff00ff00ff00ff-ffffffffffffffff"),
        ] {
            ids.next.store(count, Ordering::Relaxed);
            assert_eq!(&*ids.next(), text);
        }
        let made = RequestIds::new().next();
        assert_eq!(made.len(), 18);
        assert!(made.ends_with("-1") && made.bytes().take(16).all(|b| b.is_ascii_hexdigit()));
    }
}
