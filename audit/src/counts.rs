//! Counts of what was decided, so that a busy record is read at a glance: by hour, by host and day, and each
//! attempt that differs from others once.
//!
//! The thread that indexes counts each record once, a thousand at a time: the counts and how far they go are
//! one transaction, so that a crash neither loses nor doubles any. What is not counted yet is read line by line
//! and added when somebody asks; both are of one moment. Records of before there were counts are counted from
//! the newest to the oldest. What a sandbox can choose is bounded: see [`MOST_HOSTS`] and [`MOST_ATTEMPTS`].
//! Counts go with the records they are of, by whole days, and after [`DAYS`] days in any case.

use serde::{Deserialize, Serialize};

use crate::{
    HELD,
    log::{Log, ReadLogError},
    retention::Class,
    row::Row,
    search::Position,
};

pub(crate) mod counting;
pub(crate) mod reading;
pub(crate) mod removing;
pub(crate) mod shares;
pub(crate) mod tally;

pub use tally::what;

/// Hosts of one server and day that are counted by name, on each node; others are counted together.
pub const MOST_HOSTS: usize = 1000;
/// Attempts of one server and day that are kept, on each node, of those that were denied and of those that were
/// not; of others it is known how many there were.
pub const MOST_ATTEMPTS: usize = 1000;
/// Of those that were denied, how many are of one profile: another user's have places, too.
pub const MOST_OF_PROFILE: usize = MOST_ATTEMPTS / 2;
/// Of those, how many are of one host and port: paths without end take no other destination's place.
pub const MOST_OF_DESTINATION: usize = 50;
/// Days that counts are kept at most.
pub const DAYS: u16 = 90;

/// A log that is counted.
pub trait CountedLog: Log {
    /// What was decided since an hour, as `2026-11-21T09`, and about which hosts since a day, as `2026-11-15`.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn decided(&mut self, since_hour: &str, since_day: &str) -> Result<Decided, ReadLogError>;

    /// Which attempts there were.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn tried(&mut self, asked: &TriedAsked) -> Result<Tried, ReadLogError>;

    /// When the newest record of one of these classes was written that was removed, RFC 3339; `None` where none was
    /// since that is kept.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn removed(&mut self, classes: &[Class]) -> Result<Option<String>, ReadLogError>;
}

/// The newest of these classes, of times by class.
pub(crate) fn newest_of(each: Vec<(String, String)>, classes: &[Class]) -> Option<String> {
    let is_asked = |class: &str| classes.iter().any(|one| one.as_str() == class);
    let asked = each.into_iter().filter(|(class, _)| is_asked(class));
    asked.map(|(_, newest)| newest).max()
}

/// Which attempts.
#[derive(Debug, Clone, Default)]
pub struct TriedAsked {
    /// Last seen at this time or later, RFC 3339 as in records.
    pub since: String,
    /// Of this server alone.
    pub server: Option<String>,
    /// Denied, or would be.
    pub denied: bool,
}

/// What was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    /// By hour, server and verdict.
    pub hours: Vec<HourCount>,
    /// By host, most decisions first.
    pub hosts: Vec<HostCount>,
    /// Decisions about hosts beyond those that are counted by name.
    pub other_names: u64,
    /// What that is of.
    pub extent: Extent,
}

/// Decisions of one hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourCount {
    /// `2026-11-21T09`.
    pub hour: String,
    /// The registered server; empty: none.
    pub server: String,
    /// `allow`, `deny` or `would_deny`.
    pub verdict: String,
    /// How many.
    pub count: u64,
}

/// Decisions about one host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCount {
    /// The host.
    pub host: String,
    /// Whose sandboxes asked for it: of several servers the first by name. Empty: of none.
    pub server: String,
    /// Decisions that let it pass.
    pub allowed: u64,
    /// That did not.
    pub denied: u64,
    /// That would not, but for a policy that only observes.
    pub would_deny: u64,
    /// The first in the time that was asked for.
    pub first: String,
    /// The newest.
    pub last: String,
    /// Whether anybody asked for it before that time.
    pub known_before: bool,
}

/// Attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tried {
    /// Each once, the newest first.
    pub attempts: Vec<KeptAttempt>,
    /// Of each server how many records are of attempts beyond those that are kept; empty where it has no name.
    pub beyond: Vec<(String, u64)>,
    /// What that is of.
    pub extent: Extent,
}

/// Attempts that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAttempt {
    /// The registered server; empty: none.
    pub server: String,
    /// What was tried, and what became of it.
    pub what: What,
    /// How often, on the days that were asked for.
    pub count: u64,
    /// When first.
    pub first: String,
    /// When last.
    pub last: String,
    /// Where the newest record of it stands.
    pub newest: Position,
}

/// What attempts have in common; the words are those of the record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in `Row`")]
pub struct What {
    pub event: String,
    pub verdict: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where a name was found, where that is no public address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// A name that was answered for so that what follows can wait for a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Names of secrets that a request carried, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl KeptAttempt {
    /// As its newest record would be read, as far as it is kept.
    #[must_use]
    pub fn row(&self) -> Row {
        let what = self.what.clone();
        Row {
            seq: self.newest.seq,
            time: self.last.clone(),
            event: what.event,
            server: Some(self.server.clone()).filter(|server| !server.is_empty()),
            profile: what.profile,
            policy: what.policy,
            verdict: Some(what.verdict),
            reason: what.reason,
            host: what.host,
            port: what.port,
            dst_ip: what.address,
            protocol: what.protocol,
            method: what.method,
            path: what.path,
            findings: what.held.then(|| HELD.to_owned()).into_iter().collect(),
            ..Row::default()
        }
    }
}

/// How much of the record counts are of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extent {
    /// Records before this time are still to be counted; `None`: all of them are.
    pub since: Option<String>,
    /// Newer records that are not counted yet and were too many to be read for the answer.
    pub behind: u64,
    /// More attempts than one answer holds: the oldest days are left out.
    pub cut: bool,
}

impl Extent {
    /// Whether all records are counted from `since` on.
    #[must_use]
    pub fn is_whole_from(&self, since: &str) -> bool {
        let from = self.since.as_deref().unwrap_or_default();
        self.behind == 0 && !self.cut && from <= since
    }
}
