//! The network as the appliance itself asks it: webhooks and sign-on providers, whose URLs people type.
//!
//! Each exchange is dialled by the same code that dials for a sandbox: a policy of one rule, the host of
//! the URL, gives the permit, and every address is vetted against the registries, the host's own
//! addresses and gig's own places. Private addresses are reached only where `--outbound-private` opens
//! them. No redirect is followed and no connection is kept; a secret's own provider, which the operator
//! names on the command line, goes by [`crate::fetch`] instead.

use std::{pin::pin, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt as _};
use gig_policy::{
    DenyReason, Host, Policy, Verdict,
    special_purpose::{AddressClass, classify},
};
use gig_proxy::{
    Deadlines,
    tls::{
        roots::{LazyVerifier, Roots},
        upstream::{Offer, OriginTls},
    },
    upstream::dial::{Dialed, Dialer, DialerSettings},
};
use gig_web::{
    Outbound, OutboundError,
    outbound::{Answered, OutboundAnswer, OutboundRequest},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request,
    body::Bytes,
    header::{CONNECTION, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use tokio::io::{AsyncRead, AsyncWrite};

use super::network::Network;
use crate::fetch::{Target, chain, only};

/// Goes out from the host, as gig itself.
pub(super) struct NetworkOutbound {
    dialer: Dialer,
    /// `--outbound-private`.
    private: Vec<String>,
    verifier: LazyVerifier,
    provider: Arc<CryptoProvider>,
}

impl NetworkOutbound {
    /// Into this network; `private`: what `--outbound-private` opens of it.
    pub(super) fn new(network: Network, private: Vec<String>) -> Self {
        let settings = DialerSettings {
            overrides: Vec::new(),
            upstream_proxy: network.upstream_proxy,
            never_open: network.never_open,
            deadlines: Deadlines::DEFAULT,
        };
        Self::with(settings, network.roots, private)
    }

    fn with(settings: DialerSettings, roots: Roots, private: Vec<String>) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Self {
            dialer: Dialer::new(settings),
            private,
            verifier: LazyVerifier::new(roots, Arc::clone(&provider)),
            provider,
        }
    }

    async fn exchange(&self, target: &Target, request: OutboundRequest) -> Answered {
        let (message, largest) = (message(target, &request)?, request.largest);
        let Dialed { stream, reached } = self.dial(target).await?;
        if !target.tls {
            // Told only after vetting; nothing was sent yet.
            if !reached.is_private {
                let host = target.authority.clone();
                return Err(OutboundError::ClearText { host });
            }
            return send(target, stream, message, largest).await;
        }
        let broken = |error: String| {
            tracing::info!(host = target.authority, error, "no TLS");
            unreached(target, DenyReason::TlsCertificate)
        };
        let verifier = self.verifier.verifier().await;
        let verifier = verifier.map_err(|error| broken(error.to_string()))?;
        let tls = OriginTls::new(&self.provider, &verifier, None);
        let tls = tls.map_err(|error| broken(error.to_string()))?;
        let session = tls.connect(stream, &target.host, Offer::Http1, request.deadline);
        let (session, _) = session.await.map_err(|error| {
            let reason = error.reason();
            let error = chain(&error);
            tracing::info!(host = target.authority, error, "no TLS");
            unreached(target, reason)
        })?;
        send(target, session, message, largest).await
    }

    async fn dial(&self, target: &Target) -> Result<Dialed, OutboundError> {
        let policy = self.policy(target)?;
        let permit = match policy.decide_connect(&target.host, target.port, None) {
            Verdict::Allow(permit) => permit,
            Verdict::Deny(denial) => return Err(unreached(target, denial.reason)),
        };
        let dialed = self.dialer.dial_permitted(&permit).await;
        dialed.map_err(|error| {
            let (host, why) = (target.authority.clone(), &error.why);
            tracing::info!(host, reason = %error.reason, why, "not connected");
            match error.reason {
                DenyReason::PrivateAddress => OutboundError::Private { host },
                DenyReason::NeverOpenable => OutboundError::NeverOpenable { host },
                reason => unreached(target, reason),
            }
        })
    }

    /// One rule: this host at this port, and what the operator opened.
    fn policy(&self, target: &Target) -> Result<Policy, OutboundError> {
        // What no rule may name as an address is of the core that nothing opens.
        let unusable = |_| match target.host {
            Host::Ip(_) => OutboundError::NeverOpenable {
                host: target.authority.clone(),
            },
            Host::Name(_) => OutboundError::Url("the URL names no host that a rule could name"),
        };
        let built = only(&target.host, target.port, &self.private)
            .map_err(unusable)?
            .build();
        built.map_err(|_| OutboundError::Url("the URL names no host that can be asked"))
    }
}

impl Outbound for NetworkOutbound {
    fn send(&self, request: OutboundRequest) -> BoxFuture<'_, Answered> {
        async move {
            let target = Target::parse(&request.url).map_err(OutboundError::Url)?;
            let deadline = request.deadline;
            let exchange = Box::pin(self.exchange(&target, request));
            let done = tokio::time::timeout(deadline, exchange).await;
            done.unwrap_or_else(|_| {
                Err(OutboundError::Slow {
                    host: target.authority.clone(),
                })
            })
        }
        .boxed()
    }

    fn refuses(&self, url: &str) -> Option<OutboundError> {
        let target = match Target::parse(url) {
            Ok(target) => target,
            Err(words) => return Some(OutboundError::Url(words)),
        };
        let policy = match self.policy(&target) {
            Ok(policy) => policy,
            Err(error) => return Some(error),
        };
        let host = target.authority.clone();
        let Host::Ip(ip) = target.host else {
            // Where a name leads is known when it is asked, and may be another place by then; clear text goes to
            // what is opened alone.
            let is_never = !target.tls && self.private.is_empty();
            return is_never.then_some(OutboundError::ClearText { host });
        };
        let ip = ip.to_canonical();
        let opened = match policy.decide_connect(&target.host, target.port, None) {
            Verdict::Allow(permit) => permit.allow_private().iter().any(|net| net.contains(&ip)),
            Verdict::Deny(denial) => return Some(unreached(&target, denial.reason)),
        };
        match classify(ip) {
            AddressClass::NeverOpenable { .. } => Some(OutboundError::NeverOpenable { host }),
            AddressClass::Special { .. } if !opened => Some(OutboundError::Private { host }),
            AddressClass::Global if !target.tls => Some(OutboundError::ClearText { host }),
            AddressClass::Special { .. } | AddressClass::Global => None,
        }
    }
}

