//! Id maps for children that make a user namespace of their own.
//!
//! The child says on one pipe which process is in its new user namespace; the
//! hub writes that process's maps and lets the child go on by the other pipe.
//! It never waits: the loop calls in when there is something to read. If the
//! map cannot be written the second pipe is closed and the child killed.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::id_map::write_maps;
use crate::plan::HubIds;

/// What the child writes is some hundred bytes.
const MAX_INFO: usize = 4096;

/// The maps that are waited for.
#[derive(Debug, Default)]
pub(crate) struct IdMaps {
    waiting: HashMap<RawFd, Waiting>,
}

/// One child's pipes.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) child: Pid,
    pub(crate) slot: u16,
    pub(crate) info: OwnedFd,
    pub(crate) block: OwnedFd,
    pub(crate) said: Vec<u8>,
}

#[derive(Debug, Deserialize)]
struct Info {
    #[serde(rename = "child-pid")]
    child_pid: u32,
}

impl IdMaps {
    /// Begins to wait.
    pub(crate) fn add(&mut self, waiting: Waiting) {
        self.waiting.insert(waiting.info.as_raw_fd(), waiting);
    }

    /// What to poll.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.waiting.values().map(|waiting| waiting.info.as_fd())
    }

    /// Reads what is there and, if it is complete, writes the map.
    pub(crate) fn advance(&mut self, info: RawFd, ids: HubIds) {
        let Some(waiting) = self.waiting.get_mut(&info) else {
            return;
        };
        let mut read = [0_u8; 512];
        let count = rustix::io::read(&waiting.info, &mut read).unwrap_or(0);
        waiting
            .said
            .extend_from_slice(read.get(..count).unwrap_or_default());
        let complete = serde_json::from_slice::<Info>(&waiting.said).ok();
        if complete.is_none() && count > 0 && waiting.said.len() < MAX_INFO {
            return;
        }
        let Some(waiting) = self.waiting.remove(&info) else {
            return;
        };
        let written = complete.is_some_and(|info| map(info.child_pid, waiting.slot, ids));
        if !written || rustix::io::write(&waiting.block, b"1").is_err() {
            // It may have ended by itself.
            let _: Result<(), _> = kill_process(waiting.child, Signal::KILL);
        }
    }
}

fn map(pid: u32, slot: u16, ids: HubIds) -> bool {
    let HubIds::Range { first, per_sandbox } = ids else {
        return false;
    };
    let extent = (0, first_of_slot(first, per_sandbox, slot), per_sandbox);
    write_maps(pid, &[extent], &[extent]).is_ok()
}

/// First id of a slot, as the hub counts.
pub(crate) fn first_of_slot(first: u32, per_sandbox: u32, slot: u16) -> u32 {
    first.saturating_add(per_sandbox.saturating_mul(u32::from(slot)))
}
