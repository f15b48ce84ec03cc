//! "It was refused", as three witnesses must say: the client, the origin, the record.
//!
//! Promises: a refusal can be checked only when a test has said what the client sees of it and who
//! stands where nothing may arrive: the compiler sees to it. Against the open subject those two decide
//! alone, and the test fails with the word `ESCAPED`, which is what `tests/run` looks for when it shows
//! that the suite can fail.

use std::marker::PhantomData;

use gig_audit::{Entry, VerdictWord};
use gig_policy::DenyReason;

use super::{http_origin::HttpOrigin, output::Finished, raw_origin::RawOrigin, resolver::Resolver};

/// A witness that a test has not named yet.
#[derive(Debug, Clone, Copy)]
pub enum Unnamed {}

/// A witness that a test has named.
#[derive(Debug, Clone, Copy)]
pub enum Named {}

/// Whether the client saw what it should.
type ClientWitness<'a> = Box<dyn Fn(&Finished) -> bool + 'a>;

/// What arrived where it may not, if anything did.
type OriginWitness<'a> = Box<dyn Fn(&Finished) -> Option<String> + 'a>;

/// What a test expects of a refusal.
pub struct Refusal<'a, Client = Unnamed, Origin = Unnamed> {
    reasons: Vec<DenyReason>,
    host: Option<String>,
    records: Records,
    clients: Vec<ClientWitness<'a>>,
    origins: Vec<OriginWitness<'a>>,
    named: PhantomData<(Client, Origin)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    Exactly(usize),
    Some,
    None,
}

impl Refusal<'_> {
    /// For one reason, recorded once.
    #[must_use]
    pub fn new(reason: DenyReason) -> Self {
        Self {
            reasons: vec![reason],
            host: None,
            records: Records::Exactly(1),
            clients: Vec::new(),
            origins: Vec::new(),
            named: PhantomData,
        }
    }

    /// The kernel refuses it, before gig could see and record anything.
    #[must_use]
    pub fn by_the_kernel() -> Self {
        Self::none()
    }

    /// Nothing is refused, nor may anything arrive; no refusal may be recorded either.
    #[must_use]
    pub fn none() -> Self {
        Self {
            reasons: Vec::new(),
            records: Records::None,
            ..Self::new(DenyReason::Internal)
        }
    }
}

/// What the record must hold.
impl<Client, Origin> Refusal<'_, Client, Origin> {
    /// Another reason that would do.
    #[must_use]
    pub fn or(mut self, reason: DenyReason) -> Self {
        self.reasons.push(reason);
        self
    }

    /// The host that the record must name.
    #[must_use]
    pub fn of(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// The client tries so many times, and each is recorded once.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.records = Records::Exactly(count);
        self
    }

    /// The client tries more than once, nobody can say how often: there is one record at least.
    #[must_use]
    pub fn repeatedly(mut self) -> Self {
        self.records = Records::Some;
        self
    }
}

/// What the client must see.
impl<'a, Client, Origin> Refusal<'a, Client, Origin> {
    /// What the client must have seen.
    #[must_use]
    pub fn client(mut self, saw: impl Fn(&Finished) -> bool + 'a) -> Refusal<'a, Named, Origin> {
        self.clients.push(Box::new(saw));
        self.named()
    }

    /// The client must have printed this.
    #[must_use]
    pub fn client_says(self, part: &'a str) -> Refusal<'a, Named, Origin> {
        self.client(move |run| run.text().contains(part))
    }

    /// There is nothing that a client could see; `_why` is for who reads the test.
    #[must_use]
    pub fn client_sees_nothing_because(self, _why: &str) -> Refusal<'a, Named, Origin> {
        self.named()
    }
}

/// Where nothing may arrive.
impl<'a, Client, Origin> Refusal<'a, Client, Origin> {
    /// Not a packet may have left the host.
    #[must_use]
    pub fn nothing_leaves(self) -> Refusal<'a, Client, Named> {
        self.origin(|run| {
            (run.packets > 0).then(|| format!("{} packets reached the internet", run.packets))
        })
    }

    /// Nobody may have come here; others may have been reached in the same run.
    #[must_use]
    pub fn unseen_by(self, witness: &'a (impl Unseen + ?Sized)) -> Refusal<'a, Client, Named> {
        self.origin(|_| witness.saw())
    }

    /// An origin that is reached must not have seen `what`.
    #[must_use]
    pub fn origin_never_sees(
        self,
        what: &'a str,
        saw: impl Fn() -> bool + 'a,
    ) -> Refusal<'a, Client, Named> {
        self.origin(move |_| saw().then(|| format!("an origin saw {what}")))
    }

    fn origin(
        mut self,
        saw: impl Fn(&Finished) -> Option<String> + 'a,
    ) -> Refusal<'a, Client, Named> {
        self.origins.push(Box::new(saw));
        self.named()
    }

    fn named<C, O>(self) -> Refusal<'a, C, O> {
        Refusal {
            reasons: self.reasons,
            host: self.host,
            records: self.records,
            clients: self.clients,
            origins: self.origins,
            named: PhantomData,
        }
    }
}

impl Refusal<'_, Named, Named> {
    /// Asks the three.
    ///
    /// # Panics
    /// When one of them disagrees.
    pub fn check(&self, run: &Finished) {
        let mut escapes: Vec<String> = self.origins.iter().filter_map(|saw| saw(run)).collect();
        if !self.clients.iter().all(|saw| saw(run)) {
            // In these words: `tests/tally.sh` tells the client's word from everybody else's.
            escapes.push("the client was not refused as it should be".to_owned());
        }
        let escapes = escapes.join("; ESCAPED: ");
        assert!(escapes.is_empty(), "ESCAPED: {escapes}; {run}");
        if !run.open {
            self.ask_the_record(run);
        }
    }

    fn ask_the_record(&self, run: &Finished) {
        let refused = |entry: &&Entry| {
            let wanted = |reason| self.reasons.contains(&reason);
            entry.verdict == Some(VerdictWord::Deny)
                && (self.records == Records::None || entry.reason.is_some_and(wanted))
                && self
                    .host
                    .as_deref()
                    .is_none_or(|host| entry.host.as_deref() == Some(host))
        };
        let entries = run.audit.records().iter().map(|record| &record.entry);
        let count = entries.filter(refused).count();
        let right = match self.records {
            Records::Exactly(wanted) => count == wanted,
            Records::Some => count >= 1,
            Records::None => count == 0,
        };
        assert!(
            right,
            "{count} records of {:?} for {:?}; {run}",
            self.reasons, self.host
        );
    }
}

impl<Client, Origin> std::fmt::Debug for Refusal<'_, Client, Origin> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusal")
            .field("reasons", &self.reasons)
            .finish_non_exhaustive()
    }
}

/// Somebody whom nothing may reach.
pub trait Unseen {
    /// What came, if anything did.
    fn saw(&self) -> Option<String>;
}

impl Unseen for RawOrigin {
    fn saw(&self) -> Option<String> {
        let (visits, octets) = (self.seen().len(), self.wire_octets());
        let address = self.address();
        (visits > 0).then(|| format!("{visits} connections brought {octets} octets to {address}"))
    }
}

impl Unseen for HttpOrigin {
    fn saw(&self) -> Option<String> {
        self.raw().saw()
    }
}

impl Unseen for Resolver {
    fn saw(&self) -> Option<String> {
        let asked = self.asked();
        (!asked.is_empty()).then(|| format!("names were looked up: {asked:?}"))
    }
}

impl<T: Unseen> Unseen for [T] {
    fn saw(&self) -> Option<String> {
        self.iter().find_map(Unseen::saw)
    }
}
