//! The sandbox's own walls: kernel interfaces, files, processes, descriptors.
//!
//! The witness is a hostile program inside that reports how each attempt ended.

mod descriptors;
mod files;
mod identity;
mod interfaces;
mod landlock;
mod moved;
mod neighbours;
mod shared_mounts;
mod shown;
mod suicide;
mod system_calls;

use gig_tests::lab::{Finished, Lab, Subject, fixture, network::Side, place::User, skipped};

/// Runs one probe of `fixtures/hostile.py` and returns what it said.
fn probe_with(subject: Subject<'_>, words: &[&str]) -> Finished {
    let script = fixture::text("hostile.py");
    let mut command = vec!["/usr/bin/python3", "-c", &script];
    command.extend(words);
    subject.run(command)
}

/// The same in a sandbox with nothing special.
fn probe(words: &[&str]) -> Finished {
    let lab = Lab::new();
    probe_with(lab.gig(), words)
}

/// What the same program says with nothing round it, as who starts gig; an ordinary user as root of a user namespace of
/// their own, with a network of its own.
fn bare(words: &[&str]) -> String {
    let lab = Lab::new();
    let user = User::of_this_run();
    let mut command = lab.network.command(Side::Host, "setpriv");
    if user != User::of_this_process() {
        let ids = [
            format!("--reuid={}", user.uid),
            format!("--regid={}", user.gid),
        ];
        command.args(ids).arg("--clear-groups");
    }
    if !user.is_root() {
        command.args(["unshare", "--map-root-user", "--net"]);
    }
    let script = fixture::text("hostile.py");
    command
        .args(["/usr/bin/python3", "-c", &script])
        .args(words);
    let said = command.output().expect("a program of the host's");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// Demands that the probe is refused where the same program, with nothing round it, is let: a refusal that the kernel
/// has for any program shows nothing.
fn refused(words: &[&str]) {
    let run = probe(words);
    let text = run.text();
    assert!(
        text.contains("refused:") && !text.contains("DONE"),
        "{words:?}: {run}"
    );
    let bare = bare(words);
    assert!(
        bare.contains("DONE") || bare.contains("refused:"),
        "{words:?}: {bare}"
    );
    if !bare.contains("DONE") {
        skipped(&format!(
            "with nothing round it the kernel refuses {words:?} as well: {}",
            bare.trim()
        ));
    }
}

/// Demands that the probe was refused with this very error: another one is the kernel's, that would say the
/// same to a program that nothing confines.
fn answered(words: &[&str], number: i32) {
    let run = probe(words);
    let text = run.text();
    let said = [format!("({number})"), format!("[Errno {number}]")];
    assert!(
        text.contains("refused:") && said.iter().any(|number| text.contains(number)),
        "{words:?}: {number} is wanted: {run}"
    );
}
