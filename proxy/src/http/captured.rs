//! The answer of a token endpoint: read whole, its tokens kept back and recorded, passed on.

use std::{pin::pin, sync::Arc};

use gig_policy::DenyReason;
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;

use super::{
    body::{Download, Gathered},
    exchange::Exchange,
    forward::fail,
    incoming::Incoming,
};
use crate::{
    credential::capture::{Capture, CaptureError, Gathering},
    enforce::request::Asked,
    failure::{Failure, Side},
    upstream::pool::Lease,
};

/// Hands the answer back with sentinels for its tokens, or not at all.
pub(super) async fn pass_captured(
    mut exchange: Box<Exchange>,
    response: Response<Incoming>,
    lease: Lease,
    capture: Arc<Capture>,
) -> Result<Response<Download>, (Asked, DenyReason)> {
    let (mut parts, incoming) = response.into_parts();
    let gathering = match capture.begin(parts.status, &parts.headers) {
        Ok(gathering) => gathering,
        Err(error) => return Err(fail(*exchange, unreadable(error))),
    };
    if incoming.is_end_stream() {
        let taken = match capture.take_head(&mut parts.headers) {
            Ok(findings) => told(&mut exchange, &capture, &findings).await,
            Err(error) => Err(unreadable(error)),
        };
        if let Err(failure) = taken {
            return Err(fail(*exchange, failure));
        }
        exchange.answered(parts.status.as_u16(), lease);
        exchange.finish();
        return Ok(Response::from_parts(
            parts,
            Download::Origin { incoming, exchange },
        ));
    }
    let gathered = pin!(gather(incoming, gathering));
    let taken = match exchange.unless_revoked(gathered).await {
        Ok((gathering, received)) => {
            let taken = capture.take(parts.status, &mut parts.headers, gathering);
            taken.map(|taken| (taken, received)).map_err(unreadable)
        }
        Err(failure) => Err(failure),
    };
    let (taken, received) = match taken {
        Ok(taken) => taken,
        Err(failure) => return Err(fail(*exchange, failure)),
    };
    if let Err(failure) = told(&mut exchange, &capture, &taken.findings).await {
        return Err(fail(*exchange, failure));
    }
    exchange.answered(parts.status.as_u16(), lease);
    exchange.received(received);
    exchange.finish();
    let body = Download::Whole(Gathered::of(taken.body.into(), None));
    Ok(Response::from_parts(parts, body))
}

/// Records what was kept back, if anything was.
async fn told(
    exchange: &mut Exchange,
    capture: &Capture,
    findings: &[String],
) -> Result<(), Failure> {
    if findings.is_empty() {
        return Ok(());
    }
    exchange.captured(capture.name(), findings).await
}

/// Reads the answer, as much of it as a token answer has. Trailers hold nothing that a client of such an
/// endpoint looks for, and are left out.
async fn gather(
    mut incoming: Incoming,
    mut gathering: Gathering,
) -> Result<(Gathering, usize), Failure> {
    let mut received = 0;
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| {
            Failure::caused(Side::Upstream, DenyReason::DestinationUnavailable, error)
        })?;
        if let Ok(data) = frame.into_data() {
            received += data.len();
            gathering.push(&data).map_err(unreadable)?;
        }
    }
    Ok((gathering, received))
}

fn unreadable(error: CaptureError) -> Failure {
    Failure::caused(Side::Upstream, error.reason(), error)
}
