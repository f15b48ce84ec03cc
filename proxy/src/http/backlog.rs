//! What of one HTTP/2 connection's bodies was taken and is written to nobody yet: bounded.
//!
//! A peer that opens all windows and reads nothing would otherwise have h2 hold a full buffer for each of its streams.
//! Octets are counted until h2 has written them and lets go of them. Only what the peer's windows let pass at once is
//! counted, so that a stream whose own window is full keeps no other from its turn: who waits here waits for a
//! peer that reads nothing at all.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// Of one connection. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Backlog(Arc<Semaphore>);

/// A tunnel's way to the places of its connection.
#[derive(Debug)]
pub struct Places {
    semaphore: PollSemaphore,
    waits: bool,
}

/// Octets that hold their place.
struct Counted {
    octets: Bytes,
    #[expect(dead_code, reason = "works by being dropped")]
    place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

impl Default for Backlog {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Backlog {
    /// The octets, [`PART`] at most, with their place, as soon as there is one.
    ///
    /// # Errors
    /// Never: places are not taken away.
    pub async fn hold(&self, octets: Bytes) -> Result<Bytes, AcquireError> {
        let place = Arc::clone(&self.0).acquire_many_owned(cost(octets.len()));
        let place = place.await?;
        Ok(Bytes::from_owner(Counted { octets, place }))
    }

    /// The same places, for who is polled.
    #[must_use]
    pub fn places(&self) -> Places {
        Places {
            semaphore: PollSemaphore::new(Arc::clone(&self.0)),
            waits: false,
        }
    }
}

impl Places {
    /// A copy of the octets, [`PART`] at most, with their place, as soon as there is one.
    ///
    /// # Errors
    /// Never: places are not taken away.
    pub fn poll_hold(&mut self, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<Bytes>> {
        self.waits = true;
        let place = ready!(self.semaphore.poll_acquire_many(cx, cost(octets.len())));
        self.waits = false;
        let place = place.ok_or(io::ErrorKind::BrokenPipe)?;
        let octets = Bytes::copy_from_slice(octets);
        Poll::Ready(Ok(Bytes::from_owner(Counted { octets, place })))
    }

    /// Who waited cannot send now: what was kept for it is everybody's again.
    pub fn leave(&mut self) {
        if self.waits {
            self.semaphore = self.semaphore.clone();
            self.waits = false;
        }
    }
}

/// What a piece is counted as.
fn cost(octets: usize) -> u32 {
    u32::try_from(octets.saturating_add(PIECE)).unwrap_or(u32::MAX)
}

/// Four streams of those that have full buffers; 64 connections hold 64 MiB.
const MOST: usize = 16 * (PART + PIECE);
/// What h2 and this keep for a piece beside its octets: messages of one octet are many.
const PIECE: usize = 256;
/// Taken at once: h2 keeps the last one until it writes again, and there must be room beside it.
pub const PART: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn what_is_written_makes_room_and_nothing_else_does() {
        let backlog = Backlog::default();
        let part = || Bytes::from(vec![7; PART]);
        let mut held: Vec<_> = (0..MOST / PART)
            .map(|_| backlog.hold(part()).now_or_never().unwrap().unwrap())
            .collect();
        assert_eq!(held[0], part());
        let mut waiting = Box::pin(backlog.hold(part()));
        assert!(waiting.as_mut().now_or_never().is_none());
        let mut first = held.remove(0);
        let half = first.split_to(PART / 2);
        drop(first);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(half);
        assert!(waiting.now_or_never().is_some());
    }
}
