//! May this sandbox learn an address for this name?
//!
//! Programs ask the same question again and again (A and AAAA, each retried, for every connection).
//! The first of each kind is recorded before its answer; repeats within a second, decided alike, are
//! counted and the count is recorded afterwards, so that a flood costs one record a second and name. Records of
//! one sandbox's questions are paced ([`crate::budget`]); what would wait too long is [`DenyReason::RequestRate`],
//! has no record of its own, and is for the caller to count.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gig_audit::{Entry, Event, HELD, VerdictWord, why};
use gig_policy::{Denial, DenyReason, Fqdn, NamePermit, SandboxId, Verdict};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    connect::{denial, fill_policy},
    ledger::{Ledger, Told},
    secret::{NO_PLACE, name_is_misused, shown_host},
};
use crate::{dns::answer::Refused, subject::Subject};

/// Decides on names, records, and remembers what was recorded just now.
#[derive(Debug)]
pub struct NameEnforcer {
    ledger: Ledger,
    recent: Mutex<HashMap<Question, Repeats>>,
}

/// One question with its decision: what makes two records the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    sandbox: SandboxId,
    name: Arc<str>,
    query_type: Arc<str>,
    policy: (Arc<str>, u64),
    reason: Option<DenyReason>,
    /// What is said of a refusal beside that.
    why: Option<Arc<str>>,
}

#[derive(Debug)]
struct Repeats {
    since: Instant,
    count: u64,
    entry: Entry,
}

