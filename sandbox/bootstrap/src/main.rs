//! The first program of a sandbox.
//!
//! It starts as process 1 of the sandbox, with the few capabilities that its
//! work needs, and splits in two: the *program's process*, which gives
//! everything up step by step and becomes the program, and the *first
//! process*, which gives up the same, reaps, passes signals on and ends the
//! sandbox when its socket closes. Promises that the program starts only after
//! the go, only with everything given up, and never with a descriptor beyond
//! its standard streams; whatever cannot be done is said in words over the
//! socket and ends the sandbox. It has no file in the sandbox.
#![no_main]

mod confine;
mod errands;
mod first;
mod masks;
mod network;
mod orders;
mod program;
mod sys;
mod terminal;

use std::ffi::CStr;

use orders::{CONTROL_FD, ORDERS_FD, Orders};

/// Exit code for anything that kept the program from starting, as `gig run` has it.
const CANNOT_START: i32 = 125;

/// Entry from the C library's start code. There is no Rust runtime: it would
/// ignore SIGPIPE, which the program would inherit.
#[unsafe(no_mangle)]
pub extern "C" fn main(argc: libc::c_int, argv: *const *const libc::c_char) -> libc::c_int {
    sys::reset_signals();
    // SAFETY: the start code passes the kernel's argument vector.
    let args = unsafe { sys::arguments(argc, argv) };
    match args.get(1).map(|arg| arg.as_bytes()) {
        Some(errands::HOLD) => errands::hold(),
        Some(errands::SWEEP) => errands::sweep(args.get(2..).unwrap_or_default()),
        _ => become_first(),
    }
}

/// Splits in two and never returns.
fn become_first() -> ! {
    // While this process's files in /proc are its own.
    offer_to_the_oom_killer();
    // Neither memory nor descriptors of this process are the program's to see.
    if sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).is_err() {
        sys::exit(CANNOT_START);
    }
    let Some(orders) = sys::read_all(ORDERS_FD)
        .ok()
        .and_then(|bytes| Orders::decode(&bytes))
    else {
        sys::exit(CANNOT_START);
    };
    sys::close(ORDERS_FD);
    // Before the program's process is there that could say why it failed: a
    // sandbox whose masks are missing ends without a word but never starts.
    if masks::cover(&orders.masks).is_err() {
        sys::exit(CANNOT_START);
    }
    // One that cannot be had is for the program's process to tell, which has words.
    let terminal = orders.controlling_terminal.then(terminal::lead);
    match sys::fork() {
        Ok(None) => {
            sys::close(CONTROL_FD);
            program::run(&orders, terminal)
        }
        Ok(Some(pid)) => first::run(&orders, pid, terminal.and_then(Result::ok)),
        Err(_) => sys::exit(CANNOT_START),
    }
}

/// Where memory ends, what is in sandboxes goes before gig and the rest of the host: what they keep in their
/// private directories is memory of no process. No wall, and no reason not to start.
fn offer_to_the_oom_killer() {
    const SCORE: &CStr = c"/proc/self/oom_score_adj";
    let now = sys::read_file(SCORE).ok().and_then(|text| {
        let text = String::from_utf8(text).ok()?;
        text.trim().parse::<i32>().ok()
    });
    // Who started gig may have offered it before.
    if now.is_some_and(|now| now < OFFERED) {
        let _: sys::Result<()> = sys::write_file(SCORE, OFFERED.to_string().as_bytes());
    }
}

/// Half of what there is, as if a sandbox had half of the machine's memory more than it has.
const OFFERED: i32 = 500;
