//! System calls as functions that cannot be called wrongly.
//!
//! The process is single-threaded from start to end, so that every call acts
//! on all of it and a forked child may allocate.

use std::ffi::{CStr, CString};

mod privilege;
mod session;
mod signals;

pub use privilege::{become_id, drop_capabilities, drop_capability, mount};
pub use session::{give_terminal, new_group, new_session, take_terminal};
pub use signals::{
    child_signals, drain, heed, ignore, ignore_interruptions, kill, kill_group, reset_signals,
};

use libc::{c_int, c_long, c_ulong};

/// A reason by the kernel: `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// What a call gives.
pub type Result<T> = std::result::Result<T, Errno>;

/// Every call here passes plain integers, or pointers to memory that is
/// borrowed for the call; each `unsafe` block names what else matters.
fn check(returned: c_long) -> Result<c_long> {
    if returned < 0 {
        // SAFETY: the pointer is this thread's errno, always valid.
        return Err(Errno(unsafe { *libc::__errno_location() }));
    }
    Ok(returned)
}

fn done(returned: c_long) -> Result<()> {
    check(returned).map(|_| ())
}

/// The kernel's words for a reason.
pub fn words(errno: Errno) -> String {
    std::io::Error::from_raw_os_error(errno.0).to_string()
}

/// The arguments of the process, its own name first.
///
/// # Safety
/// `argv` must point to `argc` NUL-terminated strings, as the kernel passes them.
pub unsafe fn arguments(argc: c_int, argv: *const *const libc::c_char) -> Vec<CString> {
    let count = usize::try_from(argc).unwrap_or(0);
    (0..count)
        .map(|index| {
            // SAFETY: below the count, by the caller's promise.
            let arg = unsafe { *argv.add(index) };
            // SAFETY: NUL-terminated, by the caller's promise.
            unsafe { CStr::from_ptr(arg) }.to_owned()
        })
        .collect()
}

/// `prctl` with integer arguments.
pub fn prctl(option: c_int, a: c_ulong, b: c_ulong) -> Result<c_long> {
    // SAFETY: the options used here take integers only; unused ones are zero.
    check(unsafe { libc::syscall(libc::SYS_prctl, option, a, b, 0, 0) })
}

/// Forks: `None` in the child.
pub fn fork() -> Result<Option<c_int>> {
    // SAFETY: single-threaded, so the child may go on as any program.
    let pid = unsafe { libc::fork() };
    check(c_long::from(pid)).map(|_| (pid != 0).then_some(pid))
}

/// The process's own id.
pub fn own_id() -> c_int {
    // SAFETY: touches no memory and cannot fail.
    unsafe { libc::getpid() }
}

/// Ends the process at once.
pub fn exit(code: c_int) -> ! {
    // SAFETY: does not return and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Reads the whole file behind a descriptor, from its start.
pub fn read_all(fd: c_int) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut part = [0_u8; 16 * 1024];
    loop {
        let offset = i64::try_from(all.len()).map_err(|_| Errno(libc::EFBIG))?;
        // SAFETY: the buffer is valid for a write of its length.
        let count = unsafe { libc::pread(fd, part.as_mut_ptr().cast(), part.len(), offset) };
        let count = usize::try_from(check(count as c_long)?).map_err(|_| Errno(libc::EIO))?;
        match part.get(..count) {
            Some([]) | None => return Ok(all),
            Some(read) => all.extend_from_slice(read),
        }
    }
}

/// Reads a file of `/proc`, whole.
pub fn read_file(path: &CStr) -> Result<Vec<u8>> {
    let fd = open(path, libc::O_RDONLY)?;
    let mut all = Vec::new();
    let mut part = [0_u8; 4096];
    let outcome = loop {
        // SAFETY: the buffer is valid for a write of its length.
        let count = unsafe { libc::read(fd, part.as_mut_ptr().cast(), part.len()) };
        match check(count as c_long).map(|count| part.get(..usize::try_from(count).unwrap_or(0))) {
            Err(errno) => break Err(errno),
            Ok(Some([]) | None) => break Ok(all),
            Ok(Some(read)) => all.extend_from_slice(read),
        }
    };
    close(fd);
    outcome
}

/// Writes to a file of `/proc`, in one go.
pub fn write_file(path: &CStr, text: &[u8]) -> Result<()> {
    let fd = open(path, libc::O_WRONLY)?;
    // SAFETY: the buffer is valid for a read of its length.
    let written = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
    let outcome = done(written as c_long);
    close(fd);
    outcome
}

/// Opens a path; the descriptor closes on exec.
pub fn open(path: &CStr, flags: c_int) -> Result<c_int> {
    // SAFETY: the path is NUL-terminated; no mode is read without O_CREAT.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    check(c_long::from(fd)).map(|_| fd)
}

/// Closes a descriptor.
pub fn close(fd: c_int) {
    // SAFETY: touches no memory; the process names its descriptors by number.
    unsafe { libc::close(fd) };
}

/// Closes every descriptor from `first` to `last`.
pub fn close_range(first: c_int, last: u32) -> Result<()> {
    // SAFETY: touches no memory; the process names its descriptors by number.
    done(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })
}

