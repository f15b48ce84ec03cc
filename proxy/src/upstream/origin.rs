//! Opens a connection that can carry HTTP requests: dial, TLS for the same name, HTTP handshake.

use std::{pin::pin, sync::Arc};

use gig_policy::{AppProtocol, ConnectPermit, DenyReason};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    dial::{Dialed, Reached},
    http1, http2,
    pool::{Carrier, Lease, Line, Origin, Origins},
};
use crate::{
    credential::sign::certificate::ClientIdentity,
    failure::{Failure, Side, words::Words},
    http::{calm::Calm, gather::Gathering},
    seldom::Seldom,
    subject::{
        ConnectionFacts, ConnectionGuard, Subject,
        places::{Place, Taken},
    },
    tls::{
        downstream::Application,
        upstream::{Offer, OriginTls},
    },
    worker::Worker,
};

/// What a request needs of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The client speaks HTTP/1.1; translated only if the origin insists.
    Http1,
    /// The client speaks HTTP/2; translated if the origin does not.
    Http2,
    /// HTTP/1.1: an upgrade; extended CONNECT if the origin speaks nothing but HTTP/2.
    Upgrade,
}

/// Asks for a connection.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Whose.
    pub subject: &'a Arc<Subject>,
    /// The proof that it may be dialled.
    pub permit: &'a ConnectPermit,
    /// `Https` or `Http`.
    pub protocol: AppProtocol,
    /// What the request needs.
    pub need: Need,
    /// What is shown to the origin, and kept from requests that it is not granted to.
    pub identity: Option<&'a ClientIdentity>,
}

impl Wanted<'_> {
    fn origin(&self) -> Origin {
        Origin {
            host: self.permit.host().clone(),
            port: self.permit.port(),
            secure: self.protocol == AppProtocol::Https,
            identity: self.identity.map(ClientIdentity::key),
        }
    }
}

/// A connection from the pool, or a new one.
///
/// # Errors
/// When there is none and none can be opened.
pub async fn lease(worker: &Worker, wanted: Wanted<'_>) -> Result<Lease, Failure> {
    let origins = worker.pool.of(wanted.subject);
    let origin = wanted.origin();
    let only_http1 = wanted.need == Need::Upgrade;
    if let Some(lease) = origins.take(&origin, only_http1) {
        return Ok(lease);
    }
    let known = origins.speaks(&origin);
    let may_share = !only_http1
        && match known {
            Some(Application::Http1) => false,
            Some(Application::Http2) => true,
            None => wanted.need == Need::Http2,
        };
    // One dials, the others then share its connection; a failure lets the next one try.
    let mut turn = None;
    if may_share {
        turn = origins.dialling(&origin).turn().await;
        if let Some(lease) = origins.take(&origin, only_http1) {
            return Ok(lease);
        }
        if origins.speaks(&origin) == Some(Application::Http1) {
            // There is nothing to share: nobody need wait.
            turn = None;
        }
    }
    let opened = Box::pin(open(worker, &origins, origin, wanted)).await;
    if let (Err(_), Some(turn)) = (&opened, turn) {
        turn.failed();
    }
    opened
}

async fn open(
    worker: &Worker,
    origins: &Arc<Origins>,
    origin: Origin,
    wanted: Wanted<'_>,
) -> Result<Lease, Failure> {
    let place = match place(worker, origins, &origin, wanted).await? {
        Taken::Place(place) => Arc::new(place),
        Taken::Instead(lease) => return Ok(lease),
    };
    let line = if origin.secure {
        open_tls(worker, origins, &origin, (wanted, &place)).await?
    } else {
        let dialed = dial(worker, wanted).await?;
        let application = match wanted.need {
            Need::Http1 | Need::Upgrade => Application::Http1,
            Need::Http2 => Application::Http2,
        };
        let guard = register(wanted, &dialed)?.holding(place);
        handshake(worker, dialed.stream, application, (dialed.reached, guard)).await?
    };
    origins.learn(&origin, &line);
    Ok(Lease::fresh(Arc::clone(origins), origin, line))
}

