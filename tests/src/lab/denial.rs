//! "It was refused", as three witnesses must say: the client, the origin, the record.
//!
//! Promises: against the open subject the first two decide alone, and the test fails with the word
//! `ESCAPED`, which is what `tests/run` looks for when it shows that the suite can fail.

use gig_audit::{Entry, VerdictWord};
use gig_policy::DenyReason;

use super::{output::Finished, raw_origin::RawOrigin};

/// Whether the client saw what it should.
type ClientWitness<'a> = Box<dyn Fn(&Finished) -> bool + 'a>;

/// What a test expects of a refusal.
pub struct Refusal<'a> {
    reasons: Vec<DenyReason>,
    host: Option<String>,
    records: Records,
    client: Option<ClientWitness<'a>>,
    origins: Vec<&'a RawOrigin>,
    others_may_be_reached: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    One,
    Some,
    None,
}

impl<'a> Refusal<'a> {
    /// For one reason.
    #[must_use]
    pub fn new(reason: DenyReason) -> Self {
        Self {
            reasons: vec![reason],
            host: None,
            records: Records::One,
            client: None,
            origins: Vec::new(),
            others_may_be_reached: false,
        }
    }

    /// The kernel refuses it, before gig could see and record anything.
    #[must_use]
    pub fn by_the_kernel() -> Self {
        Self {
            reasons: Vec::new(),
            records: Records::None,
            ..Self::new(DenyReason::Internal)
        }
    }

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

    /// The client tries more than once, so there may be several records.
    #[must_use]
    pub const fn repeatedly(mut self) -> Self {
        self.records = Records::Some;
        self
    }

    /// What the client must have seen.
    #[must_use]
    pub fn client(mut self, saw: impl Fn(&Finished) -> bool + 'a) -> Self {
        self.client = Some(Box::new(saw));
        self
    }

    /// The client must have printed this.
    #[must_use]
    pub fn client_says(self, part: &'a str) -> Self {
        self.client(move |run| run.text().contains(part))
    }

    /// This origin must have seen nothing; others may have been reached in the same run.
    #[must_use]
    pub fn unseen_by(mut self, origin: &'a RawOrigin) -> Self {
        self.origins.push(origin);
        self.others_may_be_reached = true;
        self
    }

    /// The run reaches allowed origins too; a client's witness replaces the count of packets.
    #[must_use]
    pub const fn beside_allowed_traffic(mut self) -> Self {
        self.others_may_be_reached = true;
        self
    }

    /// Asks the three.
    ///
    /// # Panics
    /// When one of them disagrees.
    pub fn check(&self, run: &Finished) {
        let octets: u64 = self.origins.iter().map(|origin| origin.wire_octets()).sum();
        assert!(
            octets == 0,
            "ESCAPED: the origin saw {octets} octets; {run}"
        );
        let packets = if self.others_may_be_reached {
            0
        } else {
            run.packets
        };
        assert!(
            packets == 0,
            "ESCAPED: {packets} packets reached the internet; {run}"
        );
        if let Some(client) = &self.client {
            assert!(
                client(run),
                "ESCAPED: the client was not refused as it should be; {run}"
            );
        }
        if !run.open {
            self.ask_the_record(run);
        }
    }

    fn ask_the_record(&self, run: &Finished) {
        let refused = |entry: &&Entry| {
            entry.verdict == Some(VerdictWord::Deny)
                && entry
                    .reason
                    .is_some_and(|reason| self.reasons.contains(&reason))
                && self
                    .host
                    .as_deref()
                    .is_none_or(|host| entry.host.as_deref() == Some(host))
        };
        let entries = run.audit.records().iter().map(|record| &record.entry);
        let count = entries.filter(refused).count();
        let right = match self.records {
            Records::One => count == 1,
            Records::Some => count >= 1,
            Records::None => true,
        };
        assert!(
            right,
            "{count} records of {:?} for {:?}; {run}",
            self.reasons, self.host
        );
    }
}

impl std::fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusal")
            .field("reasons", &self.reasons)
            .finish_non_exhaustive()
    }
}
