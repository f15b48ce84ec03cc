//! Unpacking layers: each is read by a process in a sandbox of its own, which sees that layer and of this
//! machine the system's own directories, read-only, has no network, and can do nothing but say what is to be
//! made. How much memory and time it may take it bounds itself before it reads; when it has to be done, gig
//! bounds here.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, bail};
use gig_netns::{HostIds, Hub, HubConfig};
use gig_policy::SandboxId;
use gig_sandbox::{
    Design, ExitStatus, Network, ResourceLimits, Running, SeccompProfile, Spec, Stdio, WaitError,
    image::{INTAKE_ARGUMENT, Limits, Stock, Unpacking},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::run::settings::{DEFAULT_PROXY_PORT, DEFAULT_SUBNET};

/// Makes `root` of these layers, the lowest first, and removes each; all are read before `until`.
///
/// # Errors
/// When a layer is none, or asks for what must not be, or this machine cannot confine its reader.
pub(super) fn unpack(
    runtime: &Runtime,
    layers: &[PathBuf],
    root: &Path,
    until: Instant,
) -> anyhow::Result<Stock> {
    let limits = Limits::DEFAULT;
    let mut unpacking =
        Unpacking::into_directory(root, limits).context("cannot open its directory")?;
    let ids = HostIds::take_for(SLOTS);
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
        let until = until.min(now() + limits.layer_within);
        let said = Patient {
            from: said.into(),
            until,
        };
        unpacking.layer(io::BufReader::with_capacity(CHUNK, said))?;
        let ended = runtime.block_on(ended(running.wait(), until))?;
        if ended.code() != 0 {
            bail!("the reader of a layer ends with {}", ended.code());
        }
        fs::remove_file(layer).context("cannot remove a layer")?;
    }
    unpacking
        .sync()
        .context("the disk does not keep the image")?;
    Ok(unpacking.stock())
}

/// How the reader ended: whoever said all that it had to say is not waited for longer than if it had not.
async fn ended(
    waiting: impl Future<Output = Result<ExitStatus, WaitError>>,
    until: Instant,
) -> anyhow::Result<ExitStatus> {
    let left = until.saturating_duration_since(now());
    match tokio::time::timeout(left, waiting).await {
        Ok(ended) => ended.context("lost sight of a layer's reader"),
        Err(_) => bail!("the reader of a layer does not end"),
    }
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
        file_mask: None,
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
        let slow = || io::Error::new(io::ErrorKind::TimedOut, "it is read for too long");
        let left = self.until.saturating_duration_since(now());
        // Also of one that never stops speaking.
        if left.is_zero() {
            return Err(slow());
        }
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut watched = [PollFd::new(&self.from, PollFlags::IN)];
        if poll(&mut watched, Some(&left))? == 0 {
            return Err(slow());
        }
        self.from.read(to)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a process may take, on a thread without tokio's clock"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// One reader at a time.
const SLOTS: u16 = 1;
const CHUNK: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use std::{future::pending, io::Write as _, time::Duration};

    use super::*;

    #[test]
    fn a_reader_is_heard_until_a_moment_even_if_it_never_stops() {
        let (from, saying) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        File::from(saying).write_all(b"more").unwrap();
        let mut said = Patient {
            from: from.into(),
            until: now() + Duration::from_secs(60),
        };
        let mut octet = [0];
        said.read_exact(&mut octet).unwrap();
        said.until = now();
        let slow = said.read_exact(&mut octet).unwrap_err();
        assert_eq!(slow.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_reader_that_does_not_end_is_waited_for_until_the_same_moment() {
        let refused = ended(pending(), now() + Duration::from_millis(10)).await;
        assert!(refused.unwrap_err().to_string().contains("does not end"));
    }
}
