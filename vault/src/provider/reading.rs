//! Reading small files whose reading may block: pipes that somebody writes to when they are read (mounted
//! `.env` files of password managers), and mounts that do not answer any more.
//!
//! Promises an answer within [`LIMIT`], and that nobody waits longer when it is dropped. A pipe is waited for
//! without blocking, and read until its writers are gone. What blocks all the same is left to a thread of its
//! own, which keeps nobody from ending; no more than [`HANGING`] of them are left so, of each reader. Leaves to
//! others what is in the file.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
};
use tokio::{sync::oneshot, time::timeout};
use zeroize::Zeroizing;

/// Reads files for one secret.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Of each thread that reads; those that hang outlive who waited for them.
    reading: Mutex<Vec<Weak<()>>>,
}

impl Reader {
    /// As if a thread hung for as long as this lives.
    #[cfg(test)]
    pub(super) fn hang(&self) -> Arc<()> {
        let alive = Arc::new(());
        self.reading.lock().push(Arc::downgrade(&alive));
        alive
    }

    /// What is in the file: `most` octets, and one more where there are more. Dropping it is safe.
    ///
    /// # Errors
    /// With a sentence for a person, when it cannot be read, or not in time.
    pub(super) async fn read(&self, path: &Path, most: usize) -> Result<Octets, String> {
        let shown = path.display();
        let alive = Arc::new(());
        {
            let mut reading = self.reading.lock();
            reading.retain(|one| one.strong_count() > 0);
            if reading.len() >= HANGING {
                return Err(format!(
                    "cannot read {shown}: {HANGING} attempts hang, since what it is on does not answer"
                ));
            }
            reading.push(Arc::downgrade(&alive));
        }
        let (sender, receiver) = oneshot::channel();
        let job = {
            let path = path.to_owned();
            move || {
                let octets = octets(&path, most, &sender);
                drop(alive);
                // Nobody may wait any more.
                sender.send(octets).ok();
            }
        };
        let failed = |error: io::Error| format!("cannot read {shown}: {error}");
        let thread = std::thread::Builder::new().name("gig-read".to_owned());
        drop(thread.spawn(job).map_err(failed)?);
        match timeout(LIMIT, receiver).await {
            Ok(Ok(octets)) => octets.map_err(failed),
            Ok(Err(_)) => Err(format!(
                "cannot read {shown}: the thread that reads it has ended"
            )),
            Err(_) => Err(format!(
                "cannot read {shown}: it was not read within {LIMIT:?}; nobody writes to the pipe that it is, or \
                 what it is on does not answer"
            )),
        }
    }
}

/// Wiped when they are let go.
pub(super) type Octets = Zeroizing<Vec<u8>>;

type Sender = oneshot::Sender<io::Result<Octets>>;

/// Reads it, for as long as somebody waits.
fn octets(path: &Path, most: usize, asked: &Sender) -> io::Result<Octets> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    // It never grows, so that no copy is left behind unwiped.
    let mut octets = Zeroizing::new(Vec::with_capacity(most + 2));
    if file.metadata()?.file_type().is_fifo() {
        // One that nobody writes to yet has nothing to read, and is not at its end.
        wait(&file, asked)?;
    }
    let mut input = (&file).take(most as u64 + 1);
    loop {
        match input.read_to_end(&mut octets) {
            Ok(_) => return Ok(octets),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&file, asked)?,
            Err(error) => return Err(error),
        }
    }
}

/// Waits until there is something to read, or an end.
fn wait(file: &File, asked: &Sender) -> io::Result<()> {
    while !asked.is_closed() {
        let mut polled = [PollFd::new(file, PollFlags::IN)];
        match poll(&mut polled, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// As long as a command may take that does not say how long.
const LIMIT: Duration = Duration::from_secs(10);
/// Whether somebody waits still is looked at so often.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Attempts that hang in the kernel. More than one: where the file has become another the next finds it.
const HANGING: usize = 3;
