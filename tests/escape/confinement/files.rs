//! Files, processes, keys, devices, /proc and /sys.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, chown},
    time::Duration,
};

use gig_tests::lab::{Finished, Lab, network::text};

use super::{answered, probe, probe_with, refused};

#[test]
fn the_hosts_accounts_are_not_visible() {
    // ENOENT: who is merely not allowed to read it has another answer.
    answered(&["read", "/etc/shadow"], 2);
}

#[test]
fn the_hosts_homes_are_not_visible() {
    answered(&["list", "/root"], 2);
}

#[test]
fn system_folders_cannot_be_written() {
    // EROFS: its owner could not write there either.
    answered(&["write", "/usr/bin/planted"], 30);
}

#[test]
fn the_resolver_configuration_cannot_be_written() {
    answered(&["write", "/etc/resolv.conf"], 30);
}

#[test]
fn the_authority_cannot_be_replaced() {
    answered(&["write", "/etc/gig-ca.pem"], 30);
}

#[test]
fn kernel_settings_cannot_be_written() {
    refused(&["open", "/proc/sys/kernel/core_pattern"]);
}

#[test]
fn the_sysrq_trigger_cannot_be_written() {
    refused(&["open", "/proc/sysrq-trigger"]);
}

#[test]
fn kernel_memory_cannot_be_read() {
    refused(&["read", "/proc/kcore"]);
}

#[test]
fn the_kernel_log_cannot_be_read() {
    // Opened alone: who reads it takes it from the host.
    refused(&["look", "/proc/kmsg"]);
}

#[test]
fn the_hosts_sysfs_is_not_there() {
    let run = probe(&["list", "/sys"]);
    assert!(
        run.text().contains("refused") || run.text().contains("DONE: []"),
        "{run}"
    );
}

#[test]
fn the_hosts_control_groups_cannot_be_written() {
    answered(&["write", "/sys/fs/cgroup/cgroup.procs"], 2);
}

#[test]
fn devices_are_the_harmless_ones() {
    let lab = Lab::new();
    let run = lab.gig().sh("ls /dev; ls -A /dev/sandbox >&2").success();
    // No device: the two files of /etc that name the sandbox's addresses.
    assert_eq!(run.error_text().trim(), "hosts\nresolv.conf", "{run}");
    let known = [
        "console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "sandbox",
        "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero",
    ];
    for name in run.text().split_whitespace() {
        assert!(known.contains(&name), "/dev/{name}: {run}");
    }
}

#[test]
fn processes_of_the_host_are_not_visible() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        .success();
    assert!(
        !run.text().contains("--audit"),
        "gig's own command line is visible: {run}"
    );
    assert!(!run.text().contains("--upstream-ca"), "{run}");
}

#[test]
fn gigs_environment_is_not_inherited() {
    let lab = Lab::new();
    let run = lab.gig().host_env("HOST_SECRET", "do-not-leak");
    let run = run
        .sh("env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")
        .success();
    assert!(!run.text().contains("do-not-leak"), "{run}");
}

#[test]
fn credential_folders_stay_hidden_under_a_bound_parent() {
    let lab = Lab::new();
    let home = lab.home();
    let folders = [
        ".ssh",
        ".gnupg",
        ".aws",
        ".azure",
        ".config/gcloud",
        ".kube",
        ".docker",
        ".terraform.d",
        ".mozilla",
        ".config/github-copilot",
        ".claude",
        ".m2",
    ];
    for folder in folders {
        fs::create_dir_all(home.join(folder)).expect("make a folder");
        let file = match folder {
            ".claude" => ".credentials.json",
            ".m2" => "settings.xml",
            _ => "key",
        };
        fs::write(home.join(folder).join(file), "PRIVATE-KEY").expect("write a key");
    }
    for file in [".git-credentials", ".vault-token", ".bash_history"] {
        fs::write(home.join(file), "PRIVATE-KEY").expect("write a key");
    }
    fs::write(home.join("notes"), "an ordinary file").expect("write a file");
    let path = text(&home);
    for option in ["--ro", "--rw"] {
        let run = lab
            .gig()
            .option([option, &path])
            .sh(&format!("grep -r . {path} 2>&1"))
            .clone();
        assert!(!run.text().contains("PRIVATE-KEY"), "{option}: {run}");
        let _run = run.says("an ordinary file");
    }
}

