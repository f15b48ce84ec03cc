//! The lines of all servers on disk: one thread writes them, and removes what is old or too much.
//!
//! They are no evidence, as the record is: what the disk refuses is lost, and gig's own log says so. A disk
//! that is slow holds the programs up, and no memory fills.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context;
use gig_policy::SandboxId;
use gig_web::control::{LogAsked, LogLine, LogPage, LogStream};
use jiff::Timestamp;

use super::{
    lines::Lines,
    search,
    segment::{self, Segment},
};
use crate::data_dir;

/// All that is kept; its thread ends with it.
#[derive(Debug)]
pub(in crate::serve) struct Kept {
    folder: PathBuf,
    orders: Orders,
    thread: Option<JoinHandle<()>>,
}

/// Lines on their way.
#[derive(Debug)]
pub(super) enum Order {
    Keep {
        server: Arc<str>,
        lines: Vec<LogLine>,
    },
    Stop,
}

/// The way.
#[derive(Debug, Clone)]
pub(super) struct Orders(SyncSender<Order>);

impl Orders {
    #[cfg(test)]
    pub(super) const fn of(to: SyncSender<Order>) -> Self {
        Self(to)
    }

    pub(super) async fn send(&self, order: Order) {
        let mut order = order;
        while let Err(TrySendError::Full(back)) = self.0.try_send(order) {
            order = back;
            tokio::time::sleep(FULL_FOR).await;
        }
    }
}

impl Kept {
    /// Begins in this folder; lines are kept for so many days, or for ever.
    ///
    /// # Errors
    /// When the folder or a thread cannot be had.
    pub(in crate::serve) fn start(folder: PathBuf, days: Option<u32>) -> anyhow::Result<Self> {
        data_dir::make_private(&folder)?;
        let (orders, taken) = sync_channel(ORDERS);
        let mut keeper = Keeper {
            folder: folder.clone(),
            days,
            open: HashMap::new(),
            failing: false,
        };
        let thread = std::thread::Builder::new()
            .name("server logs".to_owned())
            .spawn(move || keeper.run(&taken))
            .context("cannot start a thread")?;
        Ok(Self {
            folder,
            orders: Orders(orders),
            thread: Some(thread),
        })
    }

    /// For what one sandbox prints.
    pub(in crate::serve) fn of(
        &self,
        server: Arc<str>,
        sandbox: SandboxId,
        stream: LogStream,
    ) -> Lines {
        Lines::new(self.orders.clone(), server, sandbox, stream)
    }

    /// Searches what was kept. Blocks.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(in crate::serve) fn read(&self, asked: &LogAsked) -> io::Result<LogPage> {
        search::read(&self.folder.join(&asked.server), asked)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A thread that is gone takes no order.
        let _gone = self.orders.0.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// The thread's own.
struct Keeper {
    folder: PathBuf,
    days: Option<u32>,
    open: HashMap<Arc<str>, Segment>,
    failing: bool,
}

impl Keeper {
    fn run(&mut self, orders: &Receiver<Order>) {
        self.sweep();
        let mut swept = Timestamp::now();
        loop {
            match orders.recv_timeout(PAUSE) {
                Ok(Order::Keep { server, lines }) => {
                    let kept = self.keep(&server, &lines);
                    self.told(kept);
                }
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Timestamp::now();
            if now.duration_since(swept).unsigned_abs() >= PAUSE {
                self.sweep();
                swept = now;
            }
        }
    }

    fn keep(&mut self, server: &Arc<str>, lines: &[LogLine]) -> io::Result<()> {
        let now = Timestamp::now();
        let mut octets = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut octets, line)?;
            octets.push(b'\n');
        }
        match self.open.get_mut(server) {
            Some(segment) => segment.write(&octets, now),
            None => {
                let folder = self.folder.join(&**server);
                let mut segment = Segment::begin(&folder, now)?;
                let written = segment.write(&octets, now);
                self.open.insert(Arc::clone(server), segment);
                written
            }
        }
    }

    fn sweep(&mut self) {
        let Some(days) = self.days else {
            return;
        };
        let (gone, outcome) = segment::sweep(&self.folder, days, Timestamp::now());
        // What was removed may have been open for long.
        self.open
            .retain(|server, _| !gone.contains(&server.to_string()));
        self.told(outcome);
    }

    /// Once for each time that it begins to fail.
    fn told(&mut self, done: io::Result<()>) {
        match done {
            Ok(()) => self.failing = false,
            Err(error) if !self.failing => {
                self.failing = true;
                let folder: &Path = &self.folder;
                tracing::error!(%error, folder = %folder.display(), "what servers print is not kept");
            }
            Err(_) => {}
        }
    }
}

/// Pieces of what was read, before programs wait.
const ORDERS: usize = 64;
/// Until the disk has taken some of them.
const FULL_FOR: Duration = Duration::from_millis(5);
/// Days are counted; an hour more or less is nothing.
const PAUSE: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests;
