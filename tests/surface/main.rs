//! The command line beside `gig run`: policy, audit, doctor, and how mistakes are told.

mod audit_export;
mod audit_retention;
mod audit_search;
mod audit_verify;
mod doctor;
mod policy;
mod secret;
mod secret_record;
mod secret_test;
mod serve;
mod units;
mod usage;

use std::{
    io::Write,
    process::{Command, Stdio},
};

use gig_tests::lab::place;

/// What one command came to.
#[derive(Debug)]
struct Answer {
    status: i32,
    output: String,
    errors: String,
}

fn gig(words: &[&str]) -> Answer {
    gig_with(words, "")
}

fn gig_with(words: &[&str], input: &str) -> Answer {
    let mut command = Command::new(place::gig());
    command.args(words);
    answer(command, input)
}

fn answer(mut command: Command, input: &str) -> Answer {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("start gig");
    let mut stdin = child.stdin.take().expect("its input");
    let _not_read = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("its end");
    Answer {
        status: output.status.code().unwrap_or(-1),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
