//! Starting the bootstrap outside a sandbox, for work that needs a process.
//!
//! An errand ends when its standard input does, so also when this program is
//! killed.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::bootstrap;

/// A running errand. Dropping it lets it finish and waits for it.
#[derive(Debug)]
pub(crate) struct Errand(Child);

impl Errand {
    /// Holds a new user namespace.
    pub(crate) fn hold_ids() -> io::Result<Self> {
        let mut errand = Self::start("hold-ids", &[])?;
        let mut said = [0_u8; 1];
        match errand.0.stdout.as_mut() {
            Some(output) => output.read_exact(&mut said)?,
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        Ok(errand)
    }

    /// Removes control groups when it is dropped, or when this program is gone.
    pub(crate) fn sweep_groups(groups: &[&OsStr]) -> io::Result<Self> {
        Self::start("sweep-groups", groups)
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    fn start(name: &str, args: &[&OsStr]) -> io::Result<Self> {
        let program: OwnedFd = bootstrap::program()?;
        #[expect(clippy::disallowed_methods, reason = "the one home of errands")]
        let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        let child = command
            .arg(name)
            .args(args)
            .env_clear()
            .current_dir("/")
            // A signal to this program's group is not for it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // One that cannot be waited for has been reaped already.
        drop(self.0.wait());
    }
}
