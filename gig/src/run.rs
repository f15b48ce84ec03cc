//! `gig run`: one sandbox, from its command line to its exit status.
//!
//! The order is the promise: the hub and the record exist before the sandbox, the sandbox is bound to
//! its policy and its start recorded before its first instruction, and after its last process what it wrote is
//! delivered and its connections are closed before the address is given up.

mod copy;
mod drawn;
mod elsewhere;
pub(crate) mod environment;
mod job;
mod left_behind;
pub(crate) mod policy;
mod record;
mod relay;
mod run_files;
mod secrets;
pub(crate) mod settings;
mod signals;
mod stream_flags;
mod summary;
mod terminal;
mod warnings;
pub(crate) mod wire;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use gig_netns::Readers;
use gig_sandbox::{Running, Turn};
use rustix::process::{Resource, Signal, getrlimit};
use tokio::time::{Instant, sleep_until};

use self::{
    left_behind::{LeftBehind, MOST_RECORDED, MOST_TOLD},
    relay::Relay,
    secrets::Secrets,
    settings::Settings,
    signals::Signals,
    stream_flags::StreamFlags,
    terminal::Seat,
    wire::Wired,
};
use crate::stderr::tell;
use crate::{
    args::run::RunArgs,
    exit_status::{ExitStatus, LEFT, OUT_OF_MEMORY, UNCOVERED},
    output::printable,
};

