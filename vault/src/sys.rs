//! Pages that are never swapped, dumped or inherited, and the environment that the kernel gave: the only unsafe code of
//! the crate.
//!
//! A [`Region`] is mapped memory between two guard pages. [`Block`]s are taken from it and given back;
//! the region keeps the books itself, so that no two blocks ever overlap, and wipes what is given back.

#![expect(
    unsafe_code,
    reason = "the crate's one home of memory that the allocator knows nothing of, and that libc calls its own"
)]

use std::{
    ffi::{CStr, c_char, c_void},
    io,
    ptr::NonNull,
    sync::Arc,
};

use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use zeroize::Zeroize;

/// Mapped memory: a guard page, pages to use, a guard page.
#[derive(Debug)]
pub(crate) struct Region {
    /// Where the lower guard page begins.
    start: NonNull<c_void>,
    /// Of everything, in octets.
    mapped: usize,
    /// Of what can be used, in octets.
    usable: usize,
    locked: bool,
    /// Which granules are taken; changed before a block exists and after it is gone.
    taken: Mutex<Vec<bool>>,
}

// SAFETY: a Region owns its mapping, which any thread may read, write and unmap; its own fields never
// change but for `taken`, which has a lock.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` gives access to the memory only through `take`, under the lock.
unsafe impl Sync for Region {}

/// Some octets of a region, nobody else's.
#[derive(Debug)]
pub(crate) struct Block {
    region: Arc<Region>,
    /// Of the first granule.
    first: usize,
    length: usize,
}

impl Region {
    /// Maps at least `usable` octets, and locks them if that is wanted and the system allows; says whether
    /// it did.
    pub(crate) fn map(usable: usize, lock: bool) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let usable = usable.next_multiple_of(page);
        let mapped = usable + 2 * page;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let nowhere = std::ptr::null_mut();
        // SAFETY: the address is null, so that the kernel picks one where nothing is mapped.
        let start =
            unsafe { rustix::mm::mmap_anonymous(nowhere, mapped, ProtFlags::empty(), flags) }?;
        let Some(start) = NonNull::new(start) else {
            return Err(io::Error::other("memory was mapped at address zero"));
        };
        // From here on dropping it unmaps.
        let mut region = Self {
            start,
            mapped,
            usable,
            locked: false,
            taken: Mutex::new(vec![false; usable / GRANULE]),
        };
        let inside = region.inside().cast::<c_void>().as_ptr();
        let open = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the pages are this mapping's, and nothing refers to them yet.
        unsafe { rustix::mm::mprotect(inside, usable, open) }?;
        for advice in [Advice::LinuxDontDump, Advice::LinuxWipeOnFork] {
            // SAFETY: the pages are this mapping's, private and anonymous; neither advice changes what
            // this process reads.
            unsafe { rustix::mm::madvise(inside, usable, advice) }?;
        }
        if lock {
            // SAFETY: the pages are this mapping's; locking changes no content.
            region.locked = unsafe { rustix::mm::mlock(inside, usable) }.is_ok();
        }
        Ok(region)
    }

    /// Whether none of it is ever written to swap.
    pub(crate) const fn is_locked(&self) -> bool {
        self.locked
    }

    /// Whether nobody has any of it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.taken.lock().contains(&true)
    }

    /// `length` octets, all zero; `None` when no stretch of them is free.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> Option<Block> {
        let granules = length.div_ceil(GRANULE).max(1);
        let mut taken = self.taken.lock();
        let first = taken
            .windows(granules)
            .position(|stretch| !stretch.contains(&true))?;
        taken.get_mut(first..first + granules)?.fill(true);
        Some(Block {
            region: Arc::clone(self),
            first,
            length,
        })
    }

    /// Where the usable octets begin.
    #[inline]
    const fn inside(&self) -> NonNull<u8> {
        let guard = (self.mapped - self.usable) / 2;
        // SAFETY: the guard page and what follows lie within the one mapping that `start` begins, which
        // is smaller than isize::MAX.
        unsafe { self.start.cast::<u8>().add(guard) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this region's own; every block holds the region, so none is left.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.mapped) };
        if let Err(error) = unmapped {
            tracing::error!(%error, "memory of secrets cannot be unmapped; it was wiped");
        }
    }
}

impl Block {
    /// The octets.
    #[inline]
    pub(crate) fn octets(&self) -> &[u8] {
        // SAFETY: `length` octets from the block's first granule lie inside the mapping, readable and
        // initialised (anonymous pages are zero); the region's book gives them to this block alone, and
        // writing them needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.begin().as_ptr(), self.length) }
    }

    /// The octets, to be written.
    pub(crate) fn octets_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `octets`, and `&mut self` is the only way to this block now.
        unsafe { std::slice::from_raw_parts_mut(self.begin().as_ptr(), self.length) }
    }

    /// Whether it is never written to swap.
    pub(crate) fn is_locked(&self) -> bool {
        self.region.is_locked()
    }

    #[inline]
    fn begin(&self) -> NonNull<u8> {
        // SAFETY: the book said that the granules from `first` on exist, so that their begin lies
        // inside the mapping.
        unsafe { self.region.inside().add(self.first * GRANULE) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.octets_mut().zeroize();
        let granules = self.length.div_ceil(GRANULE).max(1);
        let mut taken = self.region.taken.lock();
        if let Some(stretch) = taken.get_mut(self.first..self.first + granules) {
            stretch.fill(false);
        }
    }
}

/// Tells `taken` each variable of the environment, by name and value, and wipes the values for which that says so. Does
/// nothing where this process has another thread.
pub(crate) fn wipe_variables(mut taken: impl FnMut(&[u8], &[u8]) -> bool) {
    // Another could read the environment meanwhile. None begins while the only one is in here.
    let tasks = std::fs::read_dir("/proc/self/task");
    if !tasks.is_ok_and(|tasks| tasks.count() == 1) {
        return;
    }
    // SAFETY: libc's own pointer, which is set before `main`, and nobody else is there to change it.
    let mut entry = unsafe { environ };
    while !entry.is_null() {
        // SAFETY: POSIX: an array of pointers that a null pointer ends, which was not reached yet.
        let text = unsafe { *entry };
        if text.is_null() {
            return;
        }
        // SAFETY: each is a string with a NUL at its end, which nobody changes while `whole` lives.
        let whole = unsafe { CStr::from_ptr(text) }.to_bytes();
        let Some((name, value)) = whole.split_at_checked(equals_sign(whole)) else {
            return;
        };
        let value = value.get(1..).unwrap_or_default();
        if taken(name, value) {
            let (before, length) = (name.len() + 1, value.len());
            // SAFETY: within the string that was just read, of which `before` octets come before its value.
            let begin = unsafe { text.cast::<u8>().add(before) };
            // SAFETY: the value's octets, initialised and in memory that may be written: the stack on which the
            // kernel put them, or what a library set there. `name` and `value` are used no more.
            let octets = unsafe { std::slice::from_raw_parts_mut(begin, length) };
            octets.zeroize();
        }
        // SAFETY: the entry was not the last, so that the next is of the same array.
        entry = unsafe { entry.add(1) };
    }
}

/// Where a variable's name ends.
fn equals_sign(variable: &[u8]) -> usize {
    let at = variable.iter().position(|octet| *octet == b'=');
    at.unwrap_or(variable.len())
}

unsafe extern "C" {
    static environ: *mut *mut c_char;
}

/// Most tokens fit one or two of them; a page holds 64 secrets.
const GRANULE: usize = 64;
