//! A record that cannot be written, on the disk of one machine: full, and held by somebody else.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use gig_tests::lab::skipped;
use serde_json::json;

use super::{Appliance, Ask, PASSWORD, two_clicks::origin};

/// A disk of its own: some minutes of a record.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None` where nobody may mount one, or appliances keep nothing on disks.
    fn mount() -> Option<Self> {
        let on_postgres = std::env::var("GIG_TEST_STORE").is_ok_and(|store| store == "postgres");
        if on_postgres || !rustix::process::geteuid().is_root() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"])
            .arg(folder.path())
            .status();
        assert!(mounted.expect("mount").success(), "it can be mounted");
        Some(Self(folder))
    }

    /// Takes all that is left of it.
    fn fill(&self) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.0.path().join("filled"))
            .expect("a file");
        for size in [64 * 1024, 4096] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("filled")).expect("room again");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _left = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Another program that writes to a database and does not come to its end.
fn hold(database: &Path) -> Child {
    let program = "import sqlite3, sys\n\
        c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n\
        c.execute('BEGIN EXCLUSIVE')\n\
        print('held', flush=True)\n\
        sys.stdin.read()\n";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("its words"));
    said.read_line(&mut line).expect("its word");
    assert_eq!(line, "held\n");
    child
}

/// An appliance on `disk` with a server that asks an origin without end; a token, and what the origin saw.
fn asking(disk: &Disk) -> (Appliance, String, Arc<AtomicUsize>) {
    let (port, seen) = origin();
    let folder = tempfile::tempdir_in(disk.0.path()).expect("a folder");
    let appliance = Appliance::start_in(folder, &[]);
    let token = appliance.token("admin");
    let document = format!(
        "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{port}], protocol: http, allow_private: [127.0.0.1/32]}}\n"
    );
    let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    let put = put
        .header("If-None-Match", "*")
        .json(&json!({ "document": document }));
    assert_eq!(put.send(&appliance).status, 201);
    let script = format!(
        "export NO_PROXY= no_proxy=; while :; do curl -s -m 20 -o /dev/null -x \"$HTTPS_PROXY\" http://127.0.0.1:{port}/x; sleep 0.05; done"
    );
    let words = [
        "server", "add", "asker", "--policy", "web", "--", "/bin/sh", "-c", &script,
    ];
    assert_eq!(appliance.gig(&words, "").status, 0);
    appliance.run("asker");
    appliance.until("it asks", |_| seen.load(Ordering::SeqCst) > 3);
    (appliance, token, seen)
}

impl Appliance {
    /// What its mark says was refused for want of a record and not told.
    pub(super) fn untold(&self) -> u64 {
        let mark = fs::read_to_string(self.path("serve.mark")).expect("its mark");
        let words: Vec<_> = mark.split_whitespace().collect();
        assert_eq!((words.len(), words[0]), (2, "serving"), "{mark}");
        words[1].parse().expect("a count")
    }

    /// It began behind a run that was killed when it had refused so many, or some more.
    pub(super) fn tells_of_a_cut_run(&self, token: &str, refused: u64) {
        let begun = || {
            let mut found = self.records(token, "event=admin&text=begins+serve&limit=50");
            found.retain(|one| one["deed"] == "serve.start" && one["findings"][1] != FIRST);
            found.pop()
        };
        self.until("its start is recorded", |_| begun().is_some());
        let start = begun().expect("its start");
        assert_eq!(
            start["findings"][1], "the run before did not end in order",
            "{start}"
        );
        assert_eq!(start["subject"], start["node"], "{start}");
        let gaps = self.records(token, "event=audit.gap&limit=10");
        let gap = gaps.iter().find(|gap| {
            gap["node"] == start["node"] && gap["seq"].as_u64() < start["seq"].as_u64()
        });
        let told = gap.expect("a gap")["findings"][0]
            .as_str()
            .expect("words")
            .to_owned();
        let count = told.strip_suffix(" records were refused by the run before");
        let count: u64 = count.expect("whose").parse().expect("a count");
        assert!(count >= refused, "{told}, and {refused} were noted");
        self.until("it owes nothing", |one| one.untold() == 0);
    }
}

const FIRST: &str = "no run before it is known here";

#[test]
fn what_was_refused_before_a_kill_is_told_when_it_serves_again() {
    let Some(disk) = Disk::mount() else {
        return skipped("who may mount no disk, or keeps nothing on one, fills none");
    };
    let (mut appliance, token, _seen) = asking(&disk);
    assert_eq!(appliance.untold(), 0);
    disk.fill();
    // Also on a full disk.
    appliance.until("what is refused is noted", |one| one.untold() > 0);
    let refused = appliance.untold();
    appliance.child.kill().expect("kill it");
    appliance.child.wait().expect("its end");
    disk.free();
    let appliance = appliance.kill_and_start_again();
    appliance.tells_of_a_cut_run(&token, refused);
    let whole = appliance.gig(&["audit", "verify", &appliance.record()], "");
    assert_eq!(whole.status, 0, "{whole:?}");
}

