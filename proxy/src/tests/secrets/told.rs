//! That a secret is used in a body is recorded before the first octet of its value goes.

use http_body::Frame;
use http_body_util::channel::{Channel, Sender};

use super::{
    socket::{hear, holding, listening, open, say},
    *,
};

const VALUE: &str = "v4lue-of-the-token-1";

type Pieces = Sender<Bytes, std::io::Error>;

/// Keeps the body as it comes, in `seen.octets`, and answers when it ends.
pub(super) async fn keeping(alpn: &'static str) -> Origin {
    let seen = Arc::new(super::super::lab::origin::Seen::default());
    let theirs = Arc::clone(&seen);
    let mut origin = Origin::https("api.test", &[alpn], move |request: Request<Incoming>| {
        let seen = Arc::clone(&theirs);
        async move {
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let text = match frame.into_data() {
                    Ok(data) => String::from_utf8_lossy(&data).into_owned(),
                    Err(frame) => format!("{:?}", frame.into_trailers().unwrap_or_default()),
                };
                seen.octets.lock().extend_from_slice(text.as_bytes());
            }
            Response::new(empty())
        }
    })
    .await;
    origin.seen = seen;
    origin
}

/// A request whose body comes in pieces, and the pieces.
fn in_pieces(alpn: &str, kind: &str) -> (Request<Body>, Pieces) {
    let (pieces, body) = Channel::new(1);
    let uri = match alpn {
        "h2" => "https://api.test/x",
        _ => "/x",
    };
    let request = Request::post(uri).header("content-type", kind);
    let request = match alpn {
        "h2" => request.header("te", "trailers"),
        _ => request.header("host", "api.test"),
    };
    let request = request.header("trailer", "x-key");
    (request.body(body.boxed()).unwrap(), pieces)
}

async fn piece(pieces: &mut Pieces, text: impl Into<Bytes>) {
    pieces.send(Frame::data(text.into())).await.unwrap();
}

fn found(version: u64) -> [Arc<str>; 1] {
    [format!("secret TOKEN version {version}").into()]
}

#[tokio::test]
async fn the_first_use_of_each_version_in_a_body_is_recorded_before_it_goes_and_no_other() {
    for alpn in ["http/1.1", "h2"] {
        let origin = keeping(alpn).await;
        let keeper = Keeper::with(&[("TOKEN", VALUE)]);
        let (lab, sentinel) = holding(&keeper, &origin);
        let mut client = lab.https("api.test", alpn).await;
        let (mut request, mut pieces) = in_pieces(alpn, "text/plain");
        let key = request.headers_mut();
        key.insert("x-other", "nothing".parse().unwrap());
        let answer = lab.tasks.spawn(async move { client.send(request).await });
        piece(&mut pieces, "before ").await;
        origin.seen.until_text("before ").await;
        assert!(lab.records(Event::SecretUse).is_empty(), "{alpn}");
        for more in ["", " again", " and again"] {
            let before = origin.seen.text();
            piece(&mut pieces, format!("{sentinel}{more}.\n")).await;
            let now = format!("{before}{VALUE}{more}.\n");
            origin.seen.until_text(&now).await;
            let uses = lab.records(Event::SecretUse);
            assert_eq!(uses.len(), 1, "{alpn}{more}: {uses:#?}");
        }
        drop(pieces);
        assert_eq!(answer.await.unwrap().status, StatusCode::OK);
        let told = lab.records(Event::SecretUse).remove(0).entry;
        let request = lab.records(Event::Request).remove(0).entry;
        assert_eq!(request.secrets, <[Arc<str>; 0]>::default());
        assert_eq!(told.secrets, [Arc::from("TOKEN")]);
        assert_eq!(told.findings, found(1));
        assert_eq!(told.verdict, None);
        for (same, as_asked) in [
            (told.request, request.request),
            (told.host, request.host),
            (told.path, request.path),
            (told.policy, request.policy),
            (told.rule, request.rule),
        ] {
            assert!(same.is_some());
            assert_eq!(same, as_asked);
        }
        let outcome = lab.until_records(Event::Response, 1).await.remove(0);
        assert_eq!(outcome.entry.findings, found(1));
        assert!(!format!("{:?}", lab.log.records()).contains(VALUE));
    }
}

#[tokio::test]
async fn what_the_requests_record_tells_is_not_told_again() {
    let world = World::new("api.test", VALUE).await;
    let mut request = post("text/plain", world.sentinel.clone());
    let key = world.sentinel.parse().unwrap();
    request.headers_mut().insert("x-key", key);
    let answer = world.send("api.test", request).await;
    assert_eq!(answer.status, StatusCode::OK);
    let request = world.lab.records(Event::Request).remove(0).entry;
    assert_eq!(request.secrets, [Arc::from("TOKEN")]);
    assert_eq!(request.findings, found(1));
    world.lab.until_records(Event::Response, 1).await;
    assert!(world.lab.records(Event::SecretUse).is_empty());
}

