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
    /// A real-time one (signal(7)), by its number: to be passed on. Several of one that wait may come as one.
    RealTime(i32),
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
        for (number, received) in heard() {
            if is_in(ignored, number) {
                continue;
            }
            let kind = SignalKind::from_raw(number);
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
                Received::Forward(_)
                | Received::RealTime(_)
                | Received::Window
                | Received::Nothing => {}
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

/// Each signal that gig listens to, by its number, and what it is for. Not here: what the kernel tells a process of
/// its own faults (SIGSEGV, SIGABRT and their like), and what cannot be caught.
fn heard() -> impl Iterator<Item = (i32, Received)> {
    let own = [
        (Signal::WINCH, Received::Window),
        // A record that is larger than gig's files may be is one that cannot be written, and told as that.
        (Signal::XFSZ, Received::Nothing),
        (Signal::TSTP, Received::Stop),
    ];
    let passed = FORWARDED.map(|signal| (signal, Received::Forward(signal)));
    let named = own.into_iter().chain(passed);
    let named = named.map(|(signal, received)| (signal.as_raw(), received));
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    named.chain(real_time.map(|number| (number, Received::RealTime(number))))
}

/// Those with a name that are for the program.
const FORWARDED: [Signal; 13] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::IO,
    Signal::VTALARM,
    Signal::PROF,
    Signal::POWER,
    Signal::STKFLT,
    // Also what wakes gig itself after it stopped: the program goes on with it.
    Signal::CONT,
];

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
