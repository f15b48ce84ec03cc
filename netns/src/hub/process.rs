//! The hub process itself: how it comes to be, and its loop.
//!
//! Two stages. The first makes the namespaces, waits until the caller has
//! mapped its ids, and stays only to pass the hub's end on. The second, the
//! hub, is process 1 of its pid namespace, so that the kernel kills all it
//! started when it ends. It is single-threaded but for throw-away threads that
//! are joined before anything else happens. It ends when its socket does, or by
//! SIGKILL; a signal that asks for something is for the program inside.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, WaitOptions, getrlimit, pidfd_send_signal,
    setrlimit, waitpid,
};
use rustix::thread::{Gid, Uid};

use crate::covered;
use crate::firewall;
use crate::foreign;
use crate::hub::children::{Children, FEW_ROUNDS, ROUNDS};
use crate::hub::id_maps::IdMaps;
use crate::hub::readers;
use crate::hub::refusals::Noted;
use crate::hub::spawn;
use crate::hub::trees::Trees;
use crate::hub_protocol::{self, Failure, Reply, Request, Step};
use crate::kernel::linux::Linux;
use crate::listener::Listeners;
use crate::namespace;
use crate::plan::{HubIds, HubPlan, HubSettings};
use crate::pool::Pool;
use crate::probe;
use crate::ruleset::ruleset;
use crate::sys::{self, Fork};

/// The control socket's number: standard input.
const SOCKET: i32 = 0;

/// Exit statuses, for a person who looks; the reasons travel by the socket.
const ENDED: i32 = 0;
const FAILED: i32 = 1;

/// There when the kernel has IPv6.
const IPV6: &str = "/proc/sys/net/ipv6";

/// How long nothing must have happened before links that were cut are removed and
/// slots made ahead, so that this never delays the start that is under way.
const QUIET: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Everything the loop works on.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ids: HubIds,
    /// The limit on open files that the hub was started with, for its children.
    pub(crate) files: Rlimit,
    pub(crate) kernel: Linux,
    pub(crate) pool: Pool<Linux>,
    pub(crate) children: Children,
    pub(crate) id_maps: IdMaps,
    pub(crate) trees: Trees,
    noted: Noted,
}

/// The hub's `main`. The program calls it when its first argument is
/// [`crate::HUB_ARGUMENT`], before it starts any thread. Does not return.
pub fn hub_process_main() -> ! {
    match std::env::args().nth(2).as_deref() {
        Some(probe::PROBE_ARGUMENT) => probe::child_main(),
        Some(probe::CAPABLE_ARGUMENT) => probe::capable_main(),
        Some(foreign::FOREIGN_ARGUMENT) => foreign::process::child_main(),
        _ => {}
    }
    let code = match first_stage() {
        Ok(code) => code,
        Err(_) => FAILED,
    };
    sys::exit_now(code)
}

fn first_stage() -> io::Result<i32> {
    sys::ignore_requests()?;
    let socket = UnixStream::from(sys::inherited(SOCKET)?);
    sys::close_from(3)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    covered::uncover();
    if let Err(error) = sys::unshare_hub() {
        let failure = Failure::new(Step::Unshare, error.raw_os_error(), "unshare");
        hub_protocol::send(&socket, &Reply::Failed(failure), &[])?;
        return Ok(FAILED);
    }
    hub_protocol::send(&socket, &Reply::Unshared, &[])?;
    let (Request::Build(settings), _) = hub_protocol::receive(&socket)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if let Err(error) = take_ids(settings.ids) {
        let failure = Failure::new(Step::Identity, error.raw_os_error(), "setresuid");
        hub_protocol::send(&socket, &Reply::Failed(failure), &[])?;
        return Ok(FAILED);
    }
    match sys::fork()? {
        Fork::Child => second_stage(&socket, &settings),
        Fork::Parent(hub) => {
            drop(socket);
            let status = waitpid(Some(hub), WaitOptions::empty())?;
            Ok(status
                .and_then(|(_, status)| status.exit_status())
                .unwrap_or(FAILED))
        }
    }
}

