//! A sandbox's life: prepared, running, ended.
//!
//! Promises that everything in the sandbox ends with its [`Running`], however
//! that ends: the first process inside holds a socket to it and the kernel
//! kills a pid namespace with its first process.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gig_netns::{Child, Hub, Lease};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::bootstrap::orders::{ENDED, FAILED, GO, HELLO, SIGNAL, STOPPED};
use crate::design::{Design, Place};
use crate::error::{StartSandboxError, WaitError};
use crate::handshake;
use crate::layer::LayerReport;
use crate::layers::cgroup;
use crate::spec::Spec;
use crate::sys;
use crate::watch::Watch;

/// How long a start may take. It takes some ten milliseconds; a loaded host a
/// hundred times that.
const START_WITHIN: Duration = Duration::from_secs(30);

/// The network a sandbox is in.
#[derive(Debug, Clone, Copy)]
pub enum Network<'a> {
    /// A leased one: the proxy is its only way out.
    Leased(&'a Lease),
    /// None: `lo` alone.
    Disconnected,
}

/// Our ends of what the bootstrap holds.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// To the first process.
    pub(crate) control: OwnedFd,
    /// To the program's process, until it execs.
    pub(crate) program: OwnedFd,
    /// What the engine complains of.
    pub(crate) complaints: OwnedFd,
}

/// A sandbox that is built and waits. Dropping it ends it.
#[derive(Debug)]
pub struct Prepared {
    child: Child,
    sockets: Sockets,
    first: Pid,
    program: Pid,
    program_pidfd: OwnedFd,
    layers: Vec<LayerReport>,
    group: Option<cgroup::Group>,
    watch: Option<Watch>,
}

/// A running program. Dropping it kills everything in the sandbox.
#[derive(Debug)]
pub struct Running {
    child: Child,
    control: OwnedFd,
    program: Pid,
    program_pidfd: OwnedFd,
    job: Job,
    ended: Option<ExitStatus>,
    out_of_memory: bool,
    uncovered: Option<PathBuf>,
    group: Option<cgroup::Group>,
    watch: Option<Watch>,
}

/// What becomes of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It has a terminal and was stopped there by this signal, and not by [`Running::signal`]: a key, a read in the
    /// background, its own wish. It stays so until it is sent SIGCONT.
    Stopped(Signal),
    /// It ended, and the sandbox is gone.
    Ended(ExitStatus),
}

/// How often the program was told to go on, modulo 256, and whether it was told to stop since: who stopped before may
/// be heard of after.
#[derive(Debug, Clone, Copy, Default)]
struct Job {
    continued: u8,
    held: bool,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitStatus {
    code: u8,
    signal: Option<u8>,
}

/// Builds a sandbox up to the point where its program would start.
///
/// # Errors
/// If anything that was asked for cannot be had, or the host refuses.
pub fn prepare(spec: Spec, hub: &Hub, network: Network<'_>) -> Result<Prepared, StartSandboxError> {
    let place = network.lease().map(Place::from);
    Design::new(spec, hub.ids(), place)?
        .start(hub, network)?
        .meet()
}

impl<'a> Network<'a> {
    /// The lease, if there is one.
    pub(crate) fn lease(self) -> Option<&'a Lease> {
        match self {
            Self::Leased(lease) => Some(lease),
            Self::Disconnected => None,
        }
    }
}

impl Prepared {
    /// Waits until both processes of the bootstrap have said that they are there.
    pub(crate) fn meet(
        child: Child,
        sockets: Sockets,
        layers: Vec<LayerReport>,
    ) -> Result<Self, StartSandboxError> {
        let program = expect_hello(&sockets.program, &sockets)?;
        let first = expect_hello(&sockets.control, &sockets)?;
        // The process waits for us: its pid is its own until we let it go.
        let program_pidfd = pidfd_open(program, PidfdFlags::empty())
            .map_err(|error| resource("a handle of the program", error.into()))?;
        Ok(Self {
            child,
            sockets,
            first,
            program,
            program_pidfd,
            layers,
            group: None,
            watch: None,
        })
    }

    /// Has it ended when what is covered in it comes into sight, and refuses it if that has come already.
    pub(crate) fn watched(mut self, watch: Option<Watch>) -> Result<Self, StartSandboxError> {
        let seen = watch.as_ref().map(Watch::look).transpose();
        let seen = seen.map_err(|error| resource("a look at what is covered", error))?;
        if let Some(path) = seen.flatten() {
            return Err(StartSandboxError::Uncovered { path });
        }
        self.watch = watch;
        Ok(self)
    }

    /// The program's process, which waits.
    pub(crate) fn program(&self) -> Pid {
        self.program
    }

    /// Puts both processes under the limits of the whole sandbox.
    pub(crate) fn limit(mut self, limits: cgroup::Plan) -> Result<Self, StartSandboxError> {
        self.group = limits.apply(&[self.first, self.program])?;
        Ok(self)
    }

