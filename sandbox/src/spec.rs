//! What a sandbox is to be, as its caller states it.
//!
//! Nothing here is checked: `plan` and the layers do that, and refuse with the
//! path or the option that is at fault.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use gig_policy::SandboxId;

/// One sandbox, as wanted.
#[derive(Debug)]
pub struct Spec {
    /// Its name in records; inside it is `GIG_SANDBOX_ID`.
    pub id: SandboxId,
    /// The program: a path inside the sandbox, or a name to look up in its `PATH`.
    pub program: OsString,
    /// Arguments after the program's own name.
    pub args: Vec<OsString>,
    /// Variables beside the built ones, which they override. Nothing else is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Variables that an image asks for: the built ones override them, but for `PATH` and `LANG`.
    pub image_env: Vec<(OsString, OsString)>,
    /// Paths of the host to show.
    pub binds: Vec<Bind>,
    /// Where the program starts; its home when absent.
    pub workdir: Option<PathBuf>,
    /// Another root file system than the host's system directories. Read-only.
    pub rootfs: Option<Root>,
    /// The certificate authority to trust, beside the system's, as PEM.
    pub ca_pem: Option<String>,
    /// Port of the explicit proxy on the gateway's address.
    pub explicit_port: u16,
    /// Resource limits.
    pub limits: ResourceLimits,
    /// The program's standard streams.
    pub stdio: Stdio,
    /// Which system calls it may make.
    pub seccomp: SeccompProfile,
    /// Permissions that files the program makes are not given (umask(2)); `None` is 022.
    pub file_mask: Option<u32>,
    /// A registered server's program, shown read-only at `/app/server`.
    pub server_program: Option<PathBuf>,
    /// What the caller keeps of a registered server; with it there is no `server_program`.
    pub kept: Option<Kept>,
    /// Paths of the caller's own that no bind may show: its data directory,
    /// sockets, audit files.
    pub private: Vec<PathBuf>,
}

/// Another root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// A directory of the host's, made by whomever: credentials in it are hidden, and /var, /home and
    /// /app are the sandbox's own.
    Folder(PathBuf),
    /// An image that the caller unpacked into a directory of its own, where everybody may read
    /// everything: shown whole, with what is in /var and /home read-only among the sandbox's own.
    Image(PathBuf),
}

/// Files of a registered server that lie among the caller's own, and were put there to be shown: everybody
/// may read everything in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// A whole root: an image's.
    Image(PathBuf),
    /// One static program, at `/app/server`.
    Program(PathBuf),
    /// A directory, at `/app`.
    Folder(PathBuf),
}

/// A path of the host, shown inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// On the host.
    pub source: PathBuf,
    /// Inside.
    pub dest: PathBuf,
    /// Whether it may be written.
    pub mode: BindMode,
}

/// Whether a bind may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindMode {
    /// Read-only.
    Ro,
    /// Read and write.
    Rw,
}

/// Limits; an absent one is the default of its layer.
#[derive(Debug, Clone, Default)]
pub struct ResourceLimits {
    /// Bytes of memory, file cache and private file systems included.
    pub memory: Option<u64>,
    /// Processes and threads at once.
    pub pids: Option<u32>,
    /// Processor time.
    pub cpus: Option<CpuShare>,
    /// Bytes in each private writable directory.
    pub tmp_size: Option<u64>,
}

/// Processors' worth of time, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuShare(u32);

impl CpuShare {
    /// `None` for nothing at all: a sandbox without time never ends.
    #[must_use]
    pub const fn from_millis(thousandths: u32) -> Option<Self> {
        if thousandths == 0 {
            None
        } else {
            Some(Self(thousandths))
        }
    }

    /// Thousandths of one processor.
    #[must_use]
    pub const fn as_millis(self) -> u32 {
        self.0
    }
}

/// The program's standard streams, passed through untouched.
#[derive(Debug)]
pub struct Stdio {
    /// Standard input.
    pub stdin: OwnedFd,
    /// Standard output.
    pub stdout: OwnedFd,
    /// Standard error.
    pub stderr: OwnedFd,
    /// Whether the first of them that is a terminal becomes the program's controlling one.
    pub controlling_terminal: bool,
}

/// Which system calls the program may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeccompProfile {
    /// All but those that open the kernel or the host.
    Default,
    /// Only those that ordinary programs use.
    Strict,
}
