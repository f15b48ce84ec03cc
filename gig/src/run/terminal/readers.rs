//! Whether a program inside waits for what is typed at its terminal.
//!
//! Nothing tells the other end of a pty that somebody reads there. But the kernel says of a process in which call it
//! waits, and what its descriptors are (proc_pid_syscall(5)), to who may look into it, and gig owns the user namespace
//! that all of a sandbox is in. Where gig may not look, nobody is said to wait.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::makedev;

/// Where the processes of a sandbox are, and what their terminal is.
#[derive(Debug)]
pub(super) struct Readers {
    /// The pid namespace, as /proc names it.
    inside: PathBuf,
    /// The near end of the pty, as a device.
    near: u64,
}

impl Readers {
    /// Of the sandbox in which the process `program` is.
    ///
    /// # Errors
    /// When gig may not look into it.
    pub(super) fn of(program: i32, near: u64) -> io::Result<Self> {
        let inside = fs::read_link(format!("/proc/{program}/ns/pid"))?;
        Ok(Self { inside, near })
    }

    /// Whether one of its processes waits in a read of its terminal.
    pub(super) fn wait(&self) -> bool {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter(|one| {
                one.file_name()
                    .as_encoded_bytes()
                    .iter()
                    .all(u8::is_ascii_digit)
            })
            .any(|one| self.waits(&one.path()))
    }

    fn waits(&self, process: &Path) -> bool {
        if fs::read_link(process.join("ns/pid")).is_ok_and(|namespace| namespace != self.inside) {
            return false;
        }
        let call = fs::read_to_string(process.join("syscall"));
        let Some(descriptor) = call.ok().as_deref().and_then(read_from) else {
            return false;
        };
        // Followed: what it is, not what it is called.
        let open = fs::metadata(process.join(format!("fd/{descriptor}")));
        let own = makedev(CONTROLLING.0, CONTROLLING.1);
        open.is_ok_and(|open| open.rdev() == self.near || open.rdev() == own)
    }
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
