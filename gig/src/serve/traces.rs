//! Requests to the API as spans, sent to the collector that `--traces` names.
//!
//! For operators, not for evidence: that is the record. Nothing waits for a collector; what it does not take in some
//! tries, rejects, or cannot take in time, is dropped and counted (`gig_spans_dropped_total`), and health says so.

use std::{convert::Infallible, pin::pin, time::Duration};

use anyhow::bail;
use gig_web::{
    App,
    spans::{ApiSpan, otlp},
};
use tokio::sync::mpsc::Receiver;

use super::network::Network;
use crate::{
    args::serve::ServeArgs,
    deliver::{Again, Delivery, Destination, bearer},
};

/// A collector.
pub(super) struct Traces(Delivery);

impl Traces {
    /// The one that options name.
    ///
    /// # Errors
    /// When it takes no traces, or its token cannot be read.
    pub(super) fn of(args: &ServeArgs, network: &Network) -> anyhow::Result<Option<Self>> {
        let Some(to) = &args.traces else {
            return Ok(None);
        };
        // What else records are sent to takes no spans.
        let read = to.parse::<Destination>().ok();
        let Some(to) = read.filter(|to| matches!(to, Destination::Otlp { traces: true, .. }))
        else {
            bail!(
                "--traces {to:?}: write the URL of an OpenTelemetry collector's traces, as in \
                 https://otel.example/v1/traces or http://host:4318/v1/traces"
            );
        };
        let token = match &args.traces_token {
            Some(file) => Some(bearer(file, "--traces-token")?),
            None => None,
        };
        if token.is_some() && to.shows_token() {
            tracing::warn!(
                "the token of --traces-token crosses the network in clear text: write https://"
            );
        }
        let (roots, proxy) = (network.roots.clone(), network.upstream_proxy.clone());
        Ok(Some(Self(Delivery::new(to, roots, proxy, token))))
    }

    /// Sends what comes, for ever.
    async fn deliver(&self, spans: &mut Receiver<ApiSpan>, app: &App) -> Infallible {
        let mut failing = false;
        loop {
            let batch = some(spans).await;
            if batch.is_empty() {
                // The appliance is gone, and with it whoever waits for this.
                return std::future::pending().await;
            }
            self.send(&batch, app, &mut failing).await;
        }
    }

    async fn send(&self, batch: &[ApiSpan], app: &App, failing: &mut bool) {
        let body = otlp(batch, app.node());
        let mut why = String::new();
        for _ in 0..TRIES {
            let again = match self.0.tell(body.clone()).await {
                Ok(rejected) => {
                    if std::mem::take(failing) {
                        tracing::info!("the collector of --traces takes spans again");
                    }
                    app.spans_arrived(
                        rejected
                            .as_ref()
                            .filter(|rejected| rejected.count > 0)
                            .map(|rejected| (rejected.count, &*rejected.why)),
                    );
                    if let Some(rejected) = rejected {
                        tracing::warn!(
                            count = rejected.count,
                            why = rejected.why,
                            "the collector of --traces rejected spans"
                        );
                    }
                    return;
                }
                Err(not) => {
                    why = not.why;
                    not.again
                }
            };
            let Again::Later(after) = again else { break };
            tokio::time::sleep(after.unwrap_or(PAUSE).min(LONGEST_PAUSE)).await;
        }
        let lost = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        app.spans_arrived(Some((lost, &why)));
        if !std::mem::replace(failing, true) {
            tracing::warn!(
                why,
                "the collector of --traces takes no spans: they are dropped"
            );
        }
    }
}

/// Serves, and has spans delivered meanwhile; the last ones have a moment.
pub(super) async fn beside<T>(
    traces: Option<Traces>,
    app: &App,
    serving: impl Future<Output = T>,
) -> T {
    let Some(traces) = traces else {
        return serving.await;
    };
    let mut spans = app.spans(WAITING);
    let served = {
        let mut delivering = pin!(traces.deliver(&mut spans, app));
        tokio::select! {
            served = serving => served,
            never = &mut delivering => match never {},
        }
    };
    let mut last = Vec::new();
    while let Ok(span) = spans.try_recv() {
        last.push(span);
    }
    if !last.is_empty() {
        let _late = tokio::time::timeout(FAREWELL, traces.send(&last, app, &mut true)).await;
    }
    served
}

/// What comes within a moment of the first one; nothing where nothing will come any more.
async fn some(spans: &mut Receiver<ApiSpan>) -> Vec<ApiSpan> {
    let mut batch = Vec::new();
    batch.extend(spans.recv().await);
    let more = async {
        while batch.len() < AT_ONCE
            && let Some(span) = spans.recv().await
        {
            batch.push(span);
        }
    };
    if tokio::time::timeout(GATHERED, more).await.is_err() {
        tracing::trace!("spans are sent");
    }
    batch
}

/// Some megabytes; at a hundred requests a second what a collector has to be back for.
const WAITING: usize = 8192;
/// Some hundred kilobytes: collectors take four megabytes.
const AT_ONCE: usize = 512;
/// Between a request and its span at a collector.
const GATHERED: Duration = Duration::from_secs(2);
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_secs(2);
/// Whatever the collector asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// When gig stops.
const FAREWELL: Duration = Duration::from_secs(2);
