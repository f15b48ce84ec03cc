//! Beginnings and ends: of the hub, of children, of slots.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gig_netns::{Finding, HostIds, Hub, IdMapFds, Spawn, SpawnError, SpawnNetwork};
use rustix::process::{Signal, pidfd_send_signal};

use crate::Test;
use crate::lab::{self, Extra, eventually, shell, shell_says};

pub(crate) const TESTS: &[Test] = &[
    (
        "child_has_exactly_the_descriptors_and_environment_it_was_given",
        exact_start,
    ),
    ("wait_status_is_exact", wait_status),
    (
        "program_that_cannot_run_is_an_error_with_its_reason",
        refused_program,
    ),
    ("released_slot_keeps_nothing_and_comes_back_new", release),
    (
        "release_ends_daemons_that_left_their_parents",
        release_ends_daemons,
    ),
    ("hub_survives_floods_of_processes_and_descriptors", floods),
    ("range_ids_are_the_slots_own", range_ids),
    ("bwrap_gets_its_id_map_from_the_hub", bwrap_id_map),
    ("dropped_hub_leaves_nothing", dropped_hub),
    ("killed_owner_leaves_nothing", killed_owner),
    ("doctor_finds_every_mechanism_working_here", doctor),
    ("a_thousand_slots_are_leased_at_once", thousand),
    ("durations", durations),
];

/// `argv[1]` of this program as the owner that is killed.
pub(crate) const VICTIM_ARGUMENT: &str = "victim";

fn exact_start() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let (mut read, write) = std::io::pipe().unwrap();
    let extra = Extra {
        fds: vec![(OwnedFd::from(write), 77)],
        env: vec![("ODD".into(), "a=b % \u{e4}\n".into())],
        id_map: None,
    };
    let script = "echo through >&77; ls /proc/self/fd; env -0 | tr '\\0' '|'; pwd; umask";
    let network = SpawnNetwork::Leased(lease.slot());
    // A shell keeps a copy of its script's descriptor nowhere: -c has none.
    let ended = lab::spawn(&hub, network, &["/bin/bash", "-c", script], extra).end();
    let mut through = String::new();
    read.read_to_string(&mut through).unwrap();
    assert_eq!(through, "through\n");
    let descriptors: BTreeSet<&str> = ended
        .output
        .lines()
        .take_while(|line| line.parse::<u32>().is_ok())
        .collect();
    // 3 is the directory that ls reads.
    assert_eq!(
        descriptors,
        BTreeSet::from(["0", "1", "2", "3", "77"]),
        "{}",
        ended.output
    );
    assert!(
        ended.output.contains("ODD=a=b % \u{e4}\n|"),
        "{}",
        ended.output
    );
    let variables = ended.output.matches('|').count();
    assert_eq!(
        variables, 5,
        "PATH, ODD, and bash's own PWD, SHLVL and _: {}",
        ended.output
    );
}

fn wait_status() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    assert_eq!(shell(&hub, &lease, "exit 7").end().status, 7 << 8);
    assert_eq!(shell(&hub, &lease, "kill -ABRT $$").end().status & 0x7f, 6);
    let sleeper = shell(&hub, &lease, "exec sleep 1000");
    // What asks for something is for whoever called the hub; what ends ends.
    pidfd_send_signal(&sleeper.child.pidfd, Signal::TERM).unwrap();
    pidfd_send_signal(&sleeper.child.pidfd, Signal::ALARM).unwrap();
    assert_eq!(sleeper.end().status, 14);
    // The hub's own limit on open files is higher; its children's is the caller's.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let said = shell_says(&hub, &lease, "ulimit -n");
    assert_eq!(
        said.trim(),
        limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string())
    );
    // Ignored: HUP, INT, QUIT, USR1, USR2, TERM, TSTP, TTIN and TTOU, a bit each.
    let signals = shell_says(&hub, &lease, "grep -E 'Sig(Blk|Ign)' /proc/self/status");
    assert_eq!(
        signals,
        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000384a07\n"
    );
}

