//! That an appliance serves, and how it ended: told in the record when the next one begins.
//!
//! A mark in the data directory says while it serves that it does, and how many records were refused of which no
//! record tells. Who is killed leaves it so; the next start records that, and the gap. The mark has the same length
//! from its first day, so that a full disk takes it. It is written at the first refusal, and then at most once a
//! second.

use std::{
    fs::File,
    io::Read as _,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context;
use gig_audit::{Deed, Entry, Event, Recorder, VerdictWord};

use super::appliance::Appliance;

/// An appliance that has begun to serve.
#[derive(Debug)]
pub(super) struct Serving {
    mark: Arc<Mark>,
    thread: JoinHandle<()>,
}

impl Serving {
    /// Marks `dir`, whose lock is held, and records that serving begins and how it ended before. What that run had
    /// not come to tell is told first.
    ///
    /// # Errors
    /// When the mark cannot be written, or there is no thread to be had.
    pub(super) fn begin(dir: &Path, appliance: &Appliance) -> anyhow::Result<Self> {
        let (mark, former) = Mark::open(dir)?;
        let untold = former.untold();
        mark.write(SERVING, untold)?;
        let mark = Arc::new(mark);
        let recorder = appliance.recorder.clone();
        // Before its count is kept: what it begins with is part of that.
        recorder.begin(start(&appliance.node, former), untold);
        let theirs = Arc::clone(&mark);
        let thread = std::thread::Builder::new()
            .name("serve-mark".to_owned())
            .spawn(move || follow(&recorder, &theirs, untold))
            .context("cannot start a thread")?;
        Ok(Self { mark, thread })
    }

    /// It has ended in order, and so many records were refused of which none tells; nobody knows how many where the
    /// record hangs, and then it has not.
    pub(super) fn end(self, untold: Option<u64>) {
        let Some(untold) = untold else { return };
        // One that panicked writes nothing any more.
        let _ended = self.thread.join();
        if let Err(error) = self.mark.write(ENDED, untold) {
            tracing::error!(error = %format!("{error:#}"), "the next start will say that this run did not end in order");
        }
    }
}

/// Keeps the count on the disk.
fn follow(recorder: &Recorder, mark: &Mark, mut known: u64) {
    let mut told = false;
    while let Some(now) = recorder.wait_untold(known) {
        known = now;
        match mark.write(SERVING, now) {
            Ok(()) => told = false,
            Err(_) if told => {}
            Err(error) => {
                told = true;
                tracing::error!(
                    error = %format!("{error:#}"),
                    "what is refused for want of a record is not told after a crash"
                );
            }
        }
        std::thread::sleep(PACE);
    }
}

fn start(node: &str, former: Former) -> Entry {
    let mut entry = Entry::new(Event::Admin);
    entry.profile = Some("gig".into());
    entry.verdict = Some(VerdictWord::Allow);
    entry.deed = Some(Deed::ServeStart);
    entry.subject = Some(node.into());
    let begins = format!("gig {} begins to serve", env!("CARGO_PKG_VERSION"));
    let before = match former {
        Former::None => "no run before it is known here",
        Former::Ended(_) => "the run before ended in order",
        Former::Cut(_) => "the run before did not end in order",
        Former::Unread => "the run before left a mark that cannot be read",
    };
    entry.findings = vec![begins.into(), before.into()];
    entry
}

/// What the mark says of the run before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Former {
    /// There was none, or an older gig's.
    None,
    /// It came to its end; so many refused records were not told.
    Ended(u64),
    /// It did not.
    Cut(u64),
    /// Nobody knows.
    Unread,
}

impl Former {
    fn of(text: &[u8]) -> Self {
        if text.is_empty() {
            return Self::None;
        }
        let words = std::str::from_utf8(text).map(|text| text.split_ascii_whitespace());
        let Ok(mut words) = words else {
            return Self::Unread;
        };
        let word = words.next();
        let count = words.next().and_then(|count| count.parse().ok());
        match (word, count, words.next()) {
            (Some(SERVING), Some(count), None) => Self::Cut(count),
            (Some(ENDED), Some(count), None) => Self::Ended(count),
            _ => Self::Unread,
        }
    }

    const fn untold(self) -> u64 {
        match self {
            Self::Ended(untold) | Self::Cut(untold) => untold,
            Self::None | Self::Unread => 0,
        }
    }
}

/// The file.
#[derive(Debug)]
struct Mark {
    path: PathBuf,
    file: File,
}

impl Mark {
    /// Opens it, and says what it has said so far.
    fn open(dir: &Path) -> anyhow::Result<(Self, Former)> {
        let path = dir.join(FILE);
        let failed = || format!("cannot open {}", path.display());
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .with_context(failed)?;
        let mut text = Vec::new();
        let longest = LENGTH as u64 + 1;
        (&file)
            .take(longest)
            .read_to_end(&mut text)
            .with_context(failed)?;
        if text.is_empty() {
            // Its name is on the disk before it says anything.
            let settled = File::open(dir).and_then(|dir| dir.sync_all());
            settled.with_context(failed)?;
        }
        Ok((Self { path, file }, Former::of(&text)))
    }

    /// In one write, of less than a sector.
    fn write(&self, word: &str, untold: u64) -> anyhow::Result<()> {
        let line = format!("{word} {untold}");
        let padded = format!("{line:<width$}\n", width = LENGTH - 1);
        let written = self.file.write_all_at(padded.as_bytes(), 0);
        let settled = written.and_then(|()| self.file.sync_data());
        settled.with_context(|| {
            format!(
                "cannot write {}: it says how a run of gig ended",
                self.path.display()
            )
        })
    }
}

/// In the data directory, beside its lock.
const FILE: &str = "serve.mark";
const SERVING: &str = "serving";
const ENDED: &str = "ended";
/// Of the file: both words and any count fit.
const LENGTH: usize = 64;
/// The mark is no log.
const PACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_what_was_written_last_and_what_it_does_not_say_nobody_knows() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Mark::open(folder.path()).unwrap();
        let (mark, former) = open();
        assert_eq!(former, Former::None);
        mark.write(SERVING, u64::MAX).unwrap();
        assert_eq!(open().1, Former::Cut(u64::MAX));
        mark.write(ENDED, 7).unwrap();
        assert_eq!(open().1, Former::Ended(7));
        let path = folder.path().join(FILE);
        assert_eq!(path.metadata().unwrap().len(), LENGTH as u64);
        for broken in ["serving", "ended x", "serving 1 2", "\u{e9} 1", "\0\0\0"] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(open().1, Former::Unread, "{broken}");
        }
    }
}
