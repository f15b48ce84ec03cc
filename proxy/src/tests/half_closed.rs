//! A program that closes its sending half behind its request: it is answered, and one that has gone is not
//! waited for.

use std::{sync::Arc, time::Duration};

use gig_audit::Event;
use gig_policy::DenyReason;
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Semaphore,
};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::{Body, full, read_head},
    origin::Origin,
};

/// Answers with path and body, a moment later: its program's end is there by then.
async fn slow(request: Request<hyper::body::Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let body = String::from_utf8(body.to_vec()).unwrap();
    Response::new(full(format!("[{path} {body}]")))
}

/// Sends these, closes the sending half, and reads to the end.
async fn ask<S>(mut stream: S, octets: &[u8]) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(octets).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
    read.expect("an end").expect("in order");
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_program_that_has_no_more_to_send_is_answered() {
    let clear = Origin::http(slow).await;
    let secure = Origin::https("api.test", &["http/1.1"], slow).await;
    let arrangement = Arrangement::new(ALLOW_API).origin("api.test:80", &clear);
    let lab = arrangement.origin("api.test:443", &secure).lab();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: api.test\r\n\r\n");
    let fields = "Content-Length: 4\r\n\r\nbody";
    let cases = [
        (get("/a"), &["[/a ]"][..]),
        (get("/a").replace("/1.1", "/1.0"), &["[/a ]"]),
        (
            format!("POST /b HTTP/1.1\r\nHost: api.test\r\n{fields}"),
            &["[/b body]"],
        ),
        (
            "POST /c HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n\
             4\r\nbody\r\n0\r\n\r\n"
                .to_owned(),
            &["[/c body]"],
        ),
        (get("/d") + &get("/e"), &["[/d ]", "[/e ]"]),
    ];
    for (octets, wanted) in cases {
        let stream = lab.connect(Way::to("api.test", 80)).await;
        let answers = [ask(stream, octets.as_bytes()).await];
        let stream = lab.connect(Way::to("api.test", 443)).await;
        let stream = lab.tls(stream, "api.test", &["http/1.1"]).await.unwrap();
        let answers = answers
            .into_iter()
            .chain([ask(stream, octets.as_bytes()).await]);
        for answer in answers {
            assert_eq!(
                answer.matches(" 200 OK").count(),
                wanted.len(),
                "{octets}: {answer}"
            );
            for body in wanted {
                assert!(answer.contains(body), "{octets}: {answer}");
            }
        }
    }
    // What was asked a moment later stands in its turn, too.
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    stream.write_all(get("/f").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = ask(stream, get(&format!("/{}", "g".repeat(2000))).as_bytes()).await;
    assert!(
        answer.contains("[/f ]") && answer.contains("gg ]"),
        "{answer}"
    );
}

/// An origin that takes a request and says nothing; a permit for each whose connection ended.
async fn silent() -> (Origin, Arc<Semaphore>) {
    let ended = Arc::new(Semaphore::new(0));
    let theirs = Arc::clone(&ended);
    let origin = Origin::raw(move |mut stream, seen| {
        let ended = Arc::clone(&theirs);
        async move {
            let head = read_head(&mut stream).await;
            seen.octets.lock().extend(head.bytes());
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest).await);
            ended.add_permits(1);
        }
    })
    .await;
    (origin, ended)
}

fn lab(origin: &Origin, half_closed: Duration) -> Lab {
    let arrangement = Arrangement::new(ALLOW_API).origin("api.test:80", origin);
    arrangement
        .within(|deadlines| deadlines.half_closed = half_closed)
        .lab()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n";

/// Waits until the request is there, does `then`, and waits for the origin to be let go.
async fn let_go(lab: Lab, (origin, ended): (Origin, Arc<Semaphore>), end: End) {
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    stream.write_all(GET).await.unwrap();
    while !origin.seen.text().ends_with("\r\n\r\n") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    match end {
        End::HalfClosed => stream.shutdown().await.unwrap(),
        End::Reset => {
            let socket = socket2::SockRef::from(&stream);
            socket.set_linger(Some(Duration::ZERO)).unwrap();
            drop(stream);
        }
        End::OfItsSandbox => {
            stream.shutdown().await.unwrap();
            lab.subject.end();
        }
    }
    let gone = tokio::time::timeout(Duration::from_secs(60), ended.acquire()).await;
    gone.expect("the origin is let go").unwrap().forget();
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.status, None, "{response:#?}");
    assert_ne!(response.entry.reason, Some(DenyReason::OriginTimeout));
}

#[derive(Debug, Clone, Copy)]
enum End {
    HalfClosed,
    Reset,
    OfItsSandbox,
}

#[tokio::test]
async fn an_origin_that_says_nothing_does_not_work_for_long_for_who_may_be_gone() {
    let silent = silent().await;
    let lab = lab(&silent.0, Duration::from_millis(300));
    let_go(lab, silent, End::HalfClosed).await;
}

#[tokio::test]
async fn who_is_certainly_gone_is_not_waited_for() {
    for end in [End::Reset, End::OfItsSandbox] {
        let silent = silent().await;
        let lab = lab(&silent.0, Duration::from_secs(3600));
        let_go(lab, silent, end).await;
    }
}
