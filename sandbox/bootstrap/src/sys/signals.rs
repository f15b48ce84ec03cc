//! Signals: who is told of them, and what they do.

use libc::{c_int, c_long};

use super::{Result, check, done};

/// A descriptor that becomes readable when a child ends or stops.
pub fn child_signals() -> Result<c_int> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is valid for a write of one set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: sigemptyset has made it, and it cannot fail.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: the set is initialised; the number is a signal.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: the set is initialised; a null third argument is allowed.
    done(c_long::from(unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
    }))?;
    // SAFETY: the set is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(c_long::from(fd)).map(|_| fd)
}

/// Every signal to its default action, none blocked.
pub fn reset_signals() {
    for signal in 1..=64 {
        // Numbers that cannot be set are refused.
        heed(signal);
    }
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is valid for a write of one set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised; a null third argument is allowed.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) };
}

/// Drains a descriptor of [`child_signals`].
pub fn drain(fd: c_int) {
    let mut buffer = [0_u8; 1024];
    // SAFETY: the buffer is valid for a write of its length. Empty is fine.
    unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
}

/// Signals one process.
pub fn kill(pid: c_int, signal: c_int) {
    // SAFETY: touches no memory. One that has ended is not there to be told.
    unsafe { libc::kill(pid, signal) };
}

/// Signals the process group that a process leads, or led.
pub fn kill_group(leader: c_int, signal: c_int) {
    // SAFETY: touches no memory. One that is empty is not there to be told.
    unsafe { libc::kill(-leader, signal) };
}

/// Lets the signals pass by that a terminal or a service manager sends to all.
pub fn ignore_interruptions() {
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGTSTP,
    ] {
        ignore(signal);
    }
}

/// Lets a signal pass by.
pub fn ignore(signal: c_int) {
    // SAFETY: SIG_IGN installs no code.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Has a signal do what it does by itself.
pub fn heed(signal: c_int) {
    // SAFETY: SIG_DFL installs no code.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