    /// What each layer does here.
    #[must_use]
    pub fn layers(&self) -> &[LayerReport] {
        &self.layers
    }

    /// Lets the program start, and waits until it has.
    ///
    /// # Errors
    /// If the program is not there or cannot be executed, or the bootstrap
    /// could not give everything up. Nothing of the sandbox is left then.
    pub fn go(self) -> Result<Running, StartSandboxError> {
        // A bootstrap that is gone shows as an end of file below.
        drop(handshake::tell(&self.sockets.program, &[GO]));
        await_readable(&self.sockets.program)?;
        let message = handshake::hear(&self.sockets.program)
            .map_err(|error| resource("an answer of the bootstrap", error))?;
        match message.bytes.as_slice() {
            // Closed by exec: the program runs.
            [] => {}
            [FAILED, code, words @ ..] => return Err(failure(*code, words)),
            _ => {
                return Err(StartSandboxError::Bootstrap {
                    said: "nothing that is known".into(),
                });
            }
        }
        Ok(Running {
            child: self.child,
            control: self.sockets.control,
            program: self.program,
            program_pidfd: self.program_pidfd,
            job: Job::default(),
            ended: None,
            out_of_memory: false,
            uncovered: None,
            group: self.group,
            watch: self.watch,
        })
    }
}

impl Running {
    /// Sends a signal to the program; SIGSTOP and SIGCONT to what is in its process group with it, as a shell does to
    /// a job.
    pub fn signal(&mut self, signal: Signal) {
        self.job.told(signal);
        self.send(signal.as_raw());
    }

    /// Sends a signal that has no name, but a number: a real-time one (signal(7)).
    pub fn signal_real_time(&mut self, number: i32) {
        self.send(number);
    }

    fn send(&self, number: i32) {
        if let Ok(number) = u8::try_from(number) {
            // A sandbox that has ended has nobody to tell.
            drop(handshake::tell(&self.control, &[SIGNAL, number]));
        }
    }

    /// Ends everything in the sandbox at once.
    pub fn kill(&self) {
        // The first process ends at the end of file. If it cannot be reached
        // the engine's own process is killed, which binds its child's life.
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both);
        let _ = pidfd_send_signal(&self.child.pidfd, Signal::KILL);
    }

    /// Whether the kernel killed in it because it wanted more memory than its limit; known when it has
    /// been waited for.
    #[must_use]
    pub const fn ran_out_of_memory(&self) -> bool {
        self.out_of_memory
    }

    /// What came into sight inside that was covered, or could be written that is read-only, so that everything in the
    /// sandbox was ended; known when it has been waited for.
    #[must_use]
    pub fn uncovered(&self) -> Option<&Path> {
        self.uncovered.as_deref()
    }

    /// The program's pid on the host.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.program.as_raw_nonzero().get()
    }

    /// Waits for the program to end and the sandbox to be gone. Dropping the
    /// future is safe; waiting again goes on.
    ///
    /// # Errors
    /// If the sandbox cannot be waited for or the hub was lost.
    pub async fn wait(&mut self) -> Result<ExitStatus, WaitError> {
        loop {
            if let Turn::Ended(status) = self.turn().await? {
                return Ok(status);
            }
        }
    }

    /// Waits until the program stops, or has ended and the sandbox is gone. Dropping the future is safe; waiting again
    /// goes on.
    ///
    /// # Errors
    /// If the sandbox cannot be waited for or the hub was lost.
    pub async fn turn(&mut self) -> Result<Turn, WaitError> {
        while self.ended.is_none() {
            self.ended_or_uncovered().await?;
            let message = handshake::hear(&self.control).map_err(WaitError::Wait)?;
            match message.bytes.as_slice() {
                [ENDED, a, b, c, d] => {
                    self.ended = Some(ExitStatus::from_raw(i32::from_le_bytes([*a, *b, *c, *d])));
                }
                [STOPPED, number, continued] => {
                    if let Some(signal) = self.job.stopped(*number, *continued) {
                        return Ok(Turn::Stopped(signal));
                    }
                }
                // Gone without a word.
                _ => break,
            }
        }
        self.gone().await.map(Turn::Ended)
    }

    /// Waits for the sandbox to be gone.
    async fn gone(&mut self) -> Result<ExitStatus, WaitError> {
        readable(&self.child.exit).await?;
        let mut status = [0_u8; 4];
        let count = rustix::io::read(&self.child.exit, &mut status)
            .map_err(|error| WaitError::Wait(error.into()))?;
        let group = self.group.take();
        self.out_of_memory |= group.is_some_and(|group| group.ran_out_of_memory());
        let engine = (count == status.len()).then(|| i32::from_le_bytes(status));
        self.ended
            .or_else(|| engine.map(ExitStatus::from_raw))
            .ok_or(WaitError::Lost)
    }

    /// Waits for a word of the first process's, and ends everything when a cover comes away before.
    async fn ended_or_uncovered(&mut self) -> Result<(), WaitError> {
        let Some(watch) = &self.watch else {
            return readable(&self.control).await;
        };
        tokio::select! {
            biased;
            said = watch.uncovered() => {
                // Where nothing is told any more anything may be in sight.
                let path = said.unwrap_or_else(|_| PathBuf::from("/"));
                self.kill();
                self.uncovered = Some(path);
                self.watch = None;
                Ok(())
            }
            ended = readable(&self.control) => ended,
        }
    }
}

