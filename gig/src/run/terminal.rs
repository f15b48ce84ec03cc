//! The program's standard streams: gig's own, untouched, or a terminal of the program's own.
//!
//! A stream of gig's that is a terminal is never handed in: whoever holds a terminal can read what is
//! typed there and reprogram it. Such streams become the near end of a pseudo-terminal (pty(7)), which
//! the program gets as its controlling terminal, and gig copies between the two: job control, window
//! size, Ctrl-C and full-screen programs work as they do outside. Everything else is passed as it is,
//! so that not an octet of a pipe goes through gig.

use std::{
    io::IsTerminal,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread::JoinHandle,
};

use anyhow::Context;
use rustix::{
    io::{Errno, read, write},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    stdio,
    termios::{
        OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
    },
};

/// What the program gets as 0, 1 and 2.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// `stdin` is the near end of the pty and is to become the controlling terminal.
    pub(crate) controlling_terminal: bool,
}

/// gig's side of the pty, and the threads that copy. Dropping it gives the person's terminal back.
#[derive(Debug)]
pub(crate) struct Terminal {
    controller: OwnedFd,
    /// The person's terminal, where output goes and sizes come from.
    outer: OwnedFd,
    /// Standard input is a terminal: somebody may type.
    typed_at: bool,
    raw: Option<RawMode>,
    output: Option<JoinHandle<()>>,
}

/// The person's terminal in raw mode: every key reaches the pty, which gives it its meaning.
#[derive(Debug)]
struct RawMode {
    terminal: OwnedFd,
    before: Termios,
}

/// Decides for each of gig's standard streams what the program gets.
///
/// # Errors
/// When a stream is closed or no pty is to be had.
pub(crate) fn streams() -> anyhow::Result<(Streams, Option<Terminal>)> {
    let ours = [
        std::io::stdin().is_terminal(),
        std::io::stdout().is_terminal(),
    ];
    let stderr_is_terminal = std::io::stderr().is_terminal();
    let outer = match (ours, stderr_is_terminal) {
        ([_, true], _) => stdio::stdout(),
        (_, true) => stdio::stderr(),
        ([true, _], _) => stdio::stdin(),
        _ => return Ok((untouched()?, None)),
    };
    let (controller, near) = open_pty(outer, ours[0]).context("cannot make a terminal")?;
    let pick = |is_terminal: bool, own: BorrowedFd<'_>| {
        if is_terminal {
            near.try_clone()
        } else {
            own.try_clone_to_owned()
        }
    };
    let streams = Streams {
        stdin: pick(ours[0], stdio::stdin())?,
        stdout: pick(ours[1], stdio::stdout())?,
        stderr: pick(stderr_is_terminal, stdio::stderr())?,
        controlling_terminal: ours[0],
    };
    let terminal = Terminal {
        controller,
        outer: outer.try_clone_to_owned()?,
        typed_at: ours[0],
        raw: None,
        output: None,
    };
    Ok((streams, Some(terminal)))
}

fn untouched() -> anyhow::Result<Streams> {
    let clone = |fd: BorrowedFd<'_>, name: &str| {
        fd.try_clone_to_owned()
            .with_context(|| format!("{name} is closed; give the program /dev/null instead"))
    };
    Ok(Streams {
        stdin: clone(stdio::stdin(), "standard input")?,
        stdout: clone(stdio::stdout(), "standard output")?,
        stderr: clone(stdio::stderr(), "standard error")?,
        controlling_terminal: false,
    })
}

