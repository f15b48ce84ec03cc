//! What the modes of a terminal say: who has it, and what a pty beside it is told.

use std::os::fd::BorrowedFd;

use rustix::{
    io::Errno,
    process::getpgrp,
    termios::{
        InputModes, LocalModes, OutputModes, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp,
    },
};

/// Whether the terminal is for gig's job to read and to set. One that is not gig's controlling terminal
/// knows no jobs, nor does one of another pid namespace.
pub(super) fn in_foreground(terminal: BorrowedFd<'_>) -> bool {
    match tcgetpgrp(terminal) {
        Ok(foreground) => foreground == getpgrp(),
        Err(error) => matches!(error, Errno::NOTTY | Errno::OPNOTSUPP),
    }
}

/// The modes that the pty of the terminal `outer` begins with.
pub(super) fn inner_modes(outer: BorrowedFd<'_>, alone: bool) -> rustix::io::Result<Termios> {
    let mut modes = tcgetattr(outer)?;
    if !alone || !in_foreground(outer) {
        // Who else sits there may have changed them already: a pager, the shell that waits for a command.
        make_ordinary(&mut modes);
    }
    if !alone {
        leave_work(&mut modes);
    }
    Ok(modes)
}

/// The outer terminal edits lines, echoes, makes signals of keys and turns line feeds into CR LF itself.
pub(super) fn leave_work(modes: &mut Termios) {
    modes.local_modes.insert(LocalModes::EXTPROC);
    modes.output_modes.remove(OutputModes::OPOST);
}

/// Whether the pty does itself what the outer terminal does.
pub(super) fn takes_work(modes: &Termios) -> bool {
    !modes.local_modes.contains(LocalModes::EXTPROC)
        || modes.output_modes.contains(OutputModes::OPOST)
}

/// Lines are edited and shown by the terminal: nobody has asked for keys, or for a password.
pub(super) fn is_ordinary(modes: &Termios) -> bool {
    modes
        .local_modes
        .contains(LocalModes::ICANON | LocalModes::ECHO)
}

/// As a terminal is before anybody changes it.
fn make_ordinary(modes: &mut Termios) {
    if !is_ordinary(modes) {
        modes.local_modes |= ORDINARY;
        modes.input_modes |= InputModes::ICRNL;
    }
}

/// What a program's modes say of keys. Output stays as it is, and who may write in the background.
pub(super) fn copy_modes(from: &Termios, to: &mut Termios) {
    to.input_modes = from.input_modes;
    let kept = LocalModes::EXTPROC | LocalModes::TOSTOP | LocalModes::PENDIN;
    to.local_modes = (to.local_modes & kept) | (from.local_modes - kept);
    to.special_codes = from.special_codes.clone();
    // gig reads what is there, and nothing where nothing is.
    to.special_codes[SpecialCodeIndex::VMIN] = 1;
    to.special_codes[SpecialCodeIndex::VTIME] = 0;
}

/// Whether nobody has changed what is of interest.
pub(super) fn alike(one: &Termios, other: &Termios) -> bool {
    one.local_modes & ORDINARY == other.local_modes & ORDINARY
}

/// Modes of a terminal that nobody has changed.
const ORDINARY: LocalModes = LocalModes::ICANON
    .union(LocalModes::ECHO)
    .union(LocalModes::ISIG)
    .union(LocalModes::IEXTEN);
