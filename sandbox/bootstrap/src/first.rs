//! The first process of the sandbox: what the kernel calls init.
//!
//! It holds the control socket and, where the program has a terminal, that. When the socket closes, for whatever
//! reason, it ends, and the kernel kills everything in the sandbox with it.

use crate::orders::{CONTROL_FD, ENDED, HELLO, Orders, SIGNAL, STOPPED};
use crate::terminal::TERMINAL_FD;
use crate::{CANNOT_START, confine, sys};

/// Ends when the program ends, or when nobody holds the other end any more.
pub fn run(orders: &Orders, program: i32, terminal: Option<i32>) -> ! {
    let ready = keep_only(terminal).is_ok()
        && confine::privileges(orders).is_ok()
        && sys::send(CONTROL_FD, &[HELLO]).is_ok();
    let Some(signals) = ready.then(sys::child_signals).and_then(Result::ok) else {
        sys::exit(CANNOT_START);
    };
    if confine::filters(orders).is_err() {
        sys::exit(CANNOT_START);
    }
    let mut program = Program {
        id: program,
        terminal: terminal.is_some(),
        held: false,
        stopped: false,
        continued: 0,
    };
    loop {
        let Ok((told, child)) = sys::wait_for(CONTROL_FD, signals) else {
            sys::exit(CANNOT_START);
        };
        if child {
            sys::drain(signals);
            while let Some((pid, status)) = sys::reap() {
                if pid != program.id {
                    continue;
                }
                if libc::WIFSTOPPED(status) {
                    program.has_stopped(libc::WSTOPSIG(status));
                } else {
                    end(status);
                }
            }
        }
        if told {
            match sys::receive(CONTROL_FD).as_deref() {
                Ok([SIGNAL, number]) => program.signal(i32::from(*number)),
                _ => sys::exit(128 + libc::SIGKILL),
            }
        }
    }
}

/// Standard streams belong to the program alone: a closed one must show.
fn keep_only(terminal: Option<i32>) -> sys::Result<()> {
    sys::close_range(0, 2)?;
    let mut last = CONTROL_FD;
    if let Some(terminal) = terminal {
        sys::duplicate(terminal, TERMINAL_FD)?;
        last = TERMINAL_FD;
    }
    sys::close_range(last + 1, u32::MAX)
}

/// What the first process knows of the program.
struct Program {
    id: i32,
    /// It has one.
    terminal: bool,
    /// It was told to stop.
    held: bool,
    /// It stopped for another reason.
    stopped: bool,
    /// How often it was told to continue.
    continued: u8,
}

impl Program {
    /// Tells of it, where somebody sits at a terminal and would wait for ever; not if it was told to.
    fn has_stopped(&mut self, signal: i32) {
        let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        if self.held || !self.terminal || !stops.contains(&signal) {
            return;
        }
        self.stopped = true;
        if let Ok(signal) = u8::try_from(signal) {
            // Where there is no room, the same was told often enough.
            let _ = sys::send_at_once(CONTROL_FD, &[STOPPED, signal, self.continued]);
        }
    }

    fn signal(&mut self, number: i32) {
        match number {
            libc::SIGSTOP => self.held = true,
            libc::SIGCONT => {
                self.held = false;
                self.continued = self.continued.wrapping_add(1);
                if std::mem::take(&mut self.stopped) {
                    // As a shell's `fg` does: it may have stopped because it was not in the foreground.
                    let _ = sys::give_terminal(TERMINAL_FD, self.id);
                }
            }
            _ => return sys::kill(self.id, number),
        }
        // What it started stops and goes on with it, as in a shell's job.
        sys::kill_group(self.id, number);
        // It may have left the group.
        sys::kill(self.id, number);
    }
}

/// Says how the program ended and ends likewise.
fn end(status: i32) -> ! {
    let [a, b, c, d] = status.to_le_bytes();
    // Without a listener there is nobody left to be told.
    let _ = sys::send(CONTROL_FD, &[ENDED, a, b, c, d]);
    sys::exit(if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    })
}
