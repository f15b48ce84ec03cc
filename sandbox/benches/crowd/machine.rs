//! What the machine says of processes and memory.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory of the descendants of this process, programs apart.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Processes that are no programs.
    pub(crate) processes: usize,
    /// Their proportional memory.
    pub(crate) kib: u64,
    /// What this process, which stands for gig, grew by.
    pub(crate) own_kib: u64,
    /// Programs that run.
    pub(crate) programs: usize,
}

/// A thousand sandboxes are several thousand descriptors.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("the limit on open files");
}

/// Every process below this one.
pub(crate) fn descendants() -> Vec<i32> {
    let mut found = Vec::new();
    let mut parents = vec![std::process::id().to_string()];
    while let Some(parent) = parents.pop() {
        let tasks = fs::read_dir(format!("/proc/{parent}/task"))
            .into_iter()
            .flatten()
            .flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_ascii_whitespace() {
                found.extend(child.parse::<i32>());
                parents.push(child.to_owned());
            }
        }
    }
    found
}

/// Sums over all of them.
pub(crate) fn memory(programs: &BTreeSet<i32>) -> Memory {
    let mut memory = Memory::default();
    for pid in descendants() {
        if programs.contains(&pid) {
            memory.programs += 1;
        } else {
            memory.processes += 1;
            memory.kib += pss_kib(&pid.to_string());
        }
    }
    memory
}

/// This process's own.
pub(crate) fn own_kib() -> u64 {
    pss_kib("self")
}

/// What could still be had.
pub(crate) fn available_kib() -> u64 {
    field("/proc/meminfo", "MemAvailable:")
}

fn pss_kib(process: &str) -> u64 {
    field(&format!("/proc/{process}/smaps_rollup"), "Pss:")
}

fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .find_map(|line| {
            line.strip_prefix(name)?
                .split_ascii_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}
