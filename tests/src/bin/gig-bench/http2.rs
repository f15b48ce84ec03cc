//! HTTP/2 load: one connection, many streams, by hyper.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request,
    client::conn::http2::SendRequest,
    header::{AUTHORIZATION, HeaderValue},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::Instant;

use crate::{
    agent::{figures, ready},
    bearer,
    order::Figures,
    outcome::{Outcome, doing},
    stream::Opener,
};

/// Keeps `lanes` requests under way on one connection.
pub(crate) async fn requests(
    opener: &Opener,
    (lanes, seconds): (u32, f64),
    bearer: bool,
) -> Outcome<Figures> {
    let stream = opener.open().await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err("the other side does not speak h2".into());
    }
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let request = Get::new(opener, bearer);
    once(&mut sender.clone(), &request).await?;
    ready()?;
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..lanes {
        let (mut sender, request) = (sender.clone(), request.clone());
        tasks.spawn(async move {
            let mut times = Vec::with_capacity(64 * 1024);
            let mut now = Instant::now();
            while now < end {
                once(&mut sender, &request).await?;
                let then = Instant::now();
                times.push(then - now);
                now = then;
            }
            Outcome::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(lane) = tasks.join_next().await {
        times.extend(lane??);
    }
    let figures = figures(start, times);
    drop(sender);
    driver.abort();
    Ok(figures)
}

/// The request that is sent again and again.
#[derive(Clone)]
struct Get {
    uri: String,
    credential: Option<HeaderValue>,
}

impl Get {
    fn new(opener: &Opener, bearer: bool) -> Self {
        let path = if bearer { bearer::PATH } else { "/1k" };
        let credential = format!("Bearer {}", bearer::token());
        Self {
            uri: format!("https://{}:{}{path}", opener.host(), opener.port()),
            credential: bearer
                .then(|| HeaderValue::try_from(credential).ok())
                .flatten(),
        }
    }
}

async fn once(sender: &mut SendRequest<Empty<Bytes>>, get: &Get) -> Outcome<()> {
    let mut request = Request::get(&get.uri).body(Empty::new())?;
    if let Some(credential) = &get.credential {
        let fields = request.headers_mut();
        fields.insert(AUTHORIZATION, credential.clone());
    }
    sender.ready().await?;
    let response = doing(sender.send_request(request).await, || {
        "send over h2".to_owned()
    })?;
    if response.status() != hyper::StatusCode::OK {
        return Err(format!("the answer is {}", response.status()).into());
    }
    let body = response.into_body().collect().await?;
    match body.to_bytes().len() {
        1024 => Ok(()),
        other => Err(format!("the answer has {other} octets, not 1024").into()),
    }
}
