//! Two small errands that need a process of their own, outside any sandbox.
//!
//! Both end with their standard input, which `gig` holds: they outlive it by
//! what they have left to do and no longer.

use std::ffi::{CStr, CString};

use crate::sys::{self, Errno};

/// Holds a new user namespace, whose id map `gig` writes and takes.
pub const HOLD: &[u8] = b"hold-ids";
/// Ends and removes control groups, named by the further arguments.
pub const SWEEP: &[u8] = b"sweep-groups";

/// How often a group is tried: with the pause below, ten seconds.
const ROUNDS: u32 = 2000;
const PAUSE_MICROSECONDS: u32 = 5000;

/// Says that the namespace is there, and waits.
pub fn hold() -> ! {
    if sys::new_user_namespace().is_err() || sys::write(1, b"H").is_err() {
        sys::exit(1);
    }
    wait_for_end_of_input();
    sys::exit(0)
}

/// Waits, then ends what is in the groups and removes them.
pub fn sweep(groups: &[CString]) -> ! {
    // A terminal's Ctrl-C is not meant for it: its work comes after.
    sys::ignore_interruptions();
    wait_for_end_of_input();
    for group in groups {
        for _ in 0..ROUNDS {
            match sys::remove_directory(group) {
                Ok(()) | Err(Errno(libc::ENOENT)) => break,
                Err(_) => end_members(group),
            }
            sys::pause(PAUSE_MICROSECONDS);
        }
    }
    sys::exit(0)
}

fn wait_for_end_of_input() {
    while sys::read_some(0).is_ok_and(|count| count > 0) {}
}

fn end_members(group: &CStr) {
    let file = |name: &[u8]| CString::new([group.to_bytes(), name].concat());
    let Ok(members) = file(b"/cgroup.procs") else {
        return;
    };
    let Ok(listed) = sys::read_file(&members) else {
        return;
    };
    for pid in String::from_utf8_lossy(&listed)
        .lines()
        .filter_map(|line| line.parse().ok())
    {
        // Zero is a process of another pid namespace, which is never ours.
        if pid > 1 {
            sys::kill(pid, libc::SIGKILL);
        }
    }
}
