//! Changes of secrets are recorded before they are made, and passphrases change whole or not at all.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use gig_tests::lab::place;
use serde_json::Value;

use super::{Answer, answer};

const VALUE: &str = "a value that no record holds";
const OLD: &str = "correct horse battery staple";
const NEW: &str = "incorrect cow capacitor nail";

struct Vault(tempfile::TempDir);

impl Vault {
    fn new() -> Self {
        let vault = Self(tempfile::tempdir().expect("a folder"));
        fs::write(vault.file("old"), OLD).expect("write");
        fs::write(vault.file("new"), NEW).expect("write");
        vault
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.file(name).to_str().expect("UTF-8").to_owned()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(place::gig());
        command.args(words).env("GIG_DATA_DIR", self.file("gig"));
        for name in ["GIG_MASTER_KEY", "GIG_MASTER_KEY_FILE", "T"] {
            command.env_remove(name);
        }
        command
    }

    fn gig(&self, words: &[&str], input: &str) -> Answer {
        answer(self.command(words), input)
    }

    fn ok(&self, words: &[&str], input: &str) -> Answer {
        let answer = self.gig(words, input);
        assert_eq!(answer.status, 0, "{answer:?}");
        answer
    }

    fn records(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.file(file)).expect("the record");
        assert!(!text.contains(VALUE), "{text}");
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("JSON lines")
    }

    /// Whether this passphrase opens what is in custody.
    fn opens(&self, passphrase: &str) -> bool {
        let url = "https://api.example.com/";
        let file = self.text(passphrase);
        let bound = [
            "--secret",
            "T@api.example.com",
            "--allow",
            "api.example.com",
        ];
        let words = [
            "secret",
            "test",
            "T",
            "--url",
            url,
            "--passphrase-file",
            &file,
        ];
        let answer = self.gig(&[&words[..], &bound].concat(), "");
        if answer.status == 125 {
            assert!(answer.errors.contains("passphrase is wrong"), "{answer:?}");
            return false;
        }
        assert_eq!(answer.status, 0, "{answer:?}");
        assert!(answer.output.starts_with("PLACED: T version"), "{answer:?}");
        true
    }
}

#[test]
fn a_vault_that_others_could_open_or_exchange_is_refused_with_the_cure() {
    let vault = Vault::new();
    vault.ok(&["secret", "set", "T"], VALUE);
    let mode = |name: &str, mode| {
        fs::set_permissions(vault.file(name), fs::Permissions::from_mode(mode)).expect("chmod");
    };
    for (name, wrong, right, cure) in [
        ("gig/gig.db", 0o640, 0o600, "chmod 600"),
        ("gig/gig.db", 0o602, 0o600, "chmod 600"),
        ("gig/master.key", 0o604, 0o600, "chmod 600"),
        ("gig", 0o770, 0o700, "chmod 700"),
        ("gig", 0o707, 0o700, "chmod 700"),
    ] {
        mode(name, wrong);
        let answer = vault.gig(&["secret", "ls"], "");
        assert!(
            answer.status == 125 && answer.errors.contains(cure),
            "{name}: {answer:?}"
        );
        mode(name, right);
        vault.ok(&["secret", "ls"], "");
    }
    mode("gig", 0o755);
    vault.ok(&["secret", "ls"], "");
}

fn told(record: &Value) -> (String, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&record["event"]),
        text(&record["secrets"][0]),
        text(&record["findings"][0]),
    )
}

#[test]
fn changes_of_secrets_are_recorded_by_name_version_and_user() {
    let vault = Vault::new();
    vault.ok(&["secret", "set", "T"], VALUE);
    vault.ok(
        &["secret", "rotate", "T", "--grace", "10m"],
        "another value of it",
    );
    vault.ok(&["secret", "rm", "T", "--version", "1"], "");
    vault.ok(&["secret", "rm", "T"], "");
    vault.ok(&["secret", "rotate", "--master"], "");
    let records = vault.records("gig/audit.jsonl");
    let told: Vec<_> = records.iter().map(told).collect();
    let of =
        |name: &str, what: &str| ("secret.change".to_owned(), name.to_owned(), what.to_owned());
    assert_eq!(
        told,
        [
            of("T", "set version 1"),
            of("T", "rotate version 2"),
            of("T", "revoke version 1"),
            of("T", "revoke"),
            of("", "change the master key"),
        ]
    );
    let uid = format!("uid {}", rustix::process::getuid().as_raw());
    for record in &records {
        let who = record["profile"].as_str().unwrap_or_default();
        assert!(who.contains(&uid), "{record}");
        assert_eq!(record["verdict"], "allow");
    }
    let verified = vault.ok(&["audit", "verify", &vault.text("gig/audit.jsonl")], "");
    assert!(verified.output.contains('5'), "{verified:?}");
}