impl NameEnforcer {
    /// Records through `ledger`.
    #[must_use]
    pub fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            recent: Mutex::default(),
        }
    }

    /// Decides and records; the permit comes only after the record is written.
    ///
    /// # Errors
    /// The denial to tell, recorded; or one for want of a record.
    pub async fn enforce(
        &self,
        subject: &Subject,
        name: &Fqdn,
        query_type: &str,
    ) -> Result<NamePermit, Box<Denial>> {
        let mut entry = Self::entry(subject, name.as_str(), query_type);
        if self.is_misused(subject, [name.as_str()], &entry) {
            return Err(self.denied(subject, entry, DenyReason::SecretMisuse).await);
        }
        let policy = subject.policy();
        let verdict = policy.decide_name(name);
        match &verdict {
            Verdict::Allow(permit) => {
                let would = permit.would_deny();
                fill_policy(&mut entry, permit.policy(), permit.rule());
                entry.verdict = Some(would.map_or(VerdictWord::Allow, |_| VerdictWord::WouldDeny));
                entry.reason = would.map(|denial| denial.reason);
                if would.is_some() && policy.hold().is_some() {
                    // Its address is ours: what is asked of it waits for a person.
                    entry.findings.push(HELD.into());
                }
                if !ADDRESSES.contains(&query_type) {
                    entry.findings.push(NO_DATA.into());
                }
            }
            Verdict::Deny(denial) => {
                fill_policy(&mut entry, &denial.policy, denial.rule.as_ref());
                entry.verdict = Some(VerdictWord::Deny);
                entry.reason = Some(denial.reason);
            }
        }
        if let Err(reason) = self.record(subject, entry).await {
            return Err(denial(&policy, reason, String::new()));
        }
        match verdict {
            Verdict::Allow(permit) => Ok(permit),
            Verdict::Deny(denial) => Err(denial),
        }
    }

    /// Records a refusal that was not policy's: the text is no name, or there are too many questions.
    pub async fn refuse(
        &self,
        subject: &Subject,
        name: &str,
        query_type: &str,
        reason: DenyReason,
    ) -> Box<Denial> {
        let entry = Self::entry(subject, name, query_type);
        let reason = match self.is_misused(subject, [name], &entry) {
            true => DenyReason::SecretMisuse,
            false => reason,
        };
        self.denied(subject, entry, reason).await
    }

    /// The same of a query that is none of what is answered; its record says what is wrong with it.
    pub async fn refuse_unread(&self, subject: &Subject, refused: &Refused) -> Box<Denial> {
        let mut entry = Self::entry(subject, &refused.name, &refused.type_word);
        if refused.name.is_empty() {
            (entry.host, entry.method) = (None, None);
        }
        let names = std::iter::once(&refused.name).chain(&refused.others);
        let reason = match self.is_misused(subject, names, &entry) {
            true => DenyReason::SecretMisuse,
            false => {
                entry.findings.push(why(refused.why));
                refused.reason
            }
        };
        self.denied(subject, entry, reason).await
    }

    /// Raises the alarm, which says what `entry` does, when one of these names holds a sentinel or a value. Whether one
    /// did.
    fn is_misused(
        &self,
        subject: &Subject,
        names: impl IntoIterator<Item: AsRef<str>>,
        entry: &Entry,
    ) -> bool {
        let alarm = || entry.clone();
        let mut names = names.into_iter();
        names.any(|name| name_is_misused(&self.ledger, subject, name.as_ref(), alarm))
    }

    async fn denied(&self, subject: &Subject, mut entry: Entry, reason: DenyReason) -> Box<Denial> {
        let policy = subject.policy();
        fill_policy(&mut entry, policy.reference(), None);
        entry.verdict = Some(VerdictWord::Deny);
        entry.reason = Some(reason);
        if reason == DenyReason::SecretMisuse {
            entry.findings.push(why(NO_PLACE));
        }
        let recorded = self.record(subject, entry).await;
        denial(&policy, recorded.err().unwrap_or(reason), String::new())
    }

    /// Records that `count` questions or connections were dropped unread, for `reason`; whether the count is
    /// told. One that is not is for the caller to keep.
    #[must_use]
    pub async fn record_dropped(&self, subject: &Subject, reason: DenyReason, count: u64) -> bool {
        let mut entry = Entry::new(Event::Dns);
        entry.sandbox = Some(subject.id());
        entry.server = subject.server().cloned();
        entry.profile = subject.profile().cloned();
        entry.protocol = Some("dns".into());
        fill_policy(&mut entry, subject.policy().reference(), None);
        entry.verdict = Some(VerdictWord::Deny);
        entry.reason = Some(reason);
        entry.findings.push(format!("dropped:{count}").into());
        self.ledger.tell_count(entry).await != Told::Lost
    }

    /// Records how often each question was repeated since its record; call about once a second. What
    /// cannot be written is counted on.
    pub async fn record_repeats(&self) {
        self.record_older_than(REPEAT).await;
    }

    /// The same at the end, however young they are.
    pub async fn record_last_repeats(&self) {
        self.record_older_than(Duration::ZERO).await;
    }

    async fn record_older_than(&self, age: Duration) {
        let now = Instant::now();
        let due: Vec<_> = {
            let mut recent = self.recent.lock();
            let old = recent.extract_if(|_, r| now.saturating_duration_since(r.since) >= age);
            old.filter(|(_, repeats)| repeats.count > 0).collect()
        };
        let mut lost = false;
        for (question, repeats) in due {
            // While the record is lost or hangs, one try is enough.
            if !lost {
                let mut entry = repeats.entry.clone();
                let count = format!("repeated:{}", repeats.count);
                entry.findings.push(count.into());
                let told = self.ledger.tell_count(entry).await;
                lost = told != Told::Written;
                if told != Told::Lost {
                    continue;
                }
            }
            self.put_back(question, repeats);
        }
    }

    /// Counts on, beside what was asked meanwhile.
    fn put_back(&self, question: Question, repeats: Repeats) {
        let mut recent = self.recent.lock();
        let count = repeats.count;
        recent
            .entry(question)
            .and_modify(|there| there.count += count)
            .or_insert(repeats);
    }

    fn entry(subject: &Subject, name: &str, query_type: &str) -> Entry {
        let mut entry = Entry::new(Event::Dns);
        entry.sandbox = Some(subject.id());
        entry.server = subject.server().cloned();
        entry.profile = subject.profile().cloned();
        entry.host = Some(shown_host(subject, name));
        entry.protocol = Some("dns".into());
        entry.method = Some(query_type.into());
        entry
    }

    /// Writes the entry, unless one like it was written within the last second.
    async fn record(&self, subject: &Subject, entry: Entry) -> Result<(), DenyReason> {
        let question = Question {
            sandbox: subject.id(),
            name: entry.host.clone().unwrap_or_default(),
            query_type: entry.method.clone().unwrap_or_default(),
            policy: (
                entry.policy.clone().unwrap_or_default(),
                entry.policy_version.unwrap_or(0),
            ),
            reason: entry.reason,
            why: entry.reason.and_then(|_| entry.findings.first().cloned()),
        };
        if self.is_repeat(&question) {
            return Ok(());
        }
        let wait = subject.budget().name().ok_or(DenyReason::RequestRate)?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        if self.ledger.record(entry.clone()).await.is_err() {
            return Err(DenyReason::RecordUnavailable);
        }
        let mut recent = self.recent.lock();
        if recent.len() < MAX_RECENT {
            let fresh = || Repeats {
                since: Instant::now(),
                count: 0,
                entry,
            };
            recent.entry(question).or_insert_with(fresh);
        }
        Ok(())
    }

    fn is_repeat(&self, question: &Question) -> bool {
        let mut recent = self.recent.lock();
        match recent.get_mut(question) {
            Some(repeats) if repeats.since.elapsed() < REPEAT => {
                repeats.count += 1;
                true
            }
            // Older, and counted: the sweep writes it. Older and not counted: makes room.
            Some(repeats) if repeats.count > 0 => {
                repeats.count += 1;
                true
            }
            Some(_) => {
                recent.remove(question);
                false
            }
            None => false,
        }
    }
}

/// Types that clients ask on their way to an address; without AAAA, HTTPS and SVCB (RFC 9460) they go on.
const ADDRESSES: [&str; 4] = ["A", "AAAA", "HTTPS", "SVCB"];
/// Why a program may find nothing at a name that is allowed: its mail exchangers, say, or its SRV records.
const NO_DATA: &str = "answered with nothing: sandboxes are told addresses alone";
/// Within this time one record stands for all questions that are decided alike.
const REPEAT: Duration = Duration::from_secs(1);
/// Beyond this many different questions in a second each is recorded, without counting.
const MAX_RECENT: usize = 8192;