fn refused_program() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let spawn = |program: &str, slot: u16| {
        hub.spawn(Spawn {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            fds: Vec::new(),
            network: SpawnNetwork::Leased(slot),
            id_map: None,
        })
    };
    let errno = |error: SpawnError| match error {
        SpawnError::Refused { source, .. } => source.errno,
        SpawnError::Lost { .. } => None,
    };
    assert_eq!(
        errno(spawn("/no/such/program", lease.slot()).unwrap_err()),
        Some(2)
    );
    assert_eq!(
        errno(spawn("/etc/passwd", lease.slot()).unwrap_err()),
        Some(13)
    );
    assert!(spawn("/bin/true", 1).is_err(), "a slot that is not leased");
    assert_eq!(shell(&hub, &lease, "true").end().status, 0);
}

fn release() {
    let (hub, listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let (slot, address) = (lease.slot(), lease.address());
    let before = shell_says(&hub, &lease, "readlink /proc/self/ns/net");
    let client = shell(&hub, &lease, "exec 3<>/dev/tcp/1.1.1.1/80; sleep 1000");
    let (stream, _) = lab::accept(&listeners.redirect).unwrap();
    hub.release(lease).unwrap();
    assert_eq!(client.end().status, 9);
    drop(stream);
    let lease = hub.lease().unwrap();
    assert_eq!((lease.slot(), lease.address()), (slot, address));
    assert_ne!(
        before,
        shell_says(&hub, &lease, "readlink /proc/self/ns/net")
    );
    let client = shell(&hub, &lease, "exec 3<>/dev/tcp/1.1.1.1/80 && cat <&3");
    assert!(lab::accept(&listeners.redirect).is_some());
    client.end();
}

fn release_ends_daemons() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let marker = marker();
    let script = format!(
        "(setsid bash -c 'trap \"\" TERM HUP; sleep {marker}; true' >/dev/null 2>&1 &) ; sleep {marker}"
    );
    let running = shell(&hub, &lease, &script);
    eventually("both sleep", || processes_with(&marker) >= 3);
    hub.release(lease).unwrap();
    running.end();
    assert_eq!(processes_with(&marker), 0);
    let lease = hub.lease().unwrap();
    assert_eq!(shell(&hub, &lease, "true").end().status, 0);
}

fn floods() {
    let (hub, listeners) = lab::start(2);
    let (lease, other) = (hub.lease().unwrap(), hub.lease().unwrap());
    let marker = marker();
    let script = format!(
        "ulimit -n 1024; for i in $(seq 10 1000); do eval \"exec $i</dev/null\" 2>/dev/null || break; done; \
         for i in $(seq 150); do sleep {marker} & done; for i in $(seq 150); do (sleep {marker} &); done; \
         echo flooded; wait"
    );
    let mut flood = shell(&hub, &lease, &script);
    while flood.line() != "flooded" {}
    let client = shell(&hub, &other, "exec 3<>/dev/tcp/1.1.1.1/80 && cat <&3");
    drop(lab::accept(&listeners.redirect).unwrap());
    assert_eq!(client.end().status, 0);
    hub.release(lease).unwrap();
    flood.end();
    assert_eq!(processes_with(&marker), 0);
}

fn range_ids() {
    let config = lab::config(2);
    let HostIds::Range { per_sandbox, .. } = config.ids else {
        return;
    };
    let (hub, _listeners) = Hub::start(&config).unwrap();
    let leases = [hub.lease().unwrap(), hub.lease().unwrap()];
    for lease in &leases {
        let expected = per_sandbox * (1 + u32::from(lease.slot()));
        let said = shell_says(&hub, lease, "id -u; id -g; id -G");
        assert_eq!(said, format!("{expected}\n{expected}\n{expected}\n"));
    }
    // On the host these are ids that no account has.
    let sleeper = shell(&hub, &leases[0], "exec sleep 1000");
    let uid = host_uid(&sleeper.child.pidfd);
    assert!(uid >= 0x4000_0000, "{uid}");
    pidfd_send_signal(&sleeper.child.pidfd, Signal::KILL).unwrap();
    sleeper.end();
    // Without a network it still has ids that nobody else has.
    let free = |hub: &Hub| {
        let command = ["/bin/sh", "-c", "id -u"];
        lab::spawn(hub, SpawnNetwork::Disconnected, &command, Extra::default())
            .end()
            .output
    };
    let [first, second] = leases;
    hub.release(second).unwrap();
    assert_eq!(free(&hub).trim(), (per_sandbox * 2).to_string());
    assert_eq!(free(&hub).trim(), (per_sandbox * 2).to_string());
    hub.release(first).unwrap();
}

