//! The caller's side of the hub: starting it and asking it for things.
//!
//! Synchronous: each call is one short exchange over a Unix socket. Promises
//! that dropping a [`Hub`] ends the hub process and, with it, every process,
//! namespace and link it made; the kernel does the same when the caller dies.

use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ipnet::Ipv4Net;
use rustix::process::{
    PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::HUB_ARGUMENT;
use crate::covered::Covers;
use crate::hub_protocol::{self, IdMapNumbers, Reply, Request, SpawnRequest, Step, Text};
use crate::id_map::HostIds;
use crate::listener::Listeners;
use crate::plan::HubSettings;
use crate::reexec;
use crate::subnet_pool::SubnetPool;

pub(crate) mod children;
mod error;
pub(crate) mod id_maps;
mod orphans;
pub(crate) mod process;
pub(crate) mod readers;
pub(crate) mod refusals;
mod shown;
pub(crate) mod spawn;
pub(crate) mod trees;

pub use error::{LeaseError, ReleaseError, SpawnError, StartHubError};
pub use readers::Readers;
pub use refusals::{Refusals, RefusedPacket};
pub use shown::ShowTreeError;

/// How long the hub may take over one answer before it counts as lost. Its
/// longest work, making or removing a namespace, takes milliseconds; a loaded
/// host a hundred times that.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How long a hub that lost its socket may take to end before it is killed.
const END_WITHIN: Duration = Duration::from_secs(2);

/// What hub is wanted.
#[derive(Debug, Clone, Copy)]
pub struct HubConfig {
    /// Sandboxes at once. Namespaces are made a few ahead of need, so a high
    /// number costs only firewall set elements.
    pub slots: u16,
    /// Range that the /30s are cut from; it exists inside the hub only.
    pub subnet: Ipv4Net,
    /// Port of the explicit proxy on every gateway address.
    pub explicit_port: u16,
    /// Which host ids the sandboxes get.
    pub ids: HostIds,
}

/// A running hub. Dropping it ends everything that runs in it.
#[derive(Debug)]
pub struct Hub {
    socket: Option<Arc<Mutex<UnixStream>>>,
    process: std::process::Child,
    pool: SubnetPool,
    ids: HostIds,
    shown: shown::Shown,
}

/// A sandbox's place in the network. Dropping it does not give it back:
/// [`Hub::release`] does, once its connections are closed.
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    slot: u16,
    address: Ipv4Addr,
    gateway: Ipv4Addr,
}

/// A program to start.
#[derive(Debug)]
pub struct Spawn {
    /// Absolute path, as the hub's mount namespace (a copy of the host's) has it.
    pub program: PathBuf,
    /// Arguments after the program's own name.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Descriptors and their numbers in the child, standard ones included;
    /// everything else is closed.
    pub fds: Vec<(OwnedFd, RawFd)>,
    /// Which network it is in.
    pub network: SpawnNetwork,
    /// For a program that makes a user namespace and waits for its id map:
    /// the hub maps ids 0 to `per_sandbox` - 1 of the slot (range modes only).
    pub id_map: Option<IdMapFds>,
}

/// The network a child is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnNetwork {
    /// That of a leased slot.
    Leased(u16),
    /// A new one with `lo` and nothing else.
    Disconnected,
}

/// The numbers at which the child finds its ends of two pipes: it writes its
/// own child's pid as JSON (`{"child-pid": N}`) to the first and reads one
/// byte from the second before it goes on. bwrap's `--info-fd` and
/// `--userns-block-fd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMapFds {
    /// Written by the child.
    pub info_fd: RawFd,
    /// Read by the child.
    pub block_fd: RawFd,
}

/// A started program. Its parent is the hub, which reaps it.
#[derive(Debug)]
pub struct Child {
    /// Signals it; becomes readable when it ends.
    pub pidfd: OwnedFd,
    /// Readable once: the wait status, 4 bytes, little-endian. End of file
    /// without them means that the hub died.
    pub exit: OwnedFd,
}

impl Hub {
    /// Starts the hub: this program again, as [`HUB_ARGUMENT`].
    ///
    /// Call it from a thread that lives as long as the hub is to live: the
    /// kernel ends the hub when that thread ends.
    ///
    /// # Errors
    /// If the configuration does not hold together, or the host refuses a
    /// namespace, a link or the firewall.
    pub fn start(config: &HubConfig) -> Result<(Self, Listeners), StartHubError> {
        let pool = SubnetPool::new(config.subnet, config.slots)?;
        let started = reexec::start(&[HUB_ARGUMENT], ANSWER_WITHIN);
        let (socket, process) = started.map_err(StartHubError::Start)?;
        let hub = Self {
            socket: Some(Arc::new(Mutex::new(socket))),
            process,
            pool,
            ids: config.ids,
            shown: shown::Shown::default(),
        };
        let listeners = hub.build(config)?;
        Ok((hub, listeners))
    }

