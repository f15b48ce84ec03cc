//! The benchmark, run small: that it measures and prints all it promises. No figure is judged.

use std::process::Command;

use gig_tests::lab::{place, skipped};

/// What any machine of the tests has.
const CONTENDERS: [&str; 5] = ["direct", "tunnel", "gig", "gig secrets", "gig CONNECT"];
/// What may be installed beside them, and its program.
const PEERS: [(&str, &str); 3] = [
    ("HAProxy", "haproxy"),
    ("squid", "squid"),
    ("mitmproxy", "mitmdump"),
];
/// Where Debian has what serves.
const SERVERS: &str = "/usr/sbin";

/// All that is measured here, and the PATH that has it.
fn contenders() -> (Vec<&'static str>, String) {
    let path = std::env::var("PATH").unwrap_or_default() + ":" + SERVERS;
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let there = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    let mut all = CONTENDERS.to_vec();
    for (peer, program) in PEERS {
        match there(program) {
            true => all.push(peer),
            false => skipped(&format!(
                "{program} is not installed: gig is not measured beside it"
            )),
        }
    }
    if rustix::process::geteuid().is_root() {
        all.push("tunnel veth");
        all.extend(all.contains(&"HAProxy").then_some("HAProxy veth"));
    }
    (all, path)
}

/// What each part of the output begins with; the first five have a line for each contender.
const PARTS: [&str; 10] = [
    "HTTP/1.1, 64 connections",
    "HTTP/2, 64 streams",
    "With a credential",
    "New TLS connections",
    "Bulk, and connections that are held",
    "start to end of `true`",
    "memory of an idle sandbox",
    "gig against its targets",
    "gig CONNECT against its targets",
    "gig secrets against its targets",
];

#[test]
fn the_benchmark_measures_everything_and_prints_all_its_tables() {
    let (contenders, path) = contenders();
    let only = format!("{},starts", contenders.join(","));
    let run = Command::new(env!("CARGO_BIN_EXE_gig-bench"))
        .args(["--quick", "--only", &only, "--gig"])
        .arg(place::gig())
        .env("PATH", path)
        .output()
        .expect("run the benchmark");
    let text = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}{errors}");
    // So it says of a contender that does not start, and of a load that fails.
    assert!(!errors.contains("left out"), "{text}{errors}");
    for part in PARTS {
        let there = text.lines().any(|line| line.starts_with(part));
        assert!(there, "no {part:?}: {text}{errors}");
    }
    for contender in contenders {
        let is_its = |line: &&str| {
            let figures = line.strip_prefix(contender).unwrap_or_default();
            figures.starts_with("  ") && figures.contains(|c: char| c.is_ascii_digit())
        };
        let lines = text.lines().filter(is_its).count();
        assert_eq!(lines, 5, "{contender}: {text}{errors}");
    }
}
