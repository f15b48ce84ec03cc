//! How long a sandbox takes to start from a hub's pool, and what a thousand of
//! them cost at once.
//!
//! `cargo bench -p gig-sandbox --bench crowd [-- --quick]`. Starts are measured in
//! turn with plain bwrap's, so that whatever else the machine does falls on
//! both; figures are for people and nothing here passes or fails by a time.
//! What must hold fails: every sandbox of the crowd runs at the same time as
//! all others, and nothing of them is left at the end.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program for people at a terminal: it prints, fails by panicking and starts processes"
)]

#[path = "crowd/crowd.rs"]
mod crowd;
#[path = "crowd/lab.rs"]
mod lab;
#[path = "crowd/machine.rs"]
mod machine;
#[path = "crowd/starts.rs"]
mod starts;

use std::process::ExitCode;

/// How much is done.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// Starts, one after the other.
    starts: usize,
    /// Sandboxes at once.
    crowd: u16,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words
        .first()
        .is_some_and(|first| first == gig_netns::HUB_ARGUMENT)
    {
        gig_netns::hub_process_main();
    }
    let mut scale = Scale {
        starts: 200,
        crowd: 1000,
    };
    // cargo bench passes --bench.
    for word in words.iter().filter(|word| *word != "--bench") {
        match word.as_str() {
            "--quick" => {
                scale = Scale {
                    starts: 40,
                    crowd: 100,
                }
            }
            _ => {
                eprintln!("usage: crowd [--quick]");
                return ExitCode::FAILURE;
            }
        }
    }
    machine::raise_file_limit();
    let lab = lab::Lab::new();
    println!("{}", starts::measure(&lab, scale.starts));
    println!("{}", crowd::measure(&lab, scale.crowd));
    ExitCode::SUCCESS
}