/// The host goes on while the program runs: it writes files anew and makes others.
fn while_the_host_works(option: &str) -> Finished {
    let lab = Lab::new();
    let (home, marks) = (lab.home(), lab.folder("marks"));
    fs::create_dir_all(home.join(".ssh")).expect("make a folder");
    for name in [".npmrc", ".ssh/key", ".npmrc.new"] {
        fs::write(home.join(name), "PRIVATE-KEY").expect("write a key");
    }
    fs::write(home.join("notes"), "an ordinary file").expect("write a file");
    let (started, changed) = (marks.join("started"), marks.join("changed"));
    let host = std::thread::spawn({
        let (home, changed) = (home.clone(), changed.clone());
        move || {
            for _ in 0..200 {
                if started.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            fs::rename(home.join(".npmrc.new"), home.join(".npmrc")).expect("write it anew");
            fs::write(home.join(".netrc"), "PRIVATE-KEY").expect("write a key");
            fs::rename(home.join(".ssh"), home.join(".ssh.old")).expect("move it");
            fs::create_dir(home.join(".ssh")).expect("make a folder");
            fs::write(home.join(".ssh/key"), "PRIVATE-KEY").expect("write a key");
            fs::write(changed, "").expect("say so");
        }
    });
    let (home, marks) = (text(&home), text(&marks));
    let run = lab
        .gig()
        .option([option, &home])
        .option(["--rw", &marks])
        .sh(&format!(
            "cat {home}/notes; touch {marks}/started; until [ -e {marks}/changed ]; do sleep 0.1; done; sleep 1; \
             cat {home}/.npmrc {home}/.netrc {home}/.ssh/key {home}/.ssh.old/key 2>/dev/null; echo THE END"
        ))
        .clone();
    host.join().expect("the host");
    let run = run.says("an ordinary file");
    assert!(!run.text().contains("PRIVATE-KEY"), "{option}: {run}");
    run
}

#[test]
fn a_home_that_is_read_shows_no_credential_that_comes_later() {
    let _run = while_the_host_works("--ro").says("THE END");
}

#[test]
fn a_cover_that_the_host_takes_away_ends_the_program() {
    let run = while_the_host_works("--rw").exits(137);
    assert!(!run.text().contains("THE END"), "{run}");
    assert!(run.error_text().contains("was covered"), "{run}");
}

/// Where only somebody else gets whom nobody in the sandbox is, nothing can be covered by itself: the folder is closed
/// whole, and stays so where its owner opens it later.
#[test]
fn a_credential_in_somebody_elses_private_folder_keeps_nothing_from_starting() {
    let lab = Lab::new();
    if !lab.user().is_root() {
        return;
    }
    let tree = lab.folder("tree");
    let private = tree.join("private");
    fs::create_dir_all(private.join(".ssh")).expect("make folders");
    for name in [".npmrc", ".ssh/key", "plain"] {
        fs::write(private.join(name), "PRIVATE-KEY").expect("write a key");
    }
    chown(&private, Some(1001), Some(1001)).expect("give it away");
    let open = |mode| fs::set_permissions(&private, fs::Permissions::from_mode(mode));
    fs::write(tree.join("notes"), "an ordinary file").expect("write a file");
    let at = text(&tree);
    let script = format!(
        "cat {at}/notes; touch {at}/private/made 2>/dev/null; read line; \
         cat {at}/private/.npmrc {at}/private/.ssh/key {at}/private/plain 2>&1; echo THE END"
    );
    for option in ["--ro", "--rw"] {
        open(0o700).expect("close it");
        let run = lab.gig().option([option, &at]);
        let mut live = run.start(["sh", "-c", &script]);
        live.wait_for("an ordinary file");
        open(0o755).expect("open it");
        let mut input = live.stdin().expect("its input");
        input.write_all(b"go on\n").expect("tell it");
        live.wait_for("THE END");
        let said = live.output_so_far();
        assert!(!said.contains("PRIVATE-KEY"), "{option}: {said}");
        assert_eq!(said.matches("private/").count(), 3, "{option}: {said}");
        assert!(!private.join("made").exists(), "{option}: written");
    }
}

/// A program closes a folder to everybody, so that the next start cannot look into it, and the next program opens it.
#[test]
fn a_folder_that_a_program_closes_hides_its_credentials_still() {
    let lab = Lab::new();
    let home = lab.home();
    let places = [".config/gh/hosts.yml", "project/.ssh/key"];
    for place in places {
        let file = home.join(place);
        fs::create_dir_all(file.parent().expect("a folder")).expect("make folders");
        fs::write(file, "PRIVATE-KEY").expect("write a key");
    }
    let user = lab.user();
    for folder in ["", ".config", ".config/gh", "project"] {
        chown(home.join(folder), Some(user.uid), Some(user.gid)).expect("give it");
    }
    let at = text(&home);
    for shown in [at.clone(), format!("{at}/project")] {
        let closing = format!("chmod 000 {at}/.config {at}/project; echo closed");
        let run = lab.gig().option(["--rw", &shown]).sh(&closing);
        let _run = run.says("closed");
        let look = format!(
            "chmod 755 {at}/.config {at}/project; cat {at}/.config/gh/hosts.yml {at}/project/.ssh/key; echo looked"
        );
        let run = lab.gig().option(["--rw", &shown]).sh(&look).clone();
        assert!(!run.text().contains("PRIVATE-KEY"), "{shown}: {run}");
        for folder in [".config", "project"] {
            fs::set_permissions(home.join(folder), fs::Permissions::from_mode(0o755))
                .expect("open it");
        }
    }
}

/// Root's sandboxes have ids of their own and may read no more than everybody; even so.
#[test]
fn what_the_system_keeps_secret_stays_hidden_under_a_bound_parent() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .option(["--ro", "/etc:/seen"])
        .sh("for f in shadow shadow- gshadow gshadow-; do test -e /seen/$f || continue; \
             test -s /seen/$f && echo SHOWN $f; done; ls -A /seen/ssl/private 2>/dev/null; echo looked")
        .success();
    assert_eq!(run.text(), "looked\n", "{run}");
}

#[test]
fn read_only_binds_cannot_be_written() {
    let lab = Lab::new();
    let folder = lab.folder("data");
    let file = text(&folder.join("planted"));
    let run = probe_with(lab.gig().read_only(&folder), &["write", &file]);
    let _run = run.says("refused:");
    assert!(!folder.join("planted").exists());
}

#[test]
fn binds_over_the_isolation_mounts_lose() {
    let lab = Lab::new();
    let folder = lab.file("planted", "planted");
    let folder = text(folder.parent().expect("its folder"));
    for (at, sign) in [
        ("/proc", "/proc/self/status"),
        ("/tmp", "/tmp"),
        ("/dev", "/dev/null"),
    ] {
        let run = lab
            .gig()
            .option(["--ro".to_owned(), format!("{folder}:{at}")]);
        let run = run.sh(&format!(
            "ls {at}/planted && echo VISIBLE; ls -d {sign} && echo isolated"
        ));
        // Refusing the start is as good as winning.
        assert!(!run.text().contains("VISIBLE"), "{at}: {run}");
        assert!(
            run.text().contains("isolated") || run.status == 125,
            "{at}: {run}"
        );
    }
}
