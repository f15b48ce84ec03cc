//! The arguments that a plan comes to.

use std::path::Path;

use super::*;
use crate::facts::{EtcEntry, EtcKind, ProcMask, SystemEntry};

fn facts() -> Facts {
    Facts {
        system: vec![
            SystemEntry::Directory {
                source: "/usr".into(),
                dest: "/usr".into(),
            },
            SystemEntry::Link {
                dest: "/bin".into(),
                target: "usr/bin".into(),
            },
        ],
        masks: Vec::new(),
        proc_masks: vec![ProcMask {
            path: "/proc/keys".into(),
            directory: false,
        }],
        memory: 8 << 30,
        ..Facts::default()
    }
}

fn bind(dest: &str) -> VettedBind {
    VettedBind {
        source: "/data".into(),
        dest: dest.into(),
        mode: BindMode::Rw,
        directory: true,
        masks: Vec::new(),
        public: false,
        owned_as: None,
        frame: None,
    }
}

fn planned(ids: IdMode, attach: bool, binds: Vec<VettedBind>) -> (Plan, Vec<String>) {
    planned_on(None, ids, attach, binds)
}

fn planned_on(
    base: Option<&str>,
    ids: IdMode,
    attach: bool,
    binds: Vec<VettedBind>,
) -> (Plan, Vec<String>) {
    let trust = Trust::default();
    let wanted = Wanted {
        binds,
        server_program: None,
        base: base.map(PathBuf::from),
        ids,
        attach,
        network: Some((Ipv4Addr::new(10, 200, 0, 1), Ipv4Addr::new(10, 200, 0, 2))),
        trust: &trust,
        tmp_size: Some(1 << 20),
        console: None,
    };
    let plan = plan(wanted, &facts());
    let args = plan
        .args
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    (plan, args)
}

/// Where these arguments stand, one after the other.
fn at(args: &[String], run: &[&str]) -> Option<usize> {
    args.windows(run.len()).position(|window| window == run)
}

#[test]
fn every_namespace_but_the_network_is_asked_for() {
    let (_, args) = planned(IdMode::Single, false, Vec::new());
    for flag in ["user", "pid", "ipc", "uts", "cgroup"] {
        assert!(args.contains(&format!("--unshare-{flag}")), "{flag}");
    }
    for flag in ["--die-with-parent", "--as-pid-1", "--disable-userns"] {
        assert!(at(&args, &[flag]).is_some(), "{flag}");
    }
    assert!(
        !args
            .iter()
            .any(|arg| arg == "--share-net" || arg == "--unshare-net")
    );
}

#[test]
fn a_range_of_ids_is_mapped_from_outside_and_one_id_is_not() {
    let (plan, args) = planned(IdMode::Range, true, Vec::new());
    assert!(plan.id_map.is_some());
    assert!(at(&args, &["--userns-block-fd"]).is_some());
    assert!(at(&args, &["--cap-add", "CAP_SETUID"]).is_some());
    let (plan, args) = planned(IdMode::Single, false, Vec::new());
    assert!(plan.id_map.is_none());
    assert!(at(&args, &["--uid", "65534", "--gid", "65534"]).is_some());
    assert!(at(&args, &["--cap-add", "CAP_SETUID"]).is_none());
}

#[test]
fn the_callers_mounts_come_before_the_fixed_isolation() {
    let (_, args) = planned(
        IdMode::Single,
        false,
        vec![bind("/work"), bind("/tmp/below")],
    );
    let tmp = at(&args, &["--tmpfs", "/tmp"]).unwrap();
    let below = at(&args, &["--bind", "/data", "/tmp/below"]).unwrap();
    let work = at(&args, &["--bind", "/data", "/work"]).unwrap();
    let proc = at(&args, &["--proc", "/proc"]).unwrap();
    let dev = at(&args, &["--dev", "/dev"]).unwrap();
    let end = at(&args, &["--remount-ro", "/"]).unwrap();
    assert!(tmp < below && work < proc && below < proc && proc < dev && dev < end);
}

#[test]
fn a_mount_that_the_isolation_covers_is_left_out_and_said() {
    let covered = [
        "/proc",
        "/proc/sys",
        "/tmp",
        "/dev/shm",
        "/sys",
        "/etc",
        "/etc/resolv.conf",
    ];
    let (plan, args) = planned(IdMode::Single, false, covered.map(bind).into());
    assert_eq!(plan.covered, covered.map(PathBuf::from));
    assert!(!args.iter().any(|arg| arg == "/data"));
}

#[test]
fn mounts_that_are_attached_later_have_their_places() {
    let (plan, args) = planned(
        IdMode::Range,
        true,
        vec![bind("/work/in"), bind("/usr/share")],
    );
    assert_eq!(plan.attach.len(), 2);
    assert!(at(&args, &["--dir", "/work/in"]).is_some());
    // In a read-only directory the place is there or the start fails.
    assert!(at(&args, &["--dir", "/usr/share"]).is_none());
    assert!(!args.iter().any(|arg| arg == "--bind"));
}

