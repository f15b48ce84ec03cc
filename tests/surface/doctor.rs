//! `gig doctor` and `gig audit verify` on what is no record.

use std::{net::UdpSocket, process::Command};

use gig_tests::lab::place;
use serde_json::Value;

use super::{answer, gig, gig_with};

#[test]
fn doctor_tries_every_mechanism_and_says_so_as_json() {
    let answer = gig(&["doctor", "--json"]);
    let told: Value =
        serde_json::from_str(&answer.output).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    assert_eq!(told["sandboxes_work"], true, "{told}");
    assert_eq!(answer.status, 0, "{told}");
    let checks = told["checks"].as_array().cloned().unwrap_or_default();
    let names: Vec<_> = checks
        .iter()
        .filter_map(|check| check["name"].as_str())
        .collect();
    for name in EXPECTED {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    // A whole sandbox is what they are for: none of these is missing where one works.
    for check in &checks {
        assert_ne!(check["state"], "missing", "{check}");
    }
}

/// What stays of a variable once it is read is no question of what works here; a key that opens nothing is one, of
/// itself.
#[test]
fn a_master_key_in_the_environment_is_a_question_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    for (key, state) in [("abc".to_owned(), "missing"), ("5".repeat(64), "works")] {
        let mut command = Command::new(place::gig());
        command
            .args(["doctor", "--json"])
            .env("GIG_DATA_DIR", folder.path())
            .env("GIG_MASTER_KEY", key);
        let answer = answer(command, "");
        assert_eq!(answer.status, 0, "{answer:?}");
        let findings: Value = serde_json::from_str(&answer.output).expect("JSON");
        told(&findings, "the vault", state);
    }
}

/// Root can write everywhere: what it left in somebody's data directory would be theirs no more.
#[test]
fn root_leaves_nothing_in_somebody_elses_data_directory() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder in it");
    std::os::unix::fs::chown(&data, Some(1), Some(1)).expect("give it away");
    for (words, input) in [
        (&["run", "--", "true"][..], ""),
        (&["secret", "set", "TOKEN"], "a value of some length"),
        (&["doctor"], ""),
        (&["user", "ls"], ""),
    ] {
        let mut command = Command::new(place::gig());
        command.args(words).env("GIG_DATA_DIR", &data);
        let answer = answer(command, input);
        assert!(
            words == ["doctor"] || answer.status != 0,
            "{words:?}: {answer:?}"
        );
        let told = format!("{}{}", answer.output, answer.errors);
        assert!(
            told.contains("belongs to another user (uid 1)"),
            "{words:?}: {answer:?}"
        );
        let left = std::fs::read_dir(&data).expect("read it").count();
        assert_eq!(left, 0, "{words:?}");
    }
}

/// A directory that was mistyped is told, and not begun.
#[test]
fn who_only_reads_begins_no_data_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("typo");
    for words in [["user", "ls"], ["token", "ls"]] {
        let mut command = Command::new(place::gig());
        command.args(words).env("GIG_DATA_DIR", &data);
        let told = answer(command, "");
        let is_told = told.errors.contains("nothing of an appliance is in");
        assert!(told.status == 125 && is_told, "{words:?}: {told:?}");
        assert!(!data.exists(), "{words:?}");
    }
}

/// What the host must be asked for, by the names that people are told.
const EXPECTED: [&str; 20] = [
    "user namespaces",
    "nested user namespaces",
    "veth links",
    "nftables ruleset",
    "redirect with original destination",
    "bubblewrap",
    "Landlock",
    "seccomp: strict",
    "files of yours inside",
    "limit: memory",
    "limit: processes",
    "limit: processor time",
    "limit: /tmp",
    "AppArmor's restriction",
    "name servers",
    "certificate authority",
    "roots for origins",
    "the record",
    "a whole sandbox",
    "the vault",
];

