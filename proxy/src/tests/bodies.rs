//! Bodies stream both ways, whole and unheld, with their trailers.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use gig_audit::Event;
use gig_policy::DenyReason;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, channel::Channel};
use tokio::io::AsyncWriteExt;

use super::lab::{
    ALLOW_API, Arrangement, Lab,
    client::{Body, full, read_head},
    origin::{Origin, echo},
};

async fn echoing(origin_alpn: &str) -> (Lab, Origin) {
    let origin = Origin::https("api.test", &[origin_alpn], echo).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    (lab, origin)
}

fn post(protocol: &str, body: Body) -> Request<Body> {
    let builder = Request::post(if protocol == "h2" {
        "https://api.test/"
    } else {
        "/"
    });
    let builder = if protocol == "h2" {
        builder
    } else {
        builder.header("host", "api.test")
    };
    builder.body(body).unwrap()
}

const PAIRINGS: [(&str, &str); 4] = [
    ("http/1.1", "http/1.1"),
    ("http/1.1", "h2"),
    ("h2", "http/1.1"),
    ("h2", "h2"),
];

#[tokio::test]
async fn large_bodies_come_back_whole_and_are_counted() {
    for (client, origin) in PAIRINGS {
        let (lab, _origin) = echoing(origin).await;
        let mut sender = lab.https("api.test", client).await;
        let body: Bytes = (0..2_000_000_u32)
            .flat_map(u32::to_be_bytes)
            .collect::<Vec<_>>()
            .into();
        let answer = sender.send(post(client, full(body.clone()))).await;
        assert_eq!(answer.body.len(), body.len(), "{client} to {origin}");
        assert_eq!(answer.body, body, "{client} to {origin}");
        let response = lab.until_records(Event::Response, 1).await.remove(0);
        assert_eq!(response.entry.bytes_out, Some(body.len() as u64));
        assert_eq!(response.entry.bytes_in, Some(body.len() as u64));
    }
}

/// As searches of Elasticsearch are asked; hyper sends none with a GET unless it is told to.
#[tokio::test]
async fn the_body_of_a_get_passes_whether_its_length_is_known_or_not() {
    let open = || {
        let frames =
            ["a ", "question"].map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes()))));
        BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)))
    };
    for (client, origin) in PAIRINGS {
        let (lab, _origin) = echoing(origin).await;
        let mut sender = lab.https("api.test", client).await;
        for (body, is_open) in [(full("a question"), false), (open(), true)] {
            let mut request = post(client, body);
            *request.method_mut() = http::Method::GET;
            if is_open && client == "http/1.1" {
                let chunked = "chunked".parse().unwrap();
                request.headers_mut().insert("transfer-encoding", chunked);
            }
            let answer = sender.send(request).await;
            assert_eq!(answer.body, "a question", "{client} to {origin}, {is_open}");
        }
    }
}

#[tokio::test]
async fn trailers_pass_in_every_pairing() {
    for (client, origin) in PAIRINGS {
        let (lab, _origin) = {
            let origin = Origin::https("api.test", &[origin], with_trailers).await;
            let lab = Arrangement::new(ALLOW_API)
                .origin("api.test:443", &origin)
                .lab();
            (lab, origin)
        };
        let mut sender = lab.https("api.test", client).await;
        let mut request = post(client, full("x"));
        request
            .headers_mut()
            .insert("te", "trailers".parse().unwrap());
        let answer = sender.send(request).await;
        assert_eq!(answer.body, "data");
        let trailers = answer.trailers.unwrap_or_default();
        assert_eq!(
            trailers.get("grpc-status").map(|v| v.as_bytes()),
            Some(&b"0"[..]),
            "{client} to {origin}"
        );
    }
}

async fn with_trailers(_: Request<hyper::body::Incoming>) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"data"))),
        Ok(Frame::trailers(trailers)),
    ];
    let body = BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)));
    std::future::ready(
        Response::builder()
            .header("trailer", "grpc-status")
            .body(body)
            .unwrap(),
    )
    .await
}

