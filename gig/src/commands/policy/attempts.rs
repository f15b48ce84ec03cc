//! What sandboxes tried, read from audit records: the input of `gig policy simulate` and `suggest`.
//!
//! A connection whose requests are recorded is told by these alone, and a name by the connection that
//! followed; where it was dialled to, and whether that was refused, by its outcome. Records of other
//! things are passed over. The chain is not verified here: `gig audit
//! verify` does that.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use anyhow::{Context, bail};
use gig_audit::{
    Entry, Event, Record, SqliteLog, VerdictWord,
    log::{
        Log as _,
        lines::{Line, Lines},
    },
    search::Marks,
};
use gig_policy::{AppProtocol, Asked, Attempt, DenyReason, Fqdn, Host, Outcome, Port, SandboxId};
use jiff::Timestamp;

use crate::{args::policy::TrafficArgs, record_place::RecordPlace};

/// All attempts of a file, in its order.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) attempts: Vec<Attempt>,
    /// Records that were taken into account.
    pub(super) records: u64,
}

/// Reads the records that the options choose.
///
/// # Errors
/// When the file cannot be read, or a line is no record.
pub(super) fn read(args: &TrafficArgs) -> anyhow::Result<Traffic> {
    let since = args.since.map(|span| {
        let now = Timestamp::now();
        let begin = now.checked_sub(span).unwrap_or(Timestamp::MIN);
        format!("{begin:.6}")
    });
    let mut gathering = Gathering::default();
    let mut take = |record: &Record| {
        let chosen = since.as_ref().is_none_or(|since| record.time >= *since)
            && (args.sandbox.is_none() || args.sandbox == record.entry.sandbox);
        if chosen {
            gathering.take(record);
        }
    };
    match RecordPlace::of(&args.audit) {
        RecordPlace::Stream => lines("-", Box::new(io::stdin()), &mut take)?,
        RecordPlace::Lines(path) => {
            let name = path.display().to_string();
            let file = File::open(&path).with_context(|| {
                format!("cannot open the audit file {name}: name one that `gig run --audit` wrote")
            })?;
            lines(&name, Box::new(file), &mut take)?;
        }
        RecordPlace::Sqlite(path) => rows(&path, &mut take)?,
    }
    Ok(gathering.finish())
}

/// Reads JSON lines, one record each.
fn lines(name: &str, source: Box<dyn Read>, take: &mut dyn FnMut(&Record)) -> anyhow::Result<()> {
    let mut lines = Lines::new(BufReader::with_capacity(READ_BUFFER, source));
    loop {
        let number = lines.number() + 1;
        let line = lines.next_line();
        let line = line.with_context(|| format!("cannot read line {number} of {name}"))?;
        let why = match line {
            None => return Ok(()),
            Some(Line::TooLong) => "it is longer than any record".to_owned(),
            Some(Line::Whole(octets)) => match serde_json::from_slice(octets) {
                Ok(record) => {
                    take(&record);
                    continue;
                }
                Err(error) => error.to_string(),
            },
            // Still being written, or cut off by a crash.
            Some(Line::Unfinished(octets)) => {
                if let Ok(record) = serde_json::from_slice(octets) {
                    take(&record);
                }
                return Ok(());
            }
        };
        bail!(
            "line {number} of {name} is no audit record ({why}): check the file with \
             `gig audit verify {name}`"
        );
    }
}

/// Reads a database, as far as it goes now.
fn rows(path: &Path, take: &mut dyn FnMut(&Record)) -> anyhow::Result<()> {
    let reading = || format!("cannot read the audit database {}", path.display());
    let mut log = SqliteLog::open(path).with_context(reading)?;
    let mut marks = Marks::default();
    loop {
        let some = log.after(&marks, AT_ONCE).with_context(reading)?;
        if some.is_empty() {
            return Ok(());
        }
        for found in some {
            marks.set(found.at);
            let record = serde_json::from_str(&found.line).with_context(|| {
                format!(
                    "record {} of {} is none that this gig wrote: check it with `gig audit verify`",
                    found.at.seq,
                    path.display()
                )
            })?;
            take(&record);
        }
    }
}

/// What an outcome is of: a request by its id, else the connection.
type Exchange = (Option<SandboxId>, Option<Box<str>>, Option<u64>);

/// What a connection of a sandbox was used for: one to the explicit proxy may ask for many hosts.
type Connection = (Option<SandboxId>, u64, Host, Option<Port>);

#[derive(Default)]
struct Gathering {
    /// With whose it is, and the connection, where it is one.
    attempts: Vec<(Attempt, Option<SandboxId>, Option<Connection>)>,
    /// Where in `attempts` a request or a connection stands: its outcome comes later.
    places: HashMap<Exchange, usize>,
    /// Sandboxes that reach private addresses without a rule's word.
    local: HashSet<SandboxId>,
    /// Connections whose requests are known.
    told: HashSet<Connection>,
    texts: HashMap<Box<str>, std::sync::Arc<str>>,
    records: u64,
}