#[tokio::test]
async fn a_body_whose_secret_cannot_be_recorded_is_cut_before_its_value() {
    for alpn in ["http/1.1", "h2"] {
        for trailer in [false, true] {
            let what = format!("{alpn} {trailer}");
            let origin = keeping(alpn).await;
            let keeper = Keeper::with(&[("TOKEN", VALUE)]);
            let (lab, sentinel) = holding(&keeper, &origin);
            let mut client = lab.https("api.test", alpn).await;
            let (request, mut pieces) = in_pieces(alpn, "text/plain");
            let answer = lab.tasks.spawn(async move { client.start(request).await });
            piece(&mut pieces, "before ").await;
            origin.seen.until_text("before ").await;
            lab.log.fail(true);
            if trailer {
                let mut trailers = HeaderMap::new();
                trailers.insert("x-key", sentinel.parse().unwrap());
                pieces.send(Frame::trailers(trailers)).await.unwrap();
            } else {
                piece(&mut pieces, format!("{sentinel} behind it")).await;
            }
            // What is told in its place, or a broken connection.
            if let Ok(answer) = answer.await.unwrap() {
                assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{what}");
            }
            assert_eq!(origin.seen.text(), "before ", "{what}");
            assert!(lab.records(Event::SecretUse).is_empty(), "{what}");
        }
    }
}

#[tokio::test]
async fn a_short_body_whose_secret_cannot_be_recorded_does_not_go_at_all() {
    let world = World::new("api.test", VALUE).await;
    let mut client = world.client("api.test").await;
    let (mut pieces, body) = Channel::<Bytes, std::io::Error>::new(1);
    let request = Request::post("/x")
        .header("host", "api.test")
        .header("content-type", "text/plain")
        .header("content-length", world.sentinel.len())
        .body(body.boxed())
        .unwrap();
    let answer = world
        .lab
        .tasks
        .spawn(async move { client.send(request).await });
    world.lab.until_records(Event::Request, 1).await;
    world.lab.log.fail(true);
    piece(&mut pieces, world.sentinel.clone()).await;
    drop(pieces);
    let answer = answer.await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.json()["reason"], "record_unavailable");
    assert!(world.origin.seen.requests().is_empty());
}

#[tokio::test]
async fn a_message_whose_secret_cannot_be_recorded_does_not_go() {
    let (origin, mut heard) = listening().await;
    let keeper = Keeper::with(&[("TOKEN", "first-value-of-it")]);
    let (lab, sentinel) = holding(&keeper, &origin);
    let mut stream = open(&lab).await;
    for (version, value) in [(1, "first-value-of-it"), (2, "second-value-of-it")] {
        if version > 1 {
            keeper.set("TOKEN", value);
        }
        for _ in 0..2 {
            say(&mut stream, &sentinel).await;
            assert_eq!(heard.recv().await.unwrap(), value);
            hear(&mut stream).await;
        }
        let told = lab.records(Event::SecretUse);
        assert_eq!(told.len(), version, "each version once: {told:#?}");
        let version = u64::try_from(version).unwrap();
        assert_eq!(told.last().unwrap().entry.findings, found(version));
    }
    keeper.set("TOKEN", "third-value-of-it");
    lab.log.fail(true);
    say(&mut stream, "nothing of it").await;
    assert_eq!(heard.recv().await.unwrap(), "nothing of it");
    hear(&mut stream).await;
    say(&mut stream, &sentinel).await;
    // RFC 6455 §7.4.1: 1011, something stood in the way.
    let closed = (0x88, 1011_u16.to_be_bytes().to_vec());
    assert_eq!(hear(&mut stream).await, closed);
    assert_eq!(heard.recv().await.unwrap(), "closed", "it never left");
    lab.log.fail(false);
    assert_eq!(lab.records(Event::SecretUse).len(), 2);
}

#[tokio::test]
async fn a_trailer_that_goes_nowhere_takes_no_value_and_no_record_tells_of_one() {
    for announced in [false, true] {
        let world = World::new("api.test", "v4lue-of-the-token").await;
        let mut client = world.lab.https("api.test", "h2").await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-signature", world.sentinel.parse().unwrap());
        let frames = [
            Ok(Frame::data(Bytes::from_static(b"data"))),
            Ok(Frame::trailers(trailers)),
        ];
        let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
        let mut request = Request::post("https://api.test/");
        if announced {
            request = request.header("trailer", "x-signature");
        }
        let answer = client.send(request.body(body).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK);
        world.lab.until_records(Event::Response, 1).await;
        let records = format!("{:?}", world.lab.log.records());
        assert_eq!(records.contains("TOKEN version 1"), announced, "{records}");
    }
}
