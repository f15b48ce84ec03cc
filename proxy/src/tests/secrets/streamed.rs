//! What streams towards a host it is not bound to: the origin keeps what arrives of it.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use gig_audit::Event;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use parking_lot::Mutex;

use super::{World, misuse::with_trailer};
use crate::tests::lab::{
    client::{Body, empty},
    origin::Origin,
};

/// What arrived of bodies: octets, and then the trailers as lines; and how many of them were whole.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<(Vec<u8>, usize, usize)>>);

impl Kept {
    /// All that arrived, once nothing more comes: every body that began has ended, whole or not.
    pub(super) async fn text(&self) -> String {
        let ending = async {
            while self.0.lock().2 > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), ending).await;
        assert!(ended.is_ok(), "a body never ended");
        String::from_utf8_lossy(&self.0.lock().0).into_owned()
    }

    pub(super) fn whole(&self) -> usize {
        self.0.lock().1
    }
}

async fn keep(request: Request<Incoming>, kept: Kept) -> Response<Body> {
    kept.0.lock().2 += 1;
    let mut body = request.into_body();
    let mut whole = true;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            whole = false;
            break;
        };
        let mut kept = kept.0.lock();
        if let Some(data) = frame.data_ref() {
            kept.0.extend_from_slice(data);
        }
        for (name, value) in frame.trailers_ref().into_iter().flatten() {
            kept.0.extend_from_slice(format!("\n{name}: ").as_bytes());
            kept.0.extend_from_slice(value.as_bytes());
        }
    }
    let mut kept = kept.0.lock();
    kept.1 += usize::from(whole);
    kept.2 -= 1;
    Response::new(empty())
}

impl World {
    /// With an origin that keeps what arrives of each body, cut off or whole, and answers to a whole one alone.
    pub(super) async fn keeping(
        host: &'static str,
        value: &str,
        alpn: &'static str,
    ) -> (Self, Kept) {
        let kept = Kept::default();
        let keep = {
            let kept = kept.clone();
            move |request| keep(request, kept.clone())
        };
        let origin = Origin::https(host, &[alpn], keep).await;
        (Self::before(origin, host, value), kept)
    }
}

#[tokio::test]
async fn a_streamed_body_is_cut_before_a_values_last_octet_goes() {
    let value = "v4lue-of-the-token";
    let streamed = |text: &str, cut: usize| {
        let (head, tail) = text.split_at(cut);
        let frames = [head, tail].map(|part| {
            Ok(http_body::Frame::data(Bytes::copy_from_slice(
                part.as_bytes(),
            )))
        });
        let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
        Request::post("/").body(body).unwrap()
    };
    for cut in 1..value.len() {
        let (world, kept) = World::keeping("other.test", value, "http/1.1").await;
        let answer = world.send("other.test", streamed(value, cut)).await;
        assert_eq!(answer.json()["reason"], "secret_misuse", "cut at {cut}");
        let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
        assert_eq!(alarms.len(), 1);
        let arrived = kept.text().await;
        let whole = kept.whole();
        assert!(
            !arrived.contains(value) && whole == 0,
            "cut at {cut}: {arrived}"
        );
        // One octet of it is another: that arrives whole.
        let (world, kept) = World::keeping("other.test", value, "http/1.1").await;
        let other = value.replace("token", "tokem");
        let answer = world.send("other.test", streamed(&other, cut)).await;
        assert_eq!(answer.status, StatusCode::OK, "cut at {cut}");
        assert_eq!((kept.text().await, kept.whole()), (other, 1));
    }
}

#[tokio::test]
async fn trailers_towards_another_host_carry_no_sentinel_and_no_value() {
    let value = "v4lue-of-the-token";
    for alpn in ["http/1.1", "h2"] {
        for real in [false, true] {
            for name in ["x-signature", "token-bin"] {
                let (world, kept) = World::keeping("other.test", value, alpn).await;
                let what = if real { value } else { &*world.sentinel };
                let said = |text: &str| match name {
                    "token-bin" => STANDARD.encode(text),
                    _ => format!("key={text}"),
                };
                let ask = async |text: &str| {
                    let h2 = alpn == "h2";
                    let uri = if h2 { "https://other.test/" } else { "/" };
                    let mut request = with_trailer(uri, name, &said(text));
                    if !h2 {
                        let host = "other.test".parse().unwrap();
                        request.headers_mut().insert("host", host);
                    }
                    let mut client = world.lab.https("other.test", alpn).await;
                    client.send(request).await
                };
                // The origin answers when it has all of it: it is gig that answers here.
                let answer = ask(what).await;
                let told = String::from_utf8_lossy(&answer.body);
                assert!(told.contains("secret_misuse"), "{alpn} {name}: {answer:?}");
                assert!(answer.trailers.is_none(), "{alpn} {name}");
                let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
                assert!(alarms[0].entry.findings[0].contains(name), "{alarms:?}");
                let arrived = kept.text().await;
                let there = arrived.contains(&said(what)) || arrived.contains(what);
                assert!(!there && kept.whole() == 0, "{alpn} {name}: {arrived}");
                // What is nobody's arrives in the same way.
                let answer = ask("nobodys").await;
                assert_eq!(answer.status, StatusCode::OK, "{alpn} {name}");
                let arrived = kept.text().await;
                assert!(
                    arrived.contains(&said("nobodys")),
                    "{alpn} {name}: {arrived}"
                );
            }
        }
    }
}
