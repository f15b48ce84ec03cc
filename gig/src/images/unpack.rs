//! Unpacking layers: each is read by a process in a sandbox of its own, which sees nothing of this machine
//! but that layer and can do nothing but say what is to be made.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use gig_netns::{HostIds, Hub, HubConfig};
use gig_policy::SandboxId;
use gig_sandbox::{
    Design, Network, ResourceLimits, Running, SeccompProfile, Spec, Stdio,
    image::{INTAKE_ARGUMENT, Limits, Stock, Unpacking},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::run::settings::{DEFAULT_PROXY_PORT, DEFAULT_SUBNET};

/// Makes `root` of these layers, the lowest first.
///
/// # Errors
/// When a layer is none, or asks for what must not be, or this machine cannot confine its reader.
pub(super) fn unpack(runtime: &Runtime, layers: &[PathBuf], root: &Path) -> anyhow::Result<Stock> {
    let limits = Limits::DEFAULT;
    let mut unpacking =
        Unpacking::into_directory(root, limits).context("cannot open its directory")?;
    let ids = HostIds::detect_for(SLOTS);
    let (hub, _listeners) = Hub::start(&HubConfig {
        slots: SLOTS,
        subnet: DEFAULT_SUBNET,
        explicit_port: DEFAULT_PROXY_PORT,
        ids,
    })
    .context(
        "cannot make a sandbox for the layers' reader; gig doctor says what this host lacks",
    )?;
    for layer in layers {
        let file = File::open(layer).context("cannot open a layer")?;
        let (said, mut running) = reader(runtime, &hub, ids, file)?;
        let said = Patient {
            from: said.into(),
            until: deadline(limits.layer_within),
        };
        unpacking.layer(io::BufReader::with_capacity(CHUNK, said))?;
        let ended = runtime
            .block_on(running.wait())
            .context("lost sight of a layer's reader")?;
        if ended.code() != 0 {
            bail!("the reader of a layer ends with {}", ended.code());
        }
    }
    unpacking
        .sync()
        .context("the disk does not keep the image")?;
    Ok(unpacking.stock())
}

/// A process that reads one layer, and what it says.
fn reader(
    runtime: &Runtime,
    hub: &Hub,
    ids: HostIds,
    layer: File,
) -> anyhow::Result<(OwnedFd, Running)> {
    let (said, saying) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    // What it may say beside is nobody's to hear.
    let silence = File::options()
        .write(true)
        .open("/dev/null")
        .context("cannot open /dev/null")?;
    let own = std::env::current_exe().context("cannot find gig's own program")?;
    let spec = Spec {
        id: SandboxId::new(Uuid::now_v7()),
        program: "/app/server".into(),
        args: vec![INTAKE_ARGUMENT.into()],
        env: Vec::new(),
        image_env: Vec::new(),
        binds: Vec::new(),
        workdir: None,
        rootfs: None,
        ca_pem: None,
        explicit_port: DEFAULT_PROXY_PORT,
        limits: ResourceLimits::default(),
        stdio: Stdio {
            stdin: layer.into(),
            stdout: saying,
            stderr: silence.into(),
            controlling_terminal: false,
        },
        seccomp: SeccompProfile::Strict,
        server_program: Some(own),
        kept: None,
        private: Vec::new(),
    };
    let confined = "cannot confine the reader of a layer";
    let starting = Design::new(spec, ids, None).context(confined)?;
    let starting = starting
        .start(hub, Network::Disconnected)
        .context(confined)?;
    let prepared = starting.meet().context(confined)?;
    let _within = runtime.enter();
    Ok((said, prepared.go().context(confined)?))
}

/// A pipe that is read until a moment and no longer.
struct Patient {
    from: File,
    until: Instant,
}

impl Read for Patient {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(now());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut watched = [PollFd::new(&self.from, PollFlags::IN)];
        if poll(&mut watched, Some(&left))? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "it is read for too long",
            ));
        }
        self.from.read(to)
    }
}

fn deadline(within: Duration) -> Instant {
    now() + within
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a process may take, on a thread without tokio's clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// One reader at a time.
const SLOTS: u16 = 1;
const CHUNK: usize = 1 << 17;
