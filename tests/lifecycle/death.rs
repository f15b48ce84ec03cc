//! `kill -9` of gig leaves nothing: no process, namespace, link, mount or control group.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{
    Lab,
    network::{Side, text},
};
use rustix::process::Signal;

#[test]
fn a_killed_gig_leaves_nothing_a_hundred_times() {
    let lab = Lab::new();
    let before = Surroundings::of(&lab);
    // Where the host lets gig make control groups there is one each time.
    let groups = lab.gig().option(GROUPED).run(["true"]).status == 0;
    let mut grouped = 0;
    // Where programs put what lasts no longer than they do.
    let places = ["TMPDIR", "XDG_RUNTIME_DIR"].map(|name| (name, lab.folder(name)));
    for round in 0..100_u64 {
        let mut subject = lab.gig().allow("api.example.com");
        for (name, place) in &places {
            subject = subject.host_env(name, &text(place));
        }
        if groups {
            subject = subject.option(GROUPED);
        }
        let mut live = subject.start(["sh", "-c", "echo up; exec sleep 98762"]);
        // Two in three are killed on the way up, at a different moment each time.
        if round % 3 == 0 {
            live.wait_for("up");
            grouped += u32::from(Surroundings::of(&lab).groups != before.groups);
        } else {
            thread::sleep(Duration::from_millis(round * 3));
        }
        let (processes, namespaces) = family(&lab, live.pid());
        live.signal(Signal::KILL);
        let run = live.finish(Duration::from_secs(20));
        assert!([137, 0].contains(&run.status), "{run}");
        all_gone(&processes, &namespaces, round);
    }
    before.are_all_there_is(&lab);
    for (name, place) in places {
        let left = fs::read_dir(place).expect("its folder").flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
    assert!(!groups || grouped == 34, "{grouped} groups were seen");
}

/// A limit that nothing but a control group enforces.
const GROUPED: [&str; 2] = ["--cpus", "2"];

#[test]
fn an_ordinary_end_leaves_nothing_either() {
    let lab = Lab::new();
    let before = Surroundings::of(&lab);
    for round in 0..10 {
        let mut live = lab
            .gig()
            .start(["sh", "-c", "echo up; (setsid sleep 98763 &); read go"]);
        live.wait_for("up");
        let (processes, namespaces) = family(&lab, live.pid());
        let go = live.stdin().expect("its input").write_all(b"go\n");
        go.expect("tell it to end");
        let _run = live.finish(Duration::from_secs(20)).success();
        all_gone(&processes, &namespaces, round);
    }
    before.are_all_there_is(&lab);
}

#[test]
fn a_dead_hub_ends_the_run_and_leaves_nothing() {
    let lab = Lab::new();
    let mut live = lab.gig().start(["sh", "-c", "echo up; exec sleep 98764"]);
    live.wait_for("up");
    let (processes, namespaces) = family(&lab, live.pid());
    let hub = processes
        .iter()
        .find(|(_, process)| process.command.contains("hub-process"));
    let hub = hub
        .map(|(pid, _)| *pid)
        .expect("the hub among gig's descendants");
    let pid = i32::try_from(hub)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a pid");
    rustix::process::kill_process(pid, Signal::KILL).expect("kill the hub");
    let run = live.finish(Duration::from_secs(20));
    assert_ne!(run.status, 0, "{run}");
    all_gone(&processes, &namespaces, 0);
}

/// What a start of gig could leave behind on its host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Surroundings {
    links: Vec<String>,
    mounts: usize,
    groups: BTreeSet<PathBuf>,
    named_namespaces: usize,
}

impl Surroundings {
    pub(crate) fn of(lab: &Lab) -> Self {
        let proc = PathBuf::from(format!("/proc/{}", lab.network.holder_pid(Side::Host)));
        let links = fs::read_to_string(proc.join("net/dev")).expect("the links");
        let links = links
            .lines()
            .skip(2)
            .filter_map(|line| line.split(':').next());
        let mounts = fs::read_to_string(proc.join("mountinfo")).expect("the mounts");
        let mut groups = BTreeSet::new();
        find_groups(&PathBuf::from("/sys/fs/cgroup"), &mut groups);
        Self {
            links: links.map(|name| name.trim().to_owned()).collect(),
            mounts: mounts.lines().count(),
            groups,
            named_namespaces: fs::read_dir("/run/netns").map_or(0, Iterator::count),
        }
    }

