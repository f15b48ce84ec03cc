//! `gig run`, as typed.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use gig_audit::Durability;
use gig_proxy::resolve::ResolveOverride;
use gig_sandbox::CpuShare;

use super::{
    secret::PassphraseArgs,
    value::{self, BindArg, EnvArg, SecretArg},
};

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Policy document; without one, and without --allow, everything is denied
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Allow a host: `HOST[:PORT]`, `*.example.com`, an address or a range; `http:` or `https:` before it where the port
    /// does not say, `tls:` for TLS that is not opened, `tcp:HOST:PORT` for any bytes
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow: Vec<String>,
    /// Let the --allow rules reach these otherwise refused addresses
    #[arg(long, value_name = "CIDR")]
    pub(crate) allow_private: Vec<String>,
    /// Dial `HOST:PORT` at another address, which is vetted all the same
    #[arg(long, value_name = "HOST:PORT:ADDR[:PORT]")]
    pub(crate) resolve: Vec<ResolveOverride>,
    /// Trust these roots for origins too (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca: Vec<PathBuf>,
    /// Give the program a sentinel for a secret, whose value is swapped in on the way to these hosts and
    /// nowhere else: from gig's own environment variable NAME, or else from the vault. A host needs a
    /// rule of its own; without a port its port 443 is meant. With places
    /// (NAME:header:Authorization,basic@HOST) it stands in those alone. NAME without a host goes where the rules
    /// of the policy document have it under `secrets`
    #[arg(long, value_name = "NAME[:PLACE,…]@HOST[:PORT][,HOST[:PORT]…]", value_parser = value::secret)]
    pub(crate) secret: Vec<SecretArg>,
    /// Keep the tokens of a login made inside from the program: those that this OAuth 2.0 token endpoint
    /// gives it become sentinels of secret NAME, swapped in on the way to these hosts, and refresh
    /// tokens on the way back to the endpoint. Hosts need rules of their own
    #[arg(
        long,
        value_name = "NAME=https://HOST/PATH@HOST[:PORT][,HOST[:PORT]…]",
        value_parser = value::capture
    )]
    pub(crate) capture: Vec<SecretArg>,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArgs,
    /// Set a variable, or pass gig's own; nothing else of the environment is inherited
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = value::env)]
    pub(crate) env: Vec<EnvArg>,
    /// Show a file or directory to the program, read-only
    #[arg(long, value_name = "PATH[:DEST]", value_parser = value::bind)]
    pub(crate) ro: Vec<BindArg>,
    /// Let the program write to a file or directory
    #[arg(long, value_name = "PATH[:DEST]", value_parser = value::bind)]
    pub(crate) rw: Vec<BindArg>,
    /// Where the program starts (default: its home)
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// Use this directory as the root file system, read-only, instead of the host's system
    /// directories
    #[arg(long, value_name = "DIR", conflicts_with = "image")]
    pub(crate) rootfs: Option<PathBuf>,
    /// Use an OCI image as the root file system, pulled without a daemon: `REGISTRY/NAME@sha256:…`.
    /// Without a program after `--` its own runs; its variables and its directory count, its user does
    /// not
    #[arg(long, value_name = "REF@DIGEST")]
    pub(crate) image: Option<String>,
    /// Reach the image's registry without TLS, which on this machine needs no option
    #[arg(long, requires = "image")]
    pub(crate) image_clear_text: bool,
    /// How the program is confined; `auto` is bwrap
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) engine: EngineArg,
    /// `disconnected`: no interface but lo
    #[arg(long, value_enum)]
    pub(crate) network: Option<NetworkArg>,
    /// external: public addresses only; local: private ranges only; disconnected: nothing
    #[arg(long, value_enum, default_value = "external")]
    pub(crate) profile: ProfileArg,
    /// System calls: `default` refuses what breaks confinement, `strict` allows only what ordinary
    /// programs use
    #[arg(long, value_enum, default_value = "default")]
    pub(crate) seccomp: SeccompArg,
    /// Most memory, such as 512MB
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) memory: Option<u64>,
    /// Most processes and threads
    #[arg(long, value_name = "N", value_parser = value::count)]
    pub(crate) pids: Option<u32>,
    /// Most processor time, in processors: 0.5, 2
    #[arg(long, value_name = "N", value_parser = value::cpus)]
    pub(crate) cpus: Option<CpuShare>,
    /// Most data in /tmp
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) tmp_size: Option<u64>,
    /// End the program after this time, also while it is stopped: SIGTERM, ten seconds later SIGKILL
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Let denied destinations pass, recorded as would_deny; private ranges stay closed
    #[arg(long)]
    pub(crate) observe: bool,
    /// Append the audit records here: one JSON object a line (`-` is standard error), or rows of an
    /// SQLite database, if the file is one or is called FILE.db, or as `sqlite:FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// What a request waits for: `kernel` has the record with the kernel (on the disk within 100 ms),
    /// `strict` on the disk
    #[arg(long, value_enum, default_value = "kernel", value_name = "DURABILITY")]
    pub(crate) audit_durability: DurabilityArg,
    /// No summary at the end
    #[arg(long)]
    pub(crate) quiet: bool,
    /// The program and its arguments, after `--`; an image may have one of its own
    #[arg(last = true, required_unless_present = "image", value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    Kernel,
    Strict,
}

impl From<DurabilityArg> for Durability {
    fn from(asked: DurabilityArg) -> Self {
        match asked {
            DurabilityArg::Kernel => Self::Kernel,
            DurabilityArg::Strict => Self::Strict,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    Auto,
    Bwrap,
    Landlock,
    Gvisor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkArg {
    Full,
    Disconnected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    External,
    Local,
    Disconnected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeccompArg {
    Default,
    Strict,
}