#[test]
fn it_starts_on_a_full_disk_and_lets_nothing_out() {
    let Some(disk) = Disk::mount() else {
        return skipped("who may mount no disk, or keeps nothing on one, fills none");
    };
    let (mut appliance, token, seen) = asking(&disk);
    disk.fill();
    appliance.until("what is refused is noted", |one| one.untold() > 0);
    appliance.child.kill().expect("kill it");
    appliance.child.wait().expect("its end");
    let before = seen.load(Ordering::SeqCst);
    let appliance = appliance.kill_and_start_again();
    let ready = || Ask::new("GET", "/readyz").send(&appliance);
    assert_eq!(ready().status, 503, "{}", ready().body);
    // Read by who looks for why.
    let health = Ask::new("GET", "/api/v1/health")
        .token(&token)
        .send(&appliance);
    assert_eq!(health.status, 200, "{health:?}");
    let started = appliance.gig(&["server", "start", "asker"], "");
    assert_ne!(started.status, 0, "its start is in no record");
    thread::sleep(Duration::from_millis(500));
    assert_eq!(seen.load(Ordering::SeqCst), before);
    disk.free();
    appliance.until("it is ready again", |_| ready().status == 200);
    appliance.run("asker");
    appliance.until("it asks again", |_| seen.load(Ordering::SeqCst) > before);
}

#[test]
fn a_full_disk_is_told_before_anybody_is_refused_and_nobody_new_signs_in() {
    let Some(disk) = Disk::mount() else {
        return skipped("who may mount no disk, or keeps nothing on one, fills none");
    };
    let folder = tempfile::tempdir_in(disk.0.path()).expect("a folder");
    let appliance = Appliance::start_in(folder, &[]);
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    let ready = || Ask::new("GET", "/readyz").send(&appliance);
    let part = |name: &str| ready().json()["parts"][name].clone();
    let up = |name: &str| {
        let figures = Ask::new("GET", "/metrics").token(&token).send(&appliance);
        assert_eq!(figures.status, 200, "{figures:?}");
        let line = format!("gig_up{{part=\"{name}\"}} 1");
        figures.body.lines().any(|one| one == line)
    };
    assert_eq!(ready().status, 200, "{}", ready().body);
    assert!(up("store") && up("record"));

    disk.fill();
    appliance.until("nothing can be written, it says", |_| {
        ready().status == 503 && part("store") == false && part("record") == false
    });
    assert!(!up("store") && !up("record"));
    let health = Ask::new("GET", "/api/v1/health").token(&token);
    let health = health.send(&appliance);
    let parts = health.json()["items"].as_array().expect("parts").clone();
    for name in ["store", "record"] {
        let told = parts.iter().find(|one| one["part"] == name);
        assert_eq!(told.expect("a part")["works"], false, "{health:?}");
    }
    // Who is in sees why; nobody else comes in, rightly or not, and is told so.
    let inside = Ask::new("GET", "/settings")
        .cookie(&cookie)
        .send(&appliance);
    assert_eq!(inside.status, 200, "{inside:?}");
    assert!(inside.body.contains("disk is full"), "{inside:?}");
    for password in [PASSWORD, "wrong wrong wrong"] {
        let fields = format!("name=ana&password={}", password.replace(' ', "+"));
        let refused = appliance.form("/sign-in", &fields).send(&appliance);
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(!refused.head.contains("set-cookie"), "{refused:?}");
        // Not where on this machine it cannot be kept.
        let (says, tells) = ("own log says why", "record.db");
        assert!(
            refused.body.contains(says) && !refused.body.contains(tells),
            "{refused:?}"
        );
    }

    disk.free();
    appliance.until("it is ready again", |_| ready().status == 200);
    assert!(!appliance.sign_in("ana", PASSWORD).is_empty());
}

#[test]
fn a_full_disk_and_one_that_is_held_let_nothing_out_and_the_gap_is_told() {
    let Some(disk) = Disk::mount() else {
        return skipped("who may mount no disk, or keeps nothing on one, fills none");
    };
    let (appliance, token, seen) = asking(&disk);
    let count = || seen.load(Ordering::SeqCst);

    let stops = || {
        appliance.until("it is not ready", |one| {
            let ready = Ask::new("GET", "/readyz").send(one);
            ready.status == 503 && ready.json()["parts"]["record"] == false
        });
        // What was let out before may still arrive.
        thread::sleep(Duration::from_millis(500));
        let before = count();
        thread::sleep(Duration::from_secs(1));
        assert_eq!(count(), before, "something left that is in no record");
        before
    };
    let goes_on = |before: usize| {
        appliance.until("it is ready again", |one| {
            Ask::new("GET", "/readyz").send(one).status == 200
        });
        appliance.until("it asks again", |_| count() > before);
        appliance.until("the gap is told", |one| {
            let told = Ask::new("GET", "/api/v1/audit?event=audit.gap&limit=10");
            let told = told.token(&token).send(one);
            // Its other database may be a moment later.
            told.status == 200 && told.body.contains("records were refused")
        });
    };
    disk.fill();
    let before = stops();
    assert!(
        appliance
            .said()
            .contains("the record cannot be written: egress is refused"),
        "{}",
        appliance.said()
    );
    disk.free();
    goes_on(before);

    let mut held = hold(&appliance.path("audit/record.db"));
    let before = stops();
    drop(held.stdin.take());
    held.wait().expect("its end");
    // Who waited for it was refused; what they asked for is recorded late, and no gap.
    goes_on(before);

    let whole = appliance.gig(&["audit", "verify", &appliance.record()], "");
    assert_eq!(whole.status, 0, "{whole:?}");
}
