//! Long bodies are read of few at once, and of one caller one after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::body::{Body, Bytes};
use futures_util::{future::join_all, stream};
use http::{Request, StatusCode};
use tower::ServiceExt as _;

use super::furnished::Furnished;
use crate::{connections::Peer, role::Role, router::router};

/// Begins to send a long body that never ends, and says how many were begun to be read.
async fn sends(appliance: &Furnished, (what, token): (&str, &str), read: &Arc<AtomicUsize>) -> u16 {
    let begun = Arc::clone(read);
    let body = stream::once(async move {
        begun.fetch_add(1, SeqCst);
        std::future::pending::<Result<Bytes, std::io::Error>>().await
    });
    let (method, path) = what.split_once(' ').unwrap();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .header("content-length", "9000000")
        .extension(Peer::Network(([192, 0, 2, 1], 7).into()));
    let request = request.body(Body::from_stream(body)).unwrap();
    let answer = router(Arc::clone(&appliance.lab.app)).oneshot(request);
    let answer = tokio::time::timeout(Duration::from_secs(4), answer).await;
    answer.map_or(0, |answer| answer.unwrap().status().as_u16())
}

#[tokio::test]
async fn of_one_caller_one_long_body_is_read_at_a_time() {
    let appliance = Furnished::new().await;
    let token = |who: &str| appliance.token(who, Role::Editor, ("", ""));
    let (greedy, other) = (token("dan"), token("ana"));
    let [theirs, others] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    const CHECK: &str = "POST /api/v1/policies/check";
    let many = join_all((0..32).map(|_| sends(&appliance, (CHECK, &greedy), &theirs)));
    // Before any of them gives up.
    let seen = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        (theirs.load(SeqCst), others.load(SeqCst))
    };
    let another = sends(&appliance, (CHECK, &other), &others);
    let (answers, _, seen) = tokio::join!(many, another, seen);
    assert_eq!(seen, (1, 1), "another's is read beside it: {answers:?}");
    let refused = answers
        .iter()
        .filter(|status| **status == StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.count(), 16, "{answers:?}");
}