/// Marks every descriptor from `first` on to be closed on exec.
pub fn close_on_exec_from(first: c_int) -> Result<()> {
    // SAFETY: touches no memory.
    done(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    })
}

/// Makes `to` a copy of `from` that survives exec.
pub fn duplicate(from: c_int, to: c_int) -> Result<()> {
    // SAFETY: touches no memory; the process names its descriptors by number.
    done(c_long::from(unsafe { libc::dup2(from, to) }))
}

/// Sends one message whole; a lost peer is no signal.
pub fn send(socket: c_int, message: &[u8]) -> Result<()> {
    send_as(socket, message, 0)
}

/// The same, if there is room for it: who does not listen is not waited for.
pub fn send_at_once(socket: c_int, message: &[u8]) -> Result<()> {
    send_as(socket, message, libc::MSG_DONTWAIT)
}

fn send_as(socket: c_int, message: &[u8], flags: c_int) -> Result<()> {
    // SAFETY: the buffer is valid for a read of its length.
    let sent = unsafe {
        libc::send(
            socket,
            message.as_ptr().cast(),
            message.len(),
            flags | libc::MSG_NOSIGNAL,
        )
    };
    done(sent as c_long)
}

/// Receives one message; empty when the peer is gone.
pub fn receive(socket: c_int) -> Result<Vec<u8>> {
    let mut message = [0_u8; 64];
    loop {
        // SAFETY: the buffer is valid for a write of its length.
        let count = unsafe { libc::recv(socket, message.as_mut_ptr().cast(), message.len(), 0) };
        match check(count as c_long) {
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => return Err(errno),
            Ok(count) => {
                let count = usize::try_from(count).unwrap_or(0);
                return Ok(message.get(..count).unwrap_or(&[]).to_vec());
            }
        }
    }
}

/// Waits until one of two descriptors is readable or hung up.
///
/// Not by poll(2), which refuses more descriptors than `RLIMIT_NOFILE` allows: the program, which has this process's
/// ids, may take that down to none.
pub fn wait_for(first: c_int, second: c_int) -> Result<(bool, bool)> {
    let both = [first, second];
    if !both.iter().all(|fd| (0..SELECTABLE).contains(fd)) {
        return Err(Errno(libc::EBADF));
    }
    loop {
        // SAFETY: a set of descriptors is an array of integers, and zeros are the empty one.
        let mut set: libc::fd_set = unsafe { core::mem::zeroed() };
        for fd in both {
            // SAFETY: the set is valid for writes, and the number is within it.
            unsafe { libc::FD_SET(fd, &raw mut set) };
        }
        // SAFETY: the set is valid for reads and writes; the null pointers stand for nothing to wait for beside it.
        let ready = unsafe {
            libc::pselect(
                first.max(second) + 1,
                &raw mut set,
                core::ptr::null_mut(),
                core::ptr::null_mut(),
                core::ptr::null(),
                core::ptr::null(),
            )
        };
        match check(c_long::from(ready)) {
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => return Err(errno),
            Ok(_) => {
                // SAFETY: the set is valid for reads, and the numbers are within it.
                return Ok(unsafe {
                    (
                        libc::FD_ISSET(first, &raw const set),
                        libc::FD_ISSET(second, &raw const set),
                    )
                });
            }
        }
    }
}

/// What fits a set of descriptors.
const SELECTABLE: c_int = 1024;

/// A child that has ended, or stopped, and its wait status.
pub fn reap() -> Option<(c_int, c_int)> {
    let mut status = 0;
    // SAFETY: the pointer is valid for a write of one integer.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    (pid > 0).then_some((pid, status))
}

/// Changes directory.
pub fn change_directory(path: &CStr) -> Result<()> {
    // SAFETY: the path is NUL-terminated.
    done(c_long::from(unsafe { libc::chdir(path.as_ptr()) }))
}

/// Device and inode of what stands at a path.
pub fn identity(path: &CStr) -> Result<(u64, u64)> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path is NUL-terminated, the pointer valid for a write of one stat.
    done(c_long::from(unsafe { libc::stat(path.as_ptr(), stat.as_mut_ptr()) }))?;
    // SAFETY: stat has filled it.
    let stat = unsafe { stat.assume_init() };
    Ok((stat.st_dev, stat.st_ino))
}

/// Gives a path to an id.
pub fn give(path: &CStr, id: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated.
    done(c_long::from(unsafe { libc::lchown(path.as_ptr(), id, id) }))
}

/// Sets a limit, soft and hard, no higher than the hard one that is there.
pub fn limit(resource: u32, value: u64) -> Result<()> {
    let mut now = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is valid for a write of one limit; null asks for no change.
    done(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            resource,
            std::ptr::null::<libc::rlimit64>(),
            &raw mut now,
        )
    })?;
    let value = value.min(now.rlim_max);
    let new = libc::rlimit64 {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: the pointer is valid for a read of one limit.
    done(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            resource,
            &raw const new,
            std::ptr::null_mut::<libc::rlimit64>(),
        )
    })
}

