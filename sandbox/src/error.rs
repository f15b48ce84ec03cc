//! Why a sandbox did not start, or what kept its end from being seen.

use std::io;
use std::path::PathBuf;

use gig_netns::{ShowTreeError, SpawnError};

use crate::layers::binds::RefuseBindError;
use crate::layers::cgroup::LimitError;
use crate::layers::seccomp::CompileFilterError;
use crate::layers::streams::RefuseStreamError;

/// Why a sandbox did not start. [`StartSandboxError::exit_code`] is what
/// `gig run` ends with.
#[derive(Debug, thiserror::Error)]
pub enum StartSandboxError {
    /// bubblewrap is not installed.
    #[error(
        "bwrap is not installed in /usr/bin, /usr/local/bin or /bin; install the bubblewrap package"
    )]
    NoEngine,
    /// A path of the caller's may not be shown.
    #[error("a mount was refused")]
    Bind(#[from] RefuseBindError),
    /// What is covered there could come into sight unnoticed.
    #[error(
        "{path} cannot be watched, where credentials are covered that another program could bring into sight; \
         raise fs.inotify.max_user_instances and max_user_watches, or show only what the program needs"
    )]
    Watch {
        /// The directory.
        path: PathBuf,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// What was to be covered was replaced while the sandbox was built.
    #[error("{path} changed while it was being covered; start it again")]
    Uncovered {
        /// On the host.
        path: PathBuf,
    },
    /// A standard stream that is a way past the layers.
    #[error(transparent)]
    Stream(#[from] RefuseStreamError),
    /// Another root file system that is none.
    #[error("{path} is no root file system: a directory with usr or bin is needed")]
    Rootfs {
        /// As it was given.
        path: PathBuf,
    },
    /// Another root file system whose /etc is not copied.
    #[error(
        "{path}/etc holds more than gig copies into a sandbox: {files} files of {octets} octets; at most \
         {most_files} files and {most_octets} octets",
        most_files = crate::facts::ETC_FILES_MOST,
        most_octets = crate::facts::ETC_MOST
    )]
    RootfsEtc {
        /// As it was given.
        path: PathBuf,
        /// How many stand right in it, or one more than are counted.
        files: usize,
        /// Of those.
        octets: u64,
    },
    /// A variable that none can be.
    #[error("{name:?} is no name of a variable, or its value has a NUL byte")]
    Variable {
        /// As it was given.
        name: String,
    },
    /// A limit that this host cannot enforce.
    #[error("a limit was refused")]
    Limit(#[from] LimitError),
    /// A mount that the sandbox's ids cannot use.
    #[error(
        "{path} cannot be given to the sandbox's user ids; run gig as the owner of {path} instead of root"
    )]
    Attach {
        /// Its source.
        path: PathBuf,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// Root without the right to mount.
    #[error(
        "{path} cannot be given to the sandbox's user ids: root lacks CAP_SYS_ADMIN here (a container's usual set of \
         capabilities); give it that capability, or run gig as an ordinary user who owns {path}"
    )]
    MayNotMount {
        /// What was to be shown.
        path: PathBuf,
    },
    /// A file system without mapped ids (Linux 5.12).
    #[error(
        "{path} cannot be given to the sandbox's user ids: its file system, or one that is mounted in it, maps no ids; \
         name folders without such a mount, or run gig as an ordinary user who owns {path}"
    )]
    MapsNoIds {
        /// Its source.
        path: PathBuf,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// Nowhere to mount.
    #[error(
        "nothing can be mounted at {dest}: it is not there in the sandbox, and what it would lie in is read-only; \
         choose a DEST that is there, or one outside of the system's directories"
    )]
    NoPlace {
        /// In the sandbox.
        dest: PathBuf,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// No filter, no start.
    #[error("the system call filter was not made")]
    Filter(#[from] CompileFilterError),
    /// A descriptor, a file in memory, a socket.
    #[error("{what} could not be made")]
    Resource {
        /// What.
        what: &'static str,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// The hub did not build the root.
    #[error("the sandbox's root was not built")]
    Root(#[from] ShowTreeError),
    /// The hub did not start bwrap.
    #[error("the sandbox was not started")]
    Spawn(#[from] SpawnError),
    /// bwrap gave up.
    #[error("bwrap could not build the sandbox: {said}")]
    Engine {
        /// Its own words.
        said: String,
    },
    /// The bootstrap gave up.
    #[error("the program was not started: {said}")]
    Bootstrap {
        /// Its own words.
        said: String,
    },
    /// The program is not there.
    #[error("{said}")]
    NotFound {
        /// Which, and where it was looked for.
        said: String,
    },
    /// The program cannot be executed.
    #[error("{said}")]
    NotExecutable {
        /// Which, and why.
        said: String,
    },
    /// Started in another network, or by another hub, than it was made for.
    #[error("the sandbox was worked out for another network than it is to have")]
    OtherPlace,
    /// Nothing was heard in time.
    #[error("the sandbox did not answer within {seconds} seconds")]
    Late {
        /// How long it was waited for.
        seconds: u64,
    },
}

impl StartSandboxError {
    /// 127 not found, 126 not executable, 125 anything else.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}

/// Why a program's end was not seen.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// A socket or pipe could not be waited for.
    #[error("the sandbox could not be waited for")]
    Wait(#[source] io::Error),
    /// It was killed from outside before it could say how the program ended.
    #[error("the sandbox was ended from outside")]
    Lost,
}
