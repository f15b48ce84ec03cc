//! The README's first command, whole, with a program that is built already; and that the README's sample of
//! what it shows is what it shows.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use gig_tests::lab::{
    place::{self, User},
    skipped,
};
use serde_json::Value;

const NOBODY: User = User {
    uid: 65534,
    gid: 65534,
};

/// A PATH with what every Debian has, and an `apt-get` that takes note and puts there what it is asked for.
fn base_system(folder: &Path) -> Option<PathBuf> {
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("a folder");
    let mut listed = Command::new("dpkg-query");
    let listed = listed.args(["-W", "-f=${Package} ${Essential} ${Priority}\\n"]);
    let listed = listed.output().ok()?;
    let listed = text(&listed.stdout);
    let base = listed.lines().filter_map(|line| {
        let (package, rest) = line.split_once(' ')?;
        (rest.contains("yes") || rest.contains("required")).then_some(package)
    });
    let files = Command::new("dpkg").arg("-L").args(base).output().ok()?;
    for file in text(&files.stdout).lines().map(Path::new) {
        let is_command = file.parent().is_some_and(|folder| folder.ends_with("bin"));
        if let Some(name) = file.file_name().filter(|_| is_command && file.is_file()) {
            let _there_by_another_path = symlink(file, bin.join(name));
        }
    }
    // sh and the like are there by alternatives.
    let _there = symlink("/usr/bin/mawk", bin.join("awk"));
    let script =
        fs::read_to_string(place::repository().join("deploy/quickstart")).expect("the script");
    let needs = script
        .lines()
        .filter_map(|line| line.split_once("need ")?.1.split_once(' '));
    let cases: String = needs
        .map(|(command, package)| {
            let package = package.split([';', ' ']).next().unwrap_or_default();
            format!("{package}) dpkg-query -W {package} && ln -s \"$(PATH=/usr/bin:/bin:/usr/sbin command -v {command})\" {}/{command} ;;\n", bin.display())
        })
        .filter(|case| !case.starts_with(['"', '$']))
        .collect();
    let installer = bin.join("apt-get");
    let _real = fs::remove_file(&installer);
    let words = format!(
        "#!/bin/sh\necho \"$@\" >>{}/installed\nfor word; do case $word in\n{cases}esac; done >/dev/null\n",
        folder.display()
    );
    fs::write(&installer, words).expect("an installer");
    fs::set_permissions(&installer, fs::Permissions::from_mode(0o755)).expect("let it run");
    Some(bin)
}

/// As somebody, in a folder that has nothing of the repository's but the script; and what it left there.
fn check(program: &Path, user: Option<User>) -> (Output, Vec<String>) {
    check_with(program, user, None)
}

/// The same with another PATH.
fn check_with(program: &Path, user: Option<User>, path: Option<&Path>) -> (Output, Vec<String>) {
    let folder = place::scratch(User::of_this_run());
    let deploy = folder.path().join("deploy");
    let own = folder.path().join("own");
    for made in [&deploy, &own] {
        fs::create_dir(made).expect("a folder");
    }
    let script = deploy.join("quickstart");
    fs::copy(place::repository().join("deploy/quickstart"), &script).expect("the script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("let it run");
    let mut command = match user {
        None => Command::new(&script),
        Some(user) => {
            chown(&own, Some(user.uid), Some(user.gid)).expect("give it to them");
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={}", user.uid));
            command.arg(format!("--regid={}", user.gid));
            command.arg("--clear-groups").arg(&script);
            command
        }
    };
    command.args(["--check", "--program"]).arg(program);
    for name in ["HOME", "TMPDIR"] {
        command.env(name, &own);
    }
    if let Some(path) = path {
        command.env("PATH", path);
    }
    for name in ["GIG_DATA_DIR", "GIG_LISTEN", "XDG_DATA_HOME"] {
        command.env_remove(name);
    }
    let output = command.current_dir(&own).output().expect("the script");
    let left = fs::read_dir(&own).expect("its folder").flatten();
    let left = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // Where gig itself keeps things stays.
    let left = left.filter(|name| name != ".local" && name != ".cache");
    (output, left.collect())
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn the_quickstart_does_what_it_promises_and_leaves_nothing() {
    let gig = place::gig();
    for user in [None, Some(NOBODY)] {
        let (output, left) = check(&gig, user);
        let said = text(&output.stdout);
        let whole = format!("{user:?}: {said}{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{whole}");
        assert!(said.trim_end().ends_with("all as promised"), "{whole}");
        assert!(!said.contains("FAILED"), "{whole}");
        assert!(said.matches("  ok      ").count() > 10, "{whole}");
        assert!(left.is_empty(), "{left:?}: {whole}");
        let address = said.split("gig: listening on http://").nth(1);
        let address = address.and_then(|rest| rest.lines().next());
        let address: SocketAddr = address.and_then(|at| at.parse().ok()).expect("an address");
        assert!(
            TcpStream::connect(address).is_err(),
            "{address} still serves"
        );
        assert_eq!(sample(&said), sample(&readme()), "{whole}");
    }
}

/// It runs by what the base system has and by what it installs, and by nothing else that this machine has.
#[test]
fn the_quickstart_installs_all_that_it_uses() {
    if !rustix::process::geteuid().is_root() {
        return skipped("who is not root installs nothing");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(bin) = base_system(folder.path()) else {
        return skipped("this is no Debian: what a base system has is not known");
    };
    assert!(!bin.join("curl").exists(), "it is in the base system");
    let (output, _) = check_with(&place::gig(), None, Some(&bin));
    let whole = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{whole}");
    let installed =
        fs::read_to_string(folder.path().join("installed")).expect("what was installed");
    for package in ["bubblewrap", "uidmap", "curl", "openssl", "python3"] {
        assert!(installed.contains(package), "{package}: {installed}");
    }
    assert!(!installed.contains("build-essential"), "{installed}");
}

#[test]
fn the_quickstart_fails_where_a_promise_does() {
    for program in ["/bin/false", "/bin/true"] {
        let (output, left) = check(Path::new(program), None);
        assert_ne!(output.status.code(), Some(0), "{program}: {output:?}");
        assert!(!text(&output.stdout).contains("all as promised"));
        assert!(left.is_empty(), "{left:?}");
    }
}

fn readme() -> String {
    fs::read_to_string(place::repository().join("README.md")).expect("the README")
}

/// Of a run of the demonstration: the fields of each answer, and what the summary says.
fn sample(said: &str) -> (Vec<Vec<String>>, Vec<String>) {
    let lines = || said.lines();
    let from = lines().position(|line| line.starts_with("{\"message\""));
    let shown: Vec<&str> = lines().skip(from.expect("an answer")).collect();
    let answers = shown.iter().filter_map(|line| {
        let answer: Value = serde_json::from_str(line).ok()?;
        let fields = answer.as_object()?.iter();
        // What differs from run to run is a name and an address.
        Some(
            fields
                .map(|(name, value)| match name.as_str() {
                    "sandbox" | "request_id" => name.clone(),
                    _ => format!("{name}={value}"),
                })
                .collect(),
        )
    });
    let summary = shown
        .iter()
        .skip_while(|line| **line != "gig: denied during this run");
    let summary: Vec<String> = summary
        .take_while(|line| !line.starts_with("  record: "))
        .map(|line| (*line).to_owned())
        .collect();
    assert!(summary.len() > 3, "{said}");
    (answers.take(3).collect(), summary)
}