impl Job {
    fn told(&mut self, signal: Signal) {
        if signal == Signal::STOP {
            self.held = true;
        } else if signal == Signal::CONT {
            self.held = false;
            self.continued = self.continued.wrapping_add(1);
        }
    }

    /// The signal, unless the program was told to stop, or to go on, since.
    fn stopped(self, number: u8, continued: u8) -> Option<Signal> {
        let news = !self.held && self.continued == continued;
        news.then(|| Signal::from_named_raw(number.into()))
            .flatten()
    }
}

impl ExitStatus {
    fn from_raw(status: i32) -> Self {
        let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
        if libc::WIFSIGNALED(status) {
            let signal = byte(libc::WTERMSIG(status));
            return Self {
                code: signal.saturating_add(128),
                signal: Some(signal),
            };
        }
        Self {
            code: byte(libc::WEXITSTATUS(status)),
            signal: None,
        }
    }

    /// What a shell would say: its own code, or 128 and the signal's number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.code
    }

    /// The signal that ended it.
    #[must_use]
    pub const fn signal(self) -> Option<u8> {
        self.signal
    }
}

impl std::os::fd::AsFd for Running {
    /// A pidfd of the program.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.program_pidfd.as_fd()
    }
}

async fn readable(fd: &OwnedFd) -> Result<(), WaitError> {
    sys::readable(fd).await.map_err(WaitError::Wait)
}

fn resource(what: &'static str, source: io::Error) -> StartSandboxError {
    StartSandboxError::Resource { what, source }
}

fn failure(code: u8, words: &[u8]) -> StartSandboxError {
    let said = String::from_utf8_lossy(words).into_owned();
    match code {
        127 => StartSandboxError::NotFound { said },
        126 => StartSandboxError::NotExecutable { said },
        _ => StartSandboxError::Bootstrap { said },
    }
}

fn await_readable(socket: &OwnedFd) -> Result<(), StartSandboxError> {
    match handshake::wait(socket.as_fd(), START_WITHIN) {
        Ok(true) => Ok(()),
        Ok(false) => Err(StartSandboxError::Late {
            seconds: START_WITHIN.as_secs(),
        }),
        Err(error) => Err(resource("an answer of the bootstrap", error)),
    }
}

/// The sender's pid, or what the engine said when it gave up.
fn expect_hello(socket: &OwnedFd, sockets: &Sockets) -> Result<Pid, StartSandboxError> {
    await_readable(socket)?;
    let message = handshake::hear(socket)
        .map_err(|error| resource("the bootstrap's first message", error))?;
    match (message.bytes.as_slice(), message.sender) {
        ([HELLO], Some(pid)) => Ok(pid),
        ([FAILED, code, words @ ..], _) => Err(failure(*code, words)),
        _ => Err(StartSandboxError::Engine {
            said: complaints(&sockets.complaints),
        }),
    }
}

/// The engine's complaints: what is in the pipe when it has ended.
fn complaints(pipe: &OwnedFd) -> String {
    const LAST_WORDS_WITHIN: Timespec = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    // Late or not: what is there is read.
    let _ = rustix::event::poll(&mut fds, Some(&LAST_WORDS_WITHIN));
    let mut said = [0_u8; 4096];
    let count = rustix::io::read(pipe, &mut said).unwrap_or(0);
    let said = String::from_utf8_lossy(said.get(..count).unwrap_or_default());
    let said = said.trim().trim_start_matches("bwrap: ");
    if said.is_empty() {
        "it gave no reason".to_owned()
    } else {
        said.replace('\n', "; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program may have been told meanwhile what its end of the socket does not know yet.
    #[test]
    fn what_is_told_of_a_stop_before_the_program_went_on_is_no_news() {
        let stop = u8::try_from(Signal::TSTP.as_raw()).unwrap();
        let mut job = Job::default();
        assert_eq!(job.stopped(stop, 0), Some(Signal::TSTP));
        job.told(Signal::STOP);
        assert_eq!(job.stopped(stop, 0), None);
        job.told(Signal::CONT);
        assert_eq!(job.stopped(stop, 0), None);
        assert_eq!(job.stopped(stop, 1), Some(Signal::TSTP));
        job.told(Signal::TERM);
        assert_eq!(job.stopped(stop, 1), Some(Signal::TSTP));
    }
}
