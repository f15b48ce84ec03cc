//! May this sandbox open this connection? And how did it go?
//!
//! Decided on one snapshot of the policy, recorded as `connect`, and only then permitted: nothing is
//! looked up or dialled before. The outcome is a `response` record of its own.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use gig_audit::{Entry, Event, TlsFacts, VerdictWord, why};
use gig_policy::{
    AppProtocol, ConnectPermit, Denial, DenyReason, Host, Policy, PolicyRef, Port, RuleRef, Verdict,
};

use super::{
    astray::Why,
    hold::Heard,
    ledger::Ledger,
    secret::{NO_PLACE, name_is_misused, shown_host, shown_tls},
};
use crate::{
    credential::tally::Tally,
    subject::Subject,
    upstream::{connect_proxy::ProxyFault, dial::DialError},
};

/// A connection that asks to be let out.
#[derive(Debug, Clone)]
pub struct Attempt<'a> {
    /// Whose.
    pub subject: &'a Subject,
    /// Its number, as records carry it.
    pub conn: u64,
    /// The sandbox's end.
    pub src: SocketAddr,
    /// The host that all names agree on (or the destination, where they do not).
    pub host: Host,
    /// The port.
    pub port: Port,
    /// What was recognised; `None` while nothing was read.
    pub protocol: Option<AppProtocol>,
    /// What the ClientHello says.
    pub tls: Option<TlsFacts>,
    /// What came of waiting for a person, where it waited.
    pub heard: Option<Box<Heard>>,
}

impl Attempt<'_> {
    /// A record of `event` that says who wants to go where.
    #[must_use]
    pub fn entry(&self, event: Event) -> Entry {
        let mut entry = Entry::new(event);
        entry.sandbox = Some(self.subject.id());
        entry.server = self.subject.server().cloned();
        entry.profile = self.subject.profile().cloned();
        entry.conn = Some(self.conn);
        entry.src = Some(self.src);
        entry.host = Some(shown_host(self.subject, &self.host.to_string()));
        entry.port = Some(self.port.get());
        entry.protocol = self.protocol.map(|protocol| protocol.as_str().into());
        entry.tls = shown_tls(self.subject, self.tls.as_ref());
        entry
    }
}

/// Finding: the sandbox's TLS client refused the leaf that it was shown, as one of an authority that it does not
/// trust. That is no denial, but no request came of it either.
pub const CLIENT_DISTRUSTS: &str = "tls_client_distrusts";

/// How a permitted connection ended.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Octets towards the origin.
    pub bytes_out: u64,
    /// Octets from the origin.
    pub bytes_in: u64,
    /// From accept to end.
    pub duration: Duration,
    /// The address that was dialled.
    pub dst: Option<SocketAddr>,
    /// Why it failed or was cut, if it was.
    pub reason: Option<DenyReason>,
    /// The rule for which it did, where another one would not.
    pub rule: Option<RuleRef>,
    /// That it failed by the host's proxy.
    pub by_proxy: Option<ProxyFault>,
    /// What else was found, in a fixed word.
    pub finding: Option<&'static str>,
    /// Why a value in it did not go.
    pub why: Option<Why>,
    /// What was seen in it of secrets, where it was watched for them.
    pub tally: Option<Arc<Tally>>,
}

impl Outcome {
    /// Of one that got no connection to its origin.
    #[must_use]
    pub fn not_connected(error: &DialError) -> Self {
        Self {
            dst: error.addr,
            reason: Some(error.reason),
            by_proxy: error.by_proxy,
            ..Self::default()
        }
    }
}

