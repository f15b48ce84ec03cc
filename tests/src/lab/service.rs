//! A real server as a process on one side of the lab.
//!
//! Promises: it is killed and reaped with its handle; [`Service::wait_for`] returns only when it
//! accepts connections; its output is at hand when it fails.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::network::{Network, Side};

/// A running server.
#[derive(Debug)]
pub struct Service {
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Starts `command` with its output in `log`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(mut command: Command, log: PathBuf) -> Self {
        let output = File::create(&log).expect("a log file");
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Self { child, log }
    }

    /// Waits until something accepts at `address` in the internet.
    ///
    /// # Panics
    /// When nothing does within two minutes or the server has ended.
    pub fn wait_for(&mut self, network: &Network, address: SocketAddr) {
        let deadline = Instant::now() + Duration::from_secs(120);
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
        while !network.inside(Side::Internet, connect) {
            let ended = self.child.try_wait().expect("its state");
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            assert!(ended.is_none(), "the server at {address} ended: {log}");
            assert!(Instant::now() < deadline, "no server at {address}: {log}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it has printed.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // SIGTERM lets a server with workers end them; SIGKILL is for one that does not listen.
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