#[test]
fn doctor_speaks_to_people() {
    let answer = gig(&["doctor"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    for name in EXPECTED {
        assert!(answer.output.contains(name), "{name}: {answer:?}");
    }
}

/// The sample in the README is of this doctor.
#[test]
fn the_readme_shows_checks_that_exist() {
    let readme =
        std::fs::read_to_string(place::repository().join("README.md")).expect("the README");
    let (_, sample) = readme.split_once("$ gig doctor\n").expect("a sample");
    let (sample, _) = sample.split_once("```").expect("its end");
    let answer = gig(&["doctor"]);
    let names: Vec<&str> = sample
        .lines()
        .filter_map(|line| {
            ["works ", "limited "]
                .iter()
                .find_map(|state| line.strip_prefix(state))
        })
        .filter_map(|rest| rest.trim_start().split("  ").next())
        .collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let told = answer.output.lines().any(|line| {
            let rest = line
                .split_once(' ')
                .map_or("", |(_, rest)| rest.trim_start());
            rest.starts_with(&format!("{name}  "))
        });
        assert!(told, "{name}: {answer:?}");
    }
    assert!(!answer.output.contains("\\u{"), "{answer:?}");
}

#[test]
fn what_is_no_record_does_not_verify() {
    let answer = gig_with(&["audit", "verify", "-"], "this is no record\n");
    assert_eq!(answer.status, 1, "{answer:?}");
    let answer = gig(&["audit", "verify", "/no/such/file"]);
    assert_ne!(answer.status, 0, "{answer:?}");
    assert!(answer.errors.contains("/no/such/file"), "{answer:?}");
}

/// The doctor on a host that lacks something: `lacking` is a script that takes it away, in mounts that nobody
/// else sees, and `as_whom` a command that becomes gig.
fn examined(lacking: &str, as_whom: &str) -> (i32, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut host = Command::new("unshare");
    host.args(["--mount", "--propagation", "private", "sh", "-ec"]);
    host.arg(format!("{lacking}\nexec {as_whom} \"$1\" doctor --json"));
    host.arg("sh").arg(place::gig());
    host.env("GIG_DATA_DIR", folder.path().join("data"))
        .env("FOLDER", folder.path());
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        host.env_remove(name);
    }
    let answer = answer(host, "");
    let told = serde_json::from_str(&answer.output).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    (answer.status, told)
}

/// That one mechanism is told as it stands, with what its lack costs and what cures it.
fn told<'a>(findings: &'a Value, name: &str, state: &str) -> &'a Value {
    let mut checks = findings["checks"].as_array().expect("checks").iter();
    let check = checks.find(|check| check["name"] == name).expect(name);
    assert_eq!(check["state"], state, "{check}");
    for word in ["costs", "cure"] {
        let said = check[word].as_str().unwrap_or_default();
        assert_eq!(said.is_empty(), state == "works", "{word}: {check}");
    }
    check
}

fn holds(check: &Value, field: &str, word: &str) {
    assert!(
        check[field]
            .as_str()
            .is_some_and(|text| text.contains(word)),
        "{word}: {check}"
    );
}

#[test]
fn a_host_without_an_engine_that_works_is_told_so() {
    let old = "printf '#!/bin/sh\\necho bubblewrap 0.4.0\\n' >$FOLDER/old; chmod 755 $FOLDER/old; \
               mount --bind $FOLDER/old /usr/bin/bwrap";
    for (lacking, found, cure) in [
        (
            "mount --bind /dev/null /usr/bin/bwrap",
            "not installed",
            "apt-get install bubblewrap",
        ),
        (
            "mount --bind /bin/false /usr/bin/bwrap",
            "--version fails",
            "--reinstall bubblewrap",
        ),
        (old, "0.5 is the oldest", "upgrade bubblewrap"),
    ] {
        let (status, findings) = examined(lacking, "");
        let check = told(&findings, "bubblewrap", "missing");
        holds(check, "found", found);
        holds(check, "cure", cure);
        told(&findings, "a whole sandbox", "missing");
        assert_eq!(
            (status, &findings["sandboxes_work"]),
            (1, &Value::Bool(false))
        );
    }
}

#[test]
fn what_gig_itself_is_told_wrongly_is_told_back() {
    let (status, findings) = examined(
        "",
        "env HTTPS_PROXY=ftp://proxy.test:1 GIG_DATA_DIR=/proc/x",
    );
    let check = told(&findings, "upstream proxy", "missing");
    holds(check, "cure", "http://");
    let check = told(&findings, "the record", "limited");
    holds(check, "found", "/proc/x");
    holds(check, "cure", "GIG_DATA_DIR");
    assert_eq!(status, 1, "gig run refuses such a proxy: {findings}");
}

#[test]
fn a_name_server_that_is_silent_is_told() {
    let silent = UdpSocket::bind("127.66.77.88:53").expect("the port of name servers");
    let lacking = "echo nameserver 127.66.77.88 >$FOLDER/resolv; \
                   mount --bind $FOLDER/resolv $(readlink -f /etc/resolv.conf)";
    let (status, findings) = examined(lacking, "");
    let check = told(&findings, "name servers", "limited");
    holds(check, "found", "127.66.77.88");
    holds(check, "cure", "/etc/resolv.conf");
    assert_eq!(status, 0, "sandboxes start without: {findings}");
    let mut asked = [0; 64];
    silent.set_nonblocking(true).expect("no waiting");
    assert!(silent.recv(&mut asked).is_ok(), "it was asked for real");
}

