//! The program's standard streams: gig's own, untouched, or a terminal of the program's own.
//!
//! A stream of gig's that is a terminal is never handed in: whoever holds a terminal can read what is
//! typed there and reprogram it. Such streams become the near end of a pseudo-terminal (pty(7)), which
//! the program gets as its controlling terminal, and gig copies between the two: job control, window
//! size, Ctrl-C and full-screen programs work as they do outside. A socket comes by way of a pipe
//! ([`super::relay`]). Everything else is passed as it is, so that not an octet of a pipe goes through gig.
//!
//! Where standard input and output are both the terminal, it is the program's alone: raw, each key goes
//! to the pty, which gives it its meaning. Where one of them is not, others sit at it too, as in
//! `gig run cat f | less`, and gig does what the program would do if it sat there itself: see
//! [`keyboard`].

mod keyboard;
mod modes;

use std::{
    io::IsTerminal,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    thread::JoinHandle,
};

use anyhow::Context;
use gig_netns::Readers;
use gig_sandbox::{signal_foreground, tell_of_modes};
use rustix::{
    process::Signal,
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    stdio,
    termios::{OptionalActions, tcgetwinsize, tcsetattr, tcsetwinsize},
};

use self::{keyboard::Keyboard, modes::inner_modes};
use super::{
    relay::{self, RecordFiles, Relay, Way},
    settings::AuditPlace,
};

/// What the program gets as 0, 1 and 2.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// One of them is the near end of the pty, which is to become the controlling terminal.
    pub(crate) controlling_terminal: bool,
}

/// gig's side of the pty, and the threads that copy. Dropping it gives the person's terminal back.
#[derive(Debug)]
pub(crate) struct Terminal {
    controller: Arc<OwnedFd>,
    /// The person's terminal, where output goes and sizes come from.
    outer: OwnedFd,
    /// The near end, as a device.
    near: u64,
    keyboard: Arc<Keyboard>,
    output: Option<JoinHandle<()>>,
}

/// gig's side of the standard streams.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Where one of them is a terminal.
    pub(crate) terminal: Option<Terminal>,
    /// Where one of them is a socket that the program writes to.
    pub(crate) relays: Vec<Relay>,
}

/// Decides for each of gig's standard streams what the program gets.
///
/// # Errors
/// When a stream is closed or may not be handed in, or no pty is to be had.
pub(crate) fn streams(place: &AuditPlace) -> anyhow::Result<(Streams, Seat)> {
    let record = RecordFiles::of(place);
    let mut relays = Vec::new();
    let mut handed = |own: BorrowedFd<'_>, name: &str, way: Way| {
        let (given, relay) = relay::handed_in(own, (name, way), &record)?;
        relays.extend(relay);
        anyhow::Ok(given)
    };
    let ours = [
        std::io::stdin().is_terminal(),
        std::io::stdout().is_terminal(),
    ];
    let stderr_is_terminal = std::io::stderr().is_terminal();
    let outer = match (ours, stderr_is_terminal) {
        ([_, true], _) => stdio::stdout(),
        (_, true) => stdio::stderr(),
        ([true, _], _) => stdio::stdin(),
        _ => {
            let streams = Streams {
                stdin: handed(stdio::stdin(), STDIN, Way::In)?,
                stdout: handed(stdio::stdout(), STDOUT, Way::Out)?,
                stderr: handed(stdio::stderr(), STDERR, Way::Out)?,
                controlling_terminal: false,
            };
            let terminal = None;
            return Ok((streams, Seat { terminal, relays }));
        }
    };
    let alone = ours == [true, true];
    let keys = if ours[0] { stdio::stdin() } else { outer };
    let (controller, near) = open_pty(outer, alone).context("cannot make a terminal")?;
    let controller = Arc::new(controller);
    let mut pick = |is_terminal: bool, own: BorrowedFd<'_>, name: &str, way: Way| {
        if is_terminal {
            Ok(near.try_clone()?)
        } else {
            handed(own, name, way)
        }
    };
    let streams = Streams {
        stdin: pick(ours[0], stdio::stdin(), STDIN, Way::In)?,
        stdout: pick(ours[1], stdio::stdout(), STDOUT, Way::Out)?,
        stderr: pick(stderr_is_terminal, stdio::stderr(), STDERR, Way::Out)?,
        controlling_terminal: true,
    };
    let keyboard = Keyboard::new(keys, Arc::clone(&controller), alone, ours[0])?;
    let terminal = Terminal {
        controller,
        outer: outer.try_clone_to_owned()?,
        near: rustix::fs::fstat(&near)?.st_rdev,
        keyboard: Arc::new(keyboard),
        output: None,
    };
    let terminal = Some(terminal);
    Ok((streams, Seat { terminal, relays }))
}

