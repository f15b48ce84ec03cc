//! What runs is held to the policy in force, whoever waits for whom, and nothing stands still for ever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use gig_audit::Event;
use gig_policy::{DenyReason, Policy};
use h2::{RecvStream, SendStream, client::SendRequest};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, watch},
};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::{Body, empty, read_head},
    h2 as frames,
    origin::Origin,
};

const NARROWED: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [80, 443], allow_private: [127.0.0.0/8], rules: [{paths: [/other]}]}
";

/// The name is allowed as before, and not where it is.
const CLOSED: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [80, 443]}
";

/// Each HTTP of an origin, and each change that ends a request.
fn each() -> impl Iterator<Item = (&'static str, &'static str)> {
    let alpns = ["h2", "http/1.1"].into_iter();
    alpns.flat_map(|alpn| [(alpn, NARROWED), (alpn, CLOSED)])
}

fn put(lab: &Lab, policy: &str) {
    lab.subject
        .set_policy(Policy::compile(policy, "test").unwrap());
}

fn narrow(lab: &Lab) {
    put(lab, NARROWED);
}

/// Octets for as long as somebody takes them; how many pieces were taken.
fn endless(taken: Arc<AtomicUsize>) -> Body {
    let (send, mut receive) = mpsc::channel(1);
    tokio_util::task::TaskTracker::new().spawn(async move {
        while send.send(Bytes::from_static(&[b'x'; 8192])).await.is_ok() {
            taken.fetch_add(1, Ordering::SeqCst);
        }
    });
    let frames = futures_util::stream::poll_fn(move |cx| {
        let next = receive.poll_recv(cx);
        next.map(|next| next.map(|data| Ok::<_, std::io::Error>(Frame::data(data))))
    });
    BodyExt::boxed(StreamBody::new(frames))
}

/// What an origin hears of request bodies.
#[derive(Clone)]
struct Hears {
    octets: Arc<watch::Sender<usize>>,
    ended: Arc<watch::Sender<bool>>,
    /// Of an endless answer.
    taken: Arc<AtomicUsize>,
}

impl Hears {
    fn new() -> Self {
        Self {
            octets: Arc::new(watch::Sender::new(0)),
            ended: Arc::new(watch::Sender::new(false)),
            taken: Arc::default(),
        }
    }

