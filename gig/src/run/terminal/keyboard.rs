//! The person's terminal, as what is typed at: whose modes it has, and whose keys they are.
//!
//! Alone at it, gig takes every key and gives them to the pty. Beside others (a pager behind a pipe, a
//! shell that reads what the program prints) it does what the program would do there:
//!
//! - as long as the program leaves its terminal as it found it, the person's is not touched. A line is
//!   taken for the program only where its standard input is the terminal, or where one inside waits for it at
//!   `/dev/tty`, only while nobody has changed the terminal's modes, and only if nobody else who waits for it took
//!   it first;
//! - what the program changes of its own modes (a password, an editor, a menu) is changed outside, and
//!   then each key is the program's, until it puts them back. The pty is told to leave the work to the
//!   outer terminal (EXTPROC), and tells of each change (TIOCPKT).
//!
//! In the background gig neither reads nor changes anything, so that nothing stops it there; what it
//! changed is put back by whoever changed it, and by nobody else.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use gig_netns::Readers;
use gig_sandbox::MODES_CHANGED;
use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    io::{Errno, read},
    termios::{
        LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
        tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize,
    },
};

use super::{
    super::copy,
    modes::{alike, copy_modes, in_foreground, is_ordinary, leave_work, takes_work},
};

/// One person's terminal and the pty that stands for it inside.
#[derive(Debug)]
pub(super) struct Keyboard {
    keys: OwnedFd,
    controller: Arc<OwnedFd>,
    alone: bool,
    /// Lines are for the program: its standard input is the terminal.
    takes_lines: bool,
    /// A read that another was faster for does not wait.
    is_own: bool,
    /// Who knows who waits for lines where standard input is something else, and at which terminal.
    readers: OnceLock<(Readers, u64)>,
    /// The program wrote what a terminal may answer.
    questions: AtomicBool,
    /// Held from when something is taken of what the program wrote until that is shown.
    showing: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    away: Option<Until>,
    held: Option<Held>,
    /// What was held when gig was stopped or went to the background.
    left: Option<Held>,
}

/// How long the terminal is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// While gig is stopped.
    Resumed,
    /// The run is over.
    Ever,
}

/// What the terminal was set to, and what it was before.
#[derive(Debug)]
struct Held {
    before: Termios,
    set: Termios,
}

/// What to do with what is typed.
enum Turn {
    Read(Vec<u8>),
    /// It is not for the program, or not yet.
    Leave(Duration),
    /// Nothing is typed there any more.
    Gone,
}

impl Keyboard {
    /// Of the terminal at `keys`, which is not touched yet.
    pub(super) fn new(
        keys: BorrowedFd<'_>,
        controller: Arc<OwnedFd>,
        alone: bool,
        takes_lines: bool,
    ) -> anyhow::Result<Self> {
        let (keys, is_own) = open_again(keys)?;
        Ok(Self {
            keys,
            controller,
            alone,
            takes_lines: takes_lines && (alone || is_own),
            is_own,
            readers: OnceLock::new(),
            questions: AtomicBool::new(false),
            showing: Mutex::new(()),
            state: Mutex::new(State {
                // Until the program runs.
                away: Some(Until::Resumed),
                held: None,
                left: None,
            }),
        })
    }

    /// Lines are for those, too, who wait at `terminal`, the near end, as `readers` knows.
    pub(super) fn ask(&self, readers: Readers, terminal: u64) {
        // A terminal is of one sandbox.
        let _first = self.readers.set((readers, terminal));
    }

    /// Whether nobody else sits there.
    pub(super) const fn is_alone(&self) -> bool {
        self.alone
    }

    /// From here on keys are the program's, as far as they are.
    ///
    /// # Errors
    /// When the terminal's settings cannot be changed.
    pub(super) fn take(&self) -> anyhow::Result<()> {
        let mut state = self.state.lock();
        if state.away == Some(Until::Ever) {
            return Ok(());
        }
        state.away = None;
        // Stopped and continued without a word: a shell has set its own modes meanwhile.
        state.left = state.held.take().or_else(|| state.left.take());
        self.settle(&mut state).context("cannot set the terminal")
    }

    /// Puts back what was changed.
    pub(super) fn give_back(&self, until: Until) {
        let mut state = self.state.lock();
        let running = state.away.is_none();
        state.away = Some(until);
        let held = state.held.take();
        if !running || !self.in_foreground() {
            return;
        }
        let now = tcgetattr(&self.keys);
        if let (Some(held), Ok(now)) = (&held, &now)
            && !self.alone
            && !alike(now, &held.set)
        {
            // Somebody else has it by now.
            return;
        }
        // A program can have the terminal answer questions (where the cursor is, what the title says). What is
        // answered after its end, or while it is stopped, is not for the shell to read as if it were typed. A
        // terminal that hung up needs no restoring.
        match held {
            Some(held) => tcsetattr(&self.keys, OptionalActions::Flush, &held.before).ok(),
            None if self.questions.load(Ordering::Relaxed)
                && now.is_ok_and(|now| is_ordinary(&now)) =>
            {
                tcflush(&self.keys, QueueSelector::IFlush).ok()
            }
            None => None,
        };
    }

