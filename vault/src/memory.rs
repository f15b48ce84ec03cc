//! Where secrets live in memory: locked pages, shared by many small secrets, wiped when given back.
//!
//! Every page is out of swap (`mlock`), core files (`MADV_DONTDUMP`) and children (`MADV_WIPEONFORK`),
//! between guard pages. A few pages hold hundreds of secrets, so that the usual `RLIMIT_MEMLOCK` is
//! plenty. Where the limit is too low the octets are still kept, but in pages that could be swapped,
//! and [`locked`] says so: who hands secrets out refuses then, unless the operator said otherwise.
//!
//! Copies that traffic is compared with are many times as long as the secrets themselves. They have pages
//! of their own, which take no more than half of what may be locked, and leave 64 KiB to the secrets; beyond
//! it they are undumpable and wiped all the same, and could be swapped, which is told once.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

use crate::{
    secret_bytes::SecretBytes,
    sys::{Block, Region},
};

/// Secrets may be in memory that can be swapped to the disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "secrets cannot be kept out of swap: this process may lock {limit} octets of memory only; raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit), or set {SWAPPABLE}=yes to keep them in memory that can be swapped"
)]
pub struct LockMemoryError {
    limit: u64,
}

/// The process cannot be shut to those who would read its memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot make this process undumpable, so that its secrets could be read out of it")]
pub struct SealProcessError(#[source] io::Error);

/// Whether every secret so far is in locked memory, or the operator allows that it is not.
///
/// # Errors
/// When not; says the limit and the cure.
pub fn locked() -> Result<(), LockMemoryError> {
    let pool = pool();
    // A first region tells whether locking works at all.
    drop(pool.take(1));
    if !pool.short.load(Ordering::Relaxed) || swappable_allowed() {
        return Ok(());
    }
    let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    Err(LockMemoryError { limit })
}

/// Whether these are in locked memory, or the operator allows that they are not: asked before they are handed out.
/// The limit may be reached long after the first secret.
///
/// # Errors
/// When not; says the limit and the cure.
pub(crate) fn all_locked<'a>(
    mut secrets: impl Iterator<Item = &'a SecretBytes>,
    swappable: bool,
) -> Result<(), LockMemoryError> {
    if swappable || secrets.all(SecretBytes::is_locked) {
        return Ok(());
    }
    let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    Err(LockMemoryError { limit })
}

/// Shuts the process to debuggers and core files of other processes of the same user, for good: to be
/// called before the first secret is read. Programs that it starts are not affected.
///
/// # Errors
/// When the system refuses.
pub fn seal_process() -> Result<(), SealProcessError> {
    let never = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, never).map_err(|error| SealProcessError(error.into()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| SealProcessError(error.into()))
}

/// `length` octets, all zero.
pub(crate) fn take(length: usize) -> Option<Block> {
    pool().take(length)
}

/// The same where nothing may be locked any more.
#[cfg(test)]
pub(crate) fn take_unlocked(length: usize) -> Option<Block> {
    Arc::new(Region::map(length, false).ok()?).take(length)
}

/// `length` octets, all zero, for copies that are compared with.
pub(crate) fn lend(length: usize) -> Option<(Block, Lent)> {
    // Says what the limit is, after it was raised.
    let _pool: &Pool = pool();
    let length = length.next_multiple_of(rustix::param::page_size());
    let mut lent = Lent::take(length);
    let region = Region::map(length, lent.0 > 0).inspect_err(|error| {
        tracing::error!(%error, "there is no memory for what secrets are compared with");
    });
    let block = Arc::new(region.ok()?).take(length)?;
    if !block.is_locked() {
        // What is not locked takes nothing from others.
        lent = Lent(0);
        static TOLD: AtomicBool = AtomicBool::new(false);
        if !TOLD.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "what traffic is compared with is in memory that could be swapped: RLIMIT_MEMLOCK \
                 is too low for it (ulimit -l, LimitMEMLOCK=)"
            );
        }
    }
    Some((block, lent))
}

/// Octets that are locked for copies; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Lent(usize);

