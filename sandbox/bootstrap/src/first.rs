//! The first process of the sandbox: what the kernel calls init.
//!
//! It holds one descriptor, the control socket. When that closes, for whatever
//! reason, it ends, and the kernel kills everything in the sandbox with it.

use crate::orders::{CONTROL_FD, ENDED, HELLO, Orders, SIGNAL};
use crate::{CANNOT_START, confine, sys};

/// Ends when the program ends, or when nobody holds the other end any more.
pub fn run(orders: &Orders, program: i32) -> ! {
    // Standard streams belong to the program alone: a closed one must show.
    let ready = sys::close_range(0, 2)
        .and_then(|()| sys::close_range(CONTROL_FD + 1, u32::MAX))
        .is_ok()
        && confine::privileges(orders).is_ok()
        && sys::send(CONTROL_FD, &[HELLO]).is_ok();
    let Some(signals) = ready.then(sys::child_signals).and_then(Result::ok) else {
        sys::exit(CANNOT_START);
    };
    if confine::filters(orders).is_err() {
        sys::exit(CANNOT_START);
    }
    loop {
        let Ok((told, child)) = sys::wait_for(CONTROL_FD, signals) else {
            sys::exit(CANNOT_START);
        };
        if child {
            sys::drain(signals);
            while let Some((pid, status)) = sys::reap() {
                if pid == program {
                    end(status);
                }
            }
        }
        if told {
            match sys::receive(CONTROL_FD).as_deref() {
                Ok([SIGNAL, number]) => sys::kill(program, i32::from(*number)),
                _ => sys::exit(128 + libc::SIGKILL),
            }
        }
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
