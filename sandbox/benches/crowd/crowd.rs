//! Many sandboxes at the same time.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use gig_netns::Hub;

use crate::lab::{self, Alive, Lab};
use crate::machine::{self, Memory};
use crate::starts::runtime;

/// Starts under way at once: enough that two processors are never idle.
const AT_ONCE: usize = 8;

/// What it took.
#[derive(Debug)]
pub(crate) struct Crowd {
    count: u16,
    until_all_run: Duration,
    until_all_gone: Duration,
    memory: Memory,
    available_kib: u64,
}

/// Starts them, counts what is there, ends them, and looks for what is left.
pub(crate) fn measure(lab: &Lab, count: u16) -> Crowd {
    let before = machine::available_kib();
    let own_before = machine::own_kib();
    let begun = Instant::now();
    let (hub, _listeners) = lab::hub(count);
    let alive = everybody(lab, &hub, count);
    let until_all_run = begun.elapsed();
    let addresses: BTreeSet<_> = alive.iter().map(|one| one.lease.address()).collect();
    assert_eq!(addresses.len(), usize::from(count), "addresses are shared");
    let programs: BTreeSet<i32> = alive.iter().map(|one| one.running.pid()).collect();
    let mut memory = machine::memory(&programs);
    memory.own_kib = machine::own_kib().saturating_sub(own_before);
    assert_eq!(
        memory.programs,
        usize::from(count),
        "not all programs run at once"
    );
    let available_kib = before.saturating_sub(machine::available_kib());
    let begun = Instant::now();
    let runtime = runtime();
    for one in alive {
        one.end(&hub, &runtime);
    }
    drop(hub);
    assert_eq!(
        machine::descendants(),
        Vec::<i32>::new(),
        "processes are left"
    );
    Crowd {
        count,
        until_all_run,
        until_all_gone: begun.elapsed(),
        memory,
        available_kib,
    }
}

fn everybody(lab: &Lab, hub: &Hub, count: u16) -> Vec<Alive> {
    let next = AtomicU16::new(0);
    let alive = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    let one = lab::finish(lab::begin(lab, hub));
                    alive.lock().expect("nobody panicked").push(one);
                }
            });
        }
    });
    alive.into_inner().expect("nobody panicked")
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Memory {
            processes,
            kib,
            own_kib,
            ..
        } = self.memory;
        let mib = |kib: u64| kib / 1024;
        writeln!(f, "{} sandboxes at once", self.count)?;
        writeln!(
            f,
            "  all run after  {:6.1} s   (to reach: 60 for 1,000)",
            self.until_all_run.as_secs_f64()
        )?;
        writeln!(
            f,
            "  all gone after {:6.1} s",
            self.until_all_gone.as_secs_f64()
        )?;
        writeln!(
            f,
            "  memory of ours {:6} MiB in {processes} processes beside the programs, {:.2} MB a sandbox \
             (to reach: 0.8, and 1 GB for 1,000)",
            mib(kib + own_kib),
            (kib + own_kib) as f64 * 1024.0 / 1e6 / f64::from(self.count)
        )?;
        writeln!(
            f,
            "  the machine    {:6} MiB less available, kernel and programs included",
            mib(self.available_kib)
        )
    }
}