const STDIN: &str = "standard input";
const STDOUT: &str = "standard output";
const STDERR: &str = "standard error";

/// The pty starts as a copy of the person's terminal, size included.
fn open_pty(outer: BorrowedFd<'_>, alone: bool) -> anyhow::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = openpt(flags)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let near = ioctl_tiocgptpeer(&controller, flags)?;
    let modes = inner_modes(outer, alone)?;
    if !alone {
        tell_of_modes(&controller)?;
    }
    tcsetattr(&near, OptionalActions::Now, &modes)?;
    tcsetwinsize(&controller, tcgetwinsize(outer)?)?;
    Ok((controller, near))
}

impl Terminal {
    /// Carries a changed window size inward; the kernel then tells the program by SIGWINCH.
    pub(crate) fn copy_window_size(&self) {
        if let Ok(size) = tcgetwinsize(&self.outer) {
            // A terminal that is gone has no size to keep right.
            tcsetwinsize(&self.controller, size).ok();
        }
    }

    /// Waits until everything the program wrote is on the person's terminal, then gives it back.
    /// To be called when the program's last process is dead: the near end is closed then.
    pub(crate) fn finish(mut self) {
        if let Some(output) = self.output.take() {
            // A copier that panicked has nothing left to show.
            output.join().ok();
        }
    }

    /// Starts to copy, and to take what is typed: to be called when the program runs, so that a start
    /// that fails or takes long leaves an ordinary terminal. `readers` knows who waits at it inside.
    ///
    /// # Errors
    /// When the terminal's settings cannot be changed or no thread is to be had.
    pub(crate) fn connect(&mut self, readers: Readers) -> anyhow::Result<()> {
        self.keyboard.ask(readers, self.near);
        self.keyboard.take()?;
        let (from, to) = (Arc::clone(&self.controller), self.outer.try_clone()?);
        let keyboard = Arc::clone(&self.keyboard);
        let output = std::thread::Builder::new()
            .name("pty-output".to_owned())
            .spawn(move || keyboard.show(from.as_fd(), to.as_fd()))?;
        self.output = Some(output);
        let keyboard = Arc::clone(&self.keyboard);
        // Ends with the process, or with the person's terminal.
        std::thread::Builder::new()
            .name("pty-input".to_owned())
            .spawn(move || keyboard.pass_on())?;
        Ok(())
    }

    /// Passes a signal on as the key that it stands for, where keys are signals to gig's own job: to the
    /// program's foreground job. Whether it did.
    pub(crate) fn interrupt(&self, signal: Signal) -> bool {
        let key = matches!(signal, Signal::INT | Signal::QUIT);
        key && !self.keyboard.is_alone() && signal_foreground(&self.controller, signal).is_ok()
    }

    /// Gives the person's terminal back while gig is stopped, with what the program wrote until now on it.
    pub(crate) fn suspend(&mut self) {
        self.keyboard.catch_up();
        self.keyboard.give_back(keyboard::Until::Resumed);
    }

    /// Takes it again, if gig is in the foreground. A terminal that hung up has no settings to be changed.
    pub(crate) fn resume(&mut self) {
        // Nothing told gig of a change meanwhile.
        self.copy_window_size();
        if let Err(error) = self.keyboard.take() {
            tracing::debug!(%error, "the terminal is not taken again");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.keyboard.give_back(keyboard::Until::Ever);
    }
}