#[test]
fn hidden_paths_are_covered_right_after_their_mount() {
    let masks = vec![
        crate::layers::mounts::Mask {
            below: ".ssh".into(),
            directory: true,
        },
        crate::layers::mounts::Mask {
            below: ".netrc".into(),
            directory: false,
        },
    ];
    let shown = VettedBind {
        masks,
        ..bind("/work")
    };
    let (_, args) = planned(IdMode::Single, false, vec![shown, bind("/work/project")]);
    let mount = at(&args, &["--bind", "/data", "/work"]).unwrap();
    let directory = at(&args, &["--tmpfs", "/work/.ssh"]).unwrap();
    let file = args
        .iter()
        .position(|arg| Path::new(arg) == Path::new("/work/.netrc"))
        .unwrap();
    let inner = at(&args, &["--bind", "/data", "/work/project"]).unwrap();
    assert!(mount < directory && directory < file && file < inner);
}

#[test]
fn what_is_executed_follows_the_end_of_options() {
    assert_eq!(command()[0], "--");
    assert_eq!(command()[1], "/proc/self/fd/9");
}

#[test]
fn merged_directories_stay_links() {
    let (_, args) = planned(IdMode::Single, false, Vec::new());
    assert!(at(&args, &["--ro-bind", "/usr", "/usr"]).is_some());
    assert!(at(&args, &["--symlink", "usr/bin", "/bin"]).is_some());
}

#[test]
fn on_a_base_nothing_of_the_root_is_built_and_all_of_it_is_read_only() {
    for ids in [IdMode::Single, IdMode::Range] {
        let binds = vec![bind("/tmp/below/here")];
        let (plan, args) = planned_on(Some("/base"), ids, false, binds);
        let root = at(&args, &["--ro-bind", "/base", "/"]).unwrap();
        let tmp = at(&args, &["--tmpfs", "/tmp"]).unwrap();
        let below = at(&args, &["--bind", "/data", "/tmp/below/here"]).unwrap();
        let device = at(&args, &["--dev", "/dev"]).unwrap();
        let end = at(&args, &["--remount-ro", "/dev"]).unwrap();
        assert!(root < tmp && tmp < below && below < device && device < end);
        for path in ["/usr", "/etc", "/bin"] {
            assert!(!args.contains(&path.to_owned()), "{path}: {args:?}");
        }
        let own: Vec<_> = args
            .iter()
            .filter(|arg| arg.starts_with("/dev/sandbox/"))
            .collect();
        assert_eq!(own, ["/dev/sandbox/resolv.conf", "/dev/sandbox/hosts"]);
        let last = args
            .iter()
            .position(|arg| arg == "/dev/sandbox/hosts")
            .unwrap();
        assert!(last < end, "written before the end of all writing");
        let contents: Vec<_> = plan.files.into_contents();
        assert!(contents[0].1.starts_with(b"nameserver 10.200.0.1\n"));
    }
}

#[test]
fn the_engine_masks_what_the_bootstrap_may_not() {
    let run = ["--ro-bind", "/dev/null", "/proc/keys"];
    let (_, single) = planned(IdMode::Single, false, Vec::new());
    let (_, range) = planned(IdMode::Range, true, Vec::new());
    assert!(at(&single, &["--proc", "/proc"]) < at(&single, &run));
    assert!(at(&range, &run).is_none());
    let may = ["--cap-add", "CAP_SYS_ADMIN"];
    assert!(at(&range, &may).is_some() && at(&single, &may).is_none());
}

#[test]
fn nothing_is_written_through_a_mount_of_the_callers() {
    let entry = |name: &str, kind| EtcEntry {
        name: name.into(),
        kind,
    };
    let facts = Facts {
        etc: vec![
            entry("localtime", EtcKind::Link("/usr/share/zoneinfo/UTC".into())),
            entry("services", EtcKind::File(b"host".into())),
            entry("fonts", EtcKind::Directory("/etc/fonts".into())),
            entry("inputrc", EtcKind::File(b"host".into())),
        ],
        ..facts()
    };
    let trust = Trust {
        bundle: b"roots".into(),
        ..Trust::default()
    };
    let hiding = [
        "/etc/ssl",
        "/etc/ssl/certs",
        "/etc/passwd/below",
        "/etc/pki",
    ];
    let shown = ["/etc/localtime", "/etc/services/below", "/etc/fonts"];
    for attach in [false, true] {
        let wanted = Wanted {
            binds: hiding.into_iter().chain(shown).map(bind).collect(),
            server_program: None,
            base: None,
            ids: IdMode::Single,
            attach,
            network: None,
            trust: &trust,
            tmp_size: None,
            console: None,
        };
        let plan = plan(wanted, &facts);
        assert_eq!(plan.covered, hiding.map(PathBuf::from));
        let args: Vec<_> = plan.args.iter().map(|arg| arg.to_string_lossy()).collect();
        let args: Vec<String> = args.into_iter().map(Into::into).collect();
        let made = |path: &str| {
            let of = |flag: &str| flag == "--file" || flag == "--symlink" || flag == "--ro-bind";
            args.windows(3)
                .position(|run| of(&run[0]) && run[2] == path)
        };
        // What a mount of the caller's covers, or a link in its way, is not made.
        assert!(made("/etc/inputrc").is_some());
        for path in ["/etc/services", "/etc/fonts", "/etc/localtime"] {
            assert!(made(path).is_none(), "{path}");
        }
        let Some(first) = at(&args, &["--bind", "/data"]) else {
            assert!(attach);
            continue;
        };
        assert!(
            args[first..]
                .iter()
                .all(|arg| arg != "--file" && arg != "--symlink")
        );
    }
}