    /// Until nothing more of an endless answer is taken. Who is slow is mistaken for one who reads
    /// nothing, and then less is tested.
    async fn until_stuck(&self) {
        let mut before = usize::MAX;
        while before != self.taken.load(Ordering::SeqCst) {
            before = self.taken.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    async fn read(self, mut body: Incoming) {
        while let Some(Ok(frame)) = body.frame().await {
            let count = frame.data_ref().map_or(0, Bytes::len);
            self.octets.send_modify(|octets| *octets += count);
        }
        self.ended.send_replace(true);
    }

    async fn until_more(&self) {
        let mut octets = self.octets.subscribe();
        octets.borrow_and_update();
        soon(octets.changed()).await.unwrap();
    }

    async fn until_ended(&self) {
        let mut ended = self.ended.subscribe();
        soon(ended.wait_for(|ended| *ended)).await.unwrap();
    }
}

async fn soon<F: Future>(waiting: F) -> F::Output {
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    waited.expect("nothing happens")
}

/// An origin that reads, and answers `/silent` never, `/endless` with a body without an end.
async fn origin(alpn: &str) -> (Origin, Hears) {
    let hears = Hears::new();
    let theirs = hears.clone();
    let handler = move |request: Request<Incoming>| {
        let hears = theirs.clone();
        async move {
            let path = request.uri().path().to_owned();
            let taken = Arc::clone(&hears.taken);
            let reading = hears.read(request.into_body());
            match path.as_str() {
                "/silent" => {
                    reading.await;
                    std::future::pending().await
                }
                "/endless" => {
                    drop(tokio_util::task::TaskTracker::new().spawn(reading));
                    Response::new(endless(taken))
                }
                _ => Response::new(empty()),
            }
        }
    };
    (Origin::https("api.test", &[alpn], handler).await, hears)
}

/// An HTTP/2 program that decides itself what it reads.
async fn program(lab: &Lab) -> SendRequest<Bytes> {
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    lab.tasks.spawn(connection);
    sender
}

type Asked = (h2::client::ResponseFuture, SendStream<Bytes>);

async fn post(program: &SendRequest<Bytes>, path: &str) -> Asked {
    let mut ready = program.clone().ready().await.unwrap();
    let uri = format!("https://api.test{path}");
    let request = Request::post(uri).body(()).unwrap();
    ready.send_request(request, false).unwrap()
}

fn say(upload: &mut SendStream<Bytes>) -> Result<(), h2::Error> {
    upload.send_data(Bytes::from_static(b"more"), false)
}

async fn recorded_as(lab: &Lab, reason: DenyReason) {
    let record = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(record.entry.reason, Some(reason), "{record:#?}");
}

#[tokio::test]
async fn an_upload_that_waits_is_cut_when_its_path_or_its_address_is_no_longer_allowed() {
    for (alpn, changed) in each() {
        let (origin, hears) = origin(alpn).await;
        let lab = Arrangement::new(ALLOW_API).origin("api.test:443", &origin);
        let lab = lab.lab();
        let program = program(&lab).await;
        let (answer, mut upload) = post(&program, "/silent").await;
        say(&mut upload).unwrap();
        hears.until_more().await;
        put(&lab, changed);
        let answer = soon(answer).await.unwrap();
        assert_eq!(answer.status().as_u16(), DenyReason::Revoked.http_status());
        hears.until_ended().await;
        recorded_as(&lab, DenyReason::Revoked).await;
    }
}

#[tokio::test]
async fn an_upload_beside_an_answer_that_nobody_reads_is_cut() {
    for (alpn, changed) in each() {
        let (origin, hears) = origin(alpn).await;
        let lab = Arrangement::new(ALLOW_API).origin("api.test:443", &origin);
        let lab = lab.lab();
        let program = program(&lab).await;
        let (answer, mut upload) = post(&program, "/endless").await;
        let answer = soon(answer).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        say(&mut upload).unwrap();
        hears.until_more().await;
        let heard = *hears.octets.borrow();
        hears.until_stuck().await;
        put(&lab, changed);
        // It is neither read nor sent: whoever cuts it is woken by the change alone.
        hears.until_ended().await;
        recorded_as(&lab, DenyReason::Revoked).await;
        say(&mut upload).ok();
        assert_eq!(*hears.octets.borrow(), heard, "more came");
        drop(answer);
    }
}

#[tokio::test]
async fn a_busy_exchange_is_cut_at_its_next_piece() {
    for (alpn, changed) in each() {
        let (origin, hears) = origin(alpn).await;
        let lab = Arrangement::new(ALLOW_API).origin("api.test:443", &origin);
        let lab = lab.lab();
        let program = program(&lab).await;
        let (answer, mut upload) = post(&program, "/endless").await;
        let mut body = soon(answer).await.unwrap().into_body();
        let busy = async {
            let mut pieces = 0;
            while let Some(Ok(data)) = body.data().await {
                body.flow_control().release_capacity(data.len()).unwrap();
                say(&mut upload).ok();
                pieces += 1;
                if pieces == 20 {
                    put(&lab, changed);
                }
            }
        };
        soon(busy).await;
        hears.until_ended().await;
        recorded_as(&lab, DenyReason::Revoked).await;
    }
}

#[tokio::test]
async fn an_http1_program_that_reads_nothing_is_cut_when_its_path_is_no_longer_allowed() {
    let (origin, hears) = origin("http/1.1").await;
    let lab = Arrangement::new(ALLOW_API).origin("api.test:443", &origin);
    let lab = lab.lab();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let mut stream = lab.tls(stream, "api.test", &["http/1.1"]).await.unwrap();
    let head = b"GET /endless HTTP/1.1\r\nHost: api.test\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    hears.until_stuck().await;
    narrow(&lab);
    recorded_as(&lab, DenyReason::Revoked).await;
    lab.tasks.close();
    soon(lab.tasks.wait()).await;
}

#[tokio::test]
async fn a_change_that_leaves_it_allowed_cuts_nothing() {
    let (origin, hears) = origin("h2").await;
    let lab = Arrangement::new(ALLOW_API).origin("api.test:443", &origin);
    let lab = lab.lab();
    let program = program(&lab).await;
    let (answer, mut upload) = post(&program, "/endless").await;
    let mut body = soon(answer).await.unwrap().into_body();
    for _ in 0..3 {
        let same = Policy::compile(ALLOW_API, "test").unwrap();
        lab.subject.set_policy(same);
        let data = soon(body.data()).await.unwrap().unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        say(&mut upload).unwrap();
        hears.until_more().await;
    }
}

/// Waits for the end of a stream that nobody reads, while another one of its connection is busy.
async fn beside_a_busy_one(lab: &Lab, program: &SendRequest<Bytes>) {
    let busy = async {
        loop {
            let (answer, mut upload) = post(program, "/short").await;
            upload.send_data(Bytes::new(), true).unwrap();
            assert_eq!(answer.await.unwrap().status(), StatusCode::OK);
            let mut records = lab.records(Event::Response);
            records.retain(|record| record.entry.reason.is_some());
            if let Some(record) = records.pop() {
                assert_eq!(record.entry.reason, Some(DenyReason::RequestTimeout));
                assert_eq!(record.entry.path.as_deref(), Some("/endless"));
                return;
            }
        }
    };
    soon(busy).await;
}

async fn reset(body: &mut RecvStream) {
    let ending = async {
        while let Some(data) = body.data().await {
            let Ok(data) = data else { return true };
            body.flow_control().release_capacity(data.len()).unwrap();
        }
        false
    };
    assert!(soon(ending).await, "an answer that was cut looks whole");
}

#[tokio::test]
async fn a_stream_that_nobody_reads_ends_beside_a_busy_one() {
    for alpn in ["h2", "http/1.1"] {
        let (origin, _hears) = origin(alpn).await;
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:443", &origin)
            .idle(Duration::from_secs(2))
            .lab();
        let program = program(&lab).await;
        let (answer, mut upload) = post(&program, "/endless").await;
        upload.send_data(Bytes::new(), true).unwrap();
        let mut body = soon(answer).await.unwrap().into_body();
        beside_a_busy_one(&lab, &program).await;
        reset(&mut body).await;
    }
}

#[tokio::test]
async fn streams_whose_window_stays_at_zero_are_given_up_and_make_room() {
    let (origin, _hears) = origin("h2").await;
    let narrowed = NARROWED.replace("[/other]", "[/endless]");
    let lab = Arrangement::new(&narrowed)
        .origin("api.test:443", &origin)
        .idle(Duration::from_secs(2))
        .lab();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let mut stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
    let mut octets = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // INITIAL_WINDOW_SIZE 0: no body has room, ever; neither an origin's nor a refusal's.
    octets.extend(frames::frame(frames::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for n in 0..STREAMS {
        let path = if n % 2 == 0 { "/endless" } else { "/shut" };
        octets.extend(frames::request(1 + 2 * n, path, &[]));
    }
    stream.write_all(&octets).await.unwrap();
    let mut given_up = 0;
    let ending = async {
        while given_up < STREAMS {
            let (kind, ..) = frames::read_frame(&mut stream).await.unwrap();
            given_up += u32::from(kind == frames::RST_STREAM);
        }
    };
    soon(ending).await;
    let next = 1 + 2 * STREAMS;
    let more = frames::request(next, "/shut", &[]);
    stream.write_all(&more).await.unwrap();
    let answering = async {
        loop {
            let (kind, _, id, _) = frames::read_frame(&mut stream).await.unwrap();
            if id == next {
                return kind;
            }
        }
    };
    assert_eq!(soon(answering).await, frames::HEADERS);
    let records = lab.until_records(Event::Response, 64).await;
    for record in records {
        assert_eq!(record.entry.reason, Some(DenyReason::RequestTimeout));
    }
}

/// As many as one connection may have.
const STREAMS: u32 = 128;

#[tokio::test]
async fn an_explicit_proxys_upload_is_cut_when_its_method_is_no_longer_allowed() {
    let origin = Origin::raw(|mut stream, seen| async move {
        let head = read_head(&mut stream).await;
        seen.octets.lock().extend(head.as_bytes());
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
        seen.octets.lock().extend(b"over");
    })
    .await;
    let lab = Arrangement::new(ALLOW_API).origin("api.test:80", &origin);
    let lab = lab.lab();
    let mut stream = lab.connect(Way::Explicit).await;
    let head =
        b"PUT http://api.test/other HTTP/1.1\r\nHost: api.test\r\nContent-Length: 9\r\n\r\nhalf";
    stream.write_all(head).await.unwrap();
    let arriving = async {
        while origin.seen.text().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(arriving).await;
    let reading = NARROWED.replace("paths: [/other]", "methods: [GET]");
    let policy = Policy::compile(&reading, "test").unwrap();
    lab.subject.set_policy(policy);
    let answer = soon(read_head(&mut stream)).await;
    let status = DenyReason::Revoked.http_status();
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")),
        "{answer}"
    );
    let ending = async {
        while !origin.seen.text().ends_with("over") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(ending).await;
    recorded_as(&lab, DenyReason::Revoked).await;
}