    /// Lets the hub end, and everything in it, without waiting for that: its
    /// drop does. Nothing can be asked of it any more.
    pub fn hang_up(&mut self) {
        self.socket = None;
    }

    /// Asks it who reads at a terminal, from any thread and for as long as it is there.
    #[must_use]
    pub fn readers(&self) -> Readers {
        Readers(self.door())
    }

    /// Asks it what its firewall refused, from any thread and for as long as it is there.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        Refusals(self.door())
    }

    /// By which others ask it things, while it is there.
    fn door(&self) -> Weak<Mutex<UnixStream>> {
        self.socket.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// Whether its process runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let id = i32::try_from(self.process.id()).ok();
        let Some(id) = id.and_then(rustix::process::Pid::from_raw) else {
            return false;
        };
        // Looked at and left there: whoever ends the hub waits for it.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(id), look), Ok(None))
    }

    /// Which host ids the sandboxes get.
    #[must_use]
    pub fn ids(&self) -> HostIds {
        self.ids
    }

    fn build(&self, config: &HubConfig) -> Result<Listeners, StartHubError> {
        let (reply, _) = self.answer(None, &[]).map_err(StartHubError::Lost)?;
        match reply {
            Reply::Unshared => {}
            Reply::Failed(failure) => return Err(StartHubError::refused(failure)),
            other => return Err(StartHubError::Lost(out_of_turn(&other))),
        }
        config.ids.write(self.process.id(), config.slots)?;
        let settings = HubSettings {
            slots: config.slots,
            subnet: config.subnet,
            explicit_port: config.explicit_port,
            ids: config.ids.inside(),
        };
        let (reply, fds) = self
            .answer(Some(&Request::Build(settings)), &[])
            .map_err(StartHubError::Lost)?;
        match (reply, <[OwnedFd; 4]>::try_from(fds)) {
            (Reply::Ready, Ok(fds)) => Ok(Listeners::from_fds(fds)),
            (Reply::Failed(source), _) if source.step == Step::Proc => Err(match Covers::found() {
                Some(covers) => StartHubError::Covered { covers, source },
                None => StartHubError::refused(source),
            }),
            (Reply::Failed(failure), _) => Err(StartHubError::refused(failure)),
            (other, _) => Err(StartHubError::Lost(out_of_turn(&other))),
        }
    }

    /// A network for one sandbox, ready: the firewall knows it already.
    ///
    /// # Errors
    /// If every slot is leased or the hub is gone.
    pub fn lease(&self) -> Result<Lease, LeaseError> {
        match self
            .answer(Some(&Request::Lease), &[])
            .map_err(LeaseError::Lost)?
        {
            (Reply::Leased { slot }, _) => Ok(Lease {
                slot,
                address: self.pool.address(slot),
                gateway: self.pool.gateway(slot),
            }),
            (Reply::Failed(failure), _) => Err(LeaseError::Refused(failure)),
            (other, _) => Err(LeaseError::Lost(out_of_turn(&other))),
        }
    }

    /// Starts a program in a slot. It is killed when the hub ends.
    ///
    /// # Errors
    /// If the program cannot be executed, the slot is not leased, or the hub is gone.
    pub fn spawn(&self, spawn: Spawn) -> Result<Child, SpawnError> {
        let (fds, numbers): (Vec<OwnedFd>, Vec<RawFd>) = spawn.fds.into_iter().unzip();
        let request = Request::Spawn(SpawnRequest {
            program: Text::from(spawn.program.as_os_str()),
            args: spawn.args.into_iter().map(Text).collect(),
            env: spawn
                .env
                .into_iter()
                .map(|(name, value)| (Text(name), Text(value)))
                .collect(),
            fds: numbers,
            slot: match spawn.network {
                SpawnNetwork::Leased(slot) => Some(slot),
                SpawnNetwork::Disconnected => None,
            },
            id_map: spawn.id_map.map(|fds| IdMapNumbers {
                info: fds.info_fd,
                block: fds.block_fd,
            }),
        });
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
        let program = spawn.program;
        match self.answer(Some(&request), &borrowed) {
            Ok((Reply::Spawned, fds)) => match <[OwnedFd; 2]>::try_from(fds) {
                Ok([pidfd, exit]) => Ok(Child { pidfd, exit }),
                Err(_) => Err(SpawnError::Lost {
                    program,
                    source: out_of_turn(&Reply::Spawned),
                }),
            },
            Ok((Reply::Failed(source), _)) => Err(SpawnError::Refused { program, source }),
            Ok((other, _)) => Err(SpawnError::Lost {
                program,
                source: out_of_turn(&other),
            }),
            Err(source) => Err(SpawnError::Lost { program, source }),
        }
    }

    /// Ends whatever still runs in the slot and cuts its network; its address stays taken until
    /// [`Self::release`]. Returns whether nothing of it is on its way any more: until then ask again, some
    /// thirty milliseconds later.
    ///
    /// # Errors
    /// If a process cannot be ended or the link cannot be cut, which may be asked for again; or the hub
    /// is gone.
    pub fn cut(&self, lease: &Lease) -> Result<bool, ReleaseError> {
        let slot = lease.slot;
        match self.answer(Some(&Request::Cut { slot }), &[]) {
            Ok((Reply::Cut { gone }, _)) => Ok(gone),
            other => Err(not_taken_away(slot, other)),
        }
    }

    /// Takes the slot back, and does what [`Self::cut`] does where that was not done. What
    /// came from its address must have been taken in before: it may then have a new owner.
    ///
    /// # Errors
    /// If a process cannot be ended, the link cannot be removed, or the hub is gone.
    pub fn release(&self, lease: Lease) -> Result<(), ReleaseError> {
        let slot = lease.slot;
        match self.answer(Some(&Request::Release { slot }), &[]) {
            Ok((Reply::Released, _)) => Ok(()),
            other => Err(not_taken_away(slot, other)),
        }
    }

    /// One exchange; without a request, just the next message.
    fn answer(
        &self,
        request: Option<&Request>,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<(Reply, Vec<OwnedFd>)> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        exchange(socket, request, fds)
    }
}

