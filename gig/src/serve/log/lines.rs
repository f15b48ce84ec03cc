//! What is printed, cut into lines, each with its time, on their way to the disk.

use std::sync::Arc;

use gig_policy::SandboxId;
use gig_web::control::{LogLine, LogStream};
use jiff::Timestamp;

use super::kept::{Order, Orders};

/// The lines of one sandbox.
#[derive(Debug)]
pub(in crate::serve) struct Lines {
    to: Orders,
    server: Arc<str>,
    sandbox: SandboxId,
    stream: LogStream,
    /// Of a line whose end has not come.
    open: Vec<u8>,
}

impl Lines {
    pub(super) const fn new(
        to: Orders,
        server: Arc<str>,
        sandbox: SandboxId,
        stream: LogStream,
    ) -> Self {
        Self {
            to,
            server,
            sandbox,
            stream,
            open: Vec::new(),
        }
    }

    /// Takes what was read. Waits as long as the disk does.
    pub(super) async fn take(&mut self, octets: &[u8]) {
        let mut lines = Vec::new();
        for piece in octets.split_inclusive(|octet| *octet == b'\n') {
            // Nobody makes us keep a line without an end.
            for part in piece.chunks(LONGEST) {
                self.open.extend_from_slice(part);
                if part.ends_with(b"\n") || self.open.len() >= LONGEST {
                    lines.push(self.line());
                }
            }
        }
        self.send(lines).await;
    }

    /// Takes what is left.
    pub(super) async fn end(mut self) {
        if !self.open.is_empty() {
            let line = self.line();
            self.send(vec![line]).await;
        }
    }

    fn line(&mut self) -> LogLine {
        let octets = std::mem::take(&mut self.open);
        let octets = octets.strip_suffix(b"\n").unwrap_or(&octets);
        let octets = octets.strip_suffix(b"\r").unwrap_or(octets);
        LogLine {
            time: Timestamp::now(),
            sandbox: self.sandbox,
            stream: self.stream,
            text: String::from_utf8_lossy(octets).into_owned(),
        }
    }

    async fn send(&self, lines: Vec<LogLine>) {
        if lines.is_empty() {
            return;
        }
        let server = Arc::clone(&self.server);
        self.to.send(Order::Keep { server, lines }).await;
    }
}

/// A stack trace in one line has some thousand octets.
const LONGEST: usize = 16 * 1024;
