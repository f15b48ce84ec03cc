//! One permitted request and its answer, from the decision to the last octet.
//!
//! It holds what must happen when the answer is through, however it ends: the outcome is recorded,
//! and the connection to the origin is kept for the next request if both messages were whole.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use gig_audit::Event;
use gig_policy::{DenyReason, SecretName};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::Instant;

use super::{
    activity::Busy,
    body::Progress,
    session::{Route, Session},
    standing::{Over, Standing, Watch},
};
use crate::{
    credential::{capture::Capture, scrub::answer::Returning, tally::Tally},
    enforce::{
        astray::Why,
        ledger::Ledger,
        request::{Asked, Exchanged, Granted, record_exchange},
        uses::Uses,
    },
    failure::{Failure, Side},
    upstream::pool::Lease,
};

/// What waits for an answer to be through.
pub struct Exchange {
    session: Arc<Session>,
    asked: Asked,
    granted: Granted,
    begun: Instant,
    outcome: Exchanged,
    progress: Option<Arc<Progress>>,
    tally: Option<Arc<Tally>>,
    returning: Option<Arc<Returning>>,
    capture: Option<Arc<Capture>>,
    lease: Option<Lease>,
    standing: Arc<Standing>,
    watch: Option<Watch>,
    done: bool,
    /// Keeps the connection's deadlines those of a running request.
    busy: Busy,
}

impl Exchange {
    /// Begins when the request was decided.
    #[must_use]
    pub fn new(
        session: &Arc<Session>,
        route: &Arc<Route>,
        asked: Asked,
        granted: Granted,
    ) -> Box<Self> {
        let standing = Standing::new(session.caller(), route, &asked, &granted);
        Box::new(Self {
            session: Arc::clone(session),
            asked,
            granted,
            begun: Instant::now(),
            outcome: Exchanged::default(),
            progress: None,
            tally: None,
            returning: None,
            capture: None,
            lease: None,
            standing,
            watch: None,
            done: false,
            busy: session.activity().enter(),
        })
    }

    /// What was asked.
    #[must_use]
    pub const fn asked(&self) -> &Asked {
        &self.asked
    }

    /// What the request does with secrets, for its records.
    pub fn carrying(&mut self, tally: Arc<Tally>) {
        self.tally = Some(tally);
    }

    /// Tells of secrets that are used in what follows the head.
    #[must_use]
    pub fn uses(&self) -> Option<Arc<Uses>> {
        let tally = self.tally.as_ref()?;
        Some(Uses::new(self.ledger(), &self.asked, &self.granted, tally))
    }

    /// What the sandbox must not see in the answer.
    pub fn watching(&mut self, returning: Arc<Returning>) {
        self.returning = Some(returning);
    }

    /// What is done to the answer, where the sandbox has secrets.
    #[must_use]
    pub const fn returning(&self) -> Option<&Arc<Returning>> {
        self.returning.as_ref()
    }

    /// What becomes of the tokens in the answer.
    pub fn capturing(&mut self, capture: Capture) {
        self.capture = Some(Arc::new(capture));
    }

    /// What becomes of the tokens in the answer, where they are captured.
    #[must_use]
    pub const fn capture(&self) -> Option<&Arc<Capture>> {
        self.capture.as_ref()
    }

    /// Records that tokens became secret `name`, before the program hears of them.
    ///
    /// # Errors
    /// For want of a record.
    pub async fn captured(
        &mut self,
        name: &SecretName,
        findings: &[String],
    ) -> Result<(), Failure> {
        let mut entry = self.asked.entry(Event::SecretChange);
        entry.secrets = vec![Arc::clone(name.shared())];
        entry.findings = findings.iter().map(|text| text.as_str().into()).collect();
        let recorded = self.ledger().record(entry).await;
        recorded
            .map_err(|error| Failure::caused(Side::Internal, DenyReason::RecordUnavailable, error))
    }

    /// The upload whose progress decides whether the connection can be kept.
    pub fn uploading(&mut self, progress: Option<Arc<Progress>>) {
        self.progress = progress;
    }

    /// The status that the program gets, and the connection that the body comes by.
    pub fn answered(&mut self, status: u16, lease: Lease) {
        if status == StatusCode::UNAUTHORIZED.as_u16() {
            self.value_refused();
        }
        self.outcome.status = Some(status);
        self.outcome.dst = lease.reached().address.map(|address| address.ip());
        self.lease = Some(lease);
        self.session.answering(&self.standing);
    }

    /// A header section with which gRPC may end, or a trailer section: says it that nobody was
    /// authenticated, it says what 401 says elsewhere (gRPC over HTTP/2, "Responses").
    pub fn ended_with(&self, fields: &HeaderMap) {
        let status = fields.get(&GRPC_STATUS).map(HeaderValue::as_bytes);
        if status == Some(GRPC_UNAUTHENTICATED) {
            self.value_refused();
        }
    }

    /// The origin takes a value no more: one that can be had anew is, for the next request.
    fn value_refused(&self) {
        let Some(wallet) = self.session.caller().subject().wallet() else {
            return;
        };
        let names = self.tally.iter().flat_map(|tally| tally.names());
        for name in names.filter_map(|name| name.parse::<SecretName>().ok()) {
            wallet.border().keeper().refused(&name);
        }
    }

    /// Octets of the response body passed.
    pub fn received(&mut self, octets: usize) {
        self.outcome.bytes_in += u64::try_from(octets).unwrap_or(u64::MAX);
        self.session.activity().touch();
        self.standing.touch();
    }

