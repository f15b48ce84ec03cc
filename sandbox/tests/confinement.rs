//! Real sandboxes on this host: what programs inside can see, use and become.
//!
//! One program with three faces: the hub's process, a driver that runs one
//! sandbox from a short command line, and the tests, which start drivers as
//! root (when they are) and as a user without privileges.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test program: it fails by panicking, prints, and starts itself"
)]

#[path = "confinement/crowd.rs"]
mod crowd;
#[path = "confinement/driver.rs"]
mod driver;
#[path = "confinement/inside.rs"]
mod inside;
#[path = "confinement/lab.rs"]
mod lab;
#[path = "confinement/life.rs"]
mod life;
#[path = "confinement/limits.rs"]
mod limits;
#[path = "confinement/other_root.rs"]
mod other_root;
#[path = "confinement/root.rs"]
mod root;
#[path = "confinement/seccomp.rs"]
mod seccomp;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(first) if first == gig_netns::HUB_ARGUMENT => gig_netns::hub_process_main(),
        Some(first) if first == driver::ARGUMENT => driver::main(args.collect()),
        Some(first) if first == crowd::ARGUMENT => crowd::main(),
        _ => {
            let trials = [
                crowd::TESTS,
                inside::TESTS,
                life::TESTS,
                limits::TESTS,
                other_root::TESTS,
                root::TESTS,
                seccomp::TESTS,
            ]
            .concat()
            .into_iter()
            .map(|(name, body)| {
                Trial::test(name, move || {
                    body();
                    Ok(())
                })
            })
            .collect();
            libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
        }
    }
}
