//! The ways a host can give user namespaces: root, sub-ids, a single id, inside another container.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    process::{Command, Stdio},
};

use gig_tests::lab::{
    Lab,
    http_origin::greet,
    network::{Side, text},
    place::{self, User},
    subject::Live,
};

const HOST: &str = "api.example.com";
const URL: &str = "https://api.example.com/";

#[test]
fn a_user_without_sub_ids_can_run_sandboxes() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    // Debian's nobody has no line in /etc/subuid.
    let nobody = User {
        uid: 65534,
        gid: 65534,
    };
    let run = lab
        .gig()
        .recording_to("-".as_ref())
        .user(nobody)
        .allow(HOST);
    let _run = run
        .run(["curl", "-sS", "--fail", URL])
        .success()
        .says("hello from the origin");
}

/// Nothing on the way gains a right from a file: a kernel that is told to give none still starts it.
#[test]
fn a_run_needs_no_file_that_gives_rights() {
    let lab = Lab::new();
    let nobody = User {
        uid: 65534,
        gid: 65534,
    };
    for user in [nobody, lab.user()] {
        let run = lab.gig().recording_to("-".as_ref()).user(user);
        let run = run.under(["setpriv", "--no-new-privs"]);
        let _run = run
            .run(["grep", "NoNewPrivs", "/proc/self/status"])
            .success()
            .says("NoNewPrivs:\t1");
    }
}

/// What one leaves open, or fills, is not counted against the other.
#[test]
fn two_runs_of_root_at_once_have_no_host_id_in_common() {
    let lab = Lab::new();
    if !lab.user().is_root() {
        return;
    }
    let start = || {
        let mut live = lab.gig().start(["sh", "-c", "echo up; read go"]);
        live.wait_for("up");
        live
    };
    let (one, other) = (start(), start());
    let ids = |live: &Live| {
        let (processes, _) = super::death::family(&lab, live.pid());
        let owner = |pid: &u32| fs::metadata(format!("/proc/{pid}")).map(|facts| facts.uid());
        let owners = processes.keys().filter_map(|pid| owner(pid).ok());
        owners.filter(|uid| *uid != 0).collect::<BTreeSet<_>>()
    };
    let (ones, others) = (ids(&one), ids(&other));
    assert!(
        !ones.is_empty() && !others.is_empty(),
        "{ones:?} {others:?}"
    );
    assert!(ones.is_disjoint(&others), "{ones:?} {others:?}");
}

/// A container's root has few capabilities: what cannot be shown is refused with what would do, and doctor says so.
#[test]
fn files_that_roots_capabilities_do_not_do_for_are_refused_with_what_would() {
    let lab = Lab::new();
    if !lab.user().is_root() {
        return;
    }
    let folder = lab.folder("shown");
    let run = lab.gig().under(["setpriv", "--bounding-set=-sys_admin"]);
    let run = run.option(["--rw".as_ref(), folder.as_os_str()]);
    let _run = run
        .run(["true"])
        .exits(125)
        .complains("root lacks CAP_SYS_ADMIN here");
}

/// What allows it is said where it fails, not only by doctor.
#[test]
fn a_host_that_refuses_user_namespaces_is_told_with_its_cure() {
    let lab = Lab::new();
    let none = "echo 0 > /proc/sys/user/max_user_namespaces &&";
    let output = contained(&lab, none, "\"$1\" run --audit none -- true");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{told}");
    let cure = "cure: sysctl -w user.max_user_namespaces=15000";
    assert!(told.contains(cure), "{told}");
}

/// As `run` would inside what runs containers: namespaces of its own around gig, and what `covered` does
/// to its /proc before.
fn contained(lab: &Lab, covered: &str, program: &str) -> std::process::Output {
    let mut command = lab.network.command(Side::Host, "unshare");
    command.args(["--user", "--map-root-user", "--mount", "--pid", "--fork"]);
    command.args(["--mount-proc", "--", "sh", "-c"]);
    command.arg(format!("{covered} exec {program}")).arg("sh");
    command.arg(place::gig()).arg(lab.root_file());
    let output = command.stdin(Stdio::null()).output();
    output.expect("unshare")
}

const RUN: &str = "\"$1\" run --quiet --allow api.example.com --upstream-ca \"$2\" -- \
    curl -sS --fail https://api.example.com/";

#[test]
fn sandboxes_run_in_a_container_with_processes_of_its_own() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let output = contained(&lab, "", RUN);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "hello from the origin\n"
    );
}

/// Docker covers parts of /proc; a kernel then mounts no other one below. It works all the same, or is
/// refused with what cures it, which `gig doctor` says as well.
#[test]
fn a_container_whose_proc_is_covered_works_or_is_told_the_cure() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let covered = "for file in kcore keys timer_list; do [ ! -e /proc/$file ] || mount --bind /dev/null /proc/$file; done && \
        mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys &&";
    let output = contained(&lab, covered, RUN);
    if output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "hello from the origin\n");
        return;
    }
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let doctor = contained(&lab, covered, "\"$1\" doctor");
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(said.contains("systempaths=unconfined"), "{said}");
}

