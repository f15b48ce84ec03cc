//! Starting a program in a slot.
//!
//! Promises to the child's surroundings: the slot's network, exactly the given
//! descriptors at exactly the given numbers, exactly the given environment, no
//! capability in the hub's user namespace and none to be had by exec, the
//! slot's own ids in a range mode, mounts that are the hub's of this moment and
//! change with nobody's, and death with the hub. Signals that ask for
//! something (INT, TERM, HUP and the like) are ignored, all others have their
//! default action: what is asked for is the business of who called the hub.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::fs::fstat;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, PidfdFlags, Resource, Rlimit, Signal, pidfd_open, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, Gid, LinkNameSpaceType, Uid,
    clear_ambient_capability_set, move_into_link_name_space, set_capabilities,
    set_capabilities_secure_bits,
};

use crate::hub::Child;
use crate::hub::children::Running;
use crate::hub::id_maps::{Waiting, first_of_slot};
use crate::hub::process::State;
use crate::hub_protocol::{Failure, IdMapNumbers, SpawnRequest, Step, Text};
use crate::kernel::Kernel as _;
use crate::plan::HubIds;
use crate::sys::{self, Fork};

/// Highest number that a child's descriptor may have: as many as one message brings.
const MAX_NUMBER: RawFd = 1023;
/// What is to be moved waits above the numbers, where these are no higher than this below the usual limit of 1,024
/// open files.
const USUAL_NUMBER: RawFd = 255;
/// What the child writes when it could not start: step and error number.
const REPORT: usize = 5;

/// Everything the child needs, made before the fork.
#[derive(Debug)]
struct Prepared<'a> {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    network: BorrowedFd<'a>,
    files: Rlimit,
    first_id: Option<u32>,
    fds: Vec<(OwnedFd, RawFd)>,
    /// None of these has a higher number, and every other one that is needed has.
    top: RawFd,
    report: OwnedFd,
}

/// Where a child failed; the discriminant travels.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum ChildStep {
    Signals = 1,
    Network,
    Mounts,
    Ids,
    Capabilities,
    Death,
    Descriptors,
    Exec,
}

/// Starts it.
pub(crate) fn spawn(
    state: &mut State,
    request: SpawnRequest,
    fds: Vec<OwnedFd>,
) -> Result<Child, Failure> {
    if fds.len() != request.fds.len() {
        return Err(Failure::new(
            Step::Protocol,
            None,
            "descriptors and numbers differ",
        ));
    }
    let mut fds: Vec<(OwnedFd, RawFd)> = fds.into_iter().zip(request.fds.iter().copied()).collect();
    let id_map = request
        .id_map
        .map(|numbers| id_map_pipes(&mut fds, numbers))
        .transpose()?;
    check_numbers(&fds)?;
    if id_map.is_some() && state.ids == HubIds::Single {
        let why = "an id map, but the hub has one id only";
        return Err(Failure::new(Step::Protocol, None, why));
    }
    let (program, args) = (c_string(request.program.0.clone())?, arguments(&request)?);
    let env = environment(&request)?;
    let top = top(&fds);
    let (report_read, report) = report_pipe(top)?;
    let (exit, exit_write) = pipe()?;
    let disconnected = match request.slot {
        Some(_) => None,
        None => Some(state.kernel.disconnected()?),
    };
    let reserved = reserve(state, request.slot)?;
    let id_slot = request.slot.or(reserved);
    let namespace = match (&disconnected, request.slot) {
        (None, Some(slot)) => Some(state.pool.leased(slot)?),
        (disconnected, _) => disconnected.as_ref(),
    };
    let network = namespace
        .and_then(|namespace| state.kernel.handle(namespace))
        .ok_or_else(|| Failure::new(Step::Namespace, None, "it has no handle"))?;
    let number = number(network)?;
    let first_id = id_slot.and_then(|slot| first_id(state.ids, slot));
    let prepared = Prepared {
        files: state.files,
        program,
        args,
        env,
        network,
        first_id,
        fds,
        top,
        report,
    };
    let pid = match sys::fork() {
        Ok(Fork::Child) => prepared.run(),
        Ok(Fork::Parent(pid)) => pid,
        Err(error) => {
            state.pool.give_back(reserved);
            return Err(Failure::io(Step::Spawn, &error));
        }
    };
    drop(prepared);
    // The hub alone reaps, and has not since the fork: the pid is this child's.
    let pidfd = pidfd_open(pid, PidfdFlags::empty());
    state.children.add(
        pid,
        Running {
            slot: request.slot,
            reserved,
            network: number,
            exit: exit_write,
        },
    );
    read_report(&report_read)?;
    let pidfd = pidfd.map_err(|error| Failure::io(Step::Spawn, &error.into()))?;
    if let (Some((info, block)), Some(slot)) = (id_map, id_slot) {
        state.id_maps.add(Waiting {
            child: pid,
            slot,
            info,
            block,
            said: Vec::new(),
        });
    }
    Ok(Child { pidfd, exit })
}