#[tokio::test]
async fn both_directions_stream_at_once() {
    for (client, origin) in [("h2", "h2"), ("h2", "http/1.1"), ("http/1.1", "http/1.1")] {
        let (lab, _origin) = echoing(origin).await;
        let mut sender = lab.https("api.test", client).await;
        let (mut upload, body) = Channel::<Bytes, std::io::Error>::new(1);
        let starting = sender.start(post(client, body.boxed()));
        let (response, ()) = tokio::join!(starting, async {
            upload.send_data(Bytes::from_static(b"one")).await.unwrap();
        });
        let mut body = response.unwrap().into_body().into_data_stream();
        assert_eq!(body.next().await.unwrap().unwrap(), "one");
        for word in ["two", "three"] {
            upload.send_data(Bytes::from(word)).await.unwrap();
            assert_eq!(
                body.next().await.unwrap().unwrap(),
                word,
                "{client} {origin}"
            );
        }
        drop(upload);
        // HTTP/2 may end with an empty frame.
        while let Some(rest) = body.next().await {
            assert_eq!(rest.unwrap(), "", "{client} {origin}");
        }
    }
}

#[tokio::test]
async fn a_slow_reader_slows_the_origin_and_nothing_piles_up() {
    let (report, mut reported) = tokio::sync::watch::channel(0_usize);
    let origin = Origin::https("api.test", &["http/1.1"], move |_| {
        let report = report.clone();
        async move {
            let chunk = Bytes::from(vec![7; 64 * 1024]);
            let frames = futures_util::stream::iter(0..1024).map(move |n| {
                report.send_replace(n);
                Ok(Frame::data(chunk.clone()))
            });
            Response::new(BodyExt::boxed(StreamBody::new(frames)))
        }
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let mut sender = lab.https("api.test", "http/1.1").await;
    let response = sender.start(post("http/1.1", full(""))).await.unwrap();
    // Nobody reads: the origin stops after what sockets and windows hold, far from 64 MiB.
    while tokio::time::timeout(Duration::from_millis(300), reported.changed())
        .await
        .is_ok()
    {}
    assert!(*reported.borrow() < 400, "{}", *reported.borrow());
    let all = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(all.len(), 64 * 1024 * 1024);
}

#[tokio::test]
async fn an_event_stream_is_not_held_back() {
    let origin = Origin::http(|_| async {
        let (mut events, body) = Channel::<Bytes, std::io::Error>::new(1);
        let feed = async move {
            events
                .send_data(Bytes::from_static(b"data: 1\n\n"))
                .await
                .ok();
            std::future::pending::<()>().await;
        };
        Response::builder()
            .header("content-type", "text/event-stream")
            .body(BodyExt::boxed(StreamBody::new(
                body.into_data_stream()
                    .map(|chunk| chunk.map(Frame::data))
                    .take_until(feed),
            )))
            .unwrap()
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    let request = Request::get("/")
        .header("host", "api.test")
        .body(super::lab::client::empty())
        .unwrap();
    let response = client.start(request).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    let first = tokio::time::timeout(Duration::from_secs(60), body.next()).await;
    assert_eq!(first.unwrap().unwrap().unwrap(), "data: 1\n\n");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_announced_or_not() {
    let policy = format!("{ALLOW_API}limits: {{request_body: 1KB}}\n");
    for announced in [true, false] {
        let origin = Origin::https("api.test", &["http/1.1"], |request: Request<_>| async {
            request.into_body().collect().await.ok();
            Response::new(full("read it all"))
        })
        .await;
        let lab = Arrangement::new(&policy)
            .origin("api.test:443", &origin)
            .lab();
        let mut sender = lab.https("api.test", "http/1.1").await;
        let body = if announced {
            full(vec![0; 5000])
        } else {
            let chunks = (0..50).map(|_| Ok(Frame::data(Bytes::from(vec![0; 100]))));
            BodyExt::boxed(StreamBody::new(futures_util::stream::iter(chunks)))
        };
        let answer = sender.send(post("http/1.1", body)).await;
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(answer.json()["reason"], "request_body_limit");
        if announced {
            assert_eq!(origin.seen.connections(), 0);
            lab.assert_denied_once(DenyReason::RequestBodyLimit);
        } else {
            let response = lab.until_records(Event::Response, 1).await.remove(0);
            assert_eq!(response.entry.reason, Some(DenyReason::RequestBodyLimit));
            assert!(response.entry.bytes_out.unwrap() <= 1024);
        }
    }
}

#[tokio::test]
async fn an_upload_over_the_hours_allowance_is_told_as_429() {
    let policy = format!("{ALLOW_API}limits: {{upload_per_hour: 1KB}}\n");
    let origin = Origin::https("api.test", &["http/1.1"], echo).await;
    let lab = Arrangement::new(&policy)
        .origin("api.test:443", &origin)
        .lab();
    let mut sender = lab.https("api.test", "http/1.1").await;
    let answer = sender.send(post("http/1.1", full(vec![0; 600]))).await;
    assert_eq!(answer.status, StatusCode::OK);
    let answer = sender.send(post("http/1.1", full(vec![0; 600]))).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(!answer.header("retry-after").is_empty());
    assert_eq!(answer.json()["reason"], "upload_limit");
}

#[tokio::test]
async fn what_leaves_in_targets_and_fields_counts_against_the_hours_allowance() {
    let policy = format!("{ALLOW_API}limits: {{upload_per_hour: 1KB}}\n");
    for alpn in ["http/1.1", "h2"] {
        for place in ["target", "field", "trailer"] {
            let origin = Origin::https("api.test", &[alpn], echo).await;
            let lab = Arrangement::new(&policy)
                .origin("api.test:443", &origin)
                .lab();
            let mut sender = lab.https("api.test", alpn).await;
            let answer = sender.send(laden(alpn, place)).await;
            assert_eq!(answer.status, StatusCode::OK, "{alpn} {place}");
            let refused = sender.send(laden(alpn, "target")).await;
            let told = (refused.status, refused.json()["reason"].clone());
            let wanted = (StatusCode::TOO_MANY_REQUESTS, "upload_limit".into());
            assert_eq!(told, wanted, "{alpn} {place}");
            assert_eq!(origin.seen.requests().len(), 1);
            lab.assert_denied_once(DenyReason::UploadLimit);
        }
    }
}

/// A request that carries 600 octets in one place.
fn laden(alpn: &str, place: &str) -> Request<Body> {
    let text = "x".repeat(600);
    let mut trailers = HeaderMap::new();
    let mut body = full("");
    if place == "trailer" {
        trailers.insert("x-laden", text.parse().unwrap());
        let frames = [
            Ok(Frame::data(Bytes::from_static(b"a"))),
            Ok(Frame::trailers(trailers)),
        ];
        body = BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)));
    }
    let mut request = post(alpn, body);
    if place == "target" {
        let uri = format!("{}?{text}", request.uri());
        *request.uri_mut() = uri.parse().unwrap();
    }
    let headers = request.headers_mut();
    if place == "field" {
        headers.insert("x-laden", text.parse().unwrap());
    }
    if place == "trailer" && alpn == "http/1.1" {
        headers.insert("trailer", "x-laden".parse().unwrap());
    }
    request
}

#[tokio::test]
async fn a_response_that_breaks_is_broken_for_the_program_too_and_recorded() {
    let origin = Origin::raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
            .await
            .unwrap();
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    let request = Request::get("/")
        .header("host", "api.test")
        .body(super::lab::client::empty())
        .unwrap();
    let response = client.start(request).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.bytes_in, Some(4));
    assert_eq!(
        response.entry.reason,
        Some(DenyReason::DestinationUnavailable)
    );
}