#[test]
fn a_change_that_cannot_be_recorded_is_not_made() {
    let vault = Vault::new();
    let elsewhere = vault.text("elsewhere.jsonl");
    vault.ok(&["secret", "set", "T", "--audit", &elsewhere], VALUE);
    assert_eq!(vault.records("elsewhere.jsonl").len(), 1);
    for words in [
        &["secret", "set", "OTHER"][..],
        &["secret", "rotate", "T"],
        &["secret", "rm", "T"],
        &["secret", "rotate", "--master"],
    ] {
        // Every write to it fails, as on a full disk.
        let answer = vault.gig(&[words, &["--audit", "/dev/full"]].concat(), "a new value");
        assert_eq!(answer.status, 125, "{answer:?}");
        assert!(answer.errors.contains("record"), "{answer:?}");
        // And what is no record is not continued.
        let other = vault.text("old");
        let answer = vault.gig(&[words, &["--audit", &other]].concat(), "a new value");
        assert!(
            answer.status == 125 && answer.errors.contains("nothing is changed"),
            "{answer:?}"
        );
    }
    let listed = vault.ok(&["secret", "ls", "--json"], "");
    let listed: Value = serde_json::from_str(&listed.output).expect("JSON");
    assert_eq!(
        listed["secrets"].as_array().map(Vec::len),
        Some(1),
        "{listed:#}"
    );
    let versions = listed["secrets"][0]["versions"]
        .as_array()
        .expect("versions");
    assert!(
        versions.len() == 1 && versions[0]["state"] == "current",
        "{listed:#}"
    );
}

#[test]
fn a_failed_change_is_recorded_as_one() {
    let vault = Vault::new();
    vault.ok(
        &[
            "secret",
            "set",
            "T",
            "--custody",
            "--passphrase-file",
            &vault.text("old"),
        ],
        VALUE,
    );
    let change = ["secret", "rotate", "--passphrase", "--passphrase-file"];
    let (old, new) = (vault.text("old"), vault.text("new"));
    let wrong = vault.gig(
        &[&change[..], &[&new, "--new-passphrase-file", &new]].concat(),
        "",
    );
    assert!(
        wrong.status == 125 && wrong.errors.contains("passphrase is wrong"),
        "{wrong:?}"
    );
    let records = vault.records("gig/audit.jsonl");
    assert_eq!(records[1]["findings"][0], "change the passphrase");
    assert_eq!(records[2]["verdict"], "deny");
    vault.ok(
        &[&change[..], &[&old, "--new-passphrase-file", &new]].concat(),
        "",
    );
    assert!(vault.opens("new") && !vault.opens("old"));
}

/// Killed at moments spread over the whole of it: one of the two passphrases opens everything, whichever
/// moment it was.
#[test]
fn a_killed_change_of_passphrases_leaves_one_of_the_two() {
    let vault = Vault::new();
    let (old, new) = (vault.text("old"), vault.text("new"));
    vault.ok(
        &["secret", "set", "T", "--custody", "--passphrase-file", &old],
        VALUE,
    );
    let change = |from: &str, to: &str| {
        let words = [
            "secret",
            "rotate",
            "--passphrase",
            "--passphrase-file",
            from,
        ];
        let mut command = vault.command(&[&words[..], &["--new-passphrase-file", to]].concat());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("start gig")
    };
    let begun = Instant::now();
    assert!(change(&old, &new).wait().expect("its end").success());
    let whole = begun.elapsed();
    assert!(vault.opens("new") && !vault.opens("old"));
    let mut at_new = true;
    for step in 0..=MOMENTS {
        let (from, to) = if at_new { (&new, &old) } else { (&old, &new) };
        let mut child = change(from, to);
        let pause = whole.mul_f64(f64::from(step) / f64::from(MOMENTS));
        std::thread::sleep(pause.min(Duration::from_secs(20)));
        child.kill().expect("kill it");
        child.wait().expect("its end");
        let (opens_old, opens_new) = (vault.opens("old"), vault.opens("new"));
        assert!(
            opens_old != opens_new,
            "step {step}: old {opens_old}, new {opens_new}"
        );
        at_new = opens_new;
    }
}

/// Each takes some tenths of a second.
const MOMENTS: u32 = 5;
