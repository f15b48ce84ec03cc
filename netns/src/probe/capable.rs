//! Whether a user namespace is worth something: one is made, and something is mounted in it.
//!
//! A security module may let everybody make one and take every capability in it (AppArmor on Ubuntu 24.04), which
//! no setting and no `unshare` alone tells for certain.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::{HUB_ARGUMENT, reexec, sys};

/// `argv[2]` of the process that tries it.
pub(crate) const CAPABLE_ARGUMENT: &str = "capable";

/// Its socket's number: standard input.
const SOCKET: i32 = 0;
/// It makes three calls.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Tries it, in a process of its own.
///
/// # Errors
/// What was refused, in words.
pub fn try_user_namespace() -> Result<(), String> {
    let lost = |error: io::Error| format!("trying it: {error}");
    let (mut socket, mut process) =
        reexec::start(&[HUB_ARGUMENT, CAPABLE_ARGUMENT], ANSWER_WITHIN).map_err(lost)?;
    let mut said = String::new();
    let read = socket.read_to_string(&mut said);
    if read.is_err() {
        // It hangs: nothing of it is left.
        drop(process.kill());
    }
    drop(process.wait());
    read.map_err(lost)?;
    match said.as_str() {
        WORKS => Ok(()),
        "" => Err("trying it: the process was ended".to_owned()),
        refused => Err(refused.to_owned()),
    }
}

/// Does not return.
pub(crate) fn child_main() -> ! {
    let said = match attempt() {
        Ok(()) => WORKS.to_owned(),
        Err((what, error)) => format!("{what}: {error}"),
    };
    let told = sys::inherited(SOCKET)
        .and_then(|socket| io::Write::write_all(&mut UnixStream::from(socket), said.as_bytes()));
    sys::exit_now(i32::from(told.is_err()))
}

fn attempt() -> Result<(), (&'static str, io::Error)> {
    sys::unshare_user().map_err(|error| ("making one", error))?;
    let mounting = |error| ("mounting in one", error);
    sys::unshare_mounts().map_err(mounting)?;
    let apart = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", apart).map_err(|error| mounting(error.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("none", "/tmp", "tmpfs", flags, None).map_err(|error| mounting(error.into()))
}

const WORKS: &str = "works";
