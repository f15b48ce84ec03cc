//! Secrets in the messages of a WebSocket that stays open while they change.

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::*;

/// A sandbox with the keeper's one secret before an origin at `api.test`, and its sentinel.
pub(super) fn holding(keeper: &Arc<Keeper>, origin: &Origin) -> (Lab, String) {
    let lab = Arrangement::new(POLICY)
        .origin("api.test:443", origin)
        .keeper(keeper)
        .lab();
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    (lab, sentinel)
}

/// What the program sends: one short text message.
pub(super) async fn say<S: AsyncWrite + Unpin>(stream: &mut S, text: &str) {
    try_say(stream, text).await.unwrap();
}

async fn try_say<S: AsyncWrite + Unpin>(stream: &mut S, text: &str) -> std::io::Result<()> {
    send(stream, 0x81, text.as_bytes()).await
}

/// A short frame.
async fn send<S: AsyncWrite + Unpin>(
    stream: &mut S,
    kind: u8,
    octets: &[u8],
) -> std::io::Result<()> {
    let length = u8::try_from(octets.len()).unwrap();
    assert!(length < 126);
    // Masked with zeros.
    let frame = [&[kind, 0x80 | length, 0, 0, 0, 0], octets].concat();
    stream.write_all(&frame).await?;
    stream.flush().await
}

/// The next short frame: its first octet and its payload; a close where there is none.
pub(super) async fn hear<S: AsyncRead + Unpin>(stream: &mut S) -> (u8, Vec<u8>) {
    let Ok(kind) = stream.read_u8().await else {
        return (0x88, Vec::new());
    };
    let length = stream.read_u8().await.unwrap();
    let mut key = [0; 4];
    if length & 0x80 != 0 {
        stream.read_exact(&mut key).await.unwrap();
    }
    let mut payload = vec![0; usize::from(length & 0x7f)];
    stream.read_exact(&mut payload).await.unwrap();
    for (octet, mask) in payload.iter_mut().zip(key.iter().cycle()) {
        *octet ^= mask;
    }
    (kind, payload)
}

/// Tells what each message was, and says it again.
pub(super) async fn listening() -> (Origin, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (told, heard) = tokio::sync::mpsc::unbounded_channel();
    let origin = Origin::https("api.test", &["http/1.1"], move |mut request| {
        let told = told.clone();
        async move {
            let upgrade = hyper::upgrade::on(&mut request);
            let tasks = tokio_util::task::TaskTracker::new();
            tasks.spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                loop {
                    let (kind, payload) = hear(&mut stream).await;
                    if kind == 0x89 {
                        told.send("ping".to_owned()).unwrap();
                        continue;
                    }
                    if kind != 0x81 && kind != 0x82 {
                        told.send("closed".to_owned()).unwrap();
                        break;
                    }
                    let text = String::from_utf8(payload).unwrap();
                    told.send(text.clone()).unwrap();
                    let length = u8::try_from(text.len()).unwrap();
                    let frame = [&[kind, length], text.as_bytes()].concat();
                    stream.write_all(&frame).await.unwrap();
                }
            });
            switching()
        }
    })
    .await;
    (origin, heard)
}

pub(super) async fn open(lab: &Lab) -> TokioIo<hyper::upgrade::Upgraded> {
    let mut client = lab.https("api.test", "http/1.1").await;
    let handshake = Request::get("/socket")
        .header("host", "api.test")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .body(empty())
        .unwrap();
    let response = client.start(handshake).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    TokioIo::new(hyper::upgrade::on(response).await.unwrap())
}

#[tokio::test]
async fn rotation_and_revocation_hold_from_the_next_message_of_an_open_websocket() {
    let (origin, mut heard) = listening().await;
    let keeper = Keeper::with(&[("TOKEN", "first-value-of-it")]);
    let (lab, sentinel) = holding(&keeper, &origin);
    let mut stream = open(&lab).await;
    for (number, value) in ["first-value-of-it", "second-value-of-it"]
        .iter()
        .enumerate()
    {
        if number > 0 {
            keeper.set("TOKEN", value);
        }
        say(&mut stream, &sentinel).await;
        assert_eq!(heard.recv().await.unwrap(), *value);
        // What came back is known, old or new.
        assert_eq!(
            hear(&mut stream).await,
            (0x81, sentinel.clone().into_bytes())
        );
    }
    keeper.revoke("TOKEN");
    say(&mut stream, "nothing of it").await;
    assert_eq!(heard.recv().await.unwrap(), "nothing of it");
    assert_eq!(hear(&mut stream).await.1, b"nothing of it");
    say(&mut stream, &sentinel).await;
    // RFC 6455 §7.4.1: 1011, something stood in the way.
    assert_eq!(
        hear(&mut stream).await,
        (0x88, 1011_u16.to_be_bytes().to_vec())
    );
    assert_eq!(heard.recv().await.unwrap(), "closed", "it never left");
    lab.until_denied().await;
    lab.assert_denied_for(DenyReason::SecretUnavailable);
    let record = lab.until_records(Event::Response, 1).await.remove(0);
    for version in ["secret TOKEN version 1", "secret TOKEN version 2"] {
        let mut found = record.entry.findings.iter();
        assert!(found.any(|found| &**found == version), "{record:?}");
    }
}

