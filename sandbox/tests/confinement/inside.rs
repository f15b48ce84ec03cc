//! What a program inside is and sees.

use std::collections::BTreeMap;
use std::fs;

use crate::lab::{Test, Who, everybody, run, shell};

pub(crate) const TESTS: &[Test] = &[
    (
        "program_ends_without_ids_capabilities_or_new_privileges",
        ids_and_capabilities,
    ),
    (
        "id_map_covers_a_full_range_where_the_host_gives_ids",
        id_map,
    ),
    ("every_namespace_is_its_own", namespaces),
    (
        "first_process_and_host_processes_are_out_of_sight",
        processes,
    ),
    ("environment_is_built_and_sorted", environment),
    ("only_standard_streams_are_open", descriptors),
    ("disconnected_sandbox_has_lo_alone", disconnected),
    ("leased_sandbox_has_one_link_and_one_default_route", network),
    ("session_is_new", session),
    ("limits_of_a_process_are_set", limits),
    ("oom_killer_takes_programs_before_gig", oom_score),
    ("layers_report_what_they_enforce", layers),
];

fn ids_and_capabilities() {
    for who in everybody() {
        let status = shell(*who, &[], "cat /proc/self/status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(field("Uid:"), "65534 65534 65534 65534", "{who:?}");
        assert_eq!(field("Gid:"), "65534 65534 65534 65534", "{who:?}");
        assert_eq!(field("Groups:"), "", "{who:?}");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(field(set), "0000000000000000", "{who:?} {set}");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
        assert_eq!(field("Seccomp:"), "2");
    }
}

fn id_map() {
    for who in everybody() {
        let map = shell(*who, &[], "cat /proc/self/uid_map");
        let numbers: Vec<&str> = map.split_whitespace().collect();
        match who {
            Who::Root => {
                assert_eq!((numbers[0], numbers[2]), ("0", "65536"));
                assert_eq!(map.lines().count(), 1);
            }
            Who::User => assert_eq!((numbers[0], numbers[2]), ("65534", "1")),
        }
    }
}

fn namespaces() {
    for who in everybody() {
        let links = shell(
            *who,
            &[],
            "for n in user pid ipc uts cgroup mnt net; do readlink /proc/self/ns/$n; done",
        );
        assert_eq!(links.lines().count(), 7);
        for link in links.lines() {
            let name = link.split_once(':').unwrap().0;
            let own = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            assert_ne!(own.to_str().unwrap(), link, "{who:?}");
        }
        assert_eq!(
            shell(*who, &[], "cat /proc/sys/kernel/hostname"),
            "sandbox\n"
        );
    }
}

fn processes() {
    for who in everybody() {
        let seen = shell(
            *who,
            &[],
            "cd /proc; ls -d [0-9]* | sort -n | tr '\\n' ' '; cat /proc/1/environ /proc/1/maps /proc/1/mem 2>/dev/null | wc -c; ls /proc/1/fd 2>/dev/null | wc -l; readlink /proc/1/exe || echo unreadable",
        );
        let mut lines = seen.lines();
        let pids_and_bytes: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        // Process 1, the shell, and the members of its pipeline.
        assert!(pids_and_bytes.len() <= 7, "{who:?}: {seen}");
        assert!(seen.contains("unreadable"), "{who:?}: {seen}");
        let zeros = seen
            .split_whitespace()
            .rev()
            .skip(1)
            .take(2)
            .collect::<Vec<_>>();
        assert_eq!(zeros, ["0", "0"], "{who:?}: {seen}");
        // The orders and the engine's arguments are not to be found either.
        let line = shell(*who, &[], "tr '\\0' ' ' < /proc/1/cmdline || true");
        assert!(!line.contains("bind"), "{line}");
    }
}

fn environment() {
    for who in everybody() {
        let args = [
            "--env",
            "ZZ=last",
            "--env",
            "LANG=de",
            "--env",
            "AA=first",
            "--",
            "/usr/bin/env",
        ];
        let out = run(*who, &args).out;
        let names: Vec<&str> = out
            .lines()
            .filter_map(|line| Some(line.split_once('=')?.0))
            .collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(names, sorted);
        let env: BTreeMap<&str, &str> = out
            .lines()
            .filter_map(|line| line.split_once('='))
            .collect();
        assert_eq!((env["AA"], env["ZZ"], env["LANG"]), ("first", "last", "de"));
        assert_eq!(env["HOME"], "/home/sandbox");
        assert!(
            env["HTTPS_PROXY"].starts_with("http://10.200.")
                && env["HTTPS_PROXY"].ends_with(":8081")
        );
        assert_eq!(env["HTTPS_PROXY"], env["http_proxy"]);
        assert!(env.contains_key("GIG_SANDBOX_ID"));
        assert!(!env.contains_key("CARGO_MANIFEST_DIR") && !env.contains_key("SHELL"));
        assert!(!env.contains_key("SSL_CERT_FILE"), "no authority was given");
    }
}

fn descriptors() {
    for who in everybody() {
        let out = shell(*who, &[], "ls /proc/self/fd | tr '\\n' ' '");
        // The fourth is ls's own, of the directory.
        assert_eq!(out, "0 1 2 3 ", "{who:?}");
    }
}

fn disconnected() {
    for who in everybody() {
        let out = shell(
            *who,
            &["--disconnected"],
            "tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route | wc -l; env | grep -ci proxy; cat /etc/resolv.conf",
        );
        let words: Vec<&str> = out.split_whitespace().take(3).collect();
        assert_eq!(words, ["lo", "0", "0"], "{who:?}: {out}");
        assert!(!out.contains("nameserver"));
    }
}

fn network() {
    for who in everybody() {
        let out = shell(
            *who,
            &[],
            "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort; tail -n +2 /proc/net/route | grep -c '\t00000000\t.*\t00000000\t'; cat /proc/net/if_inet6 2>/dev/null | wc -l; cat /etc/resolv.conf",
        );
        let words: Vec<&str> = out.split_whitespace().take(4).collect();
        assert_eq!(words, ["eth0", "lo", "1", "0"], "{who:?}: {out}");
        assert!(out.contains("nameserver 10.200."), "{out}");
    }
}

fn session() {
    for who in everybody() {
        // Fields 4 to 7 of stat: parent, group, session, terminal.
        let out = shell(
            *who,
            &[],
            "set -- $(cat /proc/$$/stat); [ $6 = $$ ] && [ $5 = $$ ] && echo $7",
        );
        assert_eq!(out, "0\n", "{who:?}");
    }
}

fn limits() {
    for who in everybody() {
        let out = shell(
            *who,
            &["--pids", "50"],
            "ulimit -c; ulimit -p 2>/dev/null || ulimit -u; cat /proc/self/limits",
        );
        assert!(out.starts_with("0\n"), "{out}");
        let line = out
            .lines()
            .find(|line| line.starts_with("Max processes"))
            .unwrap();
        assert!(line.split_whitespace().any(|word| word == "51"), "{line}");
    }
}

fn oom_score() {
    for who in everybody() {
        let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let own: i32 = own.trim().parse().unwrap();
        let out = shell(*who, &[], "cat /proc/self/oom_score_adj");
        let score: i32 = out.trim().parse().unwrap();
        assert_eq!(score, own.max(500));
    }
}

fn layers() {
    for who in everybody() {
        let out = shell(*who, &["--layers"], ":");
        for layer in [
            "namespaces",
            "mounts",
            "capabilities",
            "rlimits",
            "seccomp",
            "network",
        ] {
            assert!(
                out.contains(&format!("{layer}: Enforced")),
                "{who:?}: {out}"
            );
        }
        assert!(out.contains("cgroup: Off"), "{out}");
        let covered = shell(
            *who,
            &["--layers", "--ro", "/usr:/proc", "--ro", "/usr:/tmp"],
            ":",
        );
        assert!(
            covered.contains("mounts: Partial") && covered.contains("/proc"),
            "{covered}"
        );
    }
}
