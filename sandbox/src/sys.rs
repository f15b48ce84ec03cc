//! The calls that no safe wrapper offers: the crate's only unsafe code.

#![expect(
    unsafe_code,
    reason = "the crate's one home of system calls without a safe wrapper"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The kernel's Landlock version, if it has Landlock and it is on.
pub(crate) fn landlock_abi() -> Option<u32> {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads no memory and wants a null
    // pointer and a size of zero.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(abi).ok()
}

/// Maps a detached mount and all below it, which become nobody's peers, by a user namespace's ids, without
/// set-id files and devices, and read-only if so wished.
pub(crate) fn map_mount(tree: &OwnedFd, map: &OwnedFd, read_only: bool) -> io::Result<()> {
    let namespace = u64::from(map.as_raw_fd().unsigned_abs());
    let mut set = libc::MOUNT_ATTR_IDMAP | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    if read_only {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    change_mount(tree, set, namespace)
}

/// Makes a detached mount read-only, without set-id files and devices.
pub(crate) fn confine_mount(tree: &OwnedFd) -> io::Result<()> {
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    change_mount(tree, set, 0)
}

/// Makes a detached mount read-only and its devices impossible to open.
pub(crate) fn close_mount(tree: &OwnedFd) -> io::Result<()> {
    change_mount(tree, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV, 0)
}

fn change_mount(tree: &OwnedFd, set: u64, namespace: u64) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        // A clone of a shared mount is its peer: what is mounted in it would be mounted on the host, and what the
        // host mounts would come in.
        propagation: libc::MS_PRIVATE,
        userns_fd: namespace,
    };
    // SAFETY: the path is NUL-terminated; the attributes are valid for a read
    // of the size that is passed; both descriptors are borrowed for the call.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives the calling thread a root and working directory of its own.
pub(crate) fn leave_shared_root() -> io::Result<()> {
    // SAFETY: touches no memory and no descriptor: the file system context is
    // copied, nothing of it is taken away from the other threads.
    if unsafe { libc::unshare(libc::CLONE_FS) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Waits until the descriptor is readable or hung up. Dropping it is safe.
///
/// # Errors
/// When it cannot be waited for.
pub async fn readable(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: the descriptor is open and stays the same one while the
    // registration lives: it is borrowed from its owner for longer.
    let fd = unsafe { AsyncFd::register_with_interest(fd.as_fd(), Interest::READABLE) }?;
    fd.readable().await?.retain_ready();
    Ok(())
}

/// Has each read of a pseudo-terminal's controlling end begin with an octet that says what the read is
/// (ioctl_tty(2), TIOCPKT): 0 for what was written, [`MODES_CHANGED`] set where its modes changed, which
/// is told while they contain EXTPROC.
///
/// # Errors
/// When it is no such end.
pub fn tell_of_modes(controller: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let fd = controller.as_fd().as_raw_fd();
    // SAFETY: TIOCPKT reads one integer, which the pointer is valid for.
    answered(unsafe { libc::ioctl(fd, libc::TIOCPKT, &raw const on) })
}

/// The bit of [`tell_of_modes`] (TIOCPKT_IOCTL).
pub const MODES_CHANGED: u8 = 0x40;

/// Signals the foreground job of a pseudo-terminal, as a key typed there does: SIGINT and SIGQUIT.
///
/// # Errors
/// When it is no controlling end, or the kernel passes no such signal on.
pub fn signal_foreground(controller: impl AsFd, signal: Signal) -> io::Result<()> {
    let fd = controller.as_fd().as_raw_fd();
    // SAFETY: TIOCSIG takes its number by value.
    answered(unsafe { libc::ioctl(fd, libc::TIOCSIG, signal.as_raw()) })
}

/// Continues this process after some time if it is stopped then. Dropping it disarms it.
#[derive(Debug)]
pub struct Waking(libc::timer_t);

/// Sends this process SIGCONT after that time, and again each second (timer_create(2)): nothing else reaches one that
/// is stopped, and the first may come just before it stops.
///
/// # Errors
/// When no timer is to be had.
pub fn wake_after(time: Duration) -> io::Result<Waking> {
    // SAFETY: all zeroes is a valid value: integers, and a union of integers and pointers.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGCONT;
    let mut timer = std::ptr::null_mut();
    // SAFETY: the event is valid for a read, the timer's place for a write.
    answered(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) })?;
    let waking = Waking(timer);
    let again = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 1,
            tv_nsec: 0,
        },
        it_value: libc::timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            // Nothing at all would disarm it.
            tv_nsec: libc::c_long::from(time.subsec_nanos().max(1).cast_signed()),
        },
    };
    // SAFETY: the timer is there until it is dropped; the times are valid for a read, and null asks for no old ones.
    answered(unsafe { libc::timer_settime(waking.0, 0, &raw const again, std::ptr::null_mut()) })?;
    Ok(waking)
}

impl Drop for Waking {
    fn drop(&mut self) {
        // SAFETY: made by timer_create, and deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

fn answered(outcome: libc::c_int) -> io::Result<()> {
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
