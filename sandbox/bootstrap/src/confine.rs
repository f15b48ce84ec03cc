//! Giving everything up, in the one order that works.
//!
//! Both processes pass through here. Each step needs what the next one takes
//! away: limits, then no-new-privileges, the capability sets that exec could
//! refill, ids, capabilities, Landlock, and the system call filter last,
//! because it forbids most of the above.

use crate::orders::{Orders, PROGRAM_ID};
use crate::sys::{self, Errno};

/// A step that failed, and why.
pub type Failed = (&'static str, Errno);

/// `SECBIT_*`: NOROOT, NO_SETUID_FIXUP's lock, KEEP_CAPS's lock, and
/// NO_CAP_AMBIENT_RAISE, each locked, so that neither id 0 nor a further exec
/// gives a capability again.
const SECURE_BITS: libc::c_ulong = 0x01 | 0x02 | 0x08 | 0x20 | 0x40 | 0x80;
/// Capabilities are numbered from 0; the kernel answers EINVAL past its last.
const CAPABILITIES: libc::c_ulong = 64;
/// Right to link and rename between directories, which any file system rule
/// of Landlock takes away unless it is given back.
const LANDLOCK_REFER: u64 = 1 << 13;

/// Limits, for the program's process only.
pub fn limits(orders: &Orders) -> Result<(), Failed> {
    for limit in &orders.rlimits {
        sys::limit(limit.resource, limit.value).map_err(|errno| ("set a resource limit", errno))?;
    }
    Ok(())
}

/// Privileges and ids.
pub fn privileges(orders: &Orders) -> Result<(), Failed> {
    let at = |step| move |errno| (step, errno);
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map_err(at("set no-new-privileges"))?;
    sys::prctl(libc::PR_SET_SECUREBITS, SECURE_BITS, 0).map_err(at("lock the secure bits"))?;
    const CLEAR_ALL: libc::c_ulong = 4;
    sys::prctl(libc::PR_CAP_AMBIENT, CLEAR_ALL, 0).map_err(at("clear ambient capabilities"))?;
    for capability in 0..CAPABILITIES {
        match sys::prctl(libc::PR_CAPBSET_READ, capability, 0) {
            Ok(0) => {}
            Err(Errno(libc::EINVAL)) => break,
            _ => {
                sys::prctl(libc::PR_CAPBSET_DROP, capability, 0)
                    .map_err(at("clear the bounding set"))?;
            }
        }
    }
    if orders.set_ids {
        sys::become_id(PROGRAM_ID).map_err(at("take the program's ids"))?;
    }
    sys::drop_capabilities().map_err(at("give up capabilities"))?;
    // A change of ids has cleared both.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0)
        .map_err(at("bind its life to its parent's"))?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).map_err(at("forbid dumps"))?;
    Ok(())
}

/// Landlock, for the program's process only: a scope would keep the first
/// process from signalling the program.
pub fn landlock(orders: &Orders) -> Result<(), Failed> {
    if orders.landlock_fs != 0 || orders.landlock_scoped != 0 {
        sys::landlock(orders.landlock_fs, orders.landlock_scoped, LANDLOCK_REFER)
            .map_err(|errno| ("confine itself by Landlock", errno))?;
    }
    Ok(())
}

/// The system call filters. None at all is a mistake, not a wish.
pub fn filters(orders: &Orders) -> Result<(), Failed> {
    if orders.filters.is_empty() {
        return Err(("load the system call filter", Errno(libc::ENOENT)));
    }
    for filter in &orders.filters {
        sys::load_filter(filter).map_err(|errno| ("load the system call filter", errno))?;
    }
    Ok(())
}