/// Decides on the policy in force and records, in that order; the permit comes after the record.
///
/// # Errors
/// The denial to tell, recorded; or one for want of a record.
pub async fn enforce_connect(
    ledger: &Ledger,
    attempt: &Attempt<'_>,
) -> Result<ConnectPermit, Box<Denial>> {
    let alarm = || attempt.entry(Event::SecretMisuse);
    if name_is_misused(ledger, attempt.subject, &attempt.host.to_string(), alarm) {
        return Err(refuse(
            ledger,
            attempt,
            (DenyReason::SecretMisuse, None),
            vec![why(NO_PLACE)],
        )
        .await);
    }
    let policy = attempt.subject.policy();
    let mut entry = attempt.entry(Event::Connect);
    let heard = attempt.heard.as_ref();
    let (host, port, protocol) = (&attempt.host, attempt.port, attempt.protocol);
    let verdict = match heard.and_then(|heard| heard.word.as_ref()) {
        Some(word) => policy.release_connect(host, port, protocol, word),
        None => policy.decide_connect(host, port, protocol),
    };
    if let Some(heard) = heard {
        entry.findings.clone_from(&heard.findings);
    }
    match &verdict {
        Verdict::Allow(permit) => {
            let would = permit.would_deny();
            fill_policy(&mut entry, permit.policy(), permit.rule());
            entry.verdict = Some(would.map_or(VerdictWord::Allow, |_| VerdictWord::WouldDeny));
            entry.reason = would.map(|denial| denial.reason);
        }
        Verdict::Deny(denial) => {
            fill_policy(&mut entry, &denial.policy, denial.rule.as_ref());
            entry.verdict = Some(VerdictWord::Deny);
            entry.reason = Some(denial.reason);
        }
    }
    if ledger.record(entry).await.is_err() {
        return Err(denial(
            &policy,
            DenyReason::RecordUnavailable,
            String::new(),
        ));
    }
    match verdict {
        Verdict::Allow(permit) => Ok(permit),
        Verdict::Deny(denial) => Err(denial),
    }
}

/// Records a refusal that was not policy's (names that disagree, a limit) and makes the denial to
/// tell. Without a record the reason is [`DenyReason::RecordUnavailable`].
pub async fn refuse_connect(
    ledger: &Ledger,
    attempt: &Attempt<'_>,
    reason: DenyReason,
) -> Box<Denial> {
    refuse_finding(ledger, attempt, reason, Vec::new()).await
}

/// The same, with `findings` that say more.
pub async fn refuse_finding(
    ledger: &Ledger,
    attempt: &Attempt<'_>,
    reason: DenyReason,
    mut findings: Vec<Arc<str>>,
) -> Box<Denial> {
    let alarm = || attempt.entry(Event::SecretMisuse);
    let misused = name_is_misused(ledger, attempt.subject, &attempt.host.to_string(), alarm);
    let reason = if misused {
        findings.insert(0, why(NO_PLACE));
        DenyReason::SecretMisuse
    } else {
        reason
    };
    refuse(ledger, attempt, (reason, None), findings).await
}

/// The same of bytes that are none of what `permit` lets pass: the record names its rule, in whose place
/// another would let them pass.
pub async fn refuse_other_bytes(
    ledger: &Ledger,
    attempt: &Attempt<'_>,
    permit: &ConnectPermit,
    reason: DenyReason,
) -> Box<Denial> {
    refuse(ledger, attempt, (reason, permit.rule()), Vec::new()).await
}

async fn refuse(
    ledger: &Ledger,
    attempt: &Attempt<'_>,
    (reason, rule): (DenyReason, Option<&RuleRef>),
    findings: Vec<Arc<str>>,
) -> Box<Denial> {
    let policy = attempt.subject.policy();
    let mut entry = attempt.entry(Event::Connect);
    fill_policy(&mut entry, &refusing(&policy, attempt, reason), rule);
    entry.verdict = Some(VerdictWord::Deny);
    entry.reason = Some(reason);
    entry.findings.extend(findings);
    let reason = match ledger.record(entry).await {
        Ok(()) => reason,
        Err(_) => DenyReason::RecordUnavailable,
    };
    denial(&policy, reason, String::new())
}

/// The policy that a refusal names: the floor, where rules decided and one of a floor lacks.
fn refusing(policy: &Policy, attempt: &Attempt<'_>, reason: DenyReason) -> PolicyRef {
    if reason.is_of_rules()
        && !policy.floors().is_empty()
        && let Verdict::Deny(denial) =
            policy.decide_connect(&attempt.host, attempt.port, attempt.protocol)
        && denial.floor
    {
        return denial.policy;
    }
    policy.reference().clone()
}

