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
