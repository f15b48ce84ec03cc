//! How long a sandbox takes to start and what an idle one holds.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    measure::{Scale, median},
    outcome::Outcome,
    process::{Core, Guard, descendants, memory_kib, pinned},
};

/// Start-up times in milliseconds, p50, and memory in KiB.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Starts {
    /// `bwrap --unshare-all … true`.
    pub(crate) bwrap: Option<f64>,
    /// `gig run -- true`.
    pub(crate) gig: Option<f64>,
    /// Proportional memory of the sandbox's own processes beside the program: bwrap's two and the
    /// hub's share is not in it.
    pub(crate) sandbox_kib: Option<f64>,
    /// The same for gig itself and its hub.
    pub(crate) gig_kib: Option<f64>,
}

/// Starts both in turn, so that the machine's other work falls on both.
pub(crate) fn measure(gig: &Path, scale: Scale) -> Outcome<Starts> {
    let (mut bwrap_times, mut gig_times) = (Vec::new(), Vec::new());
    for _ in 0..scale.starts {
        let mut bwrap = Command::new("bwrap");
        bwrap.args([
            "--unshare-all",
            "--die-with-parent",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]);
        for directory in ["/usr", "/bin", "/sbin", "/lib", "/lib64"] {
            if Path::new(directory).exists() {
                bwrap.args(["--ro-bind", directory, directory]);
            }
        }
        bwrap.args(["--", "true"]);
        bwrap_times.push(timed(bwrap)?);
        let mut run = Command::new(gig);
        run.args(["run", "--quiet", "--", "true"]);
        gig_times.push(timed(run)?);
    }
    let (sandbox_kib, gig_kib) = idle(gig)?;
    Ok(Starts {
        bwrap: median(bwrap_times),
        gig: median(gig_times),
        sandbox_kib: Some(sandbox_kib),
        gig_kib: Some(gig_kib),
    })
}

fn timed(mut command: Command) -> Outcome<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let what = format!("{:?}", command.get_program());
    let begun = Instant::now();
    let mut guard = Guard::spawn(&what, &mut command)?;
    let ended = guard.ends_within(STARTS_WITHIN)?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    if !ended {
        let limit = STARTS_WITHIN.as_secs();
        return Err(format!("{what} hangs: it did not end in {limit} seconds").into());
    }
    let status = guard.child().wait()?;
    if status.success() {
        return Ok(took);
    }
    Err(format!("{what} ended with {status}").into())
}

/// A start takes milliseconds; on a machine at its limit a thousand times that.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Memory of an idle sandbox: its own processes, and gig with its hub.
fn idle(gig: &Path) -> Outcome<(f64, f64)> {
    let mut command = pinned(Core::Proxy, gig);
    command.args(["run", "--quiet", "--", "sleep", "60"]);
    let guard = Guard::spawn("gig", &mut command)?;
    let begun = Instant::now();
    loop {
        let all = descendants(guard.id());
        if all.iter().any(|(_, name)| name == "sleep") {
            break;
        }
        if begun.elapsed() > Duration::from_secs(10) {
            return Err("the idle sandbox did not start in 10 seconds".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let (mut sandbox, mut ours) = (0.0, memory_kib(guard.id())?);
    for (pid, name) in descendants(guard.id()) {
        match name.as_str() {
            "sleep" => {}
            "bwrap" => sandbox += memory_kib(pid)?,
            _ => ours += memory_kib(pid)?,
        }
    }
    Ok((sandbox, ours))
}