fn unreached(target: &Target, reason: DenyReason) -> OutboundError {
    OutboundError::Unreached {
        host: target.authority.clone(),
        word: reason.as_str(),
    }
}

fn message(
    target: &Target,
    request: &OutboundRequest,
) -> Result<Request<Full<Bytes>>, OutboundError> {
    let mut message = Request::builder()
        .method(request.method.clone())
        .uri(&target.path)
        .header(HOST, &target.authority)
        .header(USER_AGENT, AGENT)
        .header(CONNECTION, "close");
    for (name, value) in &request.headers {
        let mut value = value.clone();
        value.set_sensitive(true);
        message = message.header(name, value);
    }
    message
        .body(Full::new(request.body.clone()))
        .map_err(|_| OutboundError::Url("the URL's path cannot be sent"))
}

/// Sends on a fresh connection and reads the whole answer.
async fn send(
    target: &Target,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    message: Request<Full<Bytes>>,
    largest: usize,
) -> Answered {
    let host = || target.authority.clone();
    let broke = |error: hyper::Error| {
        let error = chain(&error);
        tracing::info!(host = target.authority, error, "no answer");
        OutboundError::Exchange { host: host() }
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broke)?;
    let exchange = async {
        let answer = sender.send_request(message).await.map_err(broke)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, largest).collect().await;
        let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => broke(*error),
            Err(_) => OutboundError::Large {
                host: host(),
                largest,
            },
        })?;
        Ok(OutboundAnswer {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    };
    let (mut exchange, connection) = (pin!(exchange), pin!(connection));
    tokio::select! {
        biased;
        done = &mut exchange => done,
        // Closed by the other side: what was read before is still there.
        _ = connection => exchange.await,
    }
}

const AGENT: &str = concat!("gig/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
