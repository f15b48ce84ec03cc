//! Many sandboxes at once: how long until all run, and what they take of memory.

use std::{
    sync::atomic::{AtomicU16, Ordering},
    time::Instant,
};

use crate::appliance::Appliance;

/// Starts so many, each for another person, and tells.
pub(crate) fn run(appliance: &Appliance, count: u16) {
    for server in SERVERS {
        appliance.gig(&[
            "server",
            "add",
            server,
            "--idle",
            "never",
            "--",
            "/bin/sleep",
            "3600",
        ]);
    }
    let alone = memory_kib(appliance.id());
    let next = AtomicU16::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let server = SERVERS[usize::from(number) % SERVERS.len()];
                    let person = format!("p{number}");
                    appliance.gig(&["server", "start", server, "--for", &person]);
                }
            });
        }
    });
    let took = begun.elapsed();
    let running = appliance.gig(&["ps"]).lines().count();
    assert_eq!(running, usize::from(count), "not all run");
    let all = memory_kib(appliance.id());
    println!("== {count} sandboxes at once");
    println!(
        "   all run after {:.1} s, {AT_ONCE} commands at a time",
        took.as_secs_f64()
    );
    println!(
        "   memory of all processes: {:.1} MiB before, {:.1} MiB now, {:.0} KiB for each",
        alone / 1024.0,
        all / 1024.0,
        (all - alone) / f64::from(count)
    );
}

/// Proportional set size of a process and of all below it.
fn memory_kib(process: u32) -> f64 {
    let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
    let own = rollup.unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("Pss:"));
    let own = own.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok());
    let mut sum = own.unwrap_or(0.0);
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    for thread in threads.into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(thread.path().join("children"));
        for child in children.unwrap_or_default().split_whitespace() {
            sum += child.parse().map_or(0.0, memory_kib);
        }
    }
    sum
}

/// Half of all places may be one server's.
const SERVERS: [&str; 4] = ["one", "two", "three", "four"];
/// Each waits for the appliance more than it computes.
const AT_ONCE: usize = 4;