/// In a range mode, becomes id 0 of the hub's user namespace, an id of its
/// own on the host as root, and gives the caller's groups up. With a single id
/// there is nothing to change to.
fn take_ids(ids: HubIds) -> io::Result<()> {
    if let HubIds::Range { .. } = ids {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
        rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
        // A change of ids clears it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    Ok(())
}

fn second_stage(socket: &UnixStream, settings: &HubSettings) -> io::Result<i32> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A session of its own: no terminal's signal reaches the hub or a sandbox.
    rustix::process::setsid()?;
    match build(settings) {
        Ok((mut state, listeners)) => {
            hub_protocol::send(socket, &Reply::Ready, &listeners.as_fds())?;
            drop(listeners);
            serve(socket, &mut state)?;
            Ok(ENDED)
        }
        Err(failure) => {
            hub_protocol::send(socket, &Reply::Failed(failure), &[])?;
            Ok(FAILED)
        }
    }
}

fn build(settings: &HubSettings) -> Result<(State, Listeners), Failure> {
    rustix::thread::set_no_new_privs(true)
        .and_then(|()| rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .map_err(|error| Failure::io(Step::Identity, &error.into()))?;
    // Of the hub's own pid namespace.
    covered::mount_fresh().map_err(|error| Failure::io(Step::Proc, &error))?;
    set_parameters().map_err(|error| Failure::io(Step::Sysctl, &error))?;
    let files = raise_file_limit().map_err(|error| Failure::io(Step::Identity, &error))?;
    let plan = HubPlan::new(settings)
        .map_err(|error| Failure::new(Step::Protocol, None, error.to_string()))?;
    firewall::load(&ruleset(&plan, Path::new(IPV6).exists()))?;
    let mut kernel = Linux::new()?;
    let listeners = Listeners::open(&plan).map_err(|error| Failure::io(Step::Listen, &error))?;
    let mut pool = Pool::new(plan);
    pool.prepare(&mut kernel)?;
    let noted = Noted::open().map_err(|error| Failure::io(Step::Netlink, &error))?;
    let children = Children::new().map_err(|error| Failure::io(Step::Spawn, &error))?;
    let state = State {
        ids: settings.ids,
        files,
        kernel,
        pool,
        children,
        id_maps: IdMaps::default(),
        trees: Trees::default(),
        noted,
    };
    Ok((state, listeners))
}

/// The hub holds a descriptor or two for each sandbox: as many as it may have.
/// Returns the limit as it was.
fn raise_file_limit() -> io::Result<Rlimit> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        ..before
    };
    setrlimit(Resource::Nofile, raised)?;
    Ok(before)
}

/// Parameters of the hub's own network namespace.
fn set_parameters() -> io::Result<()> {
    namespace::disable_ipv6()?;
    namespace::forget_fragments()?;
    // Nothing is forwarded (the default, stated), and no ICMP error is held
    // back: refused UDP must fail at once, each time.
    for (parameter, value) in [("ip_forward", "0"), ("icmp_ratemask", "0")] {
        fs::write(format!("/proc/sys/net/ipv4/{parameter}"), value)?;
    }
    Ok(())
}

