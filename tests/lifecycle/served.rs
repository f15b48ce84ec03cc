//! `kill -9` of `gig serve`, with sandboxes that run, begin and end and networks made ahead, leaves nothing; and it
//! serves again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{
    Lab,
    network::{Side, text},
    place::{self, User},
};

use super::death::{Surroundings, all_gone, family};

/// Times that it is killed: at another moment each time.
const LIVES: u32 = 24;
/// Starts, and everything that ends, on a machine ten times slower.
const PATIENCE: Duration = Duration::from_secs(60);

/// An appliance on the lab's host that is killed and started again on one directory.
struct Appliance<'lab> {
    lab: &'lab Lab,
    data: PathBuf,
    log: PathBuf,
    serving: Child,
}

/// A command of the user that the subject runs as.
fn command(lab: &Lab, data: &Path) -> Command {
    let user = User::of_this_run();
    let mut command = lab.network.command(Side::Host, "setpriv");
    if user.uid != rustix::process::getuid().as_raw() {
        command.args([
            format!("--reuid={}", user.uid),
            format!("--regid={}", user.gid),
        ]);
        command.arg("--clear-groups");
    }
    command.args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
    command.arg(format!("HOME={}", text(&lab.home())));
    command.arg(format!("GIG_DATA_DIR={}", text(data)));
    command.arg(place::gig()).current_dir(lab.home());
    command
}

impl<'lab> Appliance<'lab> {
    fn start(lab: &'lab Lab, data: PathBuf) -> Self {
        let log = lab.fresh_path("serve.log");
        let said = fs::File::create(&log).expect("a log");
        let mut serving = command(lab, &data);
        serving
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        Self {
            lab,
            data,
            log,
            serving: serving.spawn().expect("start gig"),
        }
    }

    fn serves(&self) {
        let since = Instant::now();
        loop {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            if said.contains("/setup/") || said.contains("gig: console:") {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "it does not serve: {said}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn gig(&self, words: &[&str]) -> Output {
        command(self.lab, &self.data)
            .args(words)
            .output()
            .expect("gig")
    }

    fn does(&self, words: &[&str]) {
        let said = self.gig(words);
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        assert!(said.status.success(), "{words:?}: {said:?}; {log}");
    }

    /// All that is its own is gone; its directory.
    fn killed(mut self, round: u32) -> PathBuf {
        let (processes, namespaces) = family(self.lab, self.serving.id());
        self.serving.kill().expect("kill it");
        let _status = self.serving.wait().expect("its end");
        all_gone(&processes, &namespaces, round.into());
        std::mem::take(&mut self.data)
    }
}

impl Drop for Appliance<'_> {
    fn drop(&mut self) {
        let _gone = self.serving.kill();
        let _gone = self.serving.wait();
    }
}

#[test]
fn a_killed_appliance_leaves_nothing_two_dozen_times_and_serves_again() {
    let lab = Lab::new();
    let before = Surroundings::of(&lab);
    let mut appliance = Appliance::start(&lab, lab.folder("data").join("gig"));
    appliance.serves();
    let policy = lab.file("web.yaml", "version: 1\negress: []\n");
    appliance.does(&["policy", "apply", "web", &text(&policy)]);
    // Some that stay, with a child in a session of its own; one that ends by itself all the time.
    let stays = "setsid sleep 98765 & exec sleep 98766";
    for (name, script) in [
        ("stays", stays),
        ("beside", stays),
        ("ends", "curl -s -m 5 http://nowhere.test/; true"),
    ] {
        let words = ["server", "add", name, "--policy", "web", "--"];
        appliance.does(&[&words[..], &["/bin/sh", "-c", script]].concat());
    }
    let mut seen = Vec::new();
    for round in 0..LIVES {
        if round % 3 != 2 {
            appliance.serves();
            appliance.does(&["server", "start", "stays"]);
        }
        match round % 3 {
            // While sandboxes run, and networks are made ahead for more.
            0 => {
                appliance.does(&["server", "start", "beside"]);
                seen.push(family(&lab, appliance.serving.id()).1.len());
            }
            // While some begin and end.
            1 => {
                let start = |_| {
                    command(&lab, &appliance.data)
                        .args(["server", "start", "ends"])
                        .stdout(Stdio::null())
                        .stderr(Stdio::null())
                        .spawn()
                        .expect("gig")
                };
                let starting: Vec<Child> = (0..4).map(start).collect();
                thread::sleep(Duration::from_millis(u64::from(round) * 15));
                let data = appliance.killed(round);
                for mut one in starting {
                    let _either = one.wait().expect("its end");
                }
                appliance = Appliance::start(&lab, data);
                continue;
            }
            // On its way up.
            _ => thread::sleep(Duration::from_millis(u64::from(round) * 12)),
        }
        let data = appliance.killed(round);
        appliance = Appliance::start(&lab, data);
    }
    appliance.serves();
    appliance.does(&["server", "start", "stays"]);
    let listed = appliance.gig(&["ps"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(listed.matches("stays").count(), 1, "{listed}");
    appliance.killed(LIVES);
    before.are_all_there_is(&lab);
    // Seven kinds of two sandboxes, and the hub's own.
    let whole = |namespaces: &usize| *namespaces > 14;
    assert!(seen.len() == 8 && seen.iter().all(whole), "{seen:?}");
}
