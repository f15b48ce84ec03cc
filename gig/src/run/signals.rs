//! Signals to gig are meant for the program: they are passed on, and gig ends when the program does.
//! What gig was started to ignore (nohup(1), a shell's background job) is ignored, as any program does.

use anyhow::Context;
use rustix::process::{Signal, getpid, kill_process};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    task::JoinSet,
};

/// What arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Received {
    /// The window has another size.
    Window,
    /// To be passed on.
    Forward(Signal),
    /// Nothing that is for the program, nor for gig.
    Nothing,
    /// gig is to stop, and the program with it.
    Stop,
}

/// The listeners; they stop when this is dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    arrived: mpsc::Receiver<Received>,
    heeds_stops: bool,
    _listeners: JoinSet<()>,
}

impl Signals {
    /// Starts to listen; from here on none of these ends gig.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let (sender, arrived) = mpsc::channel(QUEUE);
        let ignored = ignored();
        let mut listeners = JoinSet::new();
        for (kind, received) in [
            (SignalKind::window_change(), Received::Window),
            (SignalKind::terminate(), Received::Forward(Signal::TERM)),
            (SignalKind::interrupt(), Received::Forward(Signal::INT)),
            (SignalKind::hangup(), Received::Forward(Signal::HUP)),
            (SignalKind::quit(), Received::Forward(Signal::QUIT)),
            (SignalKind::user_defined1(), Received::Forward(Signal::USR1)),
            (SignalKind::user_defined2(), Received::Forward(Signal::USR2)),
            (SignalKind::alarm(), Received::Forward(Signal::ALARM)),
            (SignalKind::io(), Received::Forward(Signal::IO)),
            (
                SignalKind::from_raw(Signal::VTALARM.as_raw()),
                Received::Forward(Signal::VTALARM),
            ),
            (
                SignalKind::from_raw(Signal::PROF.as_raw()),
                Received::Forward(Signal::PROF),
            ),
            (
                SignalKind::from_raw(Signal::POWER.as_raw()),
                Received::Forward(Signal::POWER),
            ),
            // A record that is larger than gig's files may be is one that cannot be written, and told as that.
            (
                SignalKind::from_raw(Signal::XFSZ.as_raw()),
                Received::Nothing,
            ),
            // Also what wakes gig itself after it stopped: the program goes on with it.
            (
                SignalKind::from_raw(Signal::CONT.as_raw()),
                Received::Forward(Signal::CONT),
            ),
            (SignalKind::from_raw(Signal::TSTP.as_raw()), Received::Stop),
        ] {
            if is_in(ignored, kind.as_raw_value()) {
                continue;
            }
            let mut stream = signal(kind).context("cannot listen for signals")?;
            let sender = sender.clone();
            listeners.spawn(async move {
                while stream.recv().await.is_some() {
                    // A full queue holds the same news already.
                    sender.try_send(received).ok();
                }
            });
        }
        Ok(Self {
            arrived,
            heeds_stops: !is_in(ignored, Signal::TSTP.as_raw()),
            _listeners: listeners,
        })
    }

    /// Whether gig stops at SIGTSTP.
    pub(crate) const fn heeds_stops(&self) -> bool {
        self.heeds_stops
    }

    /// The next one. Safe to drop: nothing is lost.
    pub(crate) async fn next(&mut self) -> Received {
        match self.arrived.recv().await {
            Some(received) => received,
            // The listeners live as long as this does.
            None => std::future::pending().await,
        }
    }

    /// Completes at the next one that wants an end, when there is no program any more.
    pub(crate) async fn ending(&mut self) {
        loop {
            match self.next().await {
                received if received.is_ending() => return,
                Received::Stop => stop_self(),
                Received::Forward(_) | Received::Window | Received::Nothing => {}
            }
        }
    }
}

impl Received {
    /// Whether who sends it wants an end.
    pub(crate) const fn is_ending(self) -> bool {
        matches!(
            self,
            Self::Forward(Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT)
        )
    }
}

/// Signals that are ignored now, as the kernel's bit mask of them (proc_pid_status(5)); who cannot tell
/// ignores none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

const fn is_in(mask: u64, signal: i32) -> bool {
    mask >> (signal - 1) & 1 == 1
}

/// Stops gig itself, as SIGTSTP would have; returns when it is continued.
pub(crate) fn stop_self() {
    // A process may always signal itself.
    kill_process(getpid(), Signal::STOP).ok();
}

/// More signals at once than a person or a supervisor sends.
const QUEUE: usize = 64;