#[tokio::test]
async fn a_binary_message_that_is_no_text_keeps_its_length_or_does_not_go() {
    // MQTT 3.1.1 §3.1: each text has its length before it.
    let mqtt = |password: &str| {
        let length = char::from(u8::try_from(password.len()).unwrap());
        format!("\u{10}\u{40}\0\u{4}MQTT\u{4}\u{42}\0\u{3c}\0\0\0{length}{password}")
    };
    let value = "v4lue-of-the-token";
    let (origin, mut heard) = listening().await;
    let keeper = Keeper::with(&[("TOKEN", value)]);
    let (lab, sentinel) = holding(&keeper, &origin);
    let mut stream = open(&lab).await;
    // Text that is sent as octets is text.
    let json = |text: &str| format!("{{\"k\":\"{text}\"}}");
    send(&mut stream, 0x82, json(&sentinel).as_bytes())
        .await
        .unwrap();
    assert_eq!(heard.recv().await.unwrap(), json(value));
    // And comes back as such, with the sentinel whole.
    assert_eq!(
        hear(&mut stream).await,
        (0x82, json(&sentinel).into_bytes())
    );
    let octets = mqtt(&sentinel);
    send(&mut stream, 0x82, octets.as_bytes()).await.unwrap();
    // RFC 6455 §7.4.1: 1008, it must not pass.
    assert_eq!(
        hear(&mut stream).await,
        (0x88, 1008_u16.to_be_bytes().to_vec())
    );
    assert_eq!(heard.recv().await.unwrap(), "closed", "it never left");
    lab.until_denied().await;
    lab.assert_denied_for(DenyReason::SecretUnplaceable);
    let record = lab.until_records(Event::Response, 1).await.remove(0);
    let said = "secret TOKEN stays out of what says its own length or digest";
    let mut found = record.entry.findings.iter();
    assert!(found.any(|found| &**found == said), "{record:?}");
    let why = gig_audit::why_of(&record.entry.findings).unwrap();
    assert!(why.contains("a value as long as its sentinel"), "{why}");

    // As long as its sentinel it goes.
    let same = "v".repeat(sentinel.len());
    let (origin, mut heard) = listening().await;
    let keeper = Keeper::with(&[("TOKEN", &same)]);
    let (lab, sentinel) = holding(&keeper, &origin);
    assert_eq!(sentinel.len(), same.len());
    let mut stream = open(&lab).await;
    let octets = mqtt(&sentinel);
    send(&mut stream, 0x82, octets.as_bytes()).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), mqtt(&same));
}

#[tokio::test]
async fn what_a_value_becomes_within_a_message_is_replaced_in_the_rest_of_it() {
    let go_on = Arc::new(tokio::sync::Notify::new());
    let going = Arc::clone(&go_on);
    let origin = Origin::https("api.test", &["http/1.1"], move |mut request| {
        let going = Arc::clone(&going);
        async move {
            let upgrade = hyper::upgrade::on(&mut request);
            let tasks = tokio_util::task::TaskTracker::new();
            tasks.spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                // A text message that goes on, and the rest of it.
                stream.write_all(b"\x01\x05told:").await.unwrap();
                going.notified().await;
                stream
                    .write_all(b"\x80\x12second-value-of-it")
                    .await
                    .unwrap();
                hear(&mut stream).await;
            });
            switching()
        }
    })
    .await;
    let keeper = Keeper::with(&[("TOKEN", "first-value-of-it")]);
    let (lab, sentinel) = holding(&keeper, &origin);
    let mut stream = open(&lab).await;
    assert_eq!(hear(&mut stream).await, (0x01, b"told:".to_vec()));
    keeper.set("TOKEN", "second-value-of-it");
    go_on.notify_one();
    assert_eq!(hear(&mut stream).await, (0x80, sentinel.into_bytes()));
}

#[tokio::test]
async fn a_grant_that_is_gone_holds_from_the_next_message_of_an_open_websocket() {
    let (origin, mut heard) = listening().await;
    let keeper = Keeper::with(&[("TOKEN", "value-of-the-token")]);
    let (lab, sentinel) = holding(&keeper, &origin);
    let mut stream = open(&lab).await;
    say(&mut stream, &sentinel).await;
    assert_eq!(heard.recv().await.unwrap(), "value-of-the-token");
    hear(&mut stream).await;
    let without = POLICY.replacen(", secrets: [TOKEN]", "", 1);
    let without = gig_policy::Policy::compile(&without, "without").unwrap();
    lab.subject.set_policy(without);
    // It is cut, sooner or later. A message that comes sooner is as in any other text.
    drop(try_say(&mut stream, &sentinel).await);
    let told = heard.recv().await.unwrap();
    assert!(told == sentinel || told == "closed", "{told}");
}

#[tokio::test]
async fn a_value_cut_over_control_frames_does_not_leave() {
    let (origin, mut heard) = listening().await;
    let other = "0ther-value-of-the-vault";
    let keeper = Keeper::with(&[("TOKEN", "first-value-of-it"), ("OTHER", other)]);
    let (lab, _sentinel) = holding(&keeper, &origin);
    let mut stream = open(&lab).await;
    let (head, tail) = other.split_at(12);
    send(&mut stream, 0x89, head.as_bytes()).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), "ping");
    // A message between them is no part of it.
    say(&mut stream, "something").await;
    assert_eq!(heard.recv().await.unwrap(), "something");
    assert_eq!(hear(&mut stream).await.1, b"something");
    send(&mut stream, 0x89, tail.as_bytes()).await.unwrap();
    // Asked first: where it went on nobody has anything to say to the program.
    assert_eq!(heard.recv().await.unwrap(), "closed");
    // RFC 6455 §7.4.1: 1008, against the policy.
    let (kind, reason) = hear(&mut stream).await;
    assert_eq!((kind, reason.get(..2)), (0x88, Some(&[3, 240][..])));
}
