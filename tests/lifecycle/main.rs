//! Starting and ending: statuses, signals, streams, terminals, death, and what is left behind.

mod background;
mod database;
mod death;
mod environment;
mod exit_status;
mod images;
mod limits;
mod modes;
mod old_records;
mod pipeline;
mod record;
mod served;
mod several;
mod signals;
mod stopped;
mod streams;
mod suggestion;
mod terminal;
mod upstream;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use gig_tests::lab::{Lab, place};

/// Runs `gig` to its end where no file of its may grow beyond six megabytes.
fn without_room(lab: &Lab, gig: &Command) -> Output {
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 12288; exec \"$@\"", "sh"])
        .arg(gig.get_program())
        .args(gig.get_args())
        .stdin(Stdio::null());
    for (name, value) in gig.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(lab.home()).output().expect("gig")
}

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
