//! One probe a call: the answer that each rule gives, seen from inside.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::lab::{Test, everybody, run};

pub(crate) const TESTS: &[Test] = &[("every_forbidden_call_gets_its_answer", probes)];

const PROBE: &str = include_str!("probe.c");

/// Calls that end the process.
const KILLED: &[&str] = &[
    "unshare",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "open_tree",
    "open_tree_attr",
    "move_mount",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "mount_setattr",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "open_by_handle_at",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "fanotify_init",
    "settimeofday",
    "clock_settime",
    "clone:CLONE_NEWNS",
    "clone:CLONE_NEWCGROUP",
    "clone:CLONE_NEWUTS",
    "clone:CLONE_NEWIPC",
    "clone:CLONE_NEWUSER",
    "clone:CLONE_NEWPID",
    "clone:CLONE_NEWNET",
];
const KILLED_ON_X86_64: &[&str] = &["iopl", "ioperm", "x32:getpid", "i386:getpid"];
const NO_SUCH_CALL: &[&str] = &[
    "clone3",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "openat2",
];
const NOT_PERMITTED: &[&str] = &[
    "syslog",
    "kcmp",
    "personality",
    "socket:AF_INET:SOCK_RAW",
    "socket:AF_INET6:SOCK_RAW",
    "socket:AF_INET:SOCK_PACKET",
    "socket:AF_INET:SOCK_DCCP",
    "socket:AF_UNIX:SOCK_RAW",
    "ioctl:TIOCSTI",
    "ioctl:TIOCLINUX",
    "ioctl:TIOCCONS",
    "ioctl:TIOCSETD",
    "fcntl:F_SETLEASE",
    "fcntl:F_SETLEASE:wide",
    "fcntl:F_SETDELEG",
    "fcntl:F_NOTIFY",
    "fchmod:setuid",
    "fchmod:setgid",
    "fchmodat:setuid",
    "fchmodat2:setuid",
    "openat:create:setuid",
    "openat:tmpfile:setuid",
    "mknodat:setuid",
];
/// MPTCP, UDP-Lite and SCTP, also by its type alone.
const NO_SUCH_PROTOCOL: &[&str] = &[
    "socket:AF_INET:SOCK_STREAM:262",
    "socket:AF_INET6:SOCK_STREAM:262",
    "socket:AF_INET:SOCK_DGRAM:136",
    "socket:AF_INET:SOCK_STREAM:132",
    "socket:AF_INET:SOCK_SEQPACKET:0",
    "socket:AF_INET6:SOCK_SEQPACKET:132",
];
const NO_SUCH_FAMILY: &[&str] = &[
    "socket:AF_NETLINK:SOCK_DGRAM",
    "socket:AF_VSOCK:SOCK_STREAM",
    "socket:AF_ALG:SOCK_SEQPACKET",
    "socket:AF_BLUETOOTH:SOCK_STREAM",
    "socket:AF_TIPC:SOCK_STREAM",
    "socketpair:AF_TIPC",
];
/// Refused twice; which filter answers is the kernel's choice.
const EITHER: &[&str] = &[
    "socket:AF_NETLINK:SOCK_RAW",
    "socket:AF_PACKET:SOCK_RAW",
    "socket:AF_KEY:SOCK_RAW",
    "socket:AF_XDP:SOCK_RAW",
];
const ALLOWED: &[&str] = &[
    "socket:AF_INET:SOCK_STREAM",
    "socket:AF_UNIX:SOCK_DGRAM",
    "socket:AF_INET:SOCK_STREAM:6",
    "socket:AF_INET:SOCK_DGRAM:17",
    "socket:AF_UNIX:SOCK_STREAM:1",
    "socket:AF_UNIX:SOCK_SEQPACKET:0",
    "openat:read",
    "personality:query",
    "fcntl:F_GETFL",
];

fn probes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (code, program) = (dir.path().join("probe.c"), dir.path().join("probe"));
    std::fs::write(&code, PROBE).unwrap();
    let built = Command::new("gcc")
        .arg("-o")
        .arg(&program)
        .arg(&code)
        .status()
        .unwrap();
    assert!(built.success());
    let bind = format!("{}:/opt/probe", dir.path().display());
    for who in everybody() {
        for profile in ["--layers", "--strict"] {
            let ended = run(*who, &[profile, "--ro", &bind, "--", "/opt/probe/probe"]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let seen: BTreeMap<&str, &str> = ended
                .out
                .lines()
                .filter_map(|line| line.rsplit_once(' '))
                .collect();
            let expect = |names: &[&str], answers: &[&str]| {
                for name in names {
                    let got = seen.get(name).copied().unwrap_or("nothing");
                    assert!(answers.contains(&got), "{who:?} {profile} {name}: {got}");
                }
            };
            expect(KILLED, &["SIGSYS"]);
            expect(NO_SUCH_CALL, &["38"]);
            expect(
                NOT_PERMITTED,
                if profile == "--strict" {
                    &["1", "38"]
                } else {
                    &["1"]
                },
            );
            expect(NO_SUCH_PROTOCOL, &["93"]);
            expect(NO_SUCH_FAMILY, &["97"]);
            expect(EITHER, &["97", "1"]);
            expect(
                ALLOWED,
                if profile == "--strict" {
                    &["0", "38"]
                } else {
                    &["0"]
                },
            );
            if cfg!(target_arch = "x86_64") {
                expect(KILLED_ON_X86_64, &["SIGSYS"]);
                expect(&["modify_ldt", "uselib"], &["38"]);
                expect(
                    &[
                        "chmod:setuid",
                        "open:create:setuid",
                        "creat:setuid",
                        "mknod:setuid",
                    ],
                    &["1"],
                );
            }
        }
    }
}
