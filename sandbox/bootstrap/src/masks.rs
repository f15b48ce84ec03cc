//! Covering what `/proc` says about the host, and giving the right to mount up.
//!
//! With a range of ids the bootstrap does this in place of the engine, which
//! takes ten times as long over a mount: it reads the list of all mounts after
//! each. Nothing of the caller's has been looked at yet, and when this returns
//! the process cannot mount any more.

use std::ffi::CString;

use crate::orders::Masked;
use crate::sys::{self, Errno};

/// The number of the capability to mount.
const SYS_ADMIN: u32 = 21;
/// A mount that says no to everything but being looked at.
const CLOSED: libc::c_ulong = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// Covers all of them: a directory by an empty one, a file by a device where
/// devices cannot be opened.
pub fn cover(masks: &[Masked]) -> Result<(), Errno> {
    let mut closed: Option<CString> = None;
    for mask in masks {
        let path = CString::new(mask.path.as_slice()).map_err(|_| Errno(libc::EINVAL))?;
        if mask.directory {
            sys::mount(c"tmpfs", &path, c"tmpfs", CLOSED, c"mode=0555,size=4096")?;
            continue;
        }
        match &closed {
            // A copy of a closed mount is closed.
            Some(closed) => sys::mount(closed, &path, c"", libc::MS_BIND, c"")?,
            None => {
                sys::mount(c"/dev/null", &path, c"", libc::MS_BIND, c"")?;
                let flags = libc::MS_REMOUNT | libc::MS_BIND | CLOSED;
                sys::mount(c"", &path, c"", flags, c"")?;
                closed = Some(path);
            }
        }
    }
    sys::drop_capability(SYS_ADMIN)
}