fn host_uid(pidfd: &OwnedFd) -> u32 {
    use std::os::fd::AsRawFd as _;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).unwrap();
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("Pid:\t"))
        .unwrap();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uid = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:\t"))
        .unwrap();
    uid.split('\t').next().unwrap().parse().unwrap()
}

fn bwrap_id_map() {
    let bwrap = "/usr/bin/bwrap";
    let config = lab::config(2);
    if config.ids == HostIds::Single {
        return; // The child writes its map itself: nothing is asked of the hub.
    }
    assert!(Path::new(bwrap).exists(), "install bubblewrap");
    let (hub, _listeners) = Hub::start(&config).unwrap();
    let lease = hub.lease().unwrap();
    let command = [
        bwrap,
        "--unshare-user",
        "--unshare-pid",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--info-fd",
        "5",
        "--userns-block-fd",
        "6",
        "/bin/sh",
        "-c",
        "cat /proc/self/uid_map; id -u",
    ];
    for network in [
        SpawnNetwork::Leased(lease.slot()),
        SpawnNetwork::Disconnected,
    ] {
        let id_map = Some(IdMapFds {
            info_fd: 5,
            block_fd: 6,
        });
        let ended = lab::spawn(
            &hub,
            network,
            &command,
            Extra {
                id_map,
                ..Extra::default()
            },
        )
        .end();
        let mut lines = ended.output.lines();
        let map: Vec<&str> = lines
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        assert_eq!(
            (map.first(), map.get(2)),
            (Some(&"0"), Some(&"65536")),
            "{}",
            ended.output
        );
        assert_eq!(lines.next(), Some("0"));
        assert_eq!(ended.status, 0);
    }
}

fn dropped_hub() {
    let (hub, listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let marker = marker();
    let running = shell(
        &hub,
        &lease,
        &format!("sleep {marker} & setsid sleep {marker}"),
    );
    eventually("both sleep", || processes_with(&marker) >= 3);
    let begun = Instant::now();
    drop(hub);
    eventually("all are gone", || processes_with(&marker) == 0);
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    let mut status = Vec::new();
    File::from(running.child.exit)
        .read_to_end(&mut status)
        .unwrap();
    assert!(status.is_empty(), "nobody is left to report");
    drop(listeners);
}

/// Starts a hub, fills it, says so and waits to be killed.
pub(crate) fn victim() {
    let marker = std::env::args().nth(2).unwrap();
    let (hub, _listeners) = lab::start(2);
    let leases = [hub.lease().unwrap(), hub.lease().unwrap()];
    let mut running = Vec::new();
    for lease in &leases {
        let script = format!(
            "sleep {marker} & (setsid sleep {marker} &); trap '' TERM HUP INT; sleep {marker}"
        );
        running.push(shell(&hub, lease, &script));
        if lab::config(2).ids == HostIds::Single {
            let network = SpawnNetwork::Leased(lease.slot());
            let command = [
                "/usr/bin/bwrap",
                "--unshare-user",
                "--unshare-pid",
                "--ro-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "/bin/sleep",
                &marker,
            ];
            running.push(lab::spawn(&hub, network, &command, Extra::default()));
        }
    }
    let mut line = running[0].child.exit.try_clone().map(File::from).unwrap();
    println!("ready");
    std::io::stdout().flush().unwrap();
    // For ever: nothing is written while the child lives.
    drop(line.read(&mut [0]));
}

/// Twenty times; more with `GIG_KILL_ROUNDS`.
fn killed_owner() {
    let rounds = std::env::var("GIG_KILL_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(20);
    let lines = |file: &str, part: &str| {
        let text = fs::read_to_string(file).unwrap();
        text.lines().filter(|line| line.contains(part)).count()
    };
    // Other programs of the host may make links and mounts meanwhile; not these.
    let links = || lines("/proc/net/dev", "gig");
    let mounts = || lines("/proc/self/mountinfo", " /proc ");
    let before = (links(), mounts());
    for round in 0..rounds {
        let marker = marker();
        let mut owner = Command::new(lab::program())
            .args([VICTIM_ARGUMENT, &marker])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(owner.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        // One that is in the middle of exec has no arguments for a moment.
        let limit = Instant::now() + Duration::from_secs(60);
        let mut namespaces = namespaces_of(&marker);
        while (processes_with(&marker) < 5 || namespaces.len() < 2) && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(2));
            namespaces = namespaces_of(&marker);
        }
        let running = Instant::now() < limit;
        owner.kill().unwrap(); // First of all: a failed test must not leave it.
        owner.wait().unwrap();
        assert_eq!((line.as_str(), running), ("ready\n", true), "round {round}");
        assert_eq!(namespaces.len(), 2, "{namespaces:?}");
        eventually("no process is left", || processes_with(&marker) == 0);
        eventually("no namespace is left", || {
            all_namespaces().is_disjoint(&namespaces)
        });
    }
    assert_eq!((links(), mounts()), before);
}

/// A number of seconds that no other process sleeps: marks a test's processes.
fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{number:04}", 100_000 + std::process::id())
}

