//! `gig netns …`, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{OutputArgs, serve::SandboxArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum NetnsCommand {
    /// Take a network namespace as a sandbox; prints what its programs are to be given, for a shell
    Register(RegisterArgs),
    /// List those that are registered
    Ls(OutputArgs),
    /// Let one go: it reaches nothing any more
    Rm(SandboxArgs),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct NamespaceArgs {
    /// The network namespace of this process; the registration ends with it
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// The one that this file names, as `ip netns` makes it; the registration ends when it names it no more
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterArgs {
    /// The server whose policy and secrets it gets; one that `gig server add NAME --foreign` made
    #[arg(long, value_name = "NAME")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Whose it is, as the record names them; you, unless said
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Where its programs will find the certificate authority
    #[arg(long, value_name = "PATH", default_value = "/etc/gig-ca.pem")]
    pub(crate) ca: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
