//! Programs and origins that send and see interim responses, by either HTTP: HTTP/1.1 by hand, HTTP/2
//! by h2, since hyper does neither over HTTP/2.

use std::{future::poll_fn, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use tokio_util::task::TaskTracker;

use super::{
    Lab, Way,
    origin::{Origin, Seen},
};

/// What an origin does with each request.
#[derive(Debug, Clone)]
pub(in crate::tests) enum Play {
    /// Sends these, then 200.
    Hints(Vec<(u16, &'static str, String)>),
    /// Sends 100 when a body is waited for, takes it, then 200 with it.
    Leave,
    /// Takes the body when it comes, without a word; then 200 with it.
    Silence,
    /// Answers at once, and takes no body.
    Refuse(u16),
    /// Sends 103 for ever.
    Flood,
}

/// What a program sends.
#[derive(Debug, Default)]
pub(in crate::tests) struct Ask {
    /// With `Expect: 100-continue`, and sent when 100 came.
    pub(in crate::tests) body: Option<&'static str>,
    pub(in crate::tests) fields: Vec<(&'static str, String)>,
    pub(in crate::tests) path: &'static str,
}

/// What a program heard.
#[derive(Debug, Default)]
pub(in crate::tests) struct Heard {
    pub(in crate::tests) interim: Vec<(u16, HeaderMap)>,
    pub(in crate::tests) status: u16,
    pub(in crate::tests) body: String,
}

impl Heard {
    pub(in crate::tests) fn statuses(&self) -> Vec<u16> {
        self.interim.iter().map(|(status, _)| *status).collect()
    }

    fn take(&mut self, status: u16, fields: HeaderMap) -> bool {
        if status < 200 {
            self.interim.push((status, fields));
            return false;
        }
        self.status = status;
        true
    }
}

/// An origin for api.test that speaks `alpn` and plays `play`.
pub(in crate::tests) async fn origin(alpn: &'static str, play: Play) -> Origin {
    let play = Arc::new(play);
    Origin::tls("api.test", &[alpn], move |stream, seen| {
        let play = Arc::clone(&play);
        async move {
            if alpn == "h2" {
                serve_http2(stream, seen, &play).await;
            } else {
                serve_http1(stream, seen, &play).await;
            }
        }
    })
    .await
}

type Tls = tokio_rustls::server::TlsStream<TcpStream>;

async fn serve_http1(mut stream: Tls, seen: Arc<Seen>, play: &Play) {
    while let Some(head) = read_head(&mut stream).await {
        let length = length(&head);
        let waits = head.to_ascii_lowercase().contains("expect: 100-continue");
        let mut body = String::new();
        match play {
            Play::Hints(hints) => {
                for (status, name, value) in hints {
                    let hint = format!("HTTP/1.1 {status} Hint\r\n{name}: {value}\r\n\r\n");
                    stream.write_all(hint.as_bytes()).await.unwrap();
                }
            }
            Play::Leave | Play::Silence => {
                if waits && matches!(play, Play::Leave) {
                    nothing_comes(&mut stream).await;
                    let leave = b"HTTP/1.1 100 Continue\r\n\r\n";
                    stream.write_all(leave).await.unwrap();
                }
                let mut octets = vec![0; length];
                stream.read_exact(&mut octets).await.unwrap();
                body = String::from_utf8(octets).unwrap();
            }
            Play::Refuse(status) => {
                let told = format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(told.as_bytes()).await.unwrap();
                let mut rest = Vec::new();
                // However it ends.
                drop(stream.read_to_end(&mut rest).await);
                seen.octets.lock().extend(rest);
                return;
            }
            Play::Flood => {
                let hint = b"HTTP/1.1 103 Hint\r\nlink: </a>; rel=preload\r\n\r\n";
                while stream.write_all(hint).await.is_ok() {}
                return;
            }
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Nothing of a body may come before leave is given.
async fn nothing_comes(stream: &mut Tls) {
    let early = tokio::time::timeout(Duration::from_millis(200), stream.read_u8()).await;
    assert!(early.is_err());
}

async fn serve_http2(stream: Tls, seen: Arc<Seen>, play: &Play) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let streams = TaskTracker::new();
    while let Some(Ok((request, reply))) = connection.accept().await {
        let played = play_http2(request, reply, Arc::clone(&seen), play.clone());
        streams.spawn(async move {
            // The other side may give up at any time.
            drop(played.await);
        });
    }
}

async fn play_http2(
    request: Request<h2::RecvStream>,
    mut reply: h2::server::SendResponse<Bytes>,
    seen: Arc<Seen>,
    play: Play,
) -> Result<(), h2::Error> {
    let waits = request.headers().get("expect").is_some();
    let mut incoming = request.into_body();
    let mut body = String::new();
    match play {
        Play::Hints(hints) => {
            for (status, name, value) in hints {
                reply.send_informational(interim(status, Some((name, &value))))?;
            }
        }
        Play::Leave | Play::Silence => {
            if waits && matches!(play, Play::Leave) {
                let early = tokio::time::timeout(Duration::from_millis(200), incoming.data()).await;
                assert!(early.is_err());
                reply.send_informational(interim(100, None))?;
            }
            while let Some(data) = incoming.data().await {
                let data = data?;
                incoming.flow_control().release_capacity(data.len())?;
                body.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
        Play::Refuse(status) => {
            let status = StatusCode::from_u16(status).unwrap();
            let answer = Response::builder().status(status).body(()).unwrap();
            reply.send_response(answer, true)?;
            while let Some(data) = incoming.data().await {
                seen.octets.lock().extend_from_slice(&data?);
            }
            return Ok(());
        }
        Play::Flood => loop {
            let link = ("link", "</a>; rel=preload");
            reply.send_informational(interim(103, Some(link)))?;
            tokio::task::yield_now().await;
            let mut idle = std::task::Context::from_waker(std::task::Waker::noop());
            if reply.poll_reset(&mut idle).is_ready() {
                return Ok(());
            }
        },
    }
    let length = body.len();
    let answer = Response::builder().header("content-length", length);
    let mut sending = reply.send_response(answer.body(()).unwrap(), false)?;
    sending.send_data(Bytes::from(body), true)
}

fn interim(status: u16, field: Option<(&'static str, &str)>) -> Response<()> {
    let mut response = Response::builder().status(status).body(()).unwrap();
    if let Some((name, value)) = field {
        let value = HeaderValue::from_str(value).unwrap();
        response.headers_mut().insert(name, value);
    }
    response
}

impl Lab {
    /// Asks api.test as a program that speaks `alpn`.
    pub(in crate::tests) async fn ask(&self, alpn: &str, ask: Ask) -> Heard {
        let stream = self.connect(Way::to("api.test", 443)).await;
        let stream = self.tls(stream, "api.test", &[alpn]).await.unwrap();
        let asking = async {
            if alpn == "h2" {
                ask_http2(stream, ask).await
            } else {
                ask_http1(stream, ask).await
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asking)
            .await
            .expect("an answer")
    }
}

async fn ask_http1(mut stream: tokio_rustls::client::TlsStream<TcpStream>, ask: Ask) -> Heard {
    let mut head = format!("POST /{} HTTP/1.1\r\nHost: api.test\r\n", ask.path);
    if let Some(body) = ask.body {
        head += &format!("Expect: 100-continue\r\nContent-Length: {}\r\n", body.len());
    }
    for (name, value) in &ask.fields {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes()).await.unwrap();
    let mut heard = Heard::default();
    loop {
        let head = read_head(&mut stream).await.expect("a header section");
        let status = head.get(9..12).unwrap().parse().unwrap();
        let length = length(&head);
        if heard.take(status, fields(&head)) {
            let mut octets = vec![0; length];
            stream.read_exact(&mut octets).await.unwrap();
            heard.body = String::from_utf8(octets).unwrap();
            return heard;
        }
        if let (100, Some(body)) = (status, ask.body) {
            stream.write_all(body.as_bytes()).await.unwrap();
        }
    }
}

async fn ask_http2(stream: tokio_rustls::client::TlsStream<TcpStream>, ask: Ask) -> Heard {
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    let mut driven = JoinSet::new();
    driven.spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    let mut request = Request::post(format!("https://api.test/{}", ask.path));
    if let Some(body) = ask.body {
        request = request.header("expect", "100-continue");
        request = request.header("content-length", body.len());
    }
    for (name, value) in &ask.fields {
        request = request.header(*name, value);
    }
    let request = request.body(()).unwrap();
    let (mut answer, mut sending) = sender.send_request(request, ask.body.is_none()).unwrap();
    let mut heard = Heard::default();
    while let Some(interim) = poll_fn(|cx| answer.poll_informational(cx)).await {
        let (parts, ()) = interim.unwrap().into_parts();
        heard.take(parts.status.as_u16(), parts.headers);
        if let (StatusCode::CONTINUE, Some(body)) = (parts.status, ask.body) {
            sending
                .send_data(Bytes::from_static(body.as_bytes()), true)
                .unwrap();
        }
    }
    let (parts, mut incoming) = answer.await.unwrap().into_parts();
    heard.take(parts.status.as_u16(), parts.headers);
    while let Some(data) = incoming.data().await {
        let data = data.unwrap();
        incoming
            .flow_control()
            .release_capacity(data.len())
            .unwrap();
        heard.body.push_str(std::str::from_utf8(&data).unwrap());
    }
    heard
}

/// Reads up to the end of a header section; `None` when the stream ends before.
async fn read_head<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

fn length(head: &str) -> usize {
    let fields = fields(head);
    let length = fields.get("content-length");
    length.map_or(0, |value| value.to_str().unwrap().parse().unwrap())
}

fn fields(head: &str) -> HeaderMap {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| {
            (
                HeaderName::try_from(name).unwrap(),
                HeaderValue::try_from(value.trim()).unwrap(),
            )
        })
        .collect()
}
