//! Processes of the bench: pinned to a core, killed with their guard, and read out of `/proc`.

use std::{
    ffi::OsStr,
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

use crate::outcome::{Outcome, doing};

/// What runs where, so that a proxy never shares its core with what it is measured by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Core {
    /// Proxies: the first core.
    Proxy,
    /// Load and origin: the second core (the first again, where there is only one).
    Load,
}

impl Core {
    /// The number that `taskset -c` takes.
    pub(crate) fn number(self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match self {
            Self::Proxy => 0,
            Self::Load => 1.min(cores - 1),
        }
    }
}

/// A command that keeps to one core, and all that it starts with it; it ends with the bench, however
/// that ends.
pub(crate) fn pinned(core: Core, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "taskset"]);
    command
        .arg("-c")
        .arg(core.number().to_string())
        .arg(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A child that is killed and reaped when this value is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
}

impl Guard {
    /// Starts `command`.
    pub(crate) fn spawn(name: &str, command: &mut Command) -> Outcome<Self> {
        let child = doing(command.spawn(), || format!("start {name}"))?;
        Ok(Self { child })
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, so long at most; whether it came.
    pub(crate) fn ends_within(&self, limit: Duration) -> Outcome<bool> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).ok_or("a child without a number")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
        Ok(poll(&mut ended, Some(&Timespec::try_from(limit)?))? > 0)
    }

    /// The child itself, for its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Asked first, so that servers end their workers; then made to.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(2) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// CPU time of a process and all its threads, user and system, in seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Outcome<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = doing(fs::read_to_string(&path), || format!("read {path}"))?;
    // The command name may hold spaces and brackets: fields are counted behind its last bracket.
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<f64>().ok());
    let (user, system) = (ticks(), ticks());
    let total = user
        .zip(system)
        .ok_or_else(|| format!("{path} has no CPU times"))?;
    Ok((total.0 + total.1) / TICKS)
}

/// Proportional memory of a process, in KiB.
pub(crate) fn memory_kib(pid: u32) -> Outcome<f64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = doing(fs::read_to_string(&path), || format!("read {path}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| format!("{path} has no Pss").into())
}

/// Every descendant of `pid`, with its command name.
pub(crate) fn descendants(pid: u32) -> Vec<(u32, String)> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let mut all = Vec::new();
    for child in children.split_whitespace().filter_map(|id| id.parse().ok()) {
        let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        all.push((child, name.trim().to_owned()));
        all.extend(descendants(child));
    }
    all
}

/// A loopback port that nobody has now.
pub(crate) fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Waits until something listens on a loopback port.
pub(crate) fn wait_for_port(port: u16) -> Outcome<()> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("nothing listens on port {port} after 10 seconds").into())
}

/// Whether a program is on the PATH.
pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Clock ticks a second in /proc/PID/stat: USER_HZ is 100 on every architecture gig runs on.
const TICKS: f64 = 100.0;
