//! The hub's children: who they are, reaping them, ending a slot's.
//!
//! Promises that a child's wait status reaches its exit pipe, and that when a
//! slot is taken back nothing that was started in it runs any more. As process
//! 1 of its pid namespace the hub inherits every orphan; one that it did not
//! start itself has outlived its sandbox and is killed.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use super::orphans::{Orphans, Process, Seen};
use crate::hub_protocol::{Failure, Step};
use crate::sys;

/// How often a slot's processes are killed and waited for before giving up, with
/// the pause below: ten seconds, or a moment where it can be asked for again. A
/// killed process is late only while the kernel works for it, and meanwhile the
/// hub does nothing for anybody else.
pub(crate) const ROUNDS: u32 = 10_000;
pub(crate) const FEW_ROUNDS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// The children that run.
#[derive(Debug)]
pub(crate) struct Children {
    signals: OwnedFd,
    running: HashMap<Pid, Running>,
    orphans: Orphans,
    /// Whose which network is or was, by its number in nsfs; a number that comes again is the next one's.
    networks: HashMap<u64, Option<u16>>,
    /// Of children that have ended, as long as orphans of theirs may be left.
    reservations: Vec<u16>,
}

/// What is known of one.
#[derive(Debug)]
pub(crate) struct Running {
    /// The leased slot that it is in.
    pub(crate) slot: Option<u16>,
    /// The slot whose ids it has without being in its network.
    pub(crate) reserved: Option<u16>,
    /// The number of its network.
    pub(crate) network: u64,
    /// Where its wait status goes.
    pub(crate) exit: OwnedFd,
}

impl Children {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            signals: sys::child_signals()?,
            running: HashMap::new(),
            orphans: Orphans::default(),
            networks: HashMap::new(),
            reservations: Vec::new(),
        })
    }

    /// Becomes readable when a child ends.
    pub(crate) fn signals(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// Notes a child.
    pub(crate) fn add(&mut self, pid: Pid, child: Running) {
        self.networks.insert(child.network, child.slot);
        self.running.insert(pid, child);
    }

    /// Reaps every child that has ended and kills orphans. Returns the
    /// reservations that ended with them.
    pub(crate) fn reap(&mut self) -> Vec<u16> {
        let mut drained = [0_u8; 1024];
        // Empty is fine: the signal only says that somebody should look.
        let _: Result<usize, _> = rustix::io::read(&self.signals, &mut drained);
        self.reap_ended();
        // An orphan's end is a signal again: the reservations wait for it.
        if self.kill_orphans() > 0 {
            Vec::new()
        } else {
            std::mem::take(&mut self.reservations)
        }
    }

    /// Ends everything that was started in a slot; tries for that many milliseconds.
    pub(crate) fn end_slot(&mut self, slot: u16, rounds: u32) -> Result<(), Failure> {
        for _ in 0..rounds {
            let mut left = 0_usize;
            for (pid, child) in &self.running {
                if child.slot == Some(slot) {
                    left += 1;
                    kill(*pid);
                }
            }
            self.kill_orphans();
            left += self.orphans.of(slot);
            if left == 0 {
                // Its network's number may come again.
                self.networks.retain(|_, of| *of != Some(slot));
                return Ok(());
            }
            if !self.reap_ended() {
                std::thread::sleep(PAUSE);
            }
        }
        Err(Failure::new(
            Step::Reap,
            None,
            format!("processes of slot {slot} do not end"),
        ))
    }

    /// Whether one or more had ended.
    fn reap_ended(&mut self) -> bool {
        let mut any = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            any = true;
            if let Some(child) = self.running.remove(&pid) {
                self.reservations.extend(child.reserved);
                if child.slot.is_none() {
                    self.networks.remove(&child.network);
                }
                self.orphans.ended(child.slot);
                let status = status.as_raw().to_le_bytes();
                // A caller that no longer listens loses nothing.
                let _: Result<usize, _> = rustix::io::write(&child.exit, &status);
            }
        }
        any
    }

    /// Kills what the hub inherited and reaps what has ended; says how many orphans there were.
    fn kill_orphans(&mut self) -> usize {
        let listed = fs::read_to_string("/proc/self/task/1/children").unwrap_or_default();
        let orphans: Vec<(Process, Seen)> = listed
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw))
            .filter(|pid| !self.running.contains_key(pid))
            .map(|pid| ((pid, begun(pid)), self.seen(pid)))
            .inspect(|((pid, _), _)| kill(*pid))
            .collect();
        self.orphans.listed();
        // Whose parent had not ended was not listed: all that have can be reaped now.
        self.reap_ended();
        self.orphans.take_in(&orphans);
        orphans.len()
    }
}

impl Children {
    /// Where it can be seen to be, before it is killed.
    fn seen(&self, pid: Pid) -> Seen {
        match fs::metadata(format!("/proc/{}/ns/net", pid.as_raw_nonzero())) {
            Ok(network) => {
                (self.networks.get(&network.ino())).map_or(Seen::Unknown, |at| Seen::In(*at))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Seen::Ending,
            Err(_) => Seen::Unknown,
        }
    }
}

/// When it began (proc(5), `starttime`); 0 where it is gone.
fn begun(pid: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let stat = stat.unwrap_or_default();
    // Its name, which may hold anything, ends with the last parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let begun = fields.split_ascii_whitespace().nth(19);
    begun.and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn kill(pid: Pid) {
    // One that has just ended is what was wanted.
    let _: Result<(), _> = kill_process(pid, Signal::KILL);
}
