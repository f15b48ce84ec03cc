//! Starting and ending: statuses, signals, streams, terminals, death, and what is left behind.

mod database;
mod death;
mod environment;
mod exit_status;
mod limits;
mod modes;
mod old_records;
mod record;
mod several;
mod signals;
mod streams;
mod suggestion;
mod terminal;
mod upstream;

use std::{path::Path, process::Command};

use gig_tests::lab::place;

/// `gig audit verify`: its status, and all it says.
fn verify(file: &Path) -> (i32, String) {
    let output = Command::new(place::gig())
        .args(["audit", "verify"])
        .arg(file)
        .output()
        .expect("gig");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text.into_owned())
}
