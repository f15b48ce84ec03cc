//! Calls that need a privilege, or give one up.

use std::ffi::CStr;

use libc::{c_int, c_long, c_ulong};

use super::{Result, check, done};

/// Becomes one user and one group, with no further groups.
pub fn become_id(id: u32) -> Result<()> {
    // SAFETY: a count of zero reads no memory.
    done(unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) })?;
    // SAFETY: touches no memory.
    done(unsafe { libc::syscall(libc::SYS_setresgid, id, id, id) })?;
    // SAFETY: touches no memory.
    done(unsafe { libc::syscall(libc::SYS_setresuid, id, id, id) })
}

/// The kernel's `struct __user_cap_header_struct`, of the version with two
/// words a set.
#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

static OWN: Header = Header {
    version: 0x2008_0522,
    pid: 0,
};

/// Gives up every capability, in all three sets.
pub fn drop_capabilities() -> Result<()> {
    let none = [0_u32; 6];
    // SAFETY: this version reads one header and two sets of three words.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw const OWN, none.as_ptr()) })
}

/// Gives up one capability of the first 32, in all three sets.
pub fn drop_capability(number: u32) -> Result<()> {
    let mut sets = [0_u32; 6];
    // SAFETY: this version writes two sets of three words.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw const OWN, sets.as_mut_ptr()) })?;
    let [low @ .., _, _, _] = &mut sets;
    for set in low {
        *set &= !(1_u32 << (number & 31));
    }
    // SAFETY: this version reads one header and two sets of three words.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw const OWN, sets.as_ptr()) })
}

/// Mounts, or changes a mount.
pub fn mount(
    source: &CStr,
    at: &CStr,
    kind: &CStr,
    flags: c_ulong,
    data: &CStr,
) -> Result<()> {
    // SAFETY: every text is NUL-terminated, the data too: no file system that
    // is mounted here takes it as anything but a text.
    done(c_long::from(unsafe {
        libc::mount(
            source.as_ptr(),
            at.as_ptr(),
            kind.as_ptr(),
            flags,
            data.as_ptr().cast(),
        )
    }))
}
