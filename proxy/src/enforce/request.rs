//! May this request go? And what came of it?
//!
//! A request is decided under the policy in force at that moment and recorded before its first octet
//! leaves; its outcome is recorded when the last octet of the answer is through, or when it was cut.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use gig_audit::{Entry, Event, TlsFacts, VerdictWord, why};
use gig_policy::{
    AppProtocol, Denial, DenyReason, Host, Policy, PolicyRef, Port, RequestIntent, RequestPermit,
    RuleRef, SecretGrant, Verdict,
};

use super::{
    astray::Why,
    connect::denial,
    hold::Heard,
    ledger::Ledger,
    secret::{NO_PLACE, name_is_misused, raise_alarm, shown_tls},
};
use crate::{
    credential::{
        misuse::hidden::{method_without_values, without_values},
        tally::{Misuse, Tally, Used},
    },
    subject::Subject,
    upstream::connect_proxy::ProxyFault,
};

/// A request that asks to be forwarded, in the words that its records carry.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Whose.
    pub subject: Arc<Subject>,
    /// Its connection's number.
    pub conn: u64,
    /// The sandbox's end.
    pub src: SocketAddr,
    /// Its own id, as told to the program.
    pub id: Arc<str>,
    /// The host that all names agree on; where they do not, the connection's.
    pub host: Host,
    /// The same as text.
    pub host_word: Arc<str>,
    /// The port.
    pub port: Port,
    /// `Https` or `Http`.
    pub protocol: AppProtocol,
    /// The method.
    pub method: Arc<str>,
    /// The normalised path; as sent (without query, bounded) where it cannot be normalised.
    pub path: Arc<str>,
    /// The TLS session with the sandbox.
    pub tls: Option<TlsFacts>,
    /// [`Subject::changes`] before anything was decided about it.
    pub changes: u64,
    /// What came of waiting for a person, where it waited.
    pub heard: Option<Box<Heard>>,
    /// Why it or its secret did not go, where that takes words.
    pub why: Option<Box<Why>>,
    /// The words that its records carry instead, where it holds a real value; found out when the first
    /// is made.
    pub told: OnceLock<Option<Box<Told>>>,
}

/// What a request is told as.
#[derive(Debug, Clone)]
pub struct Told {
    host: Arc<str>,
    method: Arc<str>,
    path: Arc<str>,
}

/// Under what a request was allowed; its outcome is recorded with it.
#[derive(Debug, Clone)]
pub struct Granted {
    policy: PolicyRef,
    rule: Option<RuleRef>,
    would_deny: Option<DenyReason>,
    secrets: Vec<SecretGrant>,
}

/// What came of a permitted request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// The status the program got.
    pub status: Option<u16>,
    /// Octets of the request body that went towards the origin.
    pub bytes_out: u64,
    /// Octets of the response body that came from it.
    pub bytes_in: u64,
    /// From the decision to the end.
    pub duration: Duration,
    /// The address it went to.
    pub dst: Option<IpAddr>,
    /// Why it failed or was cut, if it was.
    pub reason: Option<DenyReason>,
    /// That it failed by the host's proxy.
    pub by_proxy: Option<ProxyFault>,
}

impl Asked {
    /// Has its host as a word, where no route has said it yet.
    pub fn name_host(&mut self) {
        if self.host_word.is_empty() {
            self.host_word = self.host.to_string().into();
        }
    }

    /// What stands for a rule, where a person allowed this one request.
    #[must_use]
    pub fn word(&self) -> Option<&RuleRef> {
        self.heard.as_ref()?.word.as_ref()
    }

    /// The policy's word about it, by the rules and by what was heard of a person.
    #[must_use]
    pub fn decided_by(&self, policy: &Policy) -> Verdict<RequestPermit> {
        let intent = RequestIntent {
            protocol: self.protocol,
            method: &self.method,
            path: &self.path,
        };
        match self.word() {
            Some(word) => policy.release_request(&self.host, self.port, &intent, word),
            None => policy.decide_request(&self.host, self.port, &intent),
        }
    }

    /// How it waited for a person, where it did, and why it or its secret did not go.
    fn findings(&self) -> Vec<Arc<str>> {
        let heard = self.heard.as_ref();
        let mut findings = heard.map_or_else(Vec::new, |heard| heard.findings.clone());
        findings.extend(self.why.iter().flat_map(|why| why.findings()));
        findings
    }

    /// The alarm that `misuse` is.
    #[must_use]
    pub fn alarm(&self, misuse: &Misuse) -> Entry {
        let mut entry = self.entry(Event::SecretMisuse);
        entry.findings.push(why(Why::misused(self, misuse).text()));
        entry
    }

