//! The process that becomes the program.

use std::ffi::CString;

use crate::orders::{FAILED, GO, HELLO, Orders, PROGRAM_FD, PROGRAM_ID, STDIO_FD};
use crate::sys::{self, Errno};
use crate::{CANNOT_START, confine, network, terminal};

/// Exit code of a program that is there but cannot be executed.
const NOT_EXECUTABLE: i32 = 126;
/// Exit code of a program that is not there.
const NOT_FOUND: i32 = 127;

/// Exit code and words.
type Failure = (i32, String);

/// The program, found and opened.
struct Found {
    path: CString,
    fd: i32,
    /// What runs it, where it is a script, as its first line has it.
    interpreter: Option<Vec<u8>>,
}

/// The terminal that the first process has the session of, if there is to be one.
type Terminal = Option<sys::Result<i32>>;

/// Becomes the program, or says why not and ends.
pub fn run(orders: &Orders, terminal: Terminal) -> ! {
    let (code, words) = match become_program(orders, terminal) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    let mut message = vec![FAILED, u8::try_from(code).unwrap_or(u8::MAX)];
    message.extend_from_slice(words.as_bytes());
    // If nobody listens the exit code still says it.
    let _ = sys::send(PROGRAM_FD, &message);
    sys::exit(code)
}

/// Every step, in order.
fn become_program(
    orders: &Orders,
    terminal: Terminal,
) -> Result<std::convert::Infallible, Failure> {
    sys::send(PROGRAM_FD, &[HELLO]).map_err(step("report"))?;
    match sys::receive(PROGRAM_FD).as_deref() {
        Ok([GO]) => {}
        _ => return Err((CANNOT_START, "it was not told to go".to_owned())),
    }
    network::check(orders.network).map_err(|words| (CANNOT_START, words))?;
    what_was_vetted(orders)?;
    own_directories(orders)?;
    enter_directory(orders)?;
    let found = find(orders)?;
    let args = strings(&orders.args)?;
    let env = strings(&orders.env)?;
    match terminal {
        Some(terminal) => terminal
            .and_then(terminal::sit_at)
            .map_err(step("take its terminal"))?,
        None => sys::new_session().map_err(step("make a session"))?,
    }
    for stream in 0..3 {
        sys::duplicate(STDIO_FD + stream, stream).map_err(step("place its standard streams"))?;
    }
    sys::close_on_exec_from(3).map_err(step("mark its descriptors"))?;
    sys::file_mask(orders.file_mask);
    let confined = |(what, errno): confine::Failed| step(what)(errno);
    confine::limits(orders).map_err(confined)?;
    confine::privileges(orders).map_err(confined)?;
    confine::landlock(orders).map_err(confined)?;
    confine::filters(orders).map_err(confined)?;
    let errno = if found.interpreter.is_some() {
        // An interpreter opens its script by name, so no descriptor of it leaks.
        sys::execute_path(&found.path, &args, &env)
    } else {
        sys::execute_fd(found.fd, &args, &env)
    };
    Err(not_executed(&found, errno))
}

fn step(what: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| {
        (
            CANNOT_START,
            format!("it could not {what}: {}", sys::words(errno)),
        )
    }
}

/// The mounts were vetted by path, and somebody else may have changed the path since.
fn what_was_vetted(orders: &Orders) -> Result<(), Failure> {
    for shown in &orders.shown {
        let path = string(&shown.path)?;
        if sys::identity(&path) != Ok((shown.device, shown.inode)) {
            let path = path.to_string_lossy();
            let words = format!("what is to be shown at {path} was exchanged during the start");
            return Err((CANNOT_START, words));
        }
    }
    Ok(())
}

/// Directories made by id 0 that the program shall own.
fn own_directories(orders: &Orders) -> Result<(), Failure> {
    if orders.set_ids {
        for path in strings(&orders.owned)? {
            sys::give(&path, PROGRAM_ID).map_err(step("own its directories"))?;
        }
    }
    Ok(())
}

fn enter_directory(orders: &Orders) -> Result<(), Failure> {
    let path = string(&orders.workdir)?;
    sys::change_directory(&path).map_err(|errno| {
        let path = path.to_string_lossy();
        (
            CANNOT_START,
            format!(
                "its working directory {path} cannot be entered: {}",
                sys::words(errno)
            ),
        )
    })
}