/// Records how a permitted connection ended, as a `response` event. What happened cannot be taken
/// back any more, so that a lost record is only logged here; the recorder keeps the gap.
pub async fn record_outcome(ledger: &Ledger, attempt: &Attempt<'_>, outcome: Outcome) {
    let policy = attempt.subject.policy();
    let mut entry = attempt.entry(Event::Response);
    fill_policy(&mut entry, policy.reference(), outcome.rule.as_ref());
    let refused = outcome.reason.is_some_and(DenyReason::is_refusal);
    entry.verdict = Some(if refused {
        VerdictWord::Deny
    } else {
        VerdictWord::Allow
    });
    entry.reason = outcome.reason;
    let by_proxy = outcome.by_proxy.map(|fault| fault.to_string().into());
    entry.findings.extend(by_proxy);
    entry.findings.extend(outcome.finding.map(Into::into));
    let why = outcome.why.iter().flat_map(Why::findings);
    entry.findings.extend(why);
    if let Some(tally) = &outcome.tally {
        entry.secrets = tally.names();
        entry.findings.extend(tally.findings());
    }
    entry.dst_ip = outcome.dst.map(|dst| dst.ip());
    entry.bytes_out = Some(outcome.bytes_out);
    entry.bytes_in = Some(outcome.bytes_in);
    entry.duration_ms = Some(u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX));
    // Told in the log where it is not.
    ledger.record(entry).await.ok();
}

/// A denial that no rule made: for limits, failures and disagreements.
#[must_use]
pub fn denial(policy: &Policy, reason: DenyReason, hint: String) -> Box<Denial> {
    Box::new(Denial {
        reason,
        policy: policy.reference().clone(),
        rule: None,
        hint,
        floor: false,
    })
}

/// Says in a record which policy, version and rule decided.
pub fn fill_policy(entry: &mut Entry, policy: &PolicyRef, rule: Option<&RuleRef>) {
    entry.policy = Some(policy.name.clone());
    entry.policy_version = Some(policy.version);
    entry.rule = rule.map(|rule| rule.0.clone());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gig_policy::SandboxId;

    use super::*;

    fn subject() -> Arc<Subject> {
        Subject::new(
            SandboxId::new(uuid::Uuid::nil()),
            [10, 200, 0, 2].into(),
            [10, 200, 0, 1].into(),
            Policy::deny_all("none"),
        )
    }

    fn attempt(subject: &Subject) -> Attempt<'_> {
        Attempt {
            subject,
            conn: 7,
            src: "10.200.0.2:40000".parse().unwrap(),
            host: Host::parse("evil.example").unwrap(),
            port: Port::HTTPS,
            protocol: Some(AppProtocol::Https),
            tls: None,
            heard: None,
        }
    }

    #[tokio::test]
    async fn a_denied_connection_is_recorded_before_it_is_told() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let ledger = Ledger::from(recorder);
        let subject = subject();
        let denial = enforce_connect(&ledger, &attempt(&subject))
            .await
            .unwrap_err();
        assert_eq!(denial.reason, DenyReason::HostNotAllowed);
        let records = log.records();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].entry.event, Event::Connect);
        assert_eq!(records[0].entry.verdict, Some(VerdictWord::Deny));
        assert_eq!(records[0].entry.host.as_deref(), Some("evil.example"));
        assert_eq!(records[0].entry.conn, Some(7));
    }

    #[tokio::test]
    async fn an_outcome_is_a_denial_only_where_something_was_refused() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let ledger = Ledger::from(recorder);
        let subject = subject();
        for (reason, verdict) in [
            (None, VerdictWord::Allow),
            (Some(DenyReason::ConnectionRefused), VerdictWord::Allow),
            (Some(DenyReason::NameNotResolved), VerdictWord::Allow),
            (Some(DenyReason::ShuttingDown), VerdictWord::Allow),
            (Some(DenyReason::PrivateAddress), VerdictWord::Deny),
            (Some(DenyReason::Revoked), VerdictWord::Deny),
        ] {
            let outcome = Outcome {
                reason,
                ..Outcome::default()
            };
            record_outcome(&ledger, &attempt(&subject), outcome).await;
            let entry = log.records().pop().unwrap().entry;
            assert_eq!((entry.reason, entry.verdict), (reason, Some(verdict)));
        }
    }

    #[tokio::test]
    async fn a_lost_record_refuses() {
        let (recorder, log) = gig_audit::Recorder::in_memory();
        let ledger = Ledger::from(recorder);
        log.fail(true);
        let subject = subject();
        let told = enforce_connect(&ledger, &attempt(&subject))
            .await
            .unwrap_err();
        assert_eq!(told.reason, DenyReason::RecordUnavailable);
        let told = refuse_connect(&ledger, &attempt(&subject), DenyReason::NamesDisagree).await;
        assert_eq!(told.reason, DenyReason::RecordUnavailable);
    }
}