/// The pty starts as a copy of the person's terminal, size included.
fn open_pty(outer: BorrowedFd<'_>, typed_at: bool) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = openpt(flags)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let near = ioctl_tiocgptpeer(&controller, flags)?;
    let mut modes = tcgetattr(outer)?;
    if !typed_at {
        // The outer terminal stays in cooked mode and turns line feeds into CR LF itself.
        modes.output_modes.remove(OutputModes::OPOST);
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

    /// Puts the person's terminal in raw mode and starts to copy: to be called when the program runs,
    /// so that a start that fails or takes long leaves an ordinary terminal.
    ///
    /// # Errors
    /// When the terminal's settings cannot be changed or no thread is to be had.
    pub(crate) fn connect(&mut self) -> anyhow::Result<()> {
        self.resume()?;
        self.start_copying()
    }

    /// Gives the person's terminal back while gig is stopped.
    pub(crate) fn suspend(&mut self) {
        self.raw = None;
    }

    /// Takes it again.
    ///
    /// # Errors
    /// When its settings cannot be changed.
    pub(crate) fn resume(&mut self) -> anyhow::Result<()> {
        if self.typed_at {
            self.raw = Some(RawMode::enter(stdio::stdin())?);
        }
        Ok(())
    }

    fn start_copying(&mut self) -> anyhow::Result<()> {
        let (from, to) = (self.controller.try_clone()?, self.outer.try_clone()?);
        let output = std::thread::Builder::new()
            .name("pty-output".to_owned())
            .spawn(move || {
                copy(from.as_fd(), to.as_fd());
                // A person's terminal that is gone takes no more; the program must not wait for it.
                discard(from.as_fd());
            })?;
        self.output = Some(output);
        if self.typed_at {
            let to = self.controller.try_clone()?;
            // Ends with the process: nothing interrupts a read of a terminal without taking what was
            // typed for whoever reads next.
            std::thread::Builder::new()
                .name("pty-input".to_owned())
                .spawn(move || copy(stdio::stdin(), to.as_fd()))?;
        }
        Ok(())
    }
}

impl RawMode {
    fn enter(terminal: BorrowedFd<'_>) -> anyhow::Result<Self> {
        let before = tcgetattr(terminal).context("cannot read the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(terminal, OptionalActions::Now, &raw).context("cannot set the terminal raw")?;
        Ok(Self {
            terminal: terminal.try_clone_to_owned()?,
            before,
        })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A program can have the terminal answer questions (where the cursor is, what the title says). What is
        // answered after its end, or while it is stopped, is not for the shell to read as if it were typed. A
        // terminal that hung up needs no restoring.
        tcsetattr(&self.terminal, OptionalActions::Flush, &self.before).ok();
    }
}

/// Copies until the source ends; a pty whose near end is closed ends with EIO.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let mut buffer = [0_u8; COPY_BUFFER];
    loop {
        match read(from, &mut buffer) {
            Ok(0) => return,
            Ok(n) if write_all(to, buffer.get(..n).unwrap_or_default()).is_err() => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Reads until the source ends.
fn discard(from: BorrowedFd<'_>) {
    let mut buffer = [0_u8; COPY_BUFFER];
    while matches!(read(from, &mut buffer), Ok(1..) | Err(Errno::INTR)) {}
}

fn write_all(to: BorrowedFd<'_>, mut octets: &[u8]) -> rustix::io::Result<()> {
    while !octets.is_empty() {
        match write(to, octets) {
            Ok(n) => octets = octets.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // The person's shell may have left its terminal non-blocking.
                let mut wait = [rustix::event::PollFd::new(
                    &to,
                    rustix::event::PollFlags::OUT,
                )];
                rustix::event::poll(&mut wait, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A pty moves at most 4 KiB at a time (N_TTY_BUF_SIZE); a little more saves a wake-up or two.
const COPY_BUFFER: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_answers_late_is_not_left_for_the_shell() {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let near = ioctl_tiocgptpeer(&controller, flags).unwrap();
        let raw = RawMode::enter(near.as_fd()).unwrap();
        write_all(controller.as_fd(), b"\x1b[?62;c\n").unwrap();
        let answered = || rustix::io::ioctl_fionread(&near).unwrap();
        // The kernel carries it over by itself.
        while answered() == 0 {
            std::thread::yield_now();
        }
        drop(raw);
        assert_eq!(answered(), 0);
        // Nobody who types afterwards loses anything.
        write_all(controller.as_fd(), b"ls\n").unwrap();
        let mut line = [0; 16];
        assert_eq!(read(&near, &mut line).unwrap(), 3);
        assert_eq!(&line[..3], b"ls\n");
    }
}