/// What tells a network from others, in nsfs.
fn number(network: BorrowedFd<'_>) -> Result<u64, Failure> {
    let stat = fstat(network).map_err(|error| Failure::io(Step::Namespace, &error.into()))?;
    Ok(stat.st_ino)
}

/// Ids for a child without a network: those of a slot that nobody else holds.
fn reserve(state: &mut State, leased: Option<u16>) -> Result<Option<u16>, Failure> {
    match (leased, state.ids) {
        (None, HubIds::Range { .. }) => state.pool.reserve(&mut state.kernel).map(Some),
        _ => Ok(None),
    }
}

impl Prepared<'_> {
    /// In the child: all of it, then exec.
    fn run(&self) -> ! {
        let (step, error) = self.start();
        let errno = error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes();
        let [a, b, c, d] = errno;
        // If the report cannot be written there is nobody to tell.
        let _: Result<usize, _> = rustix::io::write(&self.report, &[step as u8, a, b, c, d]);
        sys::exit_now(127)
    }

    /// Returns only the step that failed.
    fn start(&self) -> (ChildStep, io::Error) {
        match self.arrange() {
            Err(failed) => failed,
            Ok(()) => (
                ChildStep::Exec,
                sys::execve(&self.program, &self.args, &self.env),
            ),
        }
    }

    fn arrange(&self) -> Result<(), (ChildStep, io::Error)> {
        let at = |step| move |error: io::Error| (step, error);
        sys::ignore_requests().map_err(at(ChildStep::Signals))?;
        move_into_link_name_space(self.network, Some(LinkNameSpaceType::Network))
            .map_err(|error| (ChildStep::Network, error.into()))?;
        part_mounts().map_err(at(ChildStep::Mounts))?;
        if let Some(first) = self.first_id {
            take_ids(first).map_err(at(ChildStep::Ids))?;
        }
        drop_capabilities().map_err(at(ChildStep::Capabilities))?;
        // After the change of ids, which clears it.
        set_parent_process_death_signal(Some(Signal::KILL))
            .and_then(|()| set_dumpable_behavior(DumpableBehavior::Dumpable))
            .map_err(|error| (ChildStep::Death, error.into()))?;
        self.place_descriptors()
            .and_then(|()| Ok(setrlimit(Resource::Nofile, self.files)?))
            .map_err(at(ChildStep::Descriptors))
    }

    /// Moves every descriptor out of the way, then to its number, then closes the gaps.
    fn place_descriptors(&self) -> io::Result<()> {
        let mut moved = Vec::with_capacity(self.fds.len());
        for (fd, number) in &self.fds {
            moved.push((sys::duplicate_above(fd, self.top + 1)?, *number));
        }
        moved.sort_by_key(|(_, number)| *number);
        let mut next = 0;
        for (fd, number) in &moved {
            if next < *number {
                sys::close_range(next, *number - 1)?;
            }
            sys::duplicate_to(fd, *number)?;
            next = number.saturating_add(1);
        }
        if next <= self.top {
            sys::close_range(next, self.top)?;
        }
        // The report must still be writable if exec fails.
        sys::close_on_exec_from(self.top + 1)
    }
}

/// The hub's mounts go with the host's, so that what is mounted there later can be shown to a sandbox that starts
/// then. A sandbox's do not: nobody looked at what would come in, and nothing would be covered in it.
fn part_mounts() -> io::Result<()> {
    sys::unshare_mounts()?;
    let apart = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", apart)?)
}

