//! The hub as its callers meet it: real namespaces, real packets.
//!
//! Brings its own `main`, because the hub is this program started again. Run as
//! root, every test runs twice: once as root, each sandbox with ids of its own,
//! and once as an unprivileged user with one id.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what clippy.toml allows in tests, which it takes for a program for want of libtest's main"
)]

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use gig_netns::{HUB_ARGUMENT, hub_process_main};
use libtest_mimic::{Arguments, Failed, Trial};

mod cut;
mod flood;
mod handing;
mod hostile;
mod isolation;
mod lab;
mod lifecycle;
mod traffic;
mod trees;

type Test = (&'static str, fn());

/// `nobody`, who has no subordinate ids anywhere.
const UNPRIVILEGED: u32 = 65_534;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(HUB_ARGUMENT) => hub_process_main(),
        Some(flood::ARGUMENT) => return flood::main(),
        Some(hostile::ARGUMENT) => return hostile::main(),
        Some(lifecycle::VICTIM_ARGUMENT) => return lifecycle::victim(),
        _ => {}
    }
    let root = rustix::process::geteuid().is_root();
    let tests: Vec<Test> = [
        traffic::TESTS,
        isolation::TESTS,
        lifecycle::TESTS,
        cut::TESTS,
        handing::TESTS,
        flood::TESTS,
        trees::TESTS,
    ]
    .concat();
    let mut trials = Vec::new();
    for (name, test) in tests {
        let mode = if root { "root" } else { "user" };
        trials.push(Trial::test(format!("{mode}::{name}"), move || {
            test();
            Ok(())
        }));
        if root {
            let name = format!("user::{name}");
            trials.push(Trial::test(name.clone(), move || as_unprivileged(&name)));
        }
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    lab::tidy();
    conclusion.exit();
}

/// Runs one test of this program as somebody without privileges.
fn as_unprivileged(name: &str) -> Result<(), Failed> {
    let output = Command::new(lab::program())
        .args(["--exact", name, "--nocapture"])
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED)
        .current_dir("/")
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

/// Where a directory everybody may read is made.
fn open_directory() -> PathBuf {
    std::env::temp_dir()
}
