//! The calls that no safe wrapper offers: the only unsafe code of the crate.
//!
//! One call a function, each with its preconditions. Everything here is used
//! by the hub process, which is single-threaded whenever it forks.

#![expect(
    unsafe_code,
    reason = "the crate's one home of system calls without a safe wrapper"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

pub(crate) mod nsfs;

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one.
    Parent(Pid),
}

/// Moves the calling thread into a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    unshare(UnshareFlags::NEWNET)
}

/// Moves the process into a new user namespace.
pub(crate) fn unshare_user() -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER)
}

/// Moves the process into a new mount namespace.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)
}

/// Moves the process into new namespaces of every kind the hub needs; its
/// children are born into the new pid namespace.
pub(crate) fn unshare_hub() -> io::Result<()> {
    unshare(
        UnshareFlags::NEWUSER
            | UnshareFlags::NEWNET
            | UnshareFlags::NEWNS
            | UnshareFlags::NEWPID
            | UnshareFlags::NEWIPC
            | UnshareFlags::NEWUTS,
    )
}

#[expect(clippy::disallowed_methods, reason = "the one home of unshare")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the call is unsafe for `UnshareFlags::FILES` alone, which would
    // take descriptors away from other threads; no caller passes it.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Ok(())
}

/// Forks.
///
/// The caller is single-threaded, so that the child may allocate: no other
/// thread can hold a lock that the child would inherit.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: fork itself has no memory precondition. What a child may do after
    // it is limited only in a process with several threads; both callers (the
    // hub's first stage, and its main loop after its throw-away threads were
    // joined) run alone.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Pid::from_raw(pid)
            .map(Fork::Parent)
            .ok_or_else(|| io::ErrorKind::Other.into()),
    }
}

/// Replaces the program. Returns only if that failed.
pub(crate) fn execve(program: &CString, args: &[CString], env: &[CString]) -> io::Error {
    let args = pointers(args);
    let env = pointers(env);
    // SAFETY: `program` is NUL-terminated; both arrays hold pointers to
    // NUL-terminated strings that outlive the call and end with a null pointer.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// Closes every descriptor from `first` on, to the last one.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    close_range(first, RawFd::MAX)
}

/// Closes the descriptors `first..=last`.
pub(crate) fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    range(first, last, 0)
}

/// Lets exec close every descriptor from `first` on.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    range(first, RawFd::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn range(first: RawFd, last: RawFd, flags: libc::c_uint) -> io::Result<()> {
    let (Ok(from), Ok(to)) = (libc::c_uint::try_from(first), libc::c_uint::try_from(last)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: the call touches no memory. It may close descriptors that an
    // owned handle still names; the callers are a process that has just begun
    // and owns none, and a forked child that ends in exec or exit without
    // touching what it inherited.
    match unsafe { libc::syscall(libc::SYS_close_range, from, to, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A copy of `fd` numbered `least` or higher, closed on exec.
pub(crate) fn duplicate_above(fd: impl AsFd, least: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, least)?)
}

/// Makes `number` a copy of `fd` that survives exec. Whatever had the number is closed.
pub(crate) fn duplicate_to(fd: impl AsFd, number: RawFd) -> io::Result<()> {
    // SAFETY: the call touches no memory; the number it takes over belongs to
    // nothing, because the only caller is a forked child that has moved every
    // descriptor it still needs above all target numbers.
    match unsafe { libc::dup2(fd.as_fd().as_raw_fd(), number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Takes over the descriptor that the parent left at `number`.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory; it asks whether the number is open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the number is open (just asked) and nothing else owns it: the
    // process has just begun and this is called once for each number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A descriptor that becomes readable when a child ends. SIGCHLD is blocked for it.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    let set = signal_set(Some(libc::SIGCHLD))?;
    // SAFETY: `set` is an initialised signal set; a null third argument is allowed.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `set` is an initialised signal set; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Signals by which people and supervisors ask a program to do something. They
/// are meant for the program inside, which is told of them once, by the caller of
/// the hub: whoever signals a whole process group, or every process of a service,
/// must not end what stands between the two.
const REQUESTS: [libc::c_int; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Ignores requests, gives every other signal its default action and unblocks
/// all of them. Children inherit it, also those that exec.
pub(crate) fn ignore_requests() -> io::Result<()> {
    /// Bytes of the kernel's signal set.
    const SET: usize = 8;
    for signal in 1..=64 {
        let action = if REQUESTS.contains(&signal) {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        // The kernel's `struct sigaction`: the action, no flags, an empty mask.
        let action = [action, 0, 0, 0];
        // SAFETY: `action` is as long as the kernel's structure and says SIG_IGN
        // or SIG_DFL, so no handler code is installed; a null fourth argument
        // asks for no old action. KILL and STOP are refused without effect. The
        // C library's wrapper is not used: it refuses signals 32 and 33, which a
        // caller may have left ignored.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                action.as_ptr(),
                std::ptr::null::<usize>(),
                SET,
            )
        };
    }
    let none = signal_set(None)?;
    // SAFETY: `none` is an initialised signal set; a null third argument is allowed.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn signal_set(signal: Option<libc::c_int>) -> io::Result<libc::sigset_t> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is valid for a write of one set, which sigemptyset makes.
    if unsafe { libc::sigemptyset(set.as_mut_ptr()) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigemptyset has succeeded, so the set is initialised.
    let mut set = unsafe { set.assume_init() };
    if let Some(signal) = signal {
        // SAFETY: `set` is initialised and exclusively borrowed.
        if unsafe { libc::sigaddset(&raw mut set, signal) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

/// Ends the process at once: no destructor, no buffered output of the parent's.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: the call touches no memory and does not return.
    unsafe { libc::_exit(code) }
}
