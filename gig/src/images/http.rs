//! One GET to a registry, or to where it points: an answer whose body is taken as it comes.

use std::{pin::pin, time::Duration};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    HeaderMap, Request, StatusCode,
    body::Incoming,
    header::{HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::arriving::Arriving;
use crate::fetch::{Stream, Target, chain};

/// How an answer begins.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
}

/// Asks over what `opening` opens; the body of a 200 goes into `arriving`, any other is left unread.
///
/// # Errors
/// When there is no answer, or it stands still, or its body is not taken.
pub(super) async fn get(
    opening: impl Future<Output = Result<Box<dyn Stream>, String>>,
    target: &Target,
    fields: Vec<(HeaderName, HeaderValue)>,
    arriving: &mut Arriving,
) -> anyhow::Result<Answer> {
    let host = &target.authority;
    let mut request = Request::get(&target.path)
        .header(hyper::header::HOST, host)
        .header(
            hyper::header::USER_AGENT,
            concat!("gig/", env!("CARGO_PKG_VERSION")),
        )
        .header(hyper::header::CONNECTION, "close");
    for (name, value) in fields {
        request = request.header(name, value);
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .context("the registry's URL cannot be sent")?;
    let stream = patiently("no connection to", host, opening);
    let stream = stream
        .await?
        .map_err(|why| anyhow::anyhow!("cannot reach {host}: {why}"))?;
    let broke = |error: hyper::Error| anyhow::anyhow!("{host} breaks off: {}", chain(&error));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broke)?;
    let exchange = async {
        let answer = patiently("no answer from", host, sender.send_request(request)).await?;
        let (head, body) = answer.map_err(broke)?.into_parts();
        if head.status == StatusCode::OK {
            take(body, host, arriving).await?;
        }
        Ok(Answer {
            status: head.status,
            headers: head.headers,
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

async fn take(mut body: Incoming, host: &str, arriving: &mut Arriving) -> anyhow::Result<()> {
    while let Some(frame) = patiently("nothing more from", host, body.frame()).await? {
        let frame =
            frame.map_err(|error| anyhow::anyhow!("{host} breaks off: {}", chain(&error)))?;
        if let Ok(data) = frame.into_data() {
            arriving.take(&data)?;
        }
    }
    Ok(())
}

async fn patiently<T>(
    what: &str,
    host: &str,
    future: impl Future<Output = T>,
) -> anyhow::Result<T> {
    match timeout(PATIENCE, future).await {
        Ok(done) => Ok(done),
        Err(_) => bail!("{what} {host} within {} s", PATIENCE.as_secs()),
    }
}

/// A registry that stands still for so long will not go on.
const PATIENCE: Duration = Duration::from_secs(30);
