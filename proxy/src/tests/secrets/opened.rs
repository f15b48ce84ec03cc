//! Answers that stay open while a value changes: a host that relays what it is sent shows the new one there.

use http_body_util::channel::Channel;
use parking_lot::Mutex;

use super::{socket::holding, *};

const FIRST: &str = "first-value-of-it";
const SECOND: &str = "second-value-of-it";

fn get(path: &str) -> Request<Body> {
    Request::get(format!("https://api.test{path}"))
        .header("host", "api.test")
        .body(empty())
        .unwrap()
}

/// A piece of an answer of this type that holds `text`.
fn piece(media: &str, text: &str) -> Bytes {
    match media {
        "application/grpc" => {
            let length = u32::try_from(text.len()).unwrap();
            [&[0][..], &length.to_be_bytes(), text.as_bytes()]
                .concat()
                .into()
        }
        "text/event-stream" => format!("data: {text}\n\n").into(),
        _ => format!("{text}\n").into(),
    }
}

#[tokio::test]
async fn what_a_value_becomes_is_replaced_in_an_answer_that_is_open() {
    for (alpn, media) in [
        ("http/1.1", "text/event-stream"),
        ("h2", "text/event-stream"),
        ("h2", "application/grpc"),
        ("http/1.1", "text/plain"),
        ("h2", "application/octet-stream"),
    ] {
        let (mut events, body) = Channel::<Bytes, std::io::Error>::new(1);
        let body = Arc::new(Mutex::new(Some(body)));
        let origin = Origin::https("api.test", &[alpn], move |_| {
            let body = body.lock().take();
            let body = body.map_or_else(empty, BodyExt::boxed);
            let answer = Response::builder().header("content-type", media);
            std::future::ready(answer.body(body).unwrap())
        })
        .await;
        let keeper = Keeper::with(&[("TOKEN", FIRST)]);
        let (lab, sentinel) = holding(&keeper, &origin);
        let mut client = lab.https("api.test", alpn).await;
        let asked = get("/events");
        let mut answer = client.start(asked).await.unwrap().into_body();
        for (value, next) in [(FIRST, Some(SECOND)), (SECOND, None), (FIRST, None)] {
            let told = piece(media, value);
            events.send_data(told.clone()).await.unwrap();
            let mut got = Vec::new();
            while !got.ends_with(b"\n") && got.len() < told.len() {
                let frame = answer.frame().await.unwrap().unwrap();
                got.extend_from_slice(frame.data_ref().unwrap());
            }
            let got = String::from_utf8_lossy(&got).into_owned();
            let begun = sentinel.get(..value.len()).unwrap();
            assert!(got.contains(begun), "{alpn} {media}: {got}");
            assert!(!got.contains(value), "{alpn} {media}: {got}");
            if let Some(next) = next {
                keeper.set("TOKEN", next);
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_late_is_looked_at_for_what_was_set_meanwhile() {
    for alpn in ["http/1.1", "h2"] {
        let keeper = Keeper::with(&[("TOKEN", FIRST)]);
        let setting = Arc::clone(&keeper);
        let origin = Origin::https("api.test", &[alpn], move |_| {
            // While the request waits here.
            setting.set("TOKEN", SECOND);
            let answer = Response::builder()
                .header("content-type", "application/json")
                .header("x-told", SECOND);
            let body = full(format!("{{\"told\":\"{SECOND}\"}}"));
            std::future::ready(answer.body(body).unwrap())
        })
        .await;
        let (lab, sentinel) = holding(&keeper, &origin);
        let mut client = lab.https("api.test", alpn).await;
        let asked = get("/late");
        let answer = client.send(asked).await;
        assert_eq!(answer.headers["x-told"], sentinel.as_str(), "{alpn}");
        assert_eq!(answer.json()["told"], sentinel, "{alpn}");
    }
}

#[tokio::test]
async fn the_pieces_of_an_answer_do_not_each_ask_the_store() {
    let (mut events, body) = Channel::<Bytes, std::io::Error>::new(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let origin = Origin::https("api.test", &["h2"], move |_| {
        let body = body.lock().take().map_or_else(empty, BodyExt::boxed);
        let answer = Response::builder().header("content-type", "text/event-stream");
        std::future::ready(answer.body(body).unwrap())
    })
    .await;
    let keeper = Keeper::with(&[("TOKEN", FIRST)]);
    let (lab, _) = holding(&keeper, &origin);
    let mut client = lab.https("api.test", "h2").await;
    let mut answer = client.start(get("/events")).await.unwrap().into_body();
    let mut asked = Vec::new();
    for _ in 0..9 {
        events
            .send_data(piece("text/event-stream", "x"))
            .await
            .unwrap();
        drop(answer.frame().await.unwrap().unwrap());
        asked.push(keeper.asked());
    }
    assert_eq!(asked[1..], [asked[0]; 8]);
}
