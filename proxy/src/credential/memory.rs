//! How much memory the bodies of one sandbox may hold in gig while they are taken apart.
//!
//! A decoder holds a window that the sender chooses the size of, and a sandbox may have thousands of
//! bodies on their way at once. What each holds is taken from what its sandbox may hold in all before it is
//! allocated, and given back when it goes; where nothing is left the body does not pass. Bodies that need
//! no look are not taken apart, and hold nothing.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;

/// What one sandbox's bodies may hold.
pub struct Memory {
    held: AtomicUsize,
    most: usize,
}

/// What one body, or a part of it, holds; given back when it is dropped.
pub struct Share {
    memory: Arc<Memory>,
    octets: usize,
}

/// Octets that grow, counted as they do and for as long as they live.
#[derive(Debug)]
pub struct Counted {
    octets: Vec<u8>,
    share: Share,
}

/// The sandbox's bodies hold all that they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sandbox's bodies hold all the memory that they may while they are taken apart")]
pub struct NoMemory;

impl Memory {
    /// What every sandbox has, all of it left.
    #[must_use]
    pub fn of_sandbox() -> Arc<Self> {
        Self::of(MOST)
    }

    /// So many octets.
    #[must_use]
    pub fn of(most: usize) -> Arc<Self> {
        let held = AtomicUsize::new(0);
        Arc::new(Self { held, most })
    }

    /// How much is held now, in octets.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// A share of nothing, which may grow.
    #[must_use]
    pub fn share(self: &Arc<Self>) -> Share {
        let memory = Arc::clone(self);
        Share { memory, octets: 0 }
    }

    /// Takes `octets`.
    ///
    /// # Errors
    /// [`NoMemory`]; nothing is taken then.
    pub fn take(self: &Arc<Self>, octets: usize) -> Result<Share, NoMemory> {
        let mut share = self.share();
        share.set(octets)?;
        Ok(share)
    }

    /// `octets` as they go on. What is longer than one step makes is counted while any of it lives.
    ///
    /// # Errors
    /// [`NoMemory`]; they are gone then.
    pub fn keep(self: &Arc<Self>, octets: Vec<u8>) -> Result<Bytes, NoMemory> {
        if octets.capacity() <= LITTLE {
            return Ok(octets.into());
        }
        let share = self.take(octets.capacity())?;
        Ok(Counted { octets, share }.into_bytes())
    }

    /// No octets yet.
    #[must_use]
    pub fn counted(self: &Arc<Self>) -> Counted {
        let share = self.share();
        Counted {
            octets: Vec::new(),
            share,
        }
    }
}

impl Counted {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.octets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Appends `more`.
    ///
    /// # Errors
    /// [`NoMemory`]; they are what they were then.
    pub fn extend(&mut self, more: &[u8]) -> Result<(), NoMemory> {
        let had = self.octets.capacity();
        let wanted = self.len().checked_add(more.len()).ok_or(NoMemory)?;
        if wanted > had {
            self.make_room(wanted.max(had.saturating_mul(2)))?;
        }
        self.octets.extend_from_slice(more);
        Ok(())
    }

    /// Takes away the first `octets` of them; their room stays.
    pub fn drop_first(&mut self, octets: usize) {
        drop(self.octets.drain(..octets.min(self.octets.len())));
    }

    /// Makes room for `room` octets in all.
    ///
    /// # Errors
    /// [`NoMemory`]; they are what they were then.
    pub fn make_room(&mut self, room: usize) -> Result<(), NoMemory> {
        let had = self.octets.capacity();
        let Some(more) = room.checked_sub(self.len()).filter(|_| room > had) else {
            return Ok(());
        };
        // While they move there are both.
        let moving = self.share.set(had.saturating_add(room));
        if moving.is_ok() {
            self.octets.reserve_exact(more);
        }
        self.share.set(self.octets.capacity())?;
        moving
    }

    /// Them as they go on, counted while any of them live.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

impl Share {
    /// How much it is, in octets.
    #[must_use]
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// Makes it `octets` in all; to be called before more is allocated, and after less is.
    ///
    /// # Errors
    /// [`NoMemory`]; it is what it was then. Never, where it becomes smaller.
    pub fn set(&mut self, octets: usize) -> Result<(), NoMemory> {
        let held = &self.memory.held;
        if let Some(less) = self.octets.checked_sub(octets) {
            if less > 0 {
                held.fetch_sub(less, Ordering::Relaxed);
            }
        } else {
            let (more, most) = (octets - self.octets, self.memory.most);
            let grown = |held: usize| held.checked_add(more).filter(|held| *held <= most);
            let taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
            taken.map_err(|_| NoMemory)?;
        }
        self.octets = octets;
        Ok(())
    }

    /// Makes it `octets` where it is less.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn at_least(&mut self, octets: usize) -> Result<(), NoMemory> {
        self.set(octets.max(self.octets))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} of {} octets held)", self.held(), self.most)
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({} octets)", self.octets)
    }
}

/// 128 MiB: fourteen Zstandard bodies with the largest window there is (RFC 9659), sixty with the one that
/// servers use, thousands of others.
const MOST: usize = 128 * 1024 * 1024;

/// Two steps of a decoder; a body has no more of it on its way at a time.
const LITTLE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back_and_never_more_than_there_is() {
        let memory = Memory::of(100);
        let mut one = memory.take(60).unwrap();
        assert_eq!(memory.take(41).unwrap_err(), NoMemory);
        let two = memory.take(40).unwrap();
        assert_eq!((one.set(61), memory.held()), (Err(NoMemory), 100));
        drop(two);
        one.at_least(80).unwrap();
        one.at_least(10).unwrap();
        assert_eq!((one.octets(), memory.held()), (80, 80));
        one.set(5).unwrap();
        assert_eq!(memory.held(), 5);
        assert_eq!(one.set(usize::MAX), Err(NoMemory));
        drop(one);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn what_goes_on_is_counted_until_the_last_of_it_is_gone() {
        let memory = Memory::of(300_000);
        let long = memory.keep(vec![7; 200_000]).unwrap();
        let piece = long.slice(10..20);
        assert_eq!(memory.keep(vec![7; 200_000]), Err(NoMemory));
        drop(long);
        assert_eq!((memory.held(), &*piece), (200_000, &[7; 10][..]));
        drop(piece);
        assert_eq!(memory.held(), 0);
        let mut grown = memory.counted();
        for _ in 0..1000 {
            grown.extend(b"0123456789").unwrap();
        }
        assert!(memory.held() >= 10_000 && grown.len() == 10_000);
        assert_eq!(grown.extend(&vec![0; 300_000]), Err(NoMemory));
        let gone = grown.into_bytes();
        assert_eq!(&*gone, b"0123456789".repeat(1000));
        assert!(memory.held() >= 10_000);
        drop(gone);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn threads_together_hold_no_more() {
        let memory = Memory::of(1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for octets in 0..2000 {
                        let share = memory.take(octets);
                        assert!(memory.held() <= 1000);
                        assert!(octets <= 1000 || share.is_err());
                    }
                });
            }
        });
        assert_eq!(memory.held(), 0);
    }
}