/// Processes, zombies aside, with the marker as, or in, an argument.
fn processes_with(marker: &str) -> usize {
    pids_with(marker).count()
}

fn pids_with(marker: &str) -> impl Iterator<Item = u32> {
    all_pids().filter(move |pid| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(marker))
    })
}

fn all_pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Network namespaces of the marked processes, as far as they may be seen.
fn namespaces_of(marker: &str) -> BTreeSet<PathBuf> {
    let own = namespace_of(std::process::id());
    pids_with(marker)
        .filter_map(namespace_of)
        .filter(|found| Some(found) != own.as_ref())
        .collect()
}

fn all_namespaces() -> BTreeSet<PathBuf> {
    all_pids().filter_map(namespace_of).collect()
}

fn namespace_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

fn doctor() {
    let probes = gig_netns::probe_all();
    assert!(probes.len() > 8);
    for probe in probes {
        // With one id there is something to be had; nothing may be missing.
        let fine = matches!(
            probe.finding,
            Finding::Works { .. } | Finding::Limited { .. }
        );
        assert!(fine, "{probe:?}");
    }
}

fn thousand() {
    let begun = Instant::now();
    let (hub, _listeners) = lab::start(1000);
    let start = begun.elapsed();
    let leases: Vec<_> = (0..1000).map(|_| hub.lease().unwrap()).collect();
    let all = begun.elapsed();
    let addresses: BTreeSet<_> = leases.iter().map(gig_netns::Lease::address).collect();
    assert_eq!(addresses.len(), 1000);
    assert!(hub.lease().is_err());
    let last = leases.last().unwrap();
    assert_eq!(shell(&hub, last, "true").end().status, 0);
    eprintln!("a thousand: start {start:?}, all leased {all:?}");
    assert!(all.as_secs() < 300, "{all:?}");
}

/// Not a promise, but a look at the cost: run with `--nocapture`.
fn durations() {
    let begun = Instant::now();
    let (hub, listeners) = lab::start(1);
    let start = begun.elapsed();
    let begun = Instant::now();
    let lease = hub.lease().unwrap();
    let leased = begun.elapsed();
    let begun = Instant::now();
    let running = shell(&hub, &lease, "true");
    let spawned = begun.elapsed();
    running.end();
    let begun = Instant::now();
    hub.release(lease).unwrap();
    let released = begun.elapsed();
    let begun = Instant::now();
    drop(hub);
    let ended = begun.elapsed();
    drop(listeners);
    eprintln!(
        "start {start:?}, lease {leased:?}, spawn {spawned:?}, release {released:?}, end {ended:?}"
    );
}