    /// Shows on `to` what the program writes, until its last process is gone.
    pub(super) fn show(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
        let mut gone = false;
        let mut buffer = [0_u8; copy::COPY_BUFFER];
        copy::each_within(from, &mut buffer, &self.showing, |octets| {
            let written = match octets {
                _ if self.alone => octets,
                [0, written @ ..] => written,
                [what, ..] => {
                    if what & MODES_CHANGED != 0 {
                        self.follow();
                    }
                    return ControlFlow::Continue(());
                }
                [] => return ControlFlow::Continue(()),
            };
            if written.iter().any(|octet| QUESTIONS.contains(octet)) {
                self.questions.store(true, Ordering::Relaxed);
            }
            // A person's terminal that is gone takes no more; the program must not wait for it.
            gone = gone || copy::write_all(to, written).is_err();
            ControlFlow::Continue(())
        });
    }

    /// Waits until what the program has written is shown. Not for ever: others inside may go on writing, and a person's
    /// terminal can be held (Ctrl-S).
    pub(super) fn catch_up(&self) {
        for _ in 0..CATCH_UPS {
            if let Some(_showing) = self.showing.try_lock_for(CATCH_UP)
                && !matches!(
                    is_readable(self.controller.as_fd(), Some(Duration::ZERO)),
                    Ok(true)
                )
            {
                return;
            }
            std::thread::sleep(CATCH_UP);
        }
    }

    /// Gives the program what is typed, until nothing is any more.
    pub(super) fn pass_on(&self) {
        loop {
            // Also while gig has it: it may be given back meanwhile, and a line that is begun wakes nobody.
            let wait = match self.state.lock().held.is_none() {
                true => AWAY,
                false => HELD,
            };
            let Ok(typed) = self.is_typed_at(self.alone.then_some(wait)) else {
                return;
            };
            let turn = match self.is_to_be_had() {
                false => Turn::Leave(AWAY),
                true if typed => self.turn(),
                true => continue,
            };
            match turn {
                Turn::Read(octets) => {
                    // Not under the lock: it lasts until the program reads.
                    if copy::write_all(self.controller.as_fd(), &octets).is_err() {
                        return;
                    }
                }
                // Nothing tells of a terminal that is another's, or of a job that is brought to the front.
                Turn::Leave(time) => std::thread::sleep(time),
                Turn::Gone => return,
            }
        }
    }

    /// Something is typed: whose is it?
    fn turn(&self) -> Turn {
        if self.state.lock().held.is_none() {
            if !self.is_ordinary() || !(self.takes_lines || self.is_waited_at()) {
                return Turn::Leave(ANOTHERS);
            }
            // Who waits for it has it by now.
            std::thread::sleep(FIRST_REFUSAL);
            if !matches!(self.is_typed_at(Some(Duration::ZERO)), Ok(true)) {
                return Turn::Leave(Duration::ZERO);
            }
        }
        let state = self.state.lock();
        let Ok(now) = tcgetattr(&self.keys) else {
            return Turn::Gone;
        };
        let theirs = match &state.held {
            Some(held) => !self.alone && !alike(&now, &held.set),
            None => !is_ordinary(&now),
        };
        if state.away.is_some() || theirs || !self.in_foreground() {
            return Turn::Leave(AWAY);
        }
        let mut buffer = vec![0_u8; copy::COPY_BUFFER];
        match read(&self.keys, &mut buffer) {
            // The end of input, typed: a character like any other to the pty.
            Ok(0) if now.local_modes.contains(LocalModes::ICANON) => {
                Turn::Read(vec![self.end_of_input()])
            }
            Ok(0) => Turn::Leave(AWAY),
            Ok(n) => {
                buffer.truncate(n);
                Turn::Read(buffer)
            }
            Err(Errno::INTR | Errno::AGAIN) => Turn::Leave(Duration::ZERO),
            Err(_) => Turn::Gone,
        }
    }

    /// Whether gig may read; takes the terminal if it was not to be had before.
    fn is_to_be_had(&self) -> bool {
        let mut state = self.state.lock();
        if state.away.is_some() {
            return false;
        }
        if !self.in_foreground() {
            // Whoever put gig in the background has set the terminal for itself.
            state.left = state.held.take().or_else(|| state.left.take());
            return false;
        }
        if let Some(held) = &state.held {
            let now = tcgetattr(&self.keys);
            if !self.alone || now.is_ok_and(|now| alike(&now, &held.set)) {
                return true;
            }
            // A shell was slower than gig to set its own.
            state.left = state.held.take();
        }
        let settled = self.settle(&mut state).is_ok();
        if state.held.is_some()
            && let Ok(size) = tcgetwinsize(&self.keys)
        {
            // Nothing tells a job in the background of its window.
            tcsetwinsize(&self.controller, size).ok();
        }
        settled
    }