/// What is locked for copies in this process.
static LENT: AtomicUsize = AtomicUsize::new(0);

impl Lent {
    /// `length` octets, or none where that were more than copies may take.
    fn take(length: usize) -> Self {
        let limit = getrlimit(Resource::Memlock).current;
        let limit = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let more = |lent: usize| lent.checked_add(length).filter(|lent| *lent <= most(limit));
        let taken = LENT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        Self(if taken.is_ok() { length } else { 0 })
    }
}

/// What copies may take where so much may be locked: half of it, and never what secrets themselves need.
const fn most(limit: usize) -> usize {
    let (half, rest) = (limit / 2, limit.saturating_sub(KEPT_FOR_SECRETS));
    if half < rest { half } else { rest }
}

impl Drop for Lent {
    fn drop(&mut self) {
        LENT.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The regions of this process.
#[derive(Debug, Default)]
struct Pool {
    regions: Mutex<Vec<Arc<Region>>>,
    /// A region could not be locked.
    short: AtomicBool,
}

impl Pool {
    fn take(&self, length: usize) -> Option<Block> {
        let mut regions = self.regions.lock();
        let found = regions.iter().find_map(|region| region.take(length));
        if found.is_some() {
            return found;
        }
        regions.retain(|region| !region.is_idle());
        let region = match Region::map(length.max(REGION), true) {
            Ok(region) => Arc::new(region),
            Err(error) => {
                tracing::error!(%error, "there is no memory for a secret");
                return None;
            }
        };
        if !region.is_locked() && !self.short.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "memory for secrets cannot be locked: RLIMIT_MEMLOCK is too low (ulimit -l, \
                 LimitMEMLOCK=)"
            );
        }
        let block = region.take(length);
        regions.push(region);
        block
    }
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        raise_limit();
        Pool::default()
    })
}

/// What the hard limit allows needs nobody's leave.
fn raise_limit() {
    let limit = getrlimit(Resource::Memlock);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Without it the limit stays what it was, which is enough for hundreds of secrets.
        setrlimit(Resource::Memlock, raised).ok();
    }
}

pub(crate) fn swappable_allowed() -> bool {
    std::env::var_os(SWAPPABLE).is_some_and(|value| value == "yes")
}