fn exchange(
    socket: &Mutex<UnixStream>,
    request: Option<&Request>,
    fds: &[BorrowedFd<'_>],
) -> io::Result<(Reply, Vec<OwnedFd>)> {
    // A panic between request and answer would leave them out of step.
    let socket = socket
        .lock()
        .map_err(|_| io::ErrorKind::ConnectionAborted)?;
    let sent = request.map_or(Ok(()), |request| hub_protocol::send(&socket, request, fds));
    if let Some(failure) = sent.as_ref().err().and_then(hub_protocol::unsent) {
        // The hub heard nothing: as if it had refused.
        return Ok((Reply::Failed(failure), Vec::new()));
    }
    let outcome = sent.and_then(|()| hub_protocol::receive(&socket));
    if outcome.is_err() {
        // After a lost or late answer every later one would be the wrong one.
        drop(socket.shutdown(std::net::Shutdown::Both));
    }
    outcome
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.hang_up();
        end(&mut self.process);
    }
}

fn not_taken_away(slot: u16, answer: io::Result<(Reply, Vec<OwnedFd>)>) -> ReleaseError {
    match answer {
        Ok((Reply::Failed(source), _)) => ReleaseError::Refused { slot, source },
        Ok((other, _)) => ReleaseError::Lost {
            slot,
            source: out_of_turn(&other),
        },
        Err(source) => ReleaseError::Lost { slot, source },
    }
}

/// Waits for a hub that has lost its socket, and kills one that stays.
fn end(process: &mut std::process::Child) {
    let pid = i32::try_from(process.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(pidfd) = pidfd {
        let mut wait = [rustix::event::PollFd::new(
            &pidfd,
            rustix::event::PollFlags::IN,
        )];
        let limit = rustix::event::Timespec::try_from(END_WITHIN).ok();
        if rustix::event::poll(&mut wait, limit.as_ref()).is_ok_and(|ready| ready == 0) {
            // Already gone is what was wanted.
            let _: Result<(), _> = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
    drop(process.wait());
}

impl Lease {
    /// Its number in the hub.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// The sandbox's address: what its connections come from.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The hub's address on the same link: name server and explicit proxy.
    #[must_use]
    pub fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }
}

fn out_of_turn(reply: &Reply) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("an answer out of turn: {reply:?}"),
    )
}