fn serve(socket: &UnixStream, state: &mut State) -> io::Result<()> {
    loop {
        let idle_work = state.pool.wants_removing() || state.pool.wants_preparing();
        let ready = wait(socket, state, idle_work.then_some(&QUIET))?;
        if ready.children {
            let ended = state.children.reap();
            state.pool.give_back(ended);
        }
        for info in &ready.id_maps {
            state.id_maps.advance(*info, state.ids);
        }
        if ready.request {
            match hub_protocol::receive(socket) {
                Ok((request, fds)) => answer(socket, state, request, fds)?,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        } else if idle_work && !ready.children && ready.id_maps.is_empty() {
            let done = match state.pool.wants_removing() {
                true => state.pool.remove_one(&mut state.kernel),
                false => state.pool.prepare(&mut state.kernel),
            };
            // What cannot be made or removed now is tried again when it is wanted.
            if done.is_err() {
                wait(socket, state, None)?;
            }
        }
    }
}

#[derive(Debug)]
struct ReadyParts {
    request: bool,
    children: bool,
    id_maps: Vec<i32>,
}

fn wait(socket: &UnixStream, state: &State, limit: Option<&Timespec>) -> io::Result<ReadyParts> {
    let mut polled = vec![
        PollFd::new(socket, PollFlags::IN),
        PollFd::from_borrowed_fd(state.children.signals(), PollFlags::IN),
    ];
    let waiting: Vec<_> = state.id_maps.waiting().collect();
    polled.extend(
        waiting
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)),
    );
    loop {
        match poll(&mut polled, limit) {
            Err(rustix::io::Errno::INTR) => {}
            other => {
                other?;
                break;
            }
        }
    }
    let mut happened = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(ReadyParts {
        request: happened.next().unwrap_or(false),
        children: happened.next().unwrap_or(false),
        id_maps: happened
            .zip(&waiting)
            .filter(|(happened, _)| *happened)
            .map(|(_, fd)| fd.as_raw_fd())
            .collect(),
    })
}

fn answer(
    socket: &UnixStream,
    state: &mut State,
    request: Request,
    fds: Vec<OwnedFd>,
) -> io::Result<()> {
    let outcome = match request {
        Request::Build(_) => Err(Failure::new(
            Step::Protocol,
            None,
            "the hub is built already",
        )),
        Request::Lease => state
            .pool
            .lease(&mut state.kernel)
            .map(|slot| (Reply::Leased { slot }, Vec::new())),
        Request::Cut { slot } => {
            cut(state, slot, FEW_ROUNDS).map(|gone| (Reply::Cut { gone }, Vec::new()))
        }
        Request::Release { slot } => release(state, slot).map(|()| (Reply::Released, Vec::new())),
        Request::Spawn(spawn) => spawn::spawn(state, spawn, fds)
            .map(|child| (Reply::Spawned, vec![child.pidfd, child.exit])),
        Request::Tree(tree) => state
            .trees
            .build(&tree, fds)
            .map(|()| (Reply::Grown, Vec::new())),
        Request::Readers { terminal } => {
            let any = readers::any(terminal);
            Ok((Reply::Readers { any }, Vec::new()))
        }
        Request::Refused => {
            let packets = state.noted.take();
            packets.map(|packets| (Reply::Refused { packets }, Vec::new()))
        }
    };
    let (reply, fds) = outcome.unwrap_or_else(|failure| (Reply::Failed(failure), Vec::new()));
    let borrowed: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    let sent = hub_protocol::send(socket, &reply, &borrowed);
    let Some(failure) = sent.as_ref().err().and_then(hub_protocol::unsent) else {
        return sent;
    };
    if let (Reply::Spawned, Some(pidfd)) = (&reply, fds.first()) {
        // Nobody would ever hear of it. Gone already is as good.
        let _: Result<(), _> = pidfd_send_signal(pidfd, Signal::KILL);
    }
    hub_protocol::send(socket, &Reply::Failed(failure), &[])
}

fn cut(state: &mut State, slot: u16, rounds: u32) -> Result<bool, Failure> {
    if !state.pool.is_cut(slot) {
        state.pool.leased(slot)?;
        state.children.end_slot(slot, rounds)?;
    }
    state.pool.cut(&mut state.kernel, slot)
}

fn release(state: &mut State, slot: u16) -> Result<(), Failure> {
    if !state.pool.is_cut(slot) {
        cut(state, slot, ROUNDS)?;
    }
    state.pool.release(&mut state.kernel, slot)
}