/// Loads a filter of 8-byte instructions.
pub fn load_filter(instructions: &[u8]) -> Result<()> {
    if instructions.is_empty() || instructions.len() % 8 != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let count = u16::try_from(instructions.len() / 8).map_err(|_| Errno(libc::E2BIG))?;
    let program = libc::sock_fprog {
        len: count,
        filter: instructions.as_ptr().cast_mut().cast(),
    };
    const SET_MODE_FILTER: c_long = 1;
    // SAFETY: the program points to `count` instructions; the kernel copies
    // them byte by byte, so their alignment does not matter.
    done(unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, 0, &raw const program) })
}

/// Confines the process by Landlock: `fs` rights are refused everywhere but
/// for `allowed`, which is granted below the root directory.
pub fn landlock(fs: u64, scoped: u64, allowed: u64) -> Result<()> {
    #[repr(C)]
    struct Ruleset {
        fs: u64,
        net: u64,
        scoped: u64,
    }
    #[repr(C, packed)]
    struct PathBeneath {
        allowed: u64,
        parent: c_int,
    }
    const CREATE_RULESET: c_long = 444;
    const ADD_RULE: c_long = 445;
    const RESTRICT_SELF: c_long = 446;
    const PATH_BENEATH: c_int = 1;
    let attributes = Ruleset { fs, net: 0, scoped };
    // The last word exists since ABI 6; an older kernel is given two.
    let size = if scoped == 0 {
        16
    } else {
        size_of::<Ruleset>()
    };
    // SAFETY: the pointer is valid for a read of `size` bytes.
    let ruleset = check(unsafe { libc::syscall(CREATE_RULESET, &raw const attributes, size, 0) })?;
    if allowed & fs != 0 {
        let parent = open(c"/", libc::O_PATH | libc::O_DIRECTORY)?;
        let rule = PathBeneath {
            allowed: allowed & fs,
            parent,
        };
        // SAFETY: the pointer is valid for a read of one rule of this kind.
        done(unsafe { libc::syscall(ADD_RULE, ruleset, PATH_BENEATH, &raw const rule, 0) })?;
        close(parent);
    }
    // SAFETY: touches no memory.
    let outcome = done(unsafe { libc::syscall(RESTRICT_SELF, ruleset, 0) });
    close(c_int::try_from(ruleset).unwrap_or(-1));
    outcome
}

/// A user namespace of its own.
pub fn new_user_namespace() -> Result<()> {
    // SAFETY: touches no memory; the process is single-threaded.
    done(c_long::from(unsafe { libc::unshare(libc::CLONE_NEWUSER) }))
}

/// Writes a few bytes.
pub fn write(fd: c_int, bytes: &[u8]) -> Result<()> {
    // SAFETY: the buffer is valid for a read of its length.
    done(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) } as c_long)
}

/// Reads and forgets; says how much.
pub fn read_some(fd: c_int) -> Result<c_long> {
    let mut buffer = [0_u8; 64];
    // SAFETY: the buffer is valid for a write of its length.
    check(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) } as c_long)
}

/// Removes an empty directory; a control group counts as one when nothing runs in it.
pub fn remove_directory(path: &CStr) -> Result<()> {
    // SAFETY: the path is NUL-terminated.
    done(c_long::from(unsafe { libc::rmdir(path.as_ptr()) }))
}

/// Waits.
pub fn pause(microseconds: u32) {
    // SAFETY: touches no memory.
    unsafe { libc::usleep(microseconds) };
}

/// Sets the mask of permissions for new files.
pub fn file_mask(mask: u32) {
    // SAFETY: touches no memory and cannot fail.
    unsafe { libc::umask(mask) };
}

/// Whether a path is a regular file that this process may execute.
pub fn executable(fd: c_int) -> Result<()> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is valid for a write of one stat.
    done(c_long::from(unsafe { libc::fstat(fd, stat.as_mut_ptr()) }))?;
    // SAFETY: fstat has filled it.
    let mode = unsafe { stat.assume_init() }.st_mode;
    if mode & libc::S_IFMT == libc::S_IFDIR {
        return Err(Errno(libc::EISDIR));
    }
    if mode & libc::S_IFMT != libc::S_IFREG || mode & 0o111 == 0 {
        return Err(Errno(libc::EACCES));
    }
    Ok(())
}

/// Replaces the program by the one behind a descriptor. Returns only a failure.
pub fn execute_fd(fd: c_int, args: &[CString], env: &[CString]) -> Errno {
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: the path is an empty string; both arrays hold pointers to
    // NUL-terminated strings that outlive the call, and end with null.
    let outcome = done(unsafe {
        libc::syscall(
            libc::SYS_execveat,
            fd,
            c"".as_ptr(),
            args.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    });
    outcome.err().unwrap_or(Errno(libc::EIO))
}

/// Replaces the program by the one at a path. Returns only a failure.
pub fn execute_path(path: &CStr, args: &[CString], env: &[CString]) -> Errno {
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: the path is NUL-terminated; both arrays hold pointers to
    // NUL-terminated strings that outlive the call, and end with null.
    let outcome = done(c_long::from(unsafe {
        libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr())
    }));
    outcome.err().unwrap_or(Errno(libc::EIO))
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}
