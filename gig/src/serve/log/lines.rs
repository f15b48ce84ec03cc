//! What is printed, cut into lines, each with its time, on their way to the disk.

use std::sync::Arc;

use tokio::time::Instant;

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
    allowance: Allowance,
}

impl Lines {
    pub(super) fn new(to: Orders, server: Arc<str>, sandbox: SandboxId, stream: LogStream) -> Self {
        Self {
            to,
            server,
            sandbox,
            stream,
            open: Vec::new(),
            allowance: Allowance::new(Instant::now()),
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
                    self.keep(&mut lines);
                }
            }
        }
        self.send(lines).await;
    }

    /// Takes what is left.
    pub(super) async fn end(mut self) {
        let mut lines = Vec::new();
        if !self.open.is_empty() {
            self.keep(&mut lines);
        }
        lines.extend(self.what_is_missing());
        self.send(lines).await;
    }

    /// The line that is whole now, if it is kept.
    fn keep(&mut self, lines: &mut Vec<LogLine>) {
        let line = self.line();
        let missing = self.allowance.missing;
        if self.allowance.covers(room(&line.text), Instant::now()) {
            if missing > 0 {
                lines.extend(self.what_is_missing());
            }
            lines.push(line);
        } else if missing == 0 {
            // Also where nothing comes that would be kept.
            lines.push(self.of(CUT.to_owned()));
        }
    }

    /// A line of our own for those that were not kept.
    fn what_is_missing(&mut self) -> Option<LogLine> {
        let missing = std::mem::take(&mut self.allowance.missing);
        let text = format!("gig: {missing} lines were not kept: too many at once");
        (missing > 0).then(|| self.of(text))
    }

    fn line(&mut self) -> LogLine {
        let octets = std::mem::take(&mut self.open);
        let octets = octets.strip_suffix(b"\n").unwrap_or(&octets);
        let octets = octets.strip_suffix(b"\r").unwrap_or(octets);
        self.of(String::from_utf8_lossy(octets).into_owned())
    }

    fn of(&self, text: String) -> LogLine {
        LogLine {
            time: Timestamp::now(),
            sandbox: self.sandbox,
            stream: self.stream,
            text,
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

/// What one sandbox may have kept: all of its server's lines share a bound, and one that talks without end
/// would erase what the others said.
#[derive(Debug)]
struct Allowance {
    left: u64,
    counted: Instant,
    /// Lines that were not kept, and of which nothing was said yet.
    missing: u64,
}

impl Allowance {
    const fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            counted: now,
            missing: 0,
        }
    }

    /// Whether so many octets are kept; counts a line that is not.
    fn covers(&mut self, octets: u64, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.counted).as_millis();
        let gained = u64::try_from(since).unwrap_or(u64::MAX);
        let gained = gained.saturating_mul(A_SECOND) / 1000;
        if gained > 0 {
            self.left = self.left.saturating_add(gained).min(BURST);
            self.counted = now;
        }
        // After a gap, not line by line: each gap is told with a line.
        let least = if self.missing > 0 { AGAIN } else { 0 };
        match self.left.checked_sub(octets) {
            Some(left) if self.left >= least => {
                self.left = left;
                true
            }
            _ => {
                self.missing = self.missing.saturating_add(1);
                false
            }
        }
    }
}

/// What a line takes on the disk, or a little more.
fn room(text: &str) -> u64 {
    let escaped = |octet| match octet {
        0..=0x1f => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(escaped).sum::<u64>() + AROUND
}

/// What stands where the first line is that is not kept.
const CUT: &str = "gig: what comes now is not kept: more than 4 MiB at once and 16 KiB a second";
/// What a sandbox may print at once, and what it may print all the time.
const BURST: u64 = 4 * 1024 * 1024;
const A_SECOND: u64 = 16 * 1024;
/// What is there again before lines are kept again: more than the longest takes.
const AGAIN: u64 = 128 * 1024;
/// Time, sandbox and stream of a line.
const AROUND: u64 = 119;
/// A stack trace in one line has some thousand octets.
const LONGEST: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_prints_too_much_is_cut_and_comes_back() {
        let begun = Instant::now();
        let mut allowance = Allowance::new(begun);
        let kept = (0..5000).filter(|_| allowance.covers(1024, begun)).count();
        assert_eq!((kept, allowance.missing), (4096, 904));
        // Too little for all that may come next.
        let soon = begun + Duration::from_secs(7);
        assert!(!allowance.covers(1024, soon));
        let later = begun + Duration::from_secs(9);
        assert!(allowance.covers(1024, later));
        assert_eq!(allowance.missing, 905);
        allowance.missing = 0;
        let much_later = later + Duration::from_hours(1);
        let kept = (0..5000).filter(|_| allowance.covers(1024, much_later));
        assert_eq!(kept.count(), 4096);
    }

    #[tokio::test]
    async fn where_lines_are_left_out_is_said_at_once() {
        let (to, kept) = std::sync::mpsc::sync_channel(1000);
        let sandbox = SandboxId::new(uuid::Uuid::nil());
        let mut lines = Lines::new(Orders::of(to), "s".into(), sandbox, LogStream::Output);
        let printed = ("x".repeat(1000) + "\n").repeat(5000);
        lines.take(printed.as_bytes()).await;
        let Ok(Order::Keep { lines, .. }) = kept.recv() else {
            panic!("nothing is kept");
        };
        let cut = lines.iter().filter(|line| line.text == CUT).count();
        assert_eq!((cut, lines.last().map(|line| &*line.text)), (1, Some(CUT)));
    }

    #[test]
    fn a_line_takes_what_it_takes_as_json() {
        assert_eq!(room("ab\u{1}\"\\"), 2 + 6 + 2 + 2 + AROUND);
    }
}