    /// Nothing of gig's is there that was not before. Other tests run beside this one, and their groups
    /// come and go: left behind is what is there whenever one looks.
    pub(crate) fn are_all_there_is(mut self, lab: &Lab) {
        let before = std::mem::take(&mut self.groups);
        let mut left: Option<BTreeSet<PathBuf>> = None;
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let mut now = Self::of(lab);
            let new = std::mem::take(&mut now.groups).into_iter();
            let new = new.filter(|group| !before.contains(group));
            let still = new.filter(|group| left.as_ref().is_none_or(|left| left.contains(group)));
            let still: BTreeSet<_> = still.collect();
            if still.is_empty() {
                assert_eq!(now, self);
                return;
            }
            assert!(Instant::now() < limit, "groups are left: {still:?}");
            left = Some(still);
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// gig's groups; the host's other programs make and remove theirs as they like.
fn find_groups(folder: &PathBuf, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with("gig-") {
                found.insert(entry.path());
            } else {
                find_groups(&entry.path(), found);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    parent: u32,
    /// Distinguishes a process from a later one with the same number.
    started: u64,
    command: String,
}

pub(crate) type Processes = BTreeMap<u32, Process>;

fn processes() -> Processes {
    let numbers = fs::read_dir("/proc").expect("/proc").flatten();
    numbers
        .filter_map(|entry| read_process(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

fn read_process(pid: u32) -> Option<(u32, Process)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let process = Process {
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        command: String::from_utf8_lossy(&command).replace('\0', " "),
    };
    // A zombie is gone but for its parent's wait.
    (fields.first() != Some(&"Z")).then_some((pid, process))
}

/// gig and all that descends from it, and the namespaces that are theirs alone.
pub(crate) fn family(lab: &Lab, gig: u32) -> (Processes, BTreeSet<String>) {
    let all = processes();
    let mut members = BTreeSet::from([gig]);
    loop {
        let more = all
            .iter()
            .filter(|(_, process)| members.contains(&process.parent));
        let more: BTreeSet<u32> = more
            .map(|(pid, _)| *pid)
            .chain(members.iter().copied())
            .collect();
        if more == members {
            break;
        }
        members = more;
    }
    // On its way to becoming gig the process passes through these.
    let host = lab.network.holder_pid(Side::Host);
    let own: BTreeSet<String> = [gig, host, std::process::id()]
        .into_iter()
        .flat_map(namespaces_of)
        .collect();
    let theirs = members
        .iter()
        .flat_map(|pid| namespaces_of(*pid))
        .collect::<BTreeSet<_>>();
    let members = all
        .into_iter()
        .filter(|(pid, _)| members.contains(pid))
        .collect();
    (members, theirs.difference(&own).cloned().collect())
}

/// The last above a process before init.
fn eldest(all: &Processes, pid: u32) -> &Process {
    let mut process = &all[&pid];
    while let Some(parent) = all.get(&process.parent).filter(|_| process.parent > 1) {
        process = parent;
    }
    process
}

/// The time in the units in which a process's start is told: hundredths of a second since boot.
fn ticks_now() -> u64 {
    let uptime = fs::read_to_string("/proc/uptime").expect("the time since boot");
    let (seconds, rest) = uptime.split_once('.').expect("seconds and hundredths");
    let hundredths = rest.split(' ').next().unwrap_or_default();
    format!("{seconds}{hundredths}").parse().expect("a number")
}

fn namespaces_of(pid: u32) -> BTreeSet<String> {
    let links = fs::read_dir(format!("/proc/{pid}/ns"))
        .into_iter()
        .flatten()
        .flatten();
    let links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .map(|link| link.to_string_lossy().into_owned())
        .collect()
}

pub(crate) fn all_gone(family: &Processes, namespaces: &BTreeSet<String>, round: u64) {
    let killed = ticks_now();
    let born = family
        .values()
        .map(|process| process.started)
        .min()
        .unwrap_or(killed);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = processes();
        let alive: Vec<_> = family
            .iter()
            .filter(|(pid, old)| now.get(pid).is_some_and(|new| new.started == old.started))
            .collect();
        // The kernel gives numbers of namespaces again, to tests beside this one too. What gig leaves
        // behind is an orphan: nothing above it is older than gig itself.
        let orphans = now.iter().filter(|(pid, process)| {
            process.started <= killed && eldest(&now, **pid).started >= born
        });
        let left: Vec<_> = orphans
            .filter(|(pid, _)| !namespaces.is_disjoint(&namespaces_of(**pid)))
            .collect();
        if alive.is_empty() && left.is_empty() {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "round {round}: still there: {alive:?} {left:?}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}
