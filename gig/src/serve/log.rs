//! What a sandbox printed: the last of it in memory, octet for octet, and its lines on disk for some days.
//! Both are bounded: no program fills either by talking.

use std::{collections::VecDeque, os::fd::OwnedFd, sync::Arc};

use gig_web::control::SandboxLog;
use parking_lot::Mutex;
use tokio::{io::AsyncReadExt as _, net::unix::pipe::Receiver, sync::mpsc};

pub(super) use self::kept::Kept;
use self::lines::Lines;

mod kept;
mod lines;
mod search;
mod segment;

/// Shared between whoever reads the pipe and whoever asks.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Latest>>);

#[derive(Debug, Default)]
struct Latest {
    octets: VecDeque<u8>,
    dropped: u64,
}

impl Log {
    /// Reads until everybody has closed the other end, and hands it on to whoever is attached: as long as
    /// they take nothing, nothing is read.
    pub(super) async fn follow(
        self,
        end: OwnedFd,
        mut lines: Lines,
        mut tell: Option<mpsc::Sender<Vec<u8>>>,
    ) {
        let mut receiver = match Receiver::from_owned_fd(end) {
            Ok(receiver) => receiver,
            Err(error) => {
                tracing::error!(%error, "what a sandbox prints cannot be read");
                return;
            }
        };
        let mut buffer = vec![0; AT_ONCE];
        while let Ok(read @ 1..) = receiver.read(&mut buffer).await {
            let octets = buffer.get(..read).unwrap_or_default();
            self.take(octets);
            lines.take(octets).await;
            if let Some(to) = &tell
                && to.send(octets.to_vec()).await.is_err()
            {
                tell = None;
            }
        }
        lines.end().await;
    }

    /// How many octets came, ever.
    pub(super) fn printed(&self) -> u64 {
        let kept = self.0.lock();
        kept.dropped
            .saturating_add(u64::try_from(kept.octets.len()).unwrap_or_default())
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

/// Of the lines, in the data directory.
pub(super) const FOLDER: &str = "logs";
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
