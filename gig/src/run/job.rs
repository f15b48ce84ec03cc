//! gig as a job of a shell: a program that stops at its terminal takes gig along, as if it sat there without it.

use std::{fs, time::Duration};

use gig_sandbox::{Running, wake_after};
use rustix::process::{Signal, kill_current_process_group};

use super::{
    signals::{self, Received, Signals},
    terminal::Terminal,
};

/// The program was stopped. Whoever belongs to gig's job stops with it, gig last ([`Received::Stop`]), and whoever
/// waits for the job has the terminal. Where nobody would bring it back, or gig was started to ignore such a stop, the
/// program goes on, as the kernel has it for any program; one that was stopped outright stays so, as any does.
pub(super) fn stop_with(running: &mut Running, signals: &Signals, by: Signal) {
    if signals.heeds_stops() && !is_orphaned() {
        // A process may always signal its own group.
        kill_current_process_group(Signal::TSTP).ok();
    } else if by != Signal::STOP {
        running.signal(Signal::CONT);
    }
}

/// Does with a signal what it is for. A stop lasts no longer than what is `left` of the time that the run may take:
/// what else runs inside must not have more of it for that.
pub(super) fn obey(
    received: Received,
    running: &mut Running,
    (terminal, left): (Option<&mut Terminal>, Option<Duration>),
) {
    match (received, terminal) {
        (Received::Window, Some(terminal)) => terminal.copy_window_size(),
        (Received::Window, None) | (Received::Nothing, _) => {}
        (Received::Forward(signal), terminal) => {
            if let Some(terminal) = terminal {
                if signal == Signal::CONT {
                    // Stopped by a signal that nobody hears of.
                    terminal.resume();
                } else if terminal.interrupt(signal) {
                    return;
                }
            }
            running.signal(signal);
        }
        (Received::RealTime(number), _) => running.signal_real_time(number),
        // It would sleep through its end.
        (Received::Stop, _) if left.is_some_and(|left| left.is_zero()) => {}
        (Received::Stop, mut terminal) => {
            // A program may ignore the polite SIGTSTP, as a shell does, and the kernel does so for one without a
            // terminal (POSIX: an orphaned process group): it would run on while its way out stands still.
            running.signal(Signal::STOP);
            if let Some(terminal) = &mut terminal {
                terminal.suspend();
            }
            let waking = left.map(wake_after).transpose();
            signals::stop_self();
            if let Err(error) = waking {
                tracing::warn!(%error, "a stopped run could not be ended in time");
            }
            if let Some(terminal) = &mut terminal {
                terminal.resume();
            }
        }
    }
}

/// Whether no parent of gig's process group is outside of it and in its session: no shell that would continue it
/// (POSIX.1-2024, 3.254). Who cannot be seen is nobody.
fn is_orphaned() -> bool {
    let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some(own) = Process::read(&own) else {
        return true;
    };
    // Led by one outside of this pid namespace, as its shell is.
    if own.session == 0 {
        return false;
    }
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<Process> = all
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit)
        })
        .filter_map(|entry| Process::read(&fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect();
    orphaned(&own, &all)
}

fn orphaned(own: &Process, all: &[Process]) -> bool {
    let is_parent = |one: &Process| {
        let child =
            |other: &Process| other.parent == one.id && other.group == own.group && !other.ended;
        one.session == own.session && one.group != own.group && all.iter().any(child)
    };
    !all.iter().any(is_parent)
}

/// What is of interest of a line of proc_pid_stat(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    id: i32,
    ended: bool,
    parent: i32,
    group: i32,
    session: i32,
}

impl Process {
    fn read(line: &str) -> Option<Self> {
        // The name, in parentheses, may be anything.
        let (before, after) = (line.split_once(" (")?.0, line.rsplit_once(") ")?.1);
        let mut fields = after.split_ascii_whitespace();
        Some(Self {
            id: before.parse().ok()?,
            ended: matches!(fields.next()?, "Z" | "X"),
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            session: fields.next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(line: &str) -> Process {
        Process::read(line).unwrap()
    }

    #[test]
    fn a_group_without_a_parent_in_its_session_is_orphaned() {
        let shell = process("10 (bash) S 1 10 10 34816 20 4194304 1");
        let script = process("20 (a ) Z (b) S 10 20 10 34816 20 4194304 1");
        let gig = process("21 (gig) S 20 20 10 34816 20 4194304 1");
        let init = process("1 (init) S 0 1 1 0 -1 4194560 1");
        // Its parent is in its own group, that one's is the shell.
        assert!(!orphaned(&gig, &[init, shell, script, gig]));
        // Also if gig's own parent is gone, as long as another of the group has one.
        let alone = Process { parent: 1, ..gig };
        assert!(!orphaned(&alone, &[init, shell, script, alone]));
        let ended = Process {
            ended: true,
            ..script
        };
        assert!(orphaned(&alone, &[init, shell, ended, alone]));
        // A terminal's only program, and one whose parent is in another session.
        let leader = Process {
            group: 21,
            session: 21,
            ..gig
        };
        assert!(orphaned(&leader, &[init, shell, script, leader]));
        assert!(Process::read("21 (gig").is_none());
    }
}
