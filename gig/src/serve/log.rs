//! The last of what a sandbox printed, kept in memory and bounded: no program fills the disk by talking.

use std::{collections::VecDeque, os::fd::OwnedFd, sync::Arc};

use anyhow::Context;
use gig_web::control::SandboxLog;
use parking_lot::Mutex;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::{io::AsyncReadExt as _, net::unix::pipe::Receiver};

/// Shared between whoever reads the pipe and whoever asks.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    octets: VecDeque<u8>,
    dropped: u64,
}

/// The program's end of a pipe, and ours.
pub(super) fn pipe() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    Ok((theirs, ours))
}

impl Log {
    /// Reads until everybody has closed the other end.
    pub(super) async fn follow(self, end: OwnedFd) {
        let receiver = rustix::io::ioctl_fionbio(&end, true)
            .map_err(std::io::Error::from)
            .and_then(|()| Receiver::from_owned_fd(end));
        let mut receiver = match receiver {
            Ok(receiver) => receiver,
            Err(error) => {
                tracing::error!(%error, "what a sandbox prints cannot be read");
                return;
            }
        };
        let mut buffer = vec![0; AT_ONCE];
        while let Ok(read @ 1..) = receiver.read(&mut buffer).await {
            self.take(buffer.get(..read).unwrap_or_default());
        }
    }

    fn take(&self, octets: &[u8]) {
        let mut kept = self.0.lock();
        kept.octets.extend(octets);
        let over = kept.octets.len().saturating_sub(MOST);
        drop(kept.octets.drain(..over));
        kept.dropped += u64::try_from(over).unwrap_or_default();
    }

    /// What is kept now.
    pub(super) fn read(&self) -> SandboxLog {
        let kept = self.0.lock();
        SandboxLog {
            octets: kept.octets.iter().copied().collect(),
            dropped: kept.dropped,
        }
    }
}

/// A few thousand lines; with sixty-four sandboxes 16 MiB.
const MOST: usize = 256 * 1024;
const AT_ONCE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_the_beginning_counted() {
        let log = Log::default();
        log.take(&vec![b'a'; MOST]);
        log.take(b"end");
        let read = log.read();
        assert_eq!((read.octets.len(), read.dropped), (MOST, 3));
        assert!(read.octets.ends_with(b"aend"));
    }
}