    /// What its program is told of why it or its secret did not go.
    #[must_use]
    pub fn told_why(&self) -> String {
        let told = self.why.as_ref().and_then(|why| why.told());
        told.map_or_else(String::new, str::to_owned)
    }

    /// The host as records and people are told it.
    #[must_use]
    pub fn shown_host(&self) -> &Arc<str> {
        self.told().map_or(&self.host_word, |told| &told.host)
    }

    /// The method as they are told it.
    #[must_use]
    pub fn shown_method(&self) -> &Arc<str> {
        self.told().map_or(&self.method, |told| &told.method)
    }

    /// The path as they are told it.
    #[must_use]
    pub fn shown_path(&self) -> &Arc<str> {
        self.told().map_or(&self.path, |told| &told.path)
    }

    /// The TLS session as they are told it. What it is for is looked at once.
    #[must_use]
    pub fn shown_tls(&self) -> Option<TlsFacts> {
        let tls = self.tls.as_ref()?;
        if tls.sni.as_deref() != Some(&*self.host_word) {
            return shown_tls(&self.subject, Some(tls));
        }
        Some(TlsFacts {
            sni: Some(Arc::clone(self.shown_host())),
            ..tls.clone()
        })
    }

    fn told(&self) -> Option<&Told> {
        let wallet = self.subject.wallet()?;
        let told = self.told.get_or_init(|| {
            let watch = wallet.border().watch();
            let host = without_values(&watch, &self.host_word, ('.', None));
            let method = method_without_values(&watch, &self.method);
            let own = Some(wallet.sandbox());
            let path = without_values(&watch, &self.path, ('/', own));
            if host.is_none() && method.is_none() && path.is_none() {
                return None;
            }
            let or = |told: Option<String>, word: &Arc<str>| {
                told.map_or_else(|| Arc::clone(word), Into::into)
            };
            Some(Box::new(Told {
                host: or(host, &self.host_word),
                method: or(method, &self.method),
                path: or(path, &self.path),
            }))
        });
        told.as_deref()
    }

    /// A record of `event` that says who asked for what.
    #[must_use]
    pub fn entry(&self, event: Event) -> Entry {
        let mut entry = Entry::new(event);
        entry.sandbox = Some(self.subject.id());
        entry.server = self.subject.server().cloned();
        entry.profile = self.subject.profile().cloned();
        entry.conn = Some(self.conn);
        entry.request = Some(Arc::clone(&self.id));
        entry.src = Some(self.src);
        entry.host = Some(Arc::clone(self.shown_host()));
        entry.port = Some(self.port.get());
        entry.protocol = Some(protocol_word(self.protocol));
        // What could not be read has neither.
        let known = |word: &Arc<str>| (!word.is_empty()).then(|| Arc::clone(word));
        entry.method = known(self.shown_method());
        entry.path = known(self.shown_path());
        entry
    }
}

impl Granted {
    fn of(permit: &RequestPermit) -> Self {
        Self {
            policy: permit.policy().clone(),
            rule: permit.rule().cloned(),
            would_deny: permit.would_deny().map(|denial| denial.reason),
            secrets: permit.secrets().to_vec(),
        }
    }

    /// The secrets that it may carry.
    #[must_use]
    pub fn secrets(&self) -> &[SecretGrant] {
        &self.secrets
    }

    pub(super) fn mark(&self, entry: &mut Entry) {
        entry.policy = Some(Arc::clone(&self.policy.name));
        entry.policy_version = Some(self.policy.version);
        entry.rule = self.rule.as_ref().map(|rule| Arc::clone(&rule.0));
        entry.reason = self.would_deny;
        entry.verdict = Some(if self.would_deny.is_some() {
            VerdictWord::WouldDeny
        } else {
            VerdictWord::Allow
        });
    }
}

/// Counts it against the requests of a minute, once for each request.
///
/// # Errors
/// The denial when there are too many, not recorded.
pub fn charge_request(asked: &Asked) -> Result<(), Box<Denial>> {
    let policy = asked.subject.policy();
    let charged = asked.subject.budget().request(policy.limits());
    charged.map_err(|reason| denial(&policy, reason, String::new()))
}

/// Takes the `octets` of its header section from the hour's upload allowance: call before they are sent, once
/// for each request.
///
/// # Errors
/// The denial when too many went, not recorded; nothing is taken then.
pub fn charge_head(asked: &Asked, octets: u64) -> Result<(), Box<Denial>> {
    let policy = asked.subject.policy();
    let charged = asked.subject.budget().upload(policy.limits(), octets);
    charged.map_err(|reason| denial(&policy, reason, String::new()))
}

/// Decides on the policy in force. What is allowed is not recorded yet.
///
/// # Errors
/// The denial, not recorded either.
pub fn decide_request(asked: &Asked) -> Result<RequestPermit, Box<Denial>> {
    match asked.decided_by(&asked.subject.policy()) {
        Verdict::Allow(permit) => Ok(permit),
        Verdict::Deny(denial) => Err(denial),
    }
}

