//! Which runs of host ids the gigs of this host have at the moment, so that two of them have none in common.
//!
//! A socket with an abstract name (unix(7)) for each block of ids: a name that is had is had by one process, ends with
//! it, however that ends, and leaves nothing anywhere. Who could take them all from others only has these do as if
//! nobody else were there. No sandbox sees them: they are of the host's network.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

/// What this process has claimed; it has it until its end.
static HELD: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// Whose a run is, from its first ids on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This process's.
    Ours,
    /// Of these first ids of a block another's.
    Anothers(u32),
}

/// Claims the blocks that begin with these ids, all or none.
pub(crate) fn claim(blocks: impl Iterator<Item = u32>) -> io::Result<Claim> {
    let mut names = Vec::new();
    for first in blocks {
        let name = SocketAddr::from_abstract_name(format!("gig-ids-{first}"))?;
        match UnixDatagram::bind_addr(&name) {
            Ok(name) => names.push(name),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Ok(Claim::Anothers(first));
            }
            Err(error) => return Err(error),
        }
    }
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.extend(names);
    Ok(Claim::Ours)
}

/// The blocks of `size` that hold a run of so many ids, of all blocks from 0 on.
pub(crate) fn touched(base: u32, wanted: u32, size: u32) -> impl Iterator<Item = u32> {
    let last = base.saturating_add(wanted.saturating_sub(1));
    (base / size..=last / size).map(move |block| block.saturating_mul(size))
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
    fn runs_that_overlap_touch_a_block_in_common() {
        let blocks = |base, wanted| touched(base, wanted, 16).collect::<Vec<_>>();
        assert_eq!(blocks(0, 16), [0]);
        assert_eq!(blocks(15, 2), [0, 16]);
        assert_eq!(blocks(16, 33), [16, 32, 48]);
        assert_eq!(blocks(17, 1), [16]);
    }

    #[test]
    fn what_one_has_claimed_another_has_not() {
        // Ids that nobody has.
        let own = u32::MAX - 1_000_000 + std::process::id() % 400 * 2000;
        let claimed = |base: u32, blocks: u32| {
            let firsts = (0..blocks).map(|block| own + base + block * 100);
            match claim(firsts).unwrap() {
                Claim::Anothers(first) => Claim::Anothers(first - own),
                Claim::Ours => Claim::Ours,
            }
        };
        assert_eq!(claimed(1000, 2), Claim::Ours);
        assert_eq!(claimed(900, 2), Claim::Anothers(1000));
        // Nothing is kept of what was not to be had.
        assert_eq!(claimed(900, 1), Claim::Ours);
        assert_eq!(claimed(1100, 3), Claim::Anothers(1100));
        assert_eq!(claimed(1200, 2), Claim::Ours);
    }
}