async fn open_tls(
    worker: &Worker,
    origins: &Arc<Origins>,
    origin: &Origin,
    (wanted, place): (Wanted<'_>, &Arc<Place>),
) -> Result<Line, Failure> {
    let tls = client_side(worker, origins, wanted.identity).await?;
    let offer = match (wanted.need, origins.speaks(origin)) {
        (Need::Http2, _) => Offer::Either,
        (Need::Http1, Some(Application::Http2)) => Offer::Http2,
        (Need::Http1 | Need::Upgrade, _) => Offer::Http1,
    };
    match try_tls(worker, &tls, origin, (wanted, offer, place)).await {
        // The origin speaks HTTP/2 alone: translate.
        Err(TryTlsError::OfferRefused(_)) if offer == Offer::Http1 => {
            try_tls(worker, &tls, origin, (wanted, Offer::Http2, place)).await
        }
        // It did, and no longer does.
        Err(TryTlsError::OfferRefused(_)) if offer == Offer::Http2 => {
            try_tls(worker, &tls, origin, (wanted, Offer::Http1, place)).await
        }
        other => other,
    }
    .map_err(|error| match error {
        TryTlsError::OfferRefused(failure) | TryTlsError::Other(failure) => failure,
    })
}

enum TryTlsError {
    OfferRefused(Failure),
    Other(Failure),
}

async fn try_tls(
    worker: &Worker,
    tls: &OriginTls,
    origin: &Origin,
    (wanted, offer, place): (Wanted<'_>, Offer, &Arc<Place>),
) -> Result<Line, TryTlsError> {
    let dialed = dial(worker, wanted).await.map_err(TryTlsError::Other)?;
    let guard = register(wanted, &dialed).map_err(TryTlsError::Other)?;
    let guard = guard.holding(Arc::clone(place));
    let reached = dialed.reached;
    let deadline = worker.deadlines().upstream_handshake;
    let (session, application) = tls
        .connect(dialed.stream, &origin.host, offer, deadline)
        .await
        .map_err(|error| {
            let refused = error.refused_offer();
            let failure = Failure::caused(Side::Upstream, error.reason(), error);
            if refused {
                TryTlsError::OfferRefused(failure)
            } else {
                TryTlsError::Other(failure)
            }
        })?;
    handshake(worker, session, application, (reached, guard))
        .await
        .map_err(TryTlsError::Other)
}

async fn client_side(
    worker: &Worker,
    origins: &Origins,
    identity: Option<&ClientIdentity>,
) -> Result<Arc<OriginTls>, Failure> {
    let shared = &worker.shared;
    let verifier = shared
        .verifier
        .verifier()
        .await
        .map_err(|error| Failure::caused(Side::Internal, DenyReason::Internal, error))?;
    origins
        .tls(identity.map(ClientIdentity::key), || {
            OriginTls::new(&shared.provider, &verifier, identity)
        })
        .map_err(|error| Failure::caused(Side::Internal, error.reason(), error))
}

/// Waits for a place among the sandbox's connections to origins, or for one of them to be free.
async fn place(
    worker: &Worker,
    origins: &Arc<Origins>,
    origin: &Origin,
    wanted: Wanted<'_>,
) -> Result<Taken<Lease>, Failure> {
    let connections = wanted.subject.policy().limits().connections;
    let most = connections.saturating_mul(FOR_EACH);
    let most = most.clamp(1, worker.shared.descriptors.for_origins());
    let only_http1 = wanted.need == Need::Upgrade;
    let taking = wanted
        .subject
        .places()
        .take(most, || origins.take(origin, only_http1));
    let taken = tokio::time::timeout(worker.deadlines().connect, taking).await;
    taken.map_err(|_| Failure::new(Side::Downstream, DenyReason::ConnectionLimit))
}

async fn dial(worker: &Worker, wanted: Wanted<'_>) -> Result<Dialed, Failure> {
    worker
        .shared
        .dialer
        .dial(wanted.subject, wanted.permit)
        .await
        .map_err(|error| Failure::caused(Side::Upstream, error.reason, error))
}

/// Its place in the register: a policy that no longer allows it cuts it, idle or not.
fn register(wanted: Wanted<'_>, dialed: &Dialed) -> Result<ConnectionGuard, Failure> {
    let facts = ConnectionFacts::new(wanted.permit, Some(wanted.protocol))
        .to_private(dialed.reached.private());
    wanted
        .subject
        .open(facts)
        .map_err(|reason| Failure::new(Side::Internal, reason))
}

async fn handshake<S>(
    worker: &Worker,
    stream: S,
    application: Application,
    (reached, guard): (Reached, ConnectionGuard),
) -> Result<Line, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match application {
        Application::Http1 => {
            let (connection, driving) = http1::open(Box::new(stream));
            drive(worker, driving, guard);
            let carrier = Carrier::Own(connection);
            Ok(Line::Http1 { carrier, reached })
        }
        Application::Http2 => {
            let stream = Gathering::new(Calm::client(stream));
            let (http2, driver) = http2::open(stream, reached, worker.pool.tasks())
                .await
                .map_err(no_protocol)?;
            drive(worker, driver.run(), guard);
            Ok(Line::Http2(http2))
        }
    }
}

fn no_protocol(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::caused(Side::Upstream, DenyReason::OriginProtocol, error)
}

/// Runs a connection until it ends by itself or is cut.
fn drive<C, E>(worker: &Worker, connection: C, guard: ConnectionGuard)
where
    C: Future<Output = Result<(), E>> + Send + 'static,
    E: std::error::Error + 'static,
{
    let driven = async move {
        let revoked = pin!(guard.revoked());
        tokio::select! {
            biased;
            ended = connection => {
                if let Err(error) = ended {
                    let error = Words::of(&error);
                    tracing::debug!(%error, "a connection to an origin ended badly");
                }
            }
            reason = Seldom::new(revoked) => tracing::debug!(%reason, "a connection to an origin was cut"),
        }
    };
    drop(worker.pool.tasks().spawn(driven));
}

/// Connections to origins for each that a sandbox may have open itself: one HTTP/2 connection asks for
/// many things at once, of origins that may speak HTTP/1.1.
const FOR_EACH: u32 = 4;
