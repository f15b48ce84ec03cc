//! What servers printed, as it is asked for and answered: line by line, a page at a time.
//!
//! The text is a program's own and hostile: who shows it escapes it.

use std::{fmt, str::FromStr, sync::Arc};

use gig_policy::SandboxId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What to find.
#[derive(Debug, Clone)]
pub struct LogAsked {
    /// Of which server; a valid name.
    pub server: String,
    /// Of one sandbox alone.
    pub sandbox: Option<SandboxId>,
    /// Whose lines are there for who asks.
    pub seen: Seen,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// What a line holds, whatever the case of its ASCII letters.
    pub grep: Option<String>,
    /// Where to begin.
    pub from: LogFrom,
    /// Most lines to answer.
    pub limit: usize,
}

/// Which sandboxes' lines somebody may read: others are as if they had not been printed.
#[derive(Clone)]
pub struct Seen(Option<Arc<IsSeen>>);

type IsSeen = dyn Fn(SandboxId) -> bool + Send + Sync;

impl Seen {
    /// All.
    #[must_use]
    pub const fn all() -> Self {
        Self(None)
    }

    /// Those of which this says so; it may be asked of every line.
    #[must_use]
    pub fn only(is_seen: impl Fn(SandboxId) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_seen)))
    }

    /// Whether this one's are there.
    #[must_use]
    pub fn takes_in(&self, sandbox: SandboxId) -> bool {
        self.0.as_ref().is_none_or(|is_seen| is_seen(sandbox))
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            None => "Seen(all)",
            Some(_) => "Seen(some)",
        })
    }
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFrom {
    /// With the oldest line that is kept.
    Oldest,
    /// The newest lines that fit.
    Newest,
    /// After what was read before.
    After(LogPlace),
}

/// A place in what a server printed; good for as long as that is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPlace {
    /// The number of a file.
    pub file: u64,
    /// Octets into it.
    pub offset: u64,
}

/// A text is no place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a cursor is what `next` said")]
pub struct ParseLogPlaceError;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogLine {
    /// When it was read.
    pub time: Timestamp,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// `stderr`, or `output` for both streams together.
    pub stream: LogStream,
    /// Without its end; octets that are no UTF-8 are replaced.
    pub text: String,
}

/// Where a line was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output and standard error, which are one.
    Output,
    /// Standard error of a program whose standard output is somebody's.
    Stderr,
}

impl LogStream {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Stderr => "stderr",
        }
    }
}

/// A page, oldest line first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPage {
    /// The lines that were found.
    pub lines: Vec<LogLine>,
    /// Where the next page begins; there may be nothing yet.
    pub next: LogPlace,
    /// Whether more was there when this was read.
    pub more: bool,
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.file, self.offset)
    }
}

impl FromStr for LogPlace {
    type Err = ParseLogPlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (file, offset) = text.split_once('-').ok_or(ParseLogPlaceError)?;
        let number = |text: &str| text.parse().map_err(|_| ParseLogPlaceError);
        Ok(Self {
            file: number(file)?,
            // No file is longer, and no system can be asked for a place beyond.
            offset: number(offset).and_then(|offset| {
                i64::try_from(offset).map_err(|_| ParseLogPlaceError)?;
                Ok(offset)
            })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = LogPlace {
            file: 12,
            offset: 3456,
        };
        assert_eq!(place.to_string().parse(), Ok(place));
        for text in [
            "",
            "12",
            "12-",
            "-1",
            "a-b",
            "1-2-3",
            "../1-2",
            "1-9223372036854775808",
        ] {
            assert!(text.parse::<LogPlace>().is_err(), "{text}");
        }
    }
}