    /// The program changed the modes of its terminal.
    fn follow(&self) {
        if tcgetattr(&self.controller).is_ok_and(|modes| takes_work(&modes)) {
            // By who sets all modes; stty(1) then looks whether they are as it set them.
            std::thread::sleep(LOOK);
            if let Ok(mut modes) = tcgetattr(&self.controller) {
                leave_work(&mut modes);
                tcsetattr(&self.controller, OptionalActions::Now, &modes).ok();
            }
        }
        let mut state = self.state.lock();
        // In the background it is tried again in the foreground, and a terminal that hung up has no modes.
        if state.away.is_none() && self.in_foreground() {
            self.settle(&mut state).ok();
        }
    }

    /// Gives the terminal the modes that it should have now.
    fn settle(&self, state: &mut State) -> rustix::io::Result<()> {
        if !self.in_foreground() {
            return Ok(());
        }
        let now = tcgetattr(&self.keys)?;
        // A shell may bring back with a job the modes that it had.
        let left = state.left.take_if(|left| alike(&now, &left.set));
        let held = state.held.as_ref().or(left.as_ref());
        let before = held.map_or(&now, |held| &held.before);
        let mut set = before.clone();
        if self.alone {
            set.make_raw();
        } else {
            let inner = tcgetattr(&self.controller)?;
            let theirs = match held {
                Some(held) => !alike(&now, &held.set),
                None => !is_ordinary(&now),
            };
            if theirs {
                return Ok(());
            }
            if is_ordinary(&inner) {
                if held.is_some() {
                    tcsetattr(&self.keys, OptionalActions::Now, before)?;
                    state.held = None;
                }
                return Ok(());
            }
            copy_modes(&inner, &mut set);
        }
        let before = before.clone();
        tcsetattr(&self.keys, OptionalActions::Now, &set)?;
        state.held = Some(Held { before, set });
        Ok(())
    }

    /// Whether one inside waits for a line.
    fn is_waited_at(&self) -> bool {
        let waits = |(readers, terminal): &(Readers, u64)| readers.wait_at(*terminal);
        self.is_own && self.readers.get().is_some_and(waits)
    }

    fn is_ordinary(&self) -> bool {
        tcgetattr(&self.keys).is_ok_and(|modes| is_ordinary(&modes))
    }

    fn end_of_input(&self) -> u8 {
        let modes = tcgetattr(&self.controller);
        modes.map_or(END_OF_INPUT, |modes| {
            modes.special_codes[SpecialCodeIndex::VEOF]
        })
    }

    fn in_foreground(&self) -> bool {
        in_foreground(self.keys.as_fd())
    }

    /// Waits for something typed.
    fn is_typed_at(&self, patience: Option<Duration>) -> rustix::io::Result<bool> {
        is_readable(self.keys.as_fd(), patience)
    }
}

/// Waits for something to read.
fn is_readable(at: BorrowedFd<'_>, patience: Option<Duration>) -> rustix::io::Result<bool> {
    let patience = patience.map(|time| Timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    });
    let mut wait = [PollFd::new(&at, PollFlags::IN)];
    match poll(&mut wait, patience.as_ref()) {
        Err(Errno::INTR) => return Ok(false),
        outcome => outcome?,
    };
    let [readable] = &wait;
    let events = readable.revents();
    if events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(Errno::IO);
    }
    Ok(events.contains(PollFlags::IN))
}

/// The same terminal, opened once more, where it can be: a read that another reader was faster for must not wait, and
/// to say so on an open file that others share would be theirs too.
fn open_again(keys: BorrowedFd<'_>) -> anyhow::Result<(OwnedFd, bool)> {
    use std::os::fd::AsRawFd as _;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |path: &str| rustix::fs::open(path, flags, Mode::empty());
    let own = match tcgetpgrp(keys) {
        // gig's controlling terminal, whoever owns its file.
        Ok(_) => open("/dev/tty"),
        Err(_) => open(&format!("/proc/self/fd/{}", keys.as_raw_fd())),
    };
    match own {
        Ok(own) => Ok((own, true)),
        Err(_) => Ok((keys.try_clone_to_owned()?, false)),
    }
}

/// How soon gig notices that it was brought to the foreground: nothing tells a job that runs.
const AWAY: Duration = Duration::from_millis(200);
/// The same where it was in the foreground when that was looked at last.
const HELD: Duration = Duration::from_secs(1);
/// How soon it is seen that another reader has put the modes back and left something unread.
const ANOTHERS: Duration = Duration::from_millis(100);
/// Longer than it takes who already waits in read(2) to have what was typed, too short to be noticed.
const FIRST_REFUSAL: Duration = Duration::from_millis(30);
/// How often, and how long each time, what is written last is waited for: a fifth of a second and more in all.
const CATCH_UPS: u32 = 100;
const CATCH_UP: Duration = Duration::from_millis(2);
/// Between two calls of one program.
const LOOK: Duration = Duration::from_millis(5);
/// Ctrl-D.
const END_OF_INPUT: u8 = 4;
/// ENQ, ESC and CSI begin all that a terminal answers (ECMA-48, xterm's ctlseqs).
const QUESTIONS: [u8; 3] = [0x05, 0x1b, 0x9b];

#[cfg(test)]
mod tests;
