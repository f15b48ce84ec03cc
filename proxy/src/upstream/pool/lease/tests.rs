//! Answers read here are answers as hyper reads them, however they are cut.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

use super::*;
use crate::{
    http::{interject::Interjections, limits},
    upstream::http1,
};

/// What a program could learn of one answer.
#[derive(Debug, PartialEq, Eq)]
enum Learnt {
    Refused,
    Broken(StatusCode, HeaderMap),
    Whole(StatusCode, HeaderMap, Bytes, Option<HeaderMap>),
}

/// One exchange: what was learnt, and what the origin saw.
type Exchanged = (Learnt, Vec<u8>);

fn request(method: &str) -> Request<Upload> {
    Request::builder()
        .method(method)
        .uri("/a%20b?c=%22d&e")
        .header("host", "api.test:8443")
        .header("x-one", "1")
        .header("accept", "*/*")
        .header("x-one", "\u{e9}")
        .body(Upload::Empty)
        .unwrap()
}

/// Runs beside its test, which waits for it.
fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    TaskTracker::new().spawn(future)
}

/// Answers a header section with `pieces`, and closes.
async fn origin(mut stream: DuplexStream, pieces: Vec<Vec<u8>>) -> Vec<u8> {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut seen).await.unwrap() == 0 {
            return seen;
        }
    }
    for piece in pieces {
        if stream.write_all(&piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    // Its end is announced; what still comes is seen.
    if stream.shutdown().await.is_ok() {
        drop(stream.read_to_end(&mut seen).await);
    }
    seen
}

async fn exchange(own: bool, method: &str, pieces: Vec<Vec<u8>>) -> Exchanged {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let seen = spawn(origin(far, pieces));
    let (mut carrier, driver) = if own {
        let (connection, driving) = http1::open(Box::new(near));
        (Carrier::Own(connection), spawn(driving))
    } else {
        let io = hyper_util::rt::TokioIo::new(near);
        let (sender, driving) = limits::http1_client().handshake(io).await.unwrap();
        (Carrier::Hyper(sender), spawn(driving.with_upgrades()))
    };
    let interims = Interims::new(None, &Arc::<Interjections>::default(), None, None);
    let mut request = request(method);
    let sent = send_http1(&mut carrier, &mut request, &interims).await;
    let learnt = match sent {
        Err(_) => Learnt::Refused,
        Ok(response) => {
            let (parts, body) = response.into_parts();
            match body.collect().await {
                Err(_) => Learnt::Broken(parts.status, parts.headers),
                Ok(body) => {
                    let trailers = body.trailers().cloned();
                    let data = body.to_bytes();
                    Learnt::Whole(parts.status, parts.headers, data, trailers)
                }
            }
        }
    };
    drop(carrier);
    let seen = seen.await.unwrap();
    drop(driver.await);
    (learnt, seen)
}

/// Both ways must tell a program the same, and an origin.
async fn compared(method: &str, answer: &[u8], piece: usize) {
    let pieces: Vec<Vec<u8>> = answer.chunks(piece).map(<[u8]>::to_vec).collect();
    let both = async {
        let own = exchange(true, method, pieces.clone()).await;
        (own, exchange(false, method, pieces).await)
    };
    let both = tokio::time::timeout(Duration::from_secs(30), both).await;
    let (own, hyper) = both.expect("neither waits for ever");
    let shown = String::from_utf8_lossy(answer);
    assert_eq!(own.0, hyper.0, "{method} in pieces of {piece}: {shown:?}");
    let seen = String::from_utf8_lossy(&own.1);
    assert_eq!(seen, String::from_utf8_lossy(&hyper.1), "{shown:?}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_answer_is_read_as_hyper_reads_it() {
    let many = format!(
        "HTTP/1.1 200 OK\r\n{}Content-Length: 2\r\n\r\nhi",
        "A: b\r\n".repeat(90)
    );
    let too_many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(200));
    let long = format!(
        "HTTP/1.1 200 OK\r\nA: {}\r\nContent-Length: 1\r\n\r\nx",
        "b".repeat(20_000)
    );
    let endless = long.replace('b', &"b".repeat(20));
    let large = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n{}",
        "y".repeat(50_000)
    );
    for answer in [
        "",
        "HTTP",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 Fine\r\ncontent-LENGTH: 5 \r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nuntil the end",
        "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTrailer: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nA: \u{e9}\u{1}\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nA: \u{e9}\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/2.0 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2p1\r\n",
        &many,
        &too_many,
        &long,
        &endless,
        &large,
    ] {
        for method in ["GET", "HEAD", "DELETE"] {
            for piece in [1, 7, 40, usize::MAX] {
                if piece > 7 || answer.len() < 1000 {
                    compared(method, answer.as_bytes(), piece).await;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_answer_is_read_as_hyper_reads_it(
        start in prop::sample::select(vec![
            "HTTP/1.1 200 OK", "HTTP/1.1 204 X", "HTTP/1.1 103 E", "HTTP/1.0 200 OK", "HTTP/1.1 404",
        ]),
        fields in prop::collection::vec(prop::sample::select(vec![
            "Content-Length: 4", "content-length: 04", "Content-Length: 4, 4", "Content-Length: 3",
            "Content-Length:\t4\t", "Content-Length: ", "Content-Length: 4 4", "Transfer-Encoding: chunked",
            "Transfer-Encoding: Chunked", "Transfer-Encoding: identity", "Connection: close",
            "Connection: x, close", "X:", "X: y", " folded", "Content_Length: 9", "X\0: y", ": y",
        ]), 0..4),
        ends in prop::sample::select(vec!["\r\n", "\n", "\r\n\r", "\r"]),
        body in prop::sample::select(vec!["", "abcd", "abc", "4\r\nabcd\r\n0\r\n\r\n", "\r\n\r\nab", "abcdefgh"]),
        method in prop::sample::select(vec!["GET", "HEAD", "OPTIONS"]),
        piece in prop::sample::select(vec![1, 5, 23, 4096]),
    ) {
        let mut answer = format!("{start}\r\n");
        for field in fields {
            answer.push_str(field);
            answer.push_str("\r\n");
        }
        answer.push_str(ends);
        answer.push_str(body);
        runtime().block_on(compared(method, answer.as_bytes(), piece));
    }
}

#[tokio::test]
async fn a_connection_carries_one_request_after_another_and_hyper_goes_on_where_it_must() {
    let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    let (near, mut far) = tokio::io::duplex(1024);
    let answering = async {
        let mut requests = Vec::new();
        for answer in [&plain[..], plain, chunked, plain] {
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                assert_ne!(far.read_buf(&mut seen).await.unwrap(), 0);
            }
            far.write_all(answer).await.unwrap();
            requests.push(seen);
        }
        (requests, far)
    };
    let asking = async {
        let (connection, driving) = http1::open(Box::new(near));
        let driver = spawn(driving);
        let mut carrier = Carrier::Own(connection);
        let interims = Interims::new(None, &Arc::<Interjections>::default(), None, None);
        for own in [true, true, false, false] {
            let mut request = request("GET");
            let sent = send_http1(&mut carrier, &mut request, &interims).await;
            let Ok(response) = sent else {
                panic!("no answer");
            };
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, "hi");
            assert_eq!(matches!(carrier, Carrier::Own(_)), own);
            assert!(carrier.is_reusable() && carrier.is_free());
        }
        drop(carrier);
        driver.await.unwrap().unwrap();
    };
    let ((requests, mut far), ()) = tokio::join!(answering, asking);
    assert!(requests.windows(2).all(|two| two[0] == two[1]));
    // It is closed when nobody holds it any more.
    assert_eq!(far.read_buf(&mut Vec::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_cut_ends_whoever_reads_it() {
    let (near, mut far) = tokio::io::duplex(1024);
    let (connection, driving) = http1::open(Box::new(near));
    let driver = spawn(driving);
    let mut carrier = Carrier::Own(connection);
    let interims = Interims::new(None, &Arc::<Interjections>::default(), None, None);
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234")
        .await
        .unwrap();
    let mut request = request("GET");
    let Ok(response) = send_http1(&mut carrier, &mut request, &interims).await else {
        panic!("no answer");
    };
    assert!(!carrier.is_reusable());
    let reading = spawn(response.into_body().collect());
    tokio::task::yield_now().await;
    driver.abort();
    let read = tokio::time::timeout(Duration::from_secs(10), reading).await;
    assert!(read.unwrap().unwrap().is_err());
    assert!(!carrier.is_free());
    let mut seen = Vec::new();
    far.read_to_end(&mut seen).await.unwrap();
    assert!(seen.starts_with(b"GET /a%20b?c=%22d&e HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_connection_on_which_its_origin_speaks_unasked_is_not_used() {
    for said in [
        &b""[..],
        b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
    ] {
        let (near, mut far) = tokio::io::duplex(1024);
        let (connection, _driving) = http1::open(Box::new(near));
        let carrier = Carrier::Own(connection);
        assert!(carrier.is_free());
        far.write_all(said).await.unwrap();
        if said.is_empty() {
            far.shutdown().await.unwrap();
        }
        assert!(!carrier.is_free());
    }
}

#[tokio::test]
async fn an_origin_that_speaks_before_it_was_told_all_gets_the_rest_once() {
    let (near, mut far) = tokio::io::duplex(32);
    let answering = async {
        let mut seen = Vec::new();
        while seen.len() < 10 {
            far.read_buf(&mut seen).await.unwrap();
        }
        far.write_all(b"HTTP/1.1 103 E\r\n\r\n").await.unwrap();
        while !seen.ends_with(b"\r\n\r\n") {
            assert_ne!(far.read_buf(&mut seen).await.unwrap(), 0);
        }
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        far.write_all(answer).await.unwrap();
        seen
    };
    let asking = async {
        let (connection, driving) = http1::open(Box::new(near));
        let driver = spawn(driving);
        let mut carrier = Carrier::Own(connection);
        let interims = Interims::new(None, &Arc::<Interjections>::default(), None, None);
        let mut request = request("GET");
        let Ok(response) = send_http1(&mut carrier, &mut request, &interims).await else {
            panic!("no answer");
        };
        assert!(matches!(carrier, Carrier::Hyper(_)));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "hi");
        drop(carrier);
        driver.await.unwrap().unwrap();
    };
    let both = async { tokio::join!(answering, asking) };
    let (seen, ()) = tokio::time::timeout(Duration::from_secs(30), both)
        .await
        .unwrap();
    let mut whole = Vec::new();
    assert!(http1::head::write(&request("GET"), &mut whole));
    assert_eq!(seen, whole);
}