/// Looks the program up as a shell does: a name with a slash is a path.
fn find(orders: &Orders) -> Result<Found, Failure> {
    let name = &orders.program;
    if name.is_empty() {
        return Err((NOT_FOUND, "no program was named".to_owned()));
    }
    if name.contains(&b'/') {
        let path = string(name)?;
        return open(&path).map_err(|errno| not_opened(name, errno));
    }
    let mut refused = None;
    for directory in orders
        .path
        .split(|byte| *byte == b':')
        .filter(|part| !part.is_empty())
    {
        let path = string(&[directory, b"/", name].concat())?;
        match open(&path) {
            Ok(found) => return Ok(found),
            Err(Errno(libc::ENOENT | libc::ENOTDIR)) => {}
            Err(errno) => refused = refused.or(Some(errno)),
        }
    }
    Err(not_opened(name, refused.unwrap_or(Errno(libc::ENOENT))))
}

fn open(path: &CString) -> Result<Found, Errno> {
    let fd = sys::open(path, libc::O_PATH)?;
    if let Err(errno) = sys::executable(fd) {
        sys::close(fd);
        return Err(errno);
    }
    Ok(Found {
        path: path.clone(),
        fd,
        interpreter: interpreter(path),
    })
}

/// Of a file that begins as a script does. One that may be executed but not read is none.
fn interpreter(path: &CString) -> Option<Vec<u8>> {
    let fd = sys::open(path, libc::O_RDONLY).ok()?;
    let mut start = [0_u8; LINE];
    // SAFETY: the buffer is valid for a write of its length.
    let count = unsafe { libc::read(fd, start.as_mut_ptr().cast(), start.len()) };
    sys::close(fd);
    let read = start.get(..usize::try_from(count).ok()?)?;
    let line = read.strip_prefix(b"#!")?;
    let mut words = line.split(|octet| matches!(octet, b' ' | b'\t' | b'\n' | 0));
    Some(words.find(|word| !word.is_empty()).unwrap_or_default().to_owned())
}

fn not_opened(name: &[u8], errno: Errno) -> Failure {
    let name = String::from_utf8_lossy(name);
    match errno {
        Errno(libc::ENOENT | libc::ENOTDIR) => {
            (NOT_FOUND, format!("{name}: not found in the sandbox"))
        }
        Errno(libc::EISDIR) => (
            NOT_EXECUTABLE,
            format!("{name}: it is a folder, and no program"),
        ),
        other => (
            NOT_EXECUTABLE,
            format!("{name}: cannot be executed: {}", sys::words(other)),
        ),
    }
}

fn not_executed(found: &Found, errno: Errno) -> Failure {
    let path = found.path.to_string_lossy();
    match (errno, &found.interpreter) {
        // The file was opened: what is missing is its interpreter.
        (Errno(libc::ENOENT), Some(interpreter)) => {
            let name = String::from_utf8_lossy(interpreter);
            let ends = match name.ends_with('\r') {
                true => ": its lines end as on Windows (CRLF), write them with LF alone",
                false => "",
            };
            let name = name.escape_debug();
            (
                NOT_FOUND,
                format!("{path}: its interpreter {name} is not in the sandbox{ends}"),
            )
        }
        (Errno(libc::ENOENT), None) => (
            NOT_FOUND,
            format!("{path}: its interpreter is not in the sandbox (the loader that `file` names)"),
        ),
        (other, _) => (
            NOT_EXECUTABLE,
            format!("{path}: cannot be executed: {}", sys::words(other)),
        ),
    }
}

fn string(bytes: &[u8]) -> Result<CString, Failure> {
    CString::new(bytes).map_err(|_| (CANNOT_START, "a text with a NUL byte".to_owned()))
}

fn strings(list: &[Vec<u8>]) -> Result<Vec<CString>, Failure> {
    list.iter().map(|bytes| string(bytes)).collect()
}

/// What the kernel reads of a script's first line (BINPRM_BUF_SIZE).
const LINE: usize = 256;