/// The operator's leave to keep secrets in memory that can be swapped.
const SWAPPABLE: &str = "GIG_SWAPPABLE_SECRETS";
/// For a thousand small secrets. Copies can do without locked pages; secrets are not handed out without.
const KEPT_FOR_SECRETS: usize = 64 * 1024;
/// 256 small secrets; well below 64 KiB, the smallest limit in use.
const REGION: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_could_be_swapped_is_not_handed_out_without_leave() {
        let locked = SecretBytes::from("hunter2 hunter2");
        let unlocked = SecretBytes::unlocked(b"hunter2 hunter2");
        let all = [&locked, &unlocked];
        assert_eq!(all_locked([&locked].into_iter(), false), Ok(()));
        let refused = all_locked(all.into_iter(), false).unwrap_err().to_string();
        assert!(
            refused.contains("ulimit -l") && refused.contains(SWAPPABLE),
            "{refused}"
        );
        assert_eq!(all_locked(all.into_iter(), true), Ok(()));
    }

    /// The `VmFlags` of the mapping that holds `address`.
    fn flags(address: usize) -> Vec<String> {
        let text = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in text.lines() {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            let bounds = range.and_then(|(from, to)| {
                let from = usize::from_str_radix(from, 16).ok()?;
                Some(from..usize::from_str_radix(to, 16).ok()?)
            });
            if let Some(bounds) = bounds {
                inside = bounds.contains(&address);
            }
            if let Some(flags) = line.strip_prefix("VmFlags: ").filter(|_| inside) {
                return flags.split_whitespace().map(str::to_owned).collect();
            }
        }
        panic!("{address:x} is not mapped");
    }

    #[test]
    fn secrets_are_locked_undumpable_and_not_inherited() {
        let secret = SecretBytes::copy_of(b"hunter2 hunter2 hunter2");
        let flags = flags(secret.expose().as_ptr() as usize);
        for flag in ["lo", "dd", "wf"] {
            assert!(
                flags.iter().any(|f| f == flag),
                "{flag} is not in {flags:?}"
            );
        }
    }

    #[test]
    fn copies_that_are_compared_with_are_locked_undumpable_and_not_inherited() {
        let copy = SecretBytes::compared(&[b"hunter2 hunter2".as_slice(), b"2retnuh"].concat());
        assert_eq!(copy.expose(), b"hunter2 hunter22retnuh");
        assert_eq!(copy.len(), 22);
        let flags = flags(copy.expose().as_ptr() as usize);
        let limit = getrlimit(Resource::Memlock).current;
        let locked = limit.is_none_or(|limit| limit > 1 << 20);
        assert!(copy.is_locked() || !locked);
        for flag in if locked {
            &["lo", "dd", "wf"][..]
        } else {
            &["dd", "wf"]
        } {
            let has = flags.iter().any(|f| f == flag);
            assert!(has, "{flag} is not in {flags:?}");
        }
    }

    #[test]
    fn copies_take_no_more_than_half_of_what_may_be_locked() {
        let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
        let Ok(limit) = usize::try_from(limit) else {
            return;
        };
        let too_much = Lent::take(limit / 2 + 1);
        assert_eq!(too_much.0, 0);
        assert_eq!(most(8 << 20), 4 << 20);
        assert_eq!(most(96 << 10), 32 << 10);
        assert_eq!(most(64 << 10), 0, "secrets need what little there is");
        // Half of what may be locked at most, however many ask; what one gives back another has.
        let share = most(limit);
        let each = (share / 8).max(1);
        let taken: Vec<_> = (0..64).map(|_| Lent::take(each)).collect();
        let had: usize = taken.iter().map(|one| one.0).sum();
        assert!(had <= share && LENT.load(Ordering::Relaxed) <= share);
        assert!(taken.iter().any(|one| one.0 == 0), "{had} of {share}");
        drop(taken);
        assert!(share == 0 || Lent::take(each).0 == each, "{share}");
    }

    #[test]
    fn guard_pages_stand_on_both_sides() {
        let secret = SecretBytes::new(vec![7; 3 * REGION]);
        let text = fs::read_to_string("/proc/self/maps").unwrap();
        let address = secret.expose().as_ptr() as usize;
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| {
            line.split_once('-')
                .and_then(|(from, _)| usize::from_str_radix(from, 16).ok())
                .is_some_and(|from| from == address)
        });
        let at = at.expect("a large secret begins its region");
        for guard in [lines[at - 1], lines[at + 1]] {
            assert!(guard.contains(" ---p "), "{guard}");
        }
    }

    #[test]
    fn a_thousand_small_secrets_need_little_memory() {
        let pool = Pool::default();
        let secrets: Vec<_> = (0..1000).map(|n| pool.take(40 + n % 20)).collect();
        assert!(secrets.iter().all(Option::is_some));
        assert!(pool.regions.lock().len() * REGION <= 64 * 1024);
        drop(secrets);
    }

    #[test]
    fn what_is_given_back_is_wiped() {
        let region = Arc::new(Region::map(REGION, true).unwrap());
        let mut block = region.take(100).unwrap();
        block.octets_mut().fill(0x5a);
        drop(block);
        // The same place again, as it was left.
        let again = region.take(REGION).unwrap();
        assert!(again.octets().iter().all(|octet| *octet == 0));
    }

    #[test]
    fn blocks_never_overlap() {
        let region = Arc::new(Region::map(REGION, true).unwrap());
        let mut blocks = Vec::new();
        while let Some(mut block) = region.take(1 + blocks.len() % 200) {
            let mark = u8::try_from(blocks.len() % 251).unwrap();
            block.octets_mut().fill(mark);
            blocks.push((mark, block));
        }
        for (mark, block) in &blocks {
            assert!(block.octets().iter().all(|octet| octet == mark));
        }
    }
}
