//! Starting drivers, as root and as nobody in particular.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::driver;

/// A test's name and body.
pub(crate) type Test = (&'static str, fn());

/// Who starts the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Root: the sandbox has ids of its own.
    Root,
    /// A user: the sandbox has that user's one id.
    User,
}

/// An id that no account has.
const USER: u32 = 54_321;

/// What a driver did.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Root only if we are.
pub(crate) fn everybody() -> &'static [Who] {
    if am_root() {
        &[Who::Root, Who::User]
    } else {
        &[Who::User]
    }
}

pub(crate) fn am_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// This program where every user can execute it.
fn program() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        remove_left();
        let dir = std::env::temp_dir().join(format!("{COPIES}{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("its mode");
        let copy = dir.join("confine");
        fs::copy(std::env::current_exe().expect("its path"), &copy).expect("a copy");
        copy
    })
}

/// Copies of processes that are no more: none outlives the next by much.
fn remove_left() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(COPIES));
        let is_over = |process: &&str| !Path::new("/proc").join(process).exists();
        if process.filter(is_over).is_some() {
            // Another does the same at this moment.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// What folders with a copy of this program are called, before their process.
const COPIES: &str = "gig-confinement-";

/// A directory that the one who starts the sandbox owns.
pub(crate) fn own_directory(who: Who) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    if who == Who::User && am_root() {
        std::os::unix::fs::chown(dir.path(), Some(USER), Some(USER)).expect("its owner");
    }
    dir
}

/// Gives a path to the one who starts the sandbox.
pub(crate) fn give(who: Who, path: &Path) {
    if who == Who::User && am_root() {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).expect("its owner");
    }
}

pub(crate) fn command<S: AsRef<OsStr>>(who: Who, args: &[S]) -> Command {
    let mut command = program_as(who, driver::ARGUMENT);
    command.args(args);
    command
}

/// Another driver than the usual one, run to its end.
pub(crate) fn as_driver(who: Who, argument: &str) -> Ended {
    ended(&mut program_as(who, argument))
}

fn program_as(who: Who, argument: &str) -> Command {
    let mut command = Command::new(program());
    command.arg(argument).current_dir("/").stdin(Stdio::null());
    if who == Who::User && am_root() {
        command.uid(USER).gid(USER);
    }
    command
}

pub(crate) fn run<S: AsRef<OsStr>>(who: Who, args: &[S]) -> Ended {
    ended(&mut command(who, args))
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().expect("a driver");
    Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs a shell script inside, with options before it, and expects success.
pub(crate) fn shell(who: Who, options: &[&str], script: &str) -> String {
    let args: Vec<&str> = options
        .iter()
        .copied()
        .chain(["--", "/bin/sh", "-c", script])
        .collect();
    let ended = run(who, &args);
    assert_eq!(ended.code, Some(0), "{who:?}: {ended:?}");
    ended.out
}

/// Whether a process of the host has this in its command line.
pub(crate) fn running(mark: &str) -> bool {
    fs::read_dir("/proc").expect("processes").any(|entry| {
        let path = entry.expect("a process").path().join("cmdline");
        let line = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .split('\0')
            .any(|word| word == mark)
    })
}

/// Asks until it is so, for up to a minute.
pub(crate) fn eventually(what: &str, so: impl Fn() -> bool) {
    for _ in 0..2400 {
        if so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("never: {what}");
}
