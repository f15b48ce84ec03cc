//! What sandboxes tried, gathered from records: the input of a replay and of a suggestion.
//!
//! A connection whose requests are recorded is told by these alone, and a name by the connection that
//! followed; where it was dialled to, and whether that was refused, by its outcome. Records of other
//! things are passed over. Nothing is verified here.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use gig_policy::{
    AppProtocol, Asked, Attempt, DenyReason, Fqdn, Host, Outcome, Port, SandboxId,
    unasked::is_unasked,
};

use crate::{Entry, Event, HELD, Record, VerdictWord};

mod kept;

pub use kept::of_kept;

/// All attempts of some records, in their order.
#[derive(Debug, Default)]
pub struct Traffic {
    /// What was tried.
    pub attempts: Vec<Attempt>,
    /// Records that were taken into account.
    pub records: u64,
    /// Refusals of private addresses of which only host and port are known, where some requests of these passed:
    /// which of them were refused is a guess.
    pub guessed: u64,
}

/// What an outcome is of: a request by its id, else the connection.
type Exchange = (Option<SandboxId>, Option<Box<str>>, Option<u64>);

/// What a connection of a sandbox was used for: one to the explicit proxy may ask for many hosts.
type Connection = (Option<SandboxId>, u64, Host, Option<Port>);

/// Records on their way to attempts; they are taken oldest first.
#[derive(Debug, Default)]
pub struct Gathering {
    /// With whose it is, and the connection, where it is one.
    attempts: Vec<(Attempt, Option<SandboxId>, Option<Connection>)>,
    /// Where in `attempts` a request or a connection stands: its outcome comes later.
    places: HashMap<Exchange, usize>,
    /// Sandboxes that reach private addresses without a rule's word.
    local: HashSet<SandboxId>,
    /// Secrets whose values sandboxes were handed.
    entrusted: HashSet<(Option<SandboxId>, Arc<str>)>,
    /// Connections whose requests are known.
    told: HashSet<Connection>,
    texts: HashSet<Arc<str>>,
    records: u64,
}

impl Gathering {
    /// Takes a record into account.
    pub fn take(&mut self, record: &Record) {
        let entry = &record.entry;
        if entry.event == Event::SandboxStart {
            let is_local = entry.profile.as_deref() == Some("local");
            self.local.extend(entry.sandbox.filter(|_| is_local));
            let handed = entry.secrets.iter().cloned();
            self.entrusted
                .extend(handed.map(|name| (entry.sandbox, name)));
        }
        if entry.event == Event::SecretUse {
            return self.carried(entry);
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
            | Event::SecretUse
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
            secrets: sorted(&entry.secrets),
            entrusted: self.entrusted_of(entry),
            outcome,
            first: record.time.as_str().into(),
            time: record.time.as_str().into(),
            count: 1,
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
        let handed = self.entrusted_of(entry);
        let place = self.places.get(&exchange(entry)).copied();
        let Some((attempt, ..)) = place.and_then(|place| self.attempts.get_mut(place)) else {
            return;
        };
        // What a connection that is not opened carried is known when it ends: values that the program was handed.
        if matches!(attempt.asked, Asked::Connection { .. }) {
            if outcome.passed() {
                attempt.secrets.clone_from(&handed);
                attempt.entrusted = handed;
            } else if outcome == Outcome::Denied(DenyReason::SecretMisuse) {
                // It was let go, and cut for what it carried.
                attempt.outcome = outcome;
            }
        }
        let Some(address) = entry.dst_ip.filter(|_| !local) else {
            return;
        };
        attempt.address = Some(address);
        if outcome.is_of_address() {
            attempt.outcome = outcome;
        }
    }

    /// What of a record's secrets its sandbox was handed the values of.
    fn entrusted_of(&self, entry: &Entry) -> Vec<Arc<str>> {
        let names = sorted(&entry.secrets).into_iter();
        let is_handed = |name: &Arc<str>| {
            let key = (entry.sandbox, Arc::clone(name));
            self.entrusted.contains(&key)
        };
        names.filter(is_handed).collect()
    }

    /// What was placed behind a request's head is told when it is placed.
    fn carried(&mut self, entry: &Entry) {
        let place = self.places.get(&exchange(entry)).copied();
        if let Some((attempt, ..)) = place.and_then(|place| self.attempts.get_mut(place)) {
            attempt.secrets.extend(entry.secrets.iter().cloned());
            attempt.secrets = sorted(&attempt.secrets);
        }
    }

    fn connection(&self, entry: &Entry) -> Option<Asked> {
        if is_unopened(entry.protocol.as_deref()) {
            return None;
        }
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
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    /// What was tried, once.
    #[must_use]
    pub fn finish(self) -> Traffic {
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
            guessed: 0,
        }
    }
}

/// Each once.
fn sorted(names: &[Arc<str>]) -> Vec<Arc<str>> {
    let names: BTreeSet<_> = names.iter().cloned().collect();
    names.into_iter().collect()
}

fn exchange(entry: &Entry) -> Exchange {
    let request = entry.request.as_deref().map(Into::into);
    let conn = entry.conn.filter(|_| request.is_none());
    (entry.sandbox, request, conn)
}

fn name(entry: &Entry) -> Option<Asked> {
    // What systems ask by themselves is not for a rule.
    let name = entry.host.as_ref().filter(|name| !is_unasked(name))?;
    Fqdn::parse(name).ok().map(Asked::Name)
}

/// Whether it was neither TCP nor a question for a name: no rule speaks of that.
fn is_unopened(protocol: Option<&str>) -> bool {
    protocol.is_some_and(|word| AppProtocol::of_word(word).is_none())
}

fn protocol(entry: &Entry) -> Option<AppProtocol> {
    AppProtocol::of_word(entry.protocol.as_deref()?)
}

fn outcome(entry: &Entry) -> Option<Outcome> {
    let reason = entry.reason.unwrap_or(DenyReason::Internal);
    // Such a name got an address so that what is asked of it can wait for a person: nobody observed.
    let held = entry.event == Event::Dns && entry.findings.iter().any(|one| &**one == HELD);
    Some(match entry.verdict? {
        VerdictWord::Allow => Outcome::Allowed,
        VerdictWord::WouldDeny if !held => Outcome::Observed(reason),
        VerdictWord::Deny | VerdictWord::WouldDeny => Outcome::Denied(reason),
    })
}