#[test]
fn sandboxes_run_inside_another_user_namespace() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let mut command = lab.network.command(Side::Host, "unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "--"])
        .arg(place::gig());
    command
        .args(["run", "--allow", HOST, "--upstream-ca"])
        .arg(lab.root_file());
    command
        .args(["--", "curl", "-sS", "--fail", URL])
        .stdin(Stdio::null());
    let output = command.output().expect("unshare");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "hello from the origin\n"
    );
}

#[test]
fn the_host_sees_another_user_than_gigs_where_it_gives_ids() {
    let lab = Lab::new();
    // A time to sleep that no other test has, in no other run beside this one.
    let mark = format!("sleep 98765{}", std::process::id());
    let script = format!("echo up; exec {mark}");
    let mut live = lab.gig().start(["sh", "-c", &script]);
    live.wait_for("up");
    let seen = Command::new("pgrep")
        .args(["-f", &format!("^{mark}$")])
        .output()
        .expect("pgrep");
    let pid = String::from_utf8_lossy(&seen.stdout)
        .lines()
        .next()
        .map(str::to_owned);
    let pid = pid.expect("the program, seen from the host");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:\t"));
    let uid: u32 = uid
        .and_then(|ids| ids.split('\t').next()?.parse().ok())
        .expect("its user");
    let sub_ids = sub_ids(lab.user().uid);
    if lab.user().is_root() {
        assert_ne!(uid, 0, "root's sandboxes have ids of their own");
    } else if let Some((first, count)) = sub_ids {
        assert!(
            (first..first + count).contains(&uid),
            "{uid} of {first}+{count}"
        );
    }
    // And as many of them as programs may ask for.
    if lab.user().is_root() || sub_ids.is_some() {
        let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).expect("its map");
        let ids: u64 = map
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok())
            .sum();
        assert_eq!(ids, 65536, "{map}");
    }
    live.signal(rustix::process::Signal::KILL);
    let _used = text(lab.root_file());
}

/// What /etc/subuid gives this user: the first id, and how many.
fn sub_ids(user: u32) -> Option<(u32, u32)> {
    let name = Command::new("id").args(["-nu", &user.to_string()]).output();
    let name = name.expect("id");
    let name = String::from_utf8_lossy(&name.stdout).trim().to_owned();
    let table = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let mut lines = table.lines().filter_map(|line| {
        let (who, range) = line.split_once(':')?;
        let (first, count) = range.split_once(':')?;
        Some((who, first.parse().ok()?, count.parse().ok()?))
    });
    let found = lines.find(|(who, _, _)| *who == name || *who == user.to_string());
    found.map(|(_, first, count)| (first, count))
}

#[test]
fn ordinary_programs_work_under_the_strict_filter() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    for program in [
        ["curl", "-sS", "--fail", URL].as_slice(),
        &[
            "python3",
            "-c",
            "import urllib.request as r; print(r.urlopen('https://api.example.com/').read())",
        ],
        &[
            "node",
            "-e",
            "fetch('https://api.example.com/').then(r => r.text()).then(console.log)",
        ],
        &[
            "sh",
            "-c",
            "ls / | sort | wc -l >/dev/null; git --version; echo hello from the origin",
        ],
    ] {
        let run = lab
            .gig()
            .allow(HOST)
            .option(["--seccomp", "strict"])
            .run(program);
        let _run = run.success().says("hello from the origin");
    }
}

#[test]
fn the_strict_filter_allows_no_call_that_is_not_listed() {
    let lab = Lab::new();
    // sysfs(2), how many file systems there are: no program of this century needs it.
    let script = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); \
        print('passes' if libc.syscall(139, 3, 0, 0) > 0 else ctypes.get_errno())";
    let under = |profile: &str| {
        let run = lab.gig().option(["--seccomp", profile]).python(script);
        run.success().text().trim().to_owned()
    };
    const ENOSYS: &str = "38";
    assert_eq!(under("strict"), ENOSYS);
    // Its filter says so, and not the kernel: where that has the call at all.
    let is_there = fs::read_to_string("/proc/kallsyms")
        .is_ok_and(|all| all.lines().any(|line| line.ends_with(" __x64_sys_sysfs")));
    if is_there {
        assert_eq!(under("default"), "passes");
    }
}

#[test]
fn an_engine_that_is_not_here_refuses_the_start() {
    let lab = Lab::new();
    for engine in ["gvisor", "landlock"] {
        let run = lab.gig().option(["--engine", engine]).run(["true"]);
        let _run = run.exits(125).complains(engine);
    }
}

#[test]
fn the_local_profile_reaches_private_ranges_only() {
    let lab = Lab::new();
    let public = lab.https(HOST, greet);
    let private = lab
        .network
        .listen(Side::Internet, ([10, 1, 2, 3], 443).into());
    let tls = lab
        .leaf("intranet.example.com")
        .server_config(&["http/1.1"]);
    let private = gig_tests::lab::http_origin::HttpOrigin::start(private, Some(tls), greet);
    lab.resolver
        .set("intranet.example.com", &[[10, 1, 2, 3].into()]);
    let run = lab.gig().allow(HOST).allow("intranet.example.com");
    let run = run.option(["--profile", "local"]).sh(
        "curl -sS https://intranet.example.com/; curl -sS -o /dev/null -w '%{http_code}' https://api.example.com/",
    );
    let run = run.says("hello from the origin").says("403");
    assert_eq!(private.requests().len(), 1, "{run}");
    assert_eq!(public.raw().wire_octets(), 0, "{run}");
}
