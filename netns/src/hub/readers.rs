//! Whether a program inside waits for what is typed at its terminal.
//!
//! Nothing tells the other end of a pty that somebody reads there. But the kernel says of a process in which call it
//! waits, and what its descriptors are (proc_pid_syscall(5)), to who may look into it: to the hub, which owns the user
//! namespaces of all sandboxes and maps their ids, whichever they are. Where nobody can be asked, nobody is said to wait.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::Path,
    sync::{Mutex, Weak},
};

use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

use super::exchange;
use crate::hub_protocol::{Reply, Request};

/// Asks a hub who reads at a terminal. Does not keep the hub up.
#[derive(Debug, Clone)]
pub struct Readers(pub(super) Weak<Mutex<UnixStream>>);

impl Readers {
    /// Whether a process of any of its sandboxes waits in a read of this terminal (its near end's device number), or
    /// of its own one, whichever that is.
    #[must_use]
    pub fn wait_at(&self, terminal: u64) -> bool {
        let Some(socket) = self.0.upgrade() else {
            return false;
        };
        let answer = exchange(&socket, Some(&Request::Readers { terminal }), &[]);
        matches!(answer, Ok((Reply::Readers { any: true }, _)))
    }
}

/// Whether one of the processes that the hub sees waits in a read of `terminal`.
pub(super) fn any(terminal: u64) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|one| {
            let name = one.file_name();
            name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
        })
        .any(|one| waits(&one.path(), terminal))
}

fn waits(process: &Path, terminal: u64) -> bool {
    let call = fs::read_to_string(process.join("syscall"));
    let Some(descriptor) = call.ok().as_deref().and_then(read_from) else {
        return false;
    };
    // Followed: what it is, not what it is called. Where that is a file of a server's, the server is not asked.
    let open = process.join(format!("fd/{descriptor}"));
    let open = statx(CWD, &open, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
    let device = open.map(|open| makedev(open.stx_rdev_major, open.stx_rdev_minor));
    device.is_ok_and(|device| device == terminal || device == makedev(CONTROLLING.0, CONTROLLING.1))
}

/// The descriptor that a process reads from which waits in this call.
fn read_from(call: &str) -> Option<u64> {
    let mut words = call.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let first = words.next()?.strip_prefix("0x")?;
    READS
        .contains(&number)
        .then(|| u64::from_str_radix(first, 16).ok())
        .flatten()
}

/// read(2) and readv(2).
#[cfg(target_arch = "x86_64")]
const READS: [i64; 2] = [0, 19];
/// read(2) and readv(2), in the generic table.
#[cfg(not(target_arch = "x86_64"))]
const READS: [i64; 2] = [63, 65];
/// `/dev/tty` (Documentation/admin-guide/devices.txt).
const CONTROLLING: (u32, u32) = (5, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_a_read_is_known_by_the_call_and_its_descriptor() {
        let call = |number: i64| format!("{number} 0x1f 0x7ffd 0x1 0x0 0x0 0x0 0x7ffc 0x7f1d\n");
        for reads in READS {
            assert_eq!(read_from(&call(reads)), Some(31));
            assert_eq!(read_from(&call(reads + 1)), None);
        }
        for other in ["running\n", "-1 0x7ffd 0x7f\n", ""] {
            assert_eq!(read_from(other), None);
        }
    }
}