#[cfg(test)]
mod tests {
    use gig_policy::Policy;

    use super::*;

    fn subject() -> Arc<Subject> {
        Subject::new(
            SandboxId::new(uuid::Uuid::nil()),
            [10, 200, 0, 2].into(),
            [10, 200, 0, 1].into(),
            Policy::deny_all("none"),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_name_is_recorded_once_a_second_with_its_count() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let ledger = Ledger::from(recorder);
        let enforcer = NameEnforcer::new(ledger);
        let (subject, name) = (subject(), Fqdn::parse("evil.example").unwrap());
        for _ in 0..5 {
            let denial = enforcer.enforce(&subject, &name, "A").await.unwrap_err();
            assert_eq!(denial.reason, DenyReason::HostNotAllowed);
        }
        assert_eq!(log.records().len(), 1);
        tokio::time::advance(REPEAT).await;
        enforcer.record_repeats().await;
        let records = log.records();
        assert_eq!(records.len(), 2);
        assert_eq!(&*records[1].entry.findings[0], "repeated:4");
        assert!(enforcer.recent.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_that_cannot_be_written_are_told_with_the_next_that_can() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let enforcer = NameEnforcer::new(Ledger::from(recorder));
        let subject = subject();
        let names = ["a.example", "b.example"].map(|name| Fqdn::parse(name).unwrap());
        let ask = async |times| {
            for _ in 0..times {
                for name in &names {
                    assert!(enforcer.enforce(&subject, name, "A").await.is_err());
                }
            }
        };
        ask(5).await;
        tokio::time::advance(REPEAT).await;
        log.fail(true);
        enforcer.record_repeats().await;
        ask(3).await;
        enforcer.record_last_repeats().await;
        log.fail(false);
        enforcer.record_repeats().await;
        let records = log.records();
        let told: Vec<_> = records
            .iter()
            .flat_map(|record| &record.entry.findings)
            .map(|finding| &**finding)
            .filter(|finding| finding.starts_with("repeated"))
            .collect();
        assert_eq!(told, ["repeated:7", "repeated:7"]);
        assert!(enforcer.recent.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_of_the_last_moment_are_told_at_the_end() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let enforcer = NameEnforcer::new(Ledger::from(recorder));
        let (subject, name) = (subject(), Fqdn::parse("evil.example").unwrap());
        for _ in 0..3 {
            assert!(enforcer.enforce(&subject, &name, "A").await.is_err());
        }
        enforcer.record_repeats().await;
        assert_eq!(log.records().len(), 1);
        enforcer.record_last_repeats().await;
        assert_eq!(&*log.records()[1].entry.findings[0], "repeated:2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_is_held_is_answered_and_recorded_as_not_allowed() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let ledger = Ledger::from(recorder);
        let enforcer = NameEnforcer::new(ledger);
        let (subject, name) = (subject(), Fqdn::parse("new.example").unwrap());
        let holding = "version: 1\nname: asks\nhold: 30s\negress: []\n";
        subject.set_policy(Policy::compile(holding, "p").unwrap());
        let permit = enforcer.enforce(&subject, &name, "A").await.unwrap();
        assert_eq!(permit.name(), &name);
        let entry = &log.records()[0].entry;
        assert_eq!(entry.verdict, Some(VerdictWord::WouldDeny));
        assert_eq!(entry.reason, Some(DenyReason::HostNotAllowed));
        assert_eq!(entry.findings, [Arc::from(HELD)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_allowed_name_whose_records_are_not_told_says_so() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let enforcer = NameEnforcer::new(Ledger::from(recorder));
        let (subject, name) = (subject(), Fqdn::parse("db.example").unwrap());
        let open = "version: 1\negress: [{host: db.example}]\n";
        subject.set_policy(Policy::compile(open, "p").unwrap());
        for query_type in ["A", "AAAA", "HTTPS", "SRV", "TXT"] {
            let _permit = enforcer.enforce(&subject, &name, query_type).await.unwrap();
            let findings = log.records().last().unwrap().entry.findings.clone();
            let told = findings == [Arc::from(NO_DATA)];
            assert_eq!(
                told,
                matches!(query_type, "SRV" | "TXT"),
                "{query_type}: {findings:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn different_questions_are_each_recorded() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let ledger = Ledger::from(recorder);
        let enforcer = NameEnforcer::new(ledger);
        let subject = subject();
        for name in ["a.example", "b.example"] {
            for query_type in ["A", "AAAA"] {
                let name = Fqdn::parse(name).unwrap();
                assert!(enforcer.enforce(&subject, &name, query_type).await.is_err());
            }
        }
        assert_eq!(log.records().len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_record_the_reason_says_so() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let ledger = Ledger::from(recorder);
        log.fail(true);
        let enforcer = NameEnforcer::new(ledger);
        let name = Fqdn::parse("a.example").unwrap();
        let denial = enforcer.enforce(&subject(), &name, "A").await.unwrap_err();
        assert_eq!(denial.reason, DenyReason::RecordUnavailable);
    }
}