/// Runs the program and waits for it.
///
/// # Errors
/// When gig could not start or guard the program.
pub(crate) fn execute(args: RunArgs) -> anyhow::Result<ExitStatus> {
    let settings = Settings::resolve(args)?;
    let files = getrlimit(Resource::Nofile).maximum;
    if let Some(most) = files.filter(|most| *most < LEAST_FILES) {
        anyhow::bail!(
            "the limit of open files is {most}, too low for a sandbox and its proxy: raise it (ulimit -n 1024), \
             {LEAST_FILES} are the least"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start gig's own runtime")?;
    // Before anything else: what arrives while the parts come up is for the program too, and must not
    // end gig in the middle of it.
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let _as_they_were = StreamFlags::now();
    // The hub is made on this thread, the one that lives as long as gig: it dies with its maker.
    let (mut wired, prepared, seat) = wire::start(&settings)?;
    let before = LeftBehind::look(&settings.binds);
    let status = runtime.block_on(async {
        let mut seen = Seen::default();
        let status = match wired.go(prepared).await {
            Ok(mut running) => {
                let status = guard(
                    &mut running,
                    &mut signals,
                    (seat, wired.readers()),
                    settings.timeout,
                )
                .await;
                seen.starved = running.ran_out_of_memory();
                seen.uncovered = running.uncovered().map(Path::to_owned);
                if let Ok(ended) = &status
                    && !ended.forced
                {
                    let interrupted = async {
                        tokio::select! {
                            () = signals.ending() => {}
                            () = at(ended.deadline) => tell_timeout(settings.timeout),
                        }
                    };
                    wired.drain(interrupted).await;
                }
                status.map(|ended| {
                    seen.filtered = ended.filtered;
                    ended.status
                })
            }
            Err(error) => Err(with_place(error, &settings)),
        };
        let recorded = status
            .as_ref()
            .map_or_else(ExitStatus::of, |status| *status);
        seen.left = before.changed_until(signals.ending()).await;
        wired.finish(recorded, seen.findings()).await;
        seen.tell(settings.quiet);
        status
    });
    // What a service gives while the program ends is stored, and recorded, before gig ends.
    if let Some(secrets) = &settings.secrets {
        secrets.settle();
    }
    report(&wired, &settings);
    wired.close();
    // What looks aside is not waited for: gig ends, and that with it.
    runtime.shutdown_background();
    status
}

/// What a person should know of a run that is over.
#[derive(Debug, Default)]
struct Seen {
    /// It wanted more memory than it may have.
    starved: bool,
    /// As in [`Ended`].
    filtered: bool,
    /// A covered credential that came into sight, or what was read-only and is not any more.
    uncovered: Option<PathBuf>,
    /// What this host runs by itself, and was changed; `None` where the look for it was not waited for.
    left: Option<Vec<PathBuf>>,
}

impl Seen {
    /// For the record.
    fn findings(&self) -> Vec<Arc<str>> {
        let memory = self.starved.then(|| OUT_OF_MEMORY.into());
        let uncovered = self.uncovered.as_ref().map(|_| UNCOVERED.into());
        let left = match &self.left {
            Some(left) => left_behind::words(left, MOST_RECORDED),
            None => Some("not looked for to the end".to_owned()),
        };
        let left = left.map(|names| format!("{LEFT}: {names}").into());
        memory.into_iter().chain(uncovered).chain(left).collect()
    }

    fn tell(&self, quiet: bool) {
        if let Some(path) = &self.uncovered {
            tell(&format!(
                "gig: ended the program: {} was covered, or shown read-only in a folder that it may write, and something \
                 on this host replaced or moved it, which undoes that: show only what the program needs, or a whole \
                 folder read-only (--ro .git in place of --ro .git/config)\n",
                path.display()
            ));
        }
        if self.starved {
            tell(
                "gig: the program wanted more memory than --memory allows, and was killed: raise it, or \
                 have the program use less\n",
            );
        }
        if self.filtered {
            tell(
                "gig: the program made a system call that no sandbox allows (unshare, mount, ptrace, …) and was \
                 ended for it; see the README, \"Inside a sandbox\"\n",
            );
        }
        if quiet {
            return;
        }
        let Some(left) = &self.left else {
            tell(
                "gig: warning: what of the folders shown by --rw this host runs by itself was not looked through to the \
                 end: look at .git, .envrc and their like before you go on there\n",
            );
            return;
        };
        if let Some(names) = left_behind::words(left, MOST_TOLD) {
            tell(&format!(
                "gig: warning: what this host runs by itself was changed during the run: {}; look at it before you go \
                 on there, or show it with --ro\n",
                printable(&names)
            ));
        }
    }
}

/// How a program ended.
struct Ended {
    status: ExitStatus,
    /// Somebody wanted it to, by the time limit or by a signal: nothing more of it is waited for.
    forced: bool,
    /// The system call filter ended the program itself; what one of its children died of is for it to tell.
    filtered: bool,
    /// When the time limit is reached.
    deadline: Option<Instant>,
}

/// Forwards signals, stops with the program, keeps the window size and the time limit, until the last process is dead.
async fn guard(
    running: &mut Running,
    signals: &mut Signals,
    (seat, readers): (Seat, Readers),
    timeout: Option<Duration>,
) -> anyhow::Result<Ended> {
    let Seat {
        mut terminal,
        relays,
    } = seat;
    if let Some(terminal) = &mut terminal {
        terminal.connect(readers)?;
    }
    let mut deadline = timeout.map(|limit| Instant::now() + limit);
    let (mut asked_to_end, mut signalled) = (false, false);
    let status = loop {
        tokio::select! {
            turn = running.turn() => match turn.context("lost sight of the program")? {
                Turn::Ended(status) => break status,
                Turn::Stopped(by) => job::stop_with(running, signals, by),
            },
            received = signals.next() => {
                signalled |= received.is_ending();
                let left = match deadline {
                    Some(deadline) => Some(deadline - Instant::now()),
                    // It was killed, and has no time left: who stops then is woken by nobody.
                    None => asked_to_end.then_some(Duration::ZERO),
                };
                job::obey(received, running, (terminal.as_mut(), left));
            }
            () = at(deadline) => {
                if asked_to_end {
                    running.kill();
                    deadline = None;
                } else {
                    running.signal(Signal::TERM);
                    asked_to_end = true;
                    deadline = Some(Instant::now() + GRACE);
                    // A terminal may stop who writes to it from the background (stty tostop): the rest is done.
                    tell_timeout(timeout);
                }
            }
        }
    };
    if let Some(terminal) = terminal {
        terminal.finish();
    }
    relays.into_iter().for_each(Relay::finish);
    let died = signalled && status.signal().is_some();
    Ok(Ended {
        status: ExitStatus(status.code()),
        // What it may have seen is not delivered.
        forced: asked_to_end || died || running.uncovered().is_some(),
        filtered: status.signal().map(i32::from) == Some(Signal::SYS.as_raw()),
        deadline,
    })
}

/// Says where on the host a program is that the sandbox does not have; another root is no place of the host's.
fn with_place(error: anyhow::Error, settings: &Settings) -> anyhow::Error {
    if ExitStatus::of(&error) != ExitStatus::NOT_FOUND || settings.root.is_some() {
        return error;
    }
    let search = std::env::var_os("PATH");
    let hint = elsewhere::hint(
        &settings.program,
        search.as_deref(),
        (&settings.binds, settings.workdir.as_deref()),
    );
    match hint.or_else(|| elsewhere::meant(&settings.program, &settings.args)) {
        Some(hint) => error.context(hint),
        None => error,
    }
}

fn tell_timeout(limit: Option<Duration>) {
    let limit = limit.unwrap_or_default();
    tell(&format!(
        "gig: the time limit (--timeout {limit:?}) is reached: ending the program\n"
    ));
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn report(wired: &Wired, settings: &Settings) {
    if settings.quiet {
        return;
    }
    for secret in settings.secrets.iter().flat_map(Secrets::entrusted) {
        tell(&format!(
            "gig: warning: secret {} was entrusted: the program held its value during this run\n",
            secret.name
        ));
    }
    if let Some(text) = wired.summary().text(&settings.rules_from) {
        tell(&text);
        if let Some(place) = wired.audit_place() {
            tell(&format!("  record: {place}\n"));
        }
    }
}

/// What a start takes (each file that is handed on, the sockets of the hub, the record), and some connections.
pub(crate) const LEAST_FILES: u64 = 128;

/// Between SIGTERM and SIGKILL (requirement 003-26).
const GRACE: Duration = Duration::from_secs(10);
