//! Origins that take few requests on a connection, or none.

use std::time::Duration;

use bytes::Bytes;
use gig_policy::DenyReason;
use h2::Reason;
use http::{Response, StatusCode};
use tokio::io::AsyncWriteExt;

use super::{
    lab::{
        ALLOW_API, Arrangement, Way,
        h2::{self as frames, DATA, END_HEADERS, END_STREAM, HEADERS, field, frame, read_frame},
        origin::{Got, Origin},
    },
    requests::get_on,
};

/// One request at a time on each connection; `/slow` is never answered.
async fn one_at_a_time() -> Origin {
    Origin::tls("api.test", &["h2"], |stream, seen| async move {
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(1);
        let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else {
            return;
        };
        let mut waiting = Vec::new();
        while let Some(Ok((request, mut reply))) = connection.accept().await {
            seen.requests.lock().push(Got {
                uri: request.uri().clone(),
                version: request.version(),
                headers: request.headers().clone(),
            });
            if request.uri().path() == "/slow" {
                waiting.push((request, reply));
            } else {
                reply.send_response(Response::new(()), true).ok();
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_full_connection_keeps_no_other_request_waiting() {
    for alpn in ["h2", "http/1.1"] {
        let origin = one_at_a_time().await;
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:443", &origin)
            .lab();
        let mut slow = lab.https("api.test", alpn).await;
        let slow = async { slow.send(get_on(alpn, "/slow")).await.status };
        let mut quick = lab.https("api.test", alpn).await;
        let quick = async {
            while origin.seen.requests().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            for _ in 0..3 {
                let status = quick.send(get_on(alpn, "/quick")).await.status;
                assert_eq!(status, StatusCode::OK, "{alpn}");
            }
        };
        let both = async {
            tokio::select! {
                status = slow => panic!("{alpn}: {status}"),
                () = quick => {}
            }
        };
        let within = tokio::time::timeout(Duration::from_secs(20), both).await;
        within.expect("a quick answer");
        assert_eq!(origin.seen.requests().len(), 4);
    }
}

/// Resets so many requests as not looked at, whatever connection they come by.
async fn refusing(most: usize) -> Origin {
    Origin::tls("api.test", &["h2"], move |stream, seen| async move {
        let Ok(mut connection) = h2::server::handshake(stream).await else {
            return;
        };
        while let Some(Ok((request, mut reply))) = connection.accept().await {
            let refused = seen.requests().len() < most;
            seen.requests.lock().push(Got {
                uri: request.uri().clone(),
                version: request.version(),
                headers: request.headers().clone(),
            });
            if refused {
                reply.send_reset(Reason::REFUSED_STREAM);
            } else if let Ok(mut body) = reply.send_response(Response::new(()), false) {
                let _sent = body.send_data(Bytes::from_static(b"done"), true);
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_request_refused_on_a_new_connection_is_sent_once_more() {
    for (most, status, requests) in [(1, StatusCode::OK, 2), (9, StatusCode::BAD_GATEWAY, 2)] {
        for alpn in ["h2", "http/1.1"] {
            let origin = refusing(most).await;
            let lab = Arrangement::new(ALLOW_API)
                .origin("api.test:443", &origin)
                .lab();
            // So that it speaks HTTP/2 to the origin at once.
            let mut client = lab.https("api.test", alpn).await;
            let answer = client.send(get_on(alpn, "/")).await;
            let seen = origin.seen.requests().len();
            assert_eq!((answer.status, seen), (status, requests), "{alpn}");
        }
    }
}

const PING: u8 = 6;
const ACK: u8 = 1;

/// curl 7.88 overlooks an answer's end that it reads while it sends, until another frame comes.
#[tokio::test]
async fn an_answer_before_the_whole_request_is_followed_by_a_frame() {
    let lab =
        Arrangement::new("version: 1\negress: [{host: api.test, rules: [{paths: [/open]}]}]\n")
            .lab();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let mut stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
    let block: Vec<u8> = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "api.test"),
        (":path", "/closed"),
    ]
    .iter()
    .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
    .collect();
    let post = frame(HEADERS, END_HEADERS, 1, &block);
    let octets = [frames::preface(), post, frame(DATA, 0, 1, b"half")].concat();
    stream.write_all(&octets).await.unwrap();
    let reading = async {
        let mut ended = false;
        loop {
            let (kind, flags, of, _) = read_frame(&mut stream).await.unwrap();
            ended |= of == 1 && flags & END_STREAM != 0;
            if ended && kind == PING && flags & ACK == 0 {
                break;
            }
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(10), reading).await;
    read.expect("a frame after the answer");
    let denied = lab.until_records(gig_audit::Event::Request, 1).await;
    assert_eq!(denied[0].entry.reason, Some(DenyReason::PathNotAllowed));
}