    /// How it stands, for who passes its request's body.
    #[must_use]
    pub const fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    /// All of the answer is through.
    pub fn finish(&mut self) {
        let uploaded = self.progress.as_ref().is_none_or(|p| p.finished());
        match self.lease.take() {
            Some(lease) if uploaded => self.session.worker().pool.give_back(lease),
            _ => self.abandon_upload(),
        }
        self.record();
    }

    /// The answer ended early.
    pub fn cut(&mut self, reason: DenyReason) {
        self.outcome.reason = Some(self.ended_for().unwrap_or(reason));
        self.lease = None;
        self.abandon_upload();
        self.record();
    }

    /// The origin ended TLS; with which words, a person wants to know who manages certificates.
    pub fn alerted(&self, alert: &str) {
        if let Some(tally) = &self.tally {
            tally.found(format!("the origin ended TLS with the alert {alert}"));
        }
    }

    /// Why its secret did not go, where that is what it failed for.
    #[must_use]
    pub fn why(&self, failure: &Failure, reason: DenyReason) -> Option<Why> {
        let tally = self.tally.as_deref()?;
        let why = Why::stopped(&self.asked, failure, (reason, tally))?;
        tally.told_why(why.text());
        Some(why)
    }

    /// The exchange failed before an answer came; the program is told `status`, and the record the
    /// address that was refused or did not answer, where there was one.
    pub fn failed(&mut self, status: u16, reason: DenyReason, failure: &Failure) {
        self.outcome.status = Some(status);
        self.outcome.dst = failure.address();
        self.outcome.by_proxy = failure.by_proxy();
        self.cut(reason);
    }

    /// The connection is upgraded: it has deadlines of its own from here on.
    pub fn upgraded(&mut self, status: u16, lease: &Lease) {
        self.outcome.status = Some(status);
        self.outcome.dst = lease.reached().address.map(|address| address.ip());
        self.busy.hold();
    }

    /// An upgraded connection ended.
    pub fn spliced(&mut self, out: u64, back: u64, reason: Option<DenyReason>) {
        self.progress = None;
        self.outcome.bytes_in = back;
        self.outcome.bytes_out = out;
        self.outcome.reason = reason;
        self.lease = None;
        self.record();
    }

    /// Why we ended it, if we did: what the origin's side then reports is only a consequence.
    #[must_use]
    pub fn ended_for(&self) -> Option<DenyReason> {
        let stopped = self.progress.as_ref().and_then(|p| p.stopped());
        stopped.or_else(|| self.standing.cut_for())
    }

    /// Waits for the answer's header section, within its deadline and while the policy allows it.
    /// Takes it pinned, so that it has its place once.
    ///
    /// # Errors
    /// Those of `answer`, and the ends of the wait.
    pub async fn unless_revoked<T>(
        &mut self,
        mut answer: impl Future<Output = Result<T, Failure>> + Unpin,
    ) -> Result<T, Failure> {
        let interjections = Arc::clone(self.session.interjections());
        let mut answer = std::future::poll_fn(move |cx| {
            interjections.register(cx);
            Pin::new(&mut answer).poll(cx)
        });
        // Most answers come soon: only those that do not are watched.
        tokio::select! {
            biased;
            answered = &mut answer => return answered,
            () = self.session.worker().soon() => {}
        }
        let patience = self.session.worker().deadlines().response_headers;
        tokio::select! {
            answered = answer => answered,
            over = self.standing.watch(Some(patience)) => Err(match over {
                Over::Revoked(reason) => Failure::new(Side::Internal, reason),
                Over::Stalled => Failure::new(Side::Upstream, DenyReason::OriginTimeout),
            }),
        }
    }

    /// Ready when nothing more of the answer may go: the policy in force no longer allows the request,
    /// or neither body moved for long.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        let idle = self.session.worker().deadlines().idle;
        let watch = self
            .watch
            .get_or_insert_with(|| self.standing.watch(Some(idle)));
        Pin::new(watch).poll(cx)
    }

    /// Completes when the policy in force no longer allows the request.
    pub fn revoked(&self) -> impl Future<Output = DenyReason> + use<> {
        let watch = self.standing.watch(None);
        async move {
            match watch.await {
                Over::Revoked(reason) => reason,
                Over::Stalled => DenyReason::RequestTimeout,
            }
        }
    }

    fn abandon_upload(&self) {
        if let Some(progress) = &self.progress {
            progress.abandon();
        }
    }

    fn ledger(&self) -> &Ledger {
        self.session.worker().ledger()
    }

    fn record(&mut self) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        if let Some(progress) = &self.progress {
            self.outcome.bytes_out = progress.sent();
        }
        self.outcome.duration = self.begun.elapsed();
        let tally = self.tally.as_deref();
        record_exchange(
            self.ledger(),
            &self.asked,
            &self.granted,
            &self.outcome,
            tally,
        );
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // Dropped before its end: the program went away or was cut. The record still says how far.
        if !self.done {
            self.outcome.reason = self.outcome.reason.or_else(|| self.ended_for());
            let cut_short = self.progress.as_ref().is_some_and(|p| !p.finished());
            if self.outcome.status.is_none() && cut_short {
                let gone = DenyReason::RequestIncomplete;
                self.outcome.reason.get_or_insert(gone);
            }
            self.abandon_upload();
            self.record();
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("asked", &self.asked)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// Known once: a name that is a text is read anew for each answer.
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// gRPC's status codes: 16.
const GRPC_UNAUTHENTICATED: &[u8] = b"16";
