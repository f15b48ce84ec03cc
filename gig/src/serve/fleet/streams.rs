//! The pipes between gig and a program: both streams to the log, or all three to whoever is attached.

use std::{fs::File, os::fd::OwnedFd, sync::Arc};

use anyhow::Context;
use futures_util::future::FutureExt as _;
use gig_sandbox::Stdio;
use gig_web::{
    Attached,
    control::{EndCause, Ended, LogStream},
};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::mpsc,
};

use super::{Member, seats::Seat};

/// Both sides of a program's streams.
pub(super) struct Streams {
    pub(super) theirs: Stdio,
    /// What the log reads, and what it is of.
    pub(super) printed: (OwnedFd, LogStream),
    /// For the log, which tells what it read.
    pub(super) tell: Option<mpsc::Sender<Vec<u8>>>,
    pub(super) held: Option<Held>,
}

/// Our ends, for whoever is attached.
pub(super) struct Held {
    stdin: Sender,
    stdout: Receiver,
    stderr: mpsc::Receiver<Vec<u8>>,
}

/// Ends a sandbox when it is dropped.
struct Detach {
    member: Arc<Member>,
    /// Taken as long as somebody has the streams, also when the sandbox has ended.
    _seat: Arc<Seat>,
}

impl Drop for Detach {
    fn drop(&mut self) {
        self.member.ask_to_end(EndCause::Detached);
    }
}

impl Streams {
    /// To the log alone; nothing comes in.
    ///
    /// # Errors
    /// When there is no pipe to be had.
    pub(super) fn logged() -> anyhow::Result<Self> {
        let (ours, stdout) = pipe()?;
        let stderr = stdout.try_clone().context("cannot share a pipe")?;
        let stdin = File::open("/dev/null").context("cannot open /dev/null")?;
        Ok(Self {
            theirs: stdio(stdin.into(), stdout, stderr),
            printed: (ours, LogStream::Output),
            tell: None,
            held: None,
        })
    }

    /// To somebody, and standard error to the log, too. Needs a runtime.
    ///
    /// # Errors
    /// When there is no pipe to be had.
    pub(super) fn attached() -> anyhow::Result<Self> {
        let (stdin, to_program) = pipe()?;
        let (from_program, stdout) = pipe()?;
        let (ours, stderr) = pipe()?;
        let (tell, told) = mpsc::channel(CHUNKS);
        let unusable = "cannot use a pipe";
        Ok(Self {
            theirs: stdio(stdin, stdout, stderr),
            printed: (ours, LogStream::Stderr),
            tell: Some(tell),
            held: Some(Held {
                stdin: Sender::from_owned_fd(to_program).context(unusable)?,
                stdout: Receiver::from_owned_fd(from_program).context(unusable)?,
                stderr: told,
            }),
        })
    }
}

impl Held {
    /// As the appliance hands them on; the sandbox ends with them.
    pub(super) fn attached(self, member: &Arc<Member>, seat: Arc<Seat>) -> Attached {
        let mut ended = member.ended.subscribe();
        let ended = async move {
            let found = ended.wait_for(Option::is_some).await;
            let lost = Ended {
                status: super::life::LOST,
                cause: EndCause::Program,
                starved: false,
            };
            found.ok().and_then(|found| *found).unwrap_or(lost)
        };
        Attached {
            facts: member.look(),
            stdin: Some(Box::new(self.stdin)),
            stdout: Box::new(self.stdout),
            stderr: self.stderr,
            ended: ended.boxed().shared(),
            hold: Box::new(Detach {
                member: Arc::clone(member),
                _seat: seat,
            }),
        }
    }
}

fn stdio(stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> Stdio {
    Stdio {
        stdin,
        stdout,
        stderr,
        controlling_terminal: false,
    }
}

/// Who reads, and who writes.
fn pipe() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")
}

/// Of standard error, read and not yet sent.
const CHUNKS: usize = 2;