impl Gathering {
    fn take(&mut self, record: &Record) {
        let entry = &record.entry;
        if entry.event == Event::SandboxStart && entry.profile.as_deref() == Some("local") {
            self.local.extend(entry.sandbox);
        }
        let Some(outcome) = outcome(entry) else {
            return;
        };
        let asked = match entry.event {
            Event::Dns => name(entry),
            Event::Connect => self.connection(entry),
            Event::Request => self.request(entry),
            Event::Response => return self.response(entry, outcome),
            Event::SandboxStart
            | Event::SandboxExit
            | Event::SecretMisuse
            | Event::Finding
            | Event::PolicyChange
            | Event::SecretChange
            | Event::Auth
            | Event::Admin
            | Event::AuditGap => return,
        };
        let Some(asked) = asked else {
            return;
        };
        self.records += 1;
        let (host, port) = (asked.host(), asked.port());
        let connection = entry.conn.map(|conn| (entry.sandbox, conn, host, port));
        let connection = match asked {
            Asked::Connection { .. } => connection,
            Asked::Name(_) => None,
            Asked::Request { .. } => {
                self.told.extend(connection);
                None
            }
        };
        let attempt = Attempt {
            asked,
            address: None,
            outcome,
            time: record.time.as_str().into(),
        };
        if entry.event != Event::Dns {
            self.places.insert(exchange(entry), self.attempts.len());
        }
        self.attempts.push((attempt, entry.sandbox, connection));
    }

    /// Where a name was found, and whether that was refused, is known only when it was dialled. What a
    /// sandbox of the local profile reaches is not opened by rules.
    fn response(&mut self, entry: &Entry, outcome: Outcome) {
        let local = entry.sandbox.is_some_and(|id| self.local.contains(&id));
        let Some(address) = entry.dst_ip.filter(|_| !local) else {
            return;
        };
        let place = self.places.get(&exchange(entry)).copied();
        let Some((attempt, ..)) = place.and_then(|place| self.attempts.get_mut(place)) else {
            return;
        };
        attempt.address = Some(address);
        if outcome == Outcome::Denied(DenyReason::PrivateAddress) {
            attempt.outcome = outcome;
        }
    }

    fn connection(&self, entry: &Entry) -> Option<Asked> {
        Some(Asked::Connection {
            host: Host::parse(entry.host.as_ref()?).ok()?,
            port: Port::new(entry.port?)?,
            protocol: protocol(entry),
        })
    }

    fn request(&mut self, entry: &Entry) -> Option<Asked> {
        Some(Asked::Request {
            host: Host::parse(entry.host.as_ref()?).ok()?,
            port: Port::new(entry.port?)?,
            protocol: protocol(entry)?,
            method: self.shared(entry.method.as_ref()?),
            path: self.shared(entry.path.as_ref()?),
        })
    }

    /// One text for all that are equal: a log repeats itself.
    fn shared(&mut self, text: &str) -> std::sync::Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return std::sync::Arc::clone(known);
        }
        let new: std::sync::Arc<str> = text.into();
        self.texts.insert(text.into(), std::sync::Arc::clone(&new));
        new
    }

    fn finish(self) -> Traffic {
        let Self {
            mut attempts,
            told,
            records,
            ..
        } = self;
        attempts.retain(|(.., connection)| connection.as_ref().is_none_or(|c| !told.contains(c)));
        let connected: HashSet<_> = attempts
            .iter()
            .filter(|(attempt, ..)| !matches!(attempt.asked, Asked::Name(_)))
            .map(|(attempt, sandbox, _)| (*sandbox, attempt.asked.host()))
            .collect();
        attempts.retain(|(attempt, sandbox, _)| match &attempt.asked {
            Asked::Name(name) => !connected.contains(&(*sandbox, Host::Name(name.clone()))),
            Asked::Connection { .. } | Asked::Request { .. } => true,
        });
        Traffic {
            attempts: attempts.into_iter().map(|(attempt, ..)| attempt).collect(),
            records,
        }
    }
}

fn exchange(entry: &Entry) -> Exchange {
    let request = entry.request.as_deref().map(Into::into);
    let conn = entry.conn.filter(|_| request.is_none());
    (entry.sandbox, request, conn)
}

fn name(entry: &Entry) -> Option<Asked> {
    Fqdn::parse(entry.host.as_ref()?).ok().map(Asked::Name)
}

fn protocol(entry: &Entry) -> Option<AppProtocol> {
    match entry.protocol.as_deref()? {
        "https" => Some(AppProtocol::Https),
        "http" => Some(AppProtocol::Http),
        "tcp" => Some(AppProtocol::Tcp),
        _ => None,
    }
}

fn outcome(entry: &Entry) -> Option<Outcome> {
    match entry.verdict? {
        VerdictWord::Allow => Some(Outcome::Allowed),
        VerdictWord::Deny | VerdictWord::WouldDeny => Some(Outcome::Denied(
            entry.reason.unwrap_or(DenyReason::Internal),
        )),
    }
}

/// Records of a database at once.
const AT_ONCE: usize = 1_000;

/// Reads few and large.
const READ_BUFFER: usize = 256 * 1024;
