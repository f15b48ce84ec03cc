//! Who the program is: user, capabilities, flags, limits.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, chown},
    process::Command,
};

use gig_tests::lab::{Lab, network::text, skipped};

use super::{answered, probe, refused};

#[test]
fn the_program_has_no_capability_and_cannot_gain_any() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .sh("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
        .success();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let _run = run.clone().says(&format!("{set}:\t0000000000000000"));
    }
    let _run = run.says("NoNewPrivs:\t1").says("Seccomp:\t2");
}

#[test]
fn the_program_is_not_root() {
    let lab = Lab::new();
    let run = lab.gig().sh("id -u; id -g; id -G").success();
    assert_eq!(run.text(), "65534\n65534\n65534\n", "{run}");
}

#[test]
fn set_user_id_is_refused() {
    refused(&["setuid"]);
}

#[test]
fn set_user_id_programs_give_nothing() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .sh("findmnt -no OPTIONS /usr 2>/dev/null || grep ' /usr ' /proc/mounts");
    let _run = run.says("nosuid");
    // One of root's, which makes whoever runs it root where it counts.
    let folder = lab.folder("privileged");
    let program = folder.join("id");
    fs::copy("/usr/bin/id", &program).expect("a copy");
    chown(&program, Some(0), Some(0)).expect("give it to root");
    fs::set_permissions(&program, Permissions::from_mode(0o6755)).expect("set its bits");
    let host = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args([&*text(&program), "-u"])
        .output()
        .expect("setpriv");
    let counts = host.stdout == b"0\n";
    let run = lab.gig().read_only(&folder);
    let run = run.sh(&format!("{0} -u; {0} -g; {0} -G", text(&program)));
    assert_eq!(
        run.clone().success().text(),
        "65534\n65534\n65534\n",
        "{run}"
    );
    if !counts {
        skipped("set-user-id programs give nothing where the tests keep their files either");
    }
}

#[test]
fn devices_cannot_be_made() {
    // Not the kernel's own EPERM, which it has for whoever is not root.
    answered(&["mknod"], 13);
}

#[test]
fn no_core_is_dumped() {
    let run = probe(&["core"]).success();
    let _run = run.says("limit (1, 1)");
}

/// Crashed where it may write, and where a host that writes core files would put one.
#[test]
fn a_crash_leaves_no_core() {
    let lab = Lab::new();
    let folder = lab.folder("crash");
    let bind = format!("{}:/crash", text(&folder));
    let run = lab.gig().option(["--rw", &bind, "--workdir", "/crash"]);
    let run = run.python(
        "import os, signal\n\
         child = os.fork()\n\
         if child == 0: os.kill(os.getpid(), signal.SIGSEGV)\n\
         status = os.waitpid(child, 0)[1]\n\
         print(os.WTERMSIG(status) == signal.SIGSEGV, os.WCOREDUMP(status), os.listdir('.'))",
    );
    assert_eq!(run.success().text(), "True False []\n");
    let left: Vec<_> = fs::read_dir(&folder).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_namespace_is_its_own() {
    let lab = Lab::new();
    let run = lab.gig().sh(&format!(
        "for n in {}; do readlink /proc/self/ns/$n; done",
        NAMESPACES.join(" ")
    ));
    let inside = run.success().text();
    let told: Vec<&str> = inside.lines().collect();
    assert_eq!(told.len(), NAMESPACES.len(), "one each: {inside}");
    for (name, told) in NAMESPACES.iter().zip(told) {
        assert!(told.starts_with(&format!("{name}:[")), "{name}: {inside}");
    }
    let host = format!(
        "/proc/{}/ns",
        lab.network.holder_pid(gig_tests::lab::network::Side::Host)
    );
    for name in NAMESPACES {
        let link = fs::read_link(format!("{host}/{name}")).expect("a namespace");
        assert!(
            !inside.contains(&*link.to_string_lossy()),
            "{name} is shared: {inside}"
        );
    }
}

/// The program leads a session of its own, without a terminal: it can type at nobody's.
#[test]
fn the_session_is_new() {
    let lab = Lab::new();
    let run = lab.gig().python(
        "import os; stat = open('/proc/self/stat').read().rpartition(')')[2].split()\n\
         print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), stat[4])",
    );
    assert_eq!(run.success().text(), "True True 0\n");
}

/// All but that of clocks, which a sandbox has the host's of.
const NAMESPACES: [&str; 7] = ["user", "net", "pid", "ipc", "uts", "cgroup", "mnt"];
