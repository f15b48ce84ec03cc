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

use gig_tests::lab::{Finished, Lab, Subject, fixture};

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

/// Demands that the probe was refused.
fn refused(words: &[&str]) {
    let run = probe(words);
    let text = run.text();
    assert!(
        text.contains("refused:") && !text.contains("DONE"),
        "{words:?}: {run}"
    );
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