#[test]
fn a_user_whom_nothing_gives_ids_is_told_what_would() {
    let ids = "for file in subuid subgid; do echo nobody:200000:65536 >$FOLDER/$file; \
               mount --bind $FOLDER/$file /etc/$file; done; chmod 755 $FOLDER; mkdir -m 777 $FOLDER/data; ";
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups env GIG_DATA_DIR=$FOLDER/data";
    let name = "ids of sandboxes";
    let (status, findings) = examined(ids, nobody);
    assert_eq!(status, 0, "{findings}");
    holds(told(&findings, name, "works"), "found", "200000");
    // A service that may gain no rights, or a container without any, has ids, and newuidmap gives it none.
    for bound in ["--no-new-privs", "--bounding-set=-all"] {
        let bound = nobody.replace("setpriv ", &format!("setpriv {bound} "));
        let (status, findings) = examined(ids, &bound);
        let check = told(&findings, name, "limited");
        holds(check, "found", "NoNewPrivileges");
        holds(
            check,
            "cure",
            "leave NoNewPrivileges= and CapabilityBoundingSet= out",
        );
        assert_eq!(status, 0, "{findings}");
    }
    let (status, findings) = examined("", "setpriv --bounding-set=-all");
    let check = told(&findings, "id map", "missing");
    holds(check, "cure", "another user than root");
    assert_eq!(status, 1, "{findings}");
    let helper = format!("{ids} mount --bind /dev/null /usr/bin/newuidmap");
    let none = "mount --bind /dev/null /etc/subuid; chmod 755 $FOLDER; mkdir -m 777 $FOLDER/data";
    for (lacking, cure) in [
        (helper.as_str(), "apt-get install uidmap"),
        (none, "usermod --add-subuids"),
    ] {
        let (status, findings) = examined(lacking, nobody);
        holds(told(&findings, name, "limited"), "cure", cure);
        assert_eq!(status, 0, "they run under the user's own: {findings}");
    }
}

/// As containers and service managers cover /proc: files by a device, folders by themselves, read-only.
const COVERED: &str = "for file in keys timer_list kcore; do [ ! -e /proc/$file ] || \
                       mount --bind /dev/null /proc/$file; done; \
                       for folder in bus fs irq sys; do mount --bind /proc/$folder /proc/$folder; \
                       mount -o remount,bind,ro /proc/$folder; done; \
                       chmod 755 $FOLDER; mkdir -m 777 $FOLDER/data";

#[test]
fn a_proc_that_is_covered_is_told_with_what_covers_it_and_root_needs_no_other() {
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let (status, findings) = examined(COVERED, nobody);
    let check = told(&findings, "private /proc", "missing");
    for word in ["/proc/keys", " more"] {
        holds(check, "found", word);
    }
    for word in [
        "systempaths=unconfined",
        "procMount: Unmasked",
        "ProtectKernelTunables",
    ] {
        holds(check, "cure", word);
    }
    told(&findings, "user namespaces", "works");
    told(&findings, "AppArmor's restriction", "works");
    told(&findings, "a whole sandbox", "missing");
    assert_eq!(status, 1, "{findings}");
    // A run says the same by itself.
    let (status, said) = run_where(COVERED, nobody, "cat /proc/self/comm");
    assert_eq!(status, 125, "{said}");
    for word in ["/proc is covered in part (/proc/", "systempaths=unconfined"] {
        assert!(said.contains(word), "{said}");
    }
    // Root has one laid over it, which the sandbox sees nothing of: its own holds its own processes alone.
    let (status, findings) = examined(COVERED, "");
    told(&findings, "a whole sandbox", "works");
    assert_eq!(status, 0, "{findings}");
    let look = "cat /proc/self/comm; cd /proc && echo processes: [0-9]* && cat /proc/mounts";
    let (status, said) = run_where(COVERED, "", look);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("cat\nprocesses: 1 2"), "{said}");
    assert!(
        said.lines()
            .filter(|line| line.contains(" /proc proc "))
            .count()
            == 1,
        "{said}"
    );
}

/// `gig run` of a script on a host that lacks something: its status, and all that is said.
fn run_where(lacking: &str, as_whom: &str, script: &str) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut host = Command::new("unshare");
    host.args(["--mount", "--propagation", "private", "sh", "-ec"]);
    let run =
        format!("{lacking}\nexec {as_whom} \"$1\" run --audit $FOLDER/data/record -- sh -c \"$2\"");
    host.arg(run).arg("sh").arg(place::gig()).arg(script);
    host.env("FOLDER", folder.path());
    let answer = answer(host, "");
    (answer.status, answer.output + &answer.errors)
}