/// The slot's first id in every place.
fn take_ids(first: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(first), Gid::from_raw(first));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Gives up every capability in the hub's user namespace, and the way back
/// that exec by id 0 would be. A user namespace that the child makes starts
/// afresh: it owns nothing of the hub's.
fn drop_capabilities() -> io::Result<()> {
    // Only while it is still there: a change of ids has taken it already.
    if let Ok(sets) = rustix::thread::capabilities(None)
        && sets.effective.contains(CapabilitySet::SETPCAP)
    {
        set_capabilities_secure_bits(
            CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED,
        )?;
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    Ok(())
}

fn first_id(ids: HubIds, slot: u16) -> Option<u32> {
    match ids {
        HubIds::Range { first, per_sandbox } => Some(first_of_slot(first, per_sandbox, slot)),
        HubIds::Single => None,
    }
}

/// Makes both pipes, gives the child its ends and returns the hub's: where
/// the child writes, and what it waits for.
fn id_map_pipes(
    fds: &mut Vec<(OwnedFd, RawFd)>,
    numbers: IdMapNumbers,
) -> Result<(OwnedFd, OwnedFd), Failure> {
    let (info, info_write) = pipe()?;
    let (block_read, block) = pipe()?;
    fds.push((info_write, numbers.info));
    fds.push((block_read, numbers.block));
    Ok((info, block))
}

fn top(fds: &[(OwnedFd, RawFd)]) -> RawFd {
    let numbers = fds.iter().map(|(_, number)| *number);
    numbers.max().unwrap_or(0).max(USUAL_NUMBER)
}

fn check_numbers(fds: &[(OwnedFd, RawFd)]) -> Result<(), Failure> {
    let mut numbers: Vec<RawFd> = fds.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    let twice = numbers
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a == b));
    let outside = numbers
        .iter()
        .any(|number| !(0..=MAX_NUMBER).contains(number));
    if twice || outside {
        return Err(Failure::new(
            Step::Protocol,
            None,
            "a descriptor number twice or out of range",
        ));
    }
    Ok(())
}

fn arguments(request: &SpawnRequest) -> Result<Vec<CString>, Failure> {
    std::iter::once(&request.program)
        .chain(&request.args)
        .map(|Text(text)| c_string(text.clone()))
        .collect()
}

fn environment(request: &SpawnRequest) -> Result<Vec<CString>, Failure> {
    let pair = |(Text(name), Text(value)): &(Text, Text)| {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return Err(Failure::new(
                Step::Protocol,
                None,
                "a variable without a proper name",
            ));
        }
        let mut pair = name.clone();
        pair.push(OsStr::new("="));
        pair.push(value);
        c_string(pair)
    };
    request.env.iter().map(pair).collect()
}

fn c_string(text: OsString) -> Result<CString, Failure> {
    CString::new(text.into_vec())
        .map_err(|_| Failure::new(Step::Protocol, None, "a text with a NUL byte"))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| Failure::io(Step::Spawn, &error.into()))
}

/// The child's end is above every number that a child's descriptor may have.
fn report_pipe(top: RawFd) -> Result<(OwnedFd, OwnedFd), Failure> {
    let (read, write) = pipe()?;
    let write =
        sys::duplicate_above(&write, top + 1).map_err(|error| Failure::io(Step::Spawn, &error))?;
    Ok((read, write))
}

/// Waits until the child runs its program, or has said why not.
fn read_report(report: &OwnedFd) -> Result<(), Failure> {
    let mut said = [0_u8; REPORT];
    let count = loop {
        match rustix::io::read(report.as_fd(), &mut said) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other.map_err(|error| Failure::io(Step::Spawn, &error.into()))?,
        }
    };
    let [step, a, b, c, d] = said;
    match (count, step) {
        (0, _) => Ok(()),
        (REPORT, step) => Err(Failure::new(
            Step::Spawn,
            Some(i32::from_le_bytes([a, b, c, d])),
            doing(step),
        )),
        _ => Err(Failure::new(
            Step::Spawn,
            None,
            "the child ended before it could say why",
        )),
    }
}

fn doing(step: u8) -> &'static str {
    const NAMES: [(ChildStep, &str); 8] = [
        (ChildStep::Signals, "setting signals"),
        (ChildStep::Network, "entering the network"),
        (ChildStep::Mounts, "parting its mounts from the host's"),
        (ChildStep::Ids, "taking on the slot's ids"),
        (ChildStep::Capabilities, "giving up capabilities"),
        (ChildStep::Death, "binding its life to the hub's"),
        (ChildStep::Descriptors, "placing descriptors"),
        (ChildStep::Exec, "executing the program"),
    ];
    NAMES
        .iter()
        .find(|(named, _)| *named as u8 == step)
        .map_or("an unknown step", |(_, name)| *name)
}
