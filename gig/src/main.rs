//! gig: runs an untrusted program so that its only way out is a proxy which knows who calls, decides
//! by policy and writes everything down.
//!
//! This file only tells the lives of the binary apart: the hub process, the reader of an image's
//! layers, a command, a mistake on the command line. Commands live in `commands/`.
#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("gig needs Linux: its walls are namespaces, seccomp and nftables of that kernel");

mod args;
mod backup;
mod commands;
mod data_dir;
mod deliver;
mod doctor;
mod error_chain;
mod exit_status;
mod fetch;
mod images;
mod local_api;
mod log;
mod node;
mod output;
mod private_places;
mod record_place;
mod refused;
mod run;
mod secret_file;
mod secrets;
mod serve;
mod server_files;
mod signing_key;
mod stderr;
mod usage;

use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{args::Arguments, exit_status::ExitStatus};

fn main() -> ExitCode {
    // The hub is this same program, re-executed into namespaces of its own: it must not grow threads
    // or read a command line first.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == gig_netns::HUB_ARGUMENT)
    {
        gig_netns::hub_process_main();
    }
    // As little may the reader of a stranger's layers, which is in a sandbox already.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == gig_sandbox::image::INTAKE_ARGUMENT)
    {
        return gig_sandbox::image::intake_main();
    }
    with_stack(live)
}

/// One command, from its arguments to its status.
fn live() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(mistake) => return usage::told(mistake),
    };
    // While there is no other thread that looks at the environment.
    gig_vault::environment::take(&arguments.command.secret_variables());
    if let Err(mistake) = log::start(matches!(arguments.command, args::Command::Serve(_))) {
        error_chain::print(&mistake);
        return ExitStatus::GIG_FAILED.into();
    }
    raise_file_limit();
    if rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_err()
    {
        tracing::error!("a second TLS provider was installed before gig's own");
        return ExitStatus::GIG_FAILED.into();
    }
    match commands::execute(arguments.command) {
        Ok(status) => status.into(),
        Err(error) if output::is_left(&error) => ExitStatus::READER_LEFT.into(),
        Err(error) => {
            error_chain::print(&error);
            ExitStatus::of(&error).into()
        }
    }
}

/// Does it on a stack that is large enough, whatever the caller's limit is: that of the first thread is the
/// caller's, and a process that runs out of it is ended with nothing said.
fn with_stack(work: fn() -> ExitCode) -> ExitCode {
    let limit = getrlimit(Resource::Stack).current;
    if limit.is_none_or(|limit| limit >= LEAST_STACK) {
        return work();
    }
    let thread = std::thread::Builder::new().stack_size(STACK);
    match thread.spawn(work).map(std::thread::JoinHandle::join) {
        Ok(Ok(status)) => status,
        // What it panicked with is told.
        Ok(Err(_)) => ExitStatus::GIG_FAILED.into(),
        Err(error) => {
            error_chain::print(&anyhow::Error::new(error).context("cannot start a thread"));
            ExitStatus::GIG_FAILED.into()
        }
    }
}

/// Each connection of a sandbox is a descriptor of gig's or two. The soft limit is as low as it is for
/// programs that call select(2); sandboxes are given limits of their own.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as low as it is");
    }
}

/// No command needs more; a build without optimisation needs half of it.
const LEAST_STACK: u64 = 2 * 1024 * 1024;
/// What Linux gives a first thread.
const STACK: usize = 8 * 1024 * 1024;