/// Records that the request may go, before its first octet does; `used` are the secrets in its header
/// section.
///
/// # Errors
/// A denial for want of a record.
pub async fn record_request(
    ledger: &Ledger,
    asked: &Asked,
    permit: &RequestPermit,
    used: Used,
) -> Result<Granted, Box<Denial>> {
    let granted = Granted::of(permit);
    let mut entry = asked.entry(Event::Request);
    entry.tls = asked.shown_tls();
    entry.secrets = used.secrets;
    entry.findings = asked.findings();
    entry.findings.extend(used.findings);
    granted.mark(&mut entry);
    match ledger.record(entry).await {
        Ok(()) => Ok(granted),
        Err(_) => Err(denial(
            &asked.subject.policy(),
            DenyReason::RecordUnavailable,
            String::new(),
        )),
    }
}

/// Records a denial and gives it back to be told; one for want of a record where that fails.
pub async fn refuse_request(
    ledger: &Ledger,
    asked: &Asked,
    mut denial: Box<Denial>,
) -> Box<Denial> {
    let alarm = || asked.entry(Event::SecretMisuse);
    let misused = name_is_misused(ledger, &asked.subject, &asked.host_word, alarm);
    if misused {
        denial.reason = DenyReason::SecretMisuse;
        denial.hint = String::new();
    }
    let mut entry = asked.entry(Event::Request);
    entry.tls = asked.shown_tls();
    entry.policy = Some(Arc::clone(&denial.policy.name));
    entry.policy_version = Some(denial.policy.version);
    entry.rule = denial.rule.as_ref().map(|rule| Arc::clone(&rule.0));
    entry.verdict = Some(VerdictWord::Deny);
    entry.reason = Some(denial.reason);
    entry.status = Some(denial.reason.http_status());
    entry.findings = asked.findings();
    if misused {
        entry.findings.insert(0, why(NO_PLACE));
    }
    if denial.reason == DenyReason::MalformedRequest && !denial.hint.is_empty() {
        // Our words, not the program's.
        entry.findings.push(denial.hint.as_str().into());
    }
    match ledger.record(entry).await {
        Ok(()) => denial,
        Err(_) => {
            let mut unrecorded = denial;
            unrecorded.reason = DenyReason::RecordUnavailable;
            unrecorded.hint = String::new();
            unrecorded
        }
    }
}

/// Records what came of a permitted request, as a `response` event, without waiting.
pub fn record_exchange(
    ledger: &Ledger,
    asked: &Asked,
    granted: &Granted,
    exchanged: &Exchanged,
    tally: Option<&Tally>,
) {
    let mut entry = asked.entry(Event::Response);
    if let Some(tally) = tally {
        entry.secrets = tally.names();
        entry.findings = tally.findings();
        // What was cut was told nothing.
        let told = tally.why().or_else(|| match exchanged.reason? {
            DenyReason::SecretMisuse => Some(Arc::clone(Why::astray(asked, tally)?.text())),
            DenyReason::SecretUnplaceable => Some(Arc::clone(Why::unwritten(tally)?.text())),
            _ => None,
        });
        entry.findings.extend(told.map(|told| why(&told)));
        for misuse in tally.take_misuses() {
            raise_alarm(ledger, asked.alarm(&misuse), &misuse);
        }
    }
    let by_proxy = exchanged.by_proxy.map(|fault| fault.to_string().into());
    entry.findings.extend(by_proxy);
    granted.mark(&mut entry);
    if let Some(reason) = exchanged.reason {
        entry.reason = Some(reason);
        if reason.is_refusal() {
            entry.verdict = Some(VerdictWord::Deny);
        }
    }
    entry.status = exchanged.status;
    entry.bytes_out = Some(exchanged.bytes_out);
    entry.bytes_in = Some(exchanged.bytes_in);
    entry.duration_ms = u64::try_from(exchanged.duration.as_millis()).ok();
    entry.dst_ip = exchanged.dst;
    // Told in the log where it is not.
    ledger.queue(entry).ok();
}

/// The shared text of a protocol's word.
fn protocol_word(protocol: AppProtocol) -> Arc<str> {
    thread_local! {
        static WORDS: [Arc<str>; 3] = [
            AppProtocol::Https.as_str().into(),
            AppProtocol::Http.as_str().into(),
            AppProtocol::Tcp.as_str().into(),
        ];
    }
    WORDS.with(|[https, http, tcp]| {
        Arc::clone(match protocol {
            AppProtocol::Https => https,
            AppProtocol::Http => http,
            AppProtocol::Tcp => tcp,
        })
    })
}
