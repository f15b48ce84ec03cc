//! Which runs of host ids the gigs of this user have at the moment, so that two of them have none in common.
//!
//! A locked file for each 65,536 ids, in a directory that is the user's alone: a lock ends with the process that has
//! it, however that ends. Where there is no such place nothing is claimed, and who starts does as if nobody else had.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// What this process has claimed; it has it until its end.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Whose a run is, from its first ids on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This process's.
    Ours,
    /// Of these first ids of a block another's.
    Anothers(u32),
}

/// Claims so many blocks of `size` ids each.
pub(crate) fn claim(place: &Path, base: u32, (blocks, size): (u32, u32)) -> io::Result<Claim> {
    let mut locks = Vec::new();
    for block in 0..blocks {
        let first = base.saturating_add(block.saturating_mul(size));
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(place.join(first.to_string()))?;
        match lock.try_lock() {
            Ok(()) => locks.push(lock),
            Err(TryLockError::WouldBlock) => return Ok(Claim::Anothers(first)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.extend(locks);
    Ok(Claim::Ours)
}

/// Where they are: of root, and of a user who has signed in.
pub(crate) fn place() -> Option<PathBuf> {
    let user = geteuid();
    let above = match user.is_root() {
        true => PathBuf::from("/run"),
        false => PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?),
    };
    let place = above.join("gig-ids");
    // One that is there may be somebody else's.
    let _there = DirBuilder::new().mode(0o700).create(&place);
    let facts = fs::symlink_metadata(&place).ok()?;
    let is_ours = facts.is_dir() && facts.uid() == user.as_raw() && facts.mode() & 0o022 == 0;
    is_ours.then_some(place)
}

/// The first run of so many from `base` on, in steps of `size`, that ends by `end` and is not taken.
pub(crate) fn within(
    (base, end): (u32, u32),
    (wanted, size): (u32, u32),
    taken: &[(u32, u32)],
) -> Option<u32> {
    let steps = (0..).map(|step: u32| base.saturating_add(step.saturating_mul(size)));
    let mut fitting = steps.take_while(|base| end.saturating_sub(*base) >= wanted);
    fitting.find(|base| {
        let is_clear = |(first, count): &(u32, u32)| {
            base.saturating_add(wanted) <= *first || first.saturating_add(*count) <= *base
        };
        taken.iter().all(is_clear)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_user_was_given_the_first_that_is_not_taken_is_had() {
        let one = 65_536;
        let had = |wanted, taken: &[u32]| {
            let taken: Vec<_> = taken.iter().map(|first| (*first, one)).collect();
            within((100_000, 100_000 + 3 * one), (wanted, one), &taken)
        };
        assert_eq!(had(one, &[]), Some(100_000));
        assert_eq!(had(one, &[100_000]), Some(100_000 + one));
        assert_eq!(had(2 * one, &[100_000]), Some(100_000 + one));
        assert_eq!(had(2 * one, &[100_000 + one]), None);
        assert_eq!(had(4 * one, &[]), None);
    }

    #[test]
    fn what_one_has_claimed_another_has_not() {
        let place = std::env::temp_dir().join(format!("gig-ids-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let claimed = |base, blocks| claim(&place, base, (blocks, 100)).unwrap();
        assert_eq!(claimed(1000, 2), Claim::Ours);
        assert_eq!(claimed(900, 2), Claim::Anothers(1000));
        // Nothing is kept of what was not to be had.
        assert_eq!(claimed(900, 1), Claim::Ours);
        assert_eq!(claimed(1100, 3), Claim::Anothers(1100));
        assert_eq!(claimed(1200, 2), Claim::Ours);
        fs::remove_dir_all(&place).unwrap();
    }
}
