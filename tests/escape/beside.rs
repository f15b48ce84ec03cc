//! A program where the hub starts a sandbox, with nothing put round it: no filter, no engine, no bootstrap; what is
//! left is the network that the sandbox is in, and all of gig outside of it.
//!
//! What gig starts as its engine is, in the lab's host alone, a script that starts this program beside the real one.
//! It becomes root with every capability in a user namespace of its own, where a sandbox's filter lets nothing go.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{
    Finished, Lab, Subject, fixture,
    network::{Side, text},
    subject::is_open,
};

/// One such program, of the next sandbox that starts.
pub(crate) struct Beside {
    folder: PathBuf,
}

/// What `own_root.py` is told.
pub(crate) type Variables<'a> = &'a [(&'a str, &'a str)];

impl Beside {
    /// For the gigs of this lab that start from now on.
    pub(crate) fn new(lab: &Lab) -> Self {
        let folder = lab.folder("beside");
        // In a range mode a sandbox has ids of its own.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("open it");
        let engine = text(&folder.join("bwrap"));
        fs::copy("/usr/bin/bwrap", &engine).expect("bubblewrap, installed by tests/run");
        let script = format!(
            "#!/bin/sh\n\
             # Not where gig asks it for its version: that is the host itself.\n\
             if /usr/bin/grep -q eth0: /proc/net/dev && /usr/bin/mv {at}/go {at}/gone 2>/dev/null; then\n\
               . {at}/variables\n\
               /usr/bin/python3 -B {at}/program.py </dev/null >{at}/said 2>&1 &\n\
             fi\n\
             exec {engine} \"$@\"\n",
            at = text(&folder)
        );
        let instead = folder.join("instead");
        fs::write(&instead, script).expect("write it");
        fs::set_permissions(&instead, fs::Permissions::from_mode(0o755)).expect("let it run");
        let program = fixture::text("wire.py") + "\n" + &fixture::text("own_root.py");
        fs::write(folder.join("program.py"), program).expect("write it");
        let cover = format!("mount --bind {} /usr/bin/bwrap", text(&instead));
        lab.network.run(Side::Host, &cover);
        Self { folder }
    }

    /// The next sandbox has it beside itself.
    pub(crate) fn go(&self, variables: Variables<'_>) {
        let set = |(name, value): &(&str, &str)| format!("export {name}='{value}'\n");
        let all: String = variables.iter().map(set).collect();
        fs::write(self.folder.join("variables"), all).expect("write them");
        let said = self.folder.join("said");
        fs::write(&said, "").expect("a place for its words");
        fs::set_permissions(&said, fs::Permissions::from_mode(0o666)).expect("open it");
        fs::write(self.folder.join("go"), "").expect("let it go");
    }

    /// What it said, once it has ended.
    pub(crate) fn said(&self) -> String {
        let begun = Instant::now();
        loop {
            let said = fs::read_to_string(self.folder.join("said")).unwrap_or_default();
            if said.ends_with("END\n") {
                assert!(!said.contains("failed:"), "{said}");
                return said;
            }
            assert!(begun.elapsed() < PATIENCE, "it did not end: {said}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs it beside a sandbox of `subject`, whose program waits and then prints what it said. The open subject confines
/// nobody, so there it is the host's own root.
pub(crate) fn run(lab: &Lab, subject: Subject<'_>, variables: Variables<'_>) -> Finished {
    if is_open() {
        let mut subject = subject.env("LAB_ROOT", "real");
        for (name, value) in variables {
            subject = subject.env(name, value);
        }
        return subject.wire(&fixture::text("own_root.py"));
    }
    let beside = Beside::new(lab);
    beside.go(variables);
    let mut live = subject.start(["cat"]);
    let said = beside.said();
    let mut input = live.stdin().expect("its input");
    std::io::Write::write_all(&mut input, said.as_bytes()).expect("tell it");
    drop(input);
    live.finish(PATIENCE).success()
}

/// On a machine ten times slower.
const PATIENCE: Duration = Duration::from_secs(120);
