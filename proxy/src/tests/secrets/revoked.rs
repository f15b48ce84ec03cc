//! What is revoked while a request is open goes with none of it any more.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::{DenyReason, Keeper, World, post, socket::holding, told::keeping};
use crate::{
    credential::rewrite::{Alarmed, Rewrite, RewriteError, Unchanged},
    tests::lab::client::Body,
};

const VALUE: &str = "v4lue-of-the-token";

/// The first piece, then what is left when `between` is over.
fn in_two(
    first: String,
    between: impl Future<Output = ()> + Send + Sync + 'static,
    last: String,
) -> Body {
    let piece = |text: String| Ok(Frame::data(Bytes::from(text)));
    let last = stream::once(async move {
        between.await;
        piece(last)
    });
    BodyExt::boxed(StreamBody::new(stream::iter([piece(first)]).chain(last)))
}

/// Others' changes are heard of a little later.
const A_WHILE: Duration = Duration::from_millis(80);

#[tokio::test]
async fn a_value_that_is_revoked_while_a_body_is_sent_does_not_go_into_it() {
    for version in [None, Some("n3w-value-of-it")] {
        let origin = keeping("http/1.1").await;
        let keeper = Keeper::with(&[("TOKEN", VALUE)]);
        let (lab, sentinel) = holding(&keeper, &origin);
        let between = async move {
            tokio::time::sleep(A_WHILE).await;
            match version {
                Some(value) => keeper.set("TOKEN", value),
                None => keeper.revoke("TOKEN"),
            }
        };
        let last = format!("\"k\": \"{sentinel}\"}}");
        let body = in_two("{\"a\": 1, ".to_owned(), between, last);
        let request = Request::post("/").header("content-type", "application/json");
        let request = request.header("host", "api.test");
        let mut client = lab.https("api.test", "http/1.1").await;
        let answer = client.send(request.body(body).unwrap()).await;
        assert!(!origin.seen.text().contains(VALUE));
        match version {
            // What took its place is the value now.
            Some(value) => assert!(origin.seen.text().contains(value), "{answer:?}"),
            None => {
                assert_eq!(answer.json()["reason"], "secret_unavailable", "{answer:?}");
                lab.assert_denied_for(DenyReason::SecretUnavailable);
            }
        }
    }
}

#[tokio::test]
async fn a_head_that_waits_for_its_body_does_not_go_with_what_was_revoked_meanwhile() {
    for in_head in [true, false] {
        let world = World::new("api.test", VALUE).await;
        let keeper = Arc::clone(&world.keeper);
        let between = async move {
            tokio::time::sleep(A_WHILE).await;
            keeper.revoke("TOKEN");
        };
        let text = match in_head {
            true => "key ".to_owned(),
            false => format!("key {} ", world.sentinel),
        };
        let mut request = post("text/plain", format!("{text}end"));
        *request.body_mut() = in_two(text, between, "end".to_owned());
        let headers = request.headers_mut();
        headers.insert("content-md5", "AAAA".parse().unwrap());
        if in_head {
            headers.insert("x-key", world.sentinel.parse().unwrap());
        }
        let answer = world.send("api.test", request).await;
        assert_eq!(answer.json()["reason"], "secret_unavailable", "{answer:?}");
        assert!(world.origin.seen.requests().is_empty());
        world.lab.assert_denied_for(DenyReason::SecretUnavailable);
    }
}

#[test]
fn nothing_is_signed_any_more_with_a_key_that_was_revoked_meanwhile() {
    let fake = Keeper::with(&[("KEY", "v4lue-of-the-key")]);
    let keeper: Arc<dyn gig_vault::Keeper> = Arc::clone(&fake) as _;
    let secret = keeper.at_hand(&"KEY".parse().unwrap()).unwrap();
    let tally = Arc::default();
    let mut signing = Alarmed::new(Box::new(Unchanged), &tally, (&secret, &keeper));
    let mut out = Vec::new();
    assert_eq!(signing.push(b"one", &mut out), Ok(()));
    fake.revoke("KEY");
    let refused = Err(RewriteError::Unavailable);
    assert_eq!(signing.push(b"two", &mut out), refused);
    assert_eq!(signing.finish(&mut out), refused);
    assert_eq!(out, b"one");
}
