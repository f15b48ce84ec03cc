//! How many connections to origins one sandbox can make gig hold.

use std::{sync::Arc, time::Duration};

use gig_audit::Event;
use gig_policy::DenyReason;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::{sync::Semaphore, task::JoinSet};

use super::lab::{
    Arrangement, Lab, Way,
    client::{Client, empty, get},
    origin::Origin,
};

const TWO: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [80, 443], allow_private: [127.0.0.0/8]}
  - {host: other.test, ports: [443], allow_private: [127.0.0.0/8]}
limits: {connections: 2}
";
/// Four for each connection that the sandbox may have.
const MOST: usize = 8;

/// An HTTP/1.1 origin that answers as often as it gets leave; `/now` at once.
async fn reluctant(name: &str) -> (Origin, Arc<Semaphore>) {
    let leave = Arc::new(Semaphore::new(0));
    let theirs = Arc::clone(&leave);
    let handler = move |request: Request<Incoming>| {
        let leave = Arc::clone(&theirs);
        async move {
            if request.uri().path() != "/now" {
                leave.acquire().await.unwrap().forget();
            }
            Response::new(empty())
        }
    };
    (Origin::https(name, &["http/1.1"], handler).await, leave)
}

/// As many requests as one HTTP/2 connection takes; what they are answered.
async fn many(lab: &Lab) -> JoinSet<StatusCode> {
    let Client::H2(sender) = lab.https("api.test", "h2").await else {
        panic!("no HTTP/2");
    };
    let mut asked = JoinSet::new();
    for _ in 0..100 {
        let mut client = Client::H2(sender.clone());
        asked.spawn(async move { client.send(get("https://api.test/")).await.status });
    }
    asked
}

async fn soon<F: Future>(waiting: F) -> F::Output {
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    waited.expect("nothing happens")
}

async fn until_full(lab: &Lab, origin: &Origin) {
    let filling = async {
        while origin.seen.requests().len() < MOST {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(filling).await;
    assert_eq!(lab.subject.places().taken(), 8);
}

#[tokio::test]
async fn many_streams_share_the_connections_that_a_sandbox_may_have() {
    let (origin, leave) = reluctant("api.test").await;
    let lab = Arrangement::new(TWO).origin("api.test:443", &origin).lab();
    let asked = many(&lab).await;
    until_full(&lab, &origin).await;
    // A neighbour on the same thread is denied nothing.
    let neighbour = lab.neighbour();
    let stream = lab.connect_as(&neighbour, Way::to("api.test", 443)).await;
    let stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
    let mut client = lab.client(stream, true).await;
    let answer = soon(client.send(get("https://api.test/now"))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(origin.seen.connections(), MOST + 1);
    // Who waited is served when there is room.
    leave.add_permits(100);
    let answers = soon(asked.join_all()).await;
    assert!(answers.iter().all(|status| *status == StatusCode::OK));
    assert_eq!(origin.seen.connections(), MOST + 1);
}

#[tokio::test]
async fn who_waits_too_long_for_a_connection_is_told_of_the_limit() {
    let (origin, _leave) = reluctant("api.test").await;
    let lab = Arrangement::new(TWO)
        .origin("api.test:443", &origin)
        .connect_within(Duration::from_secs(2))
        .lab();
    let mut asked = many(&lab).await;
    for _ in 0..100 - MOST {
        let status = soon(asked.join_next()).await.unwrap().unwrap();
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(origin.seen.requests().len(), MOST);
    for record in lab.until_records(Event::Response, 100 - MOST).await {
        assert_eq!(record.entry.reason, Some(DenyReason::ConnectionLimit));
    }
    // Given up, they leave their places.
    asked.shutdown().await;
    let leaving = async {
        while lab.subject.places().taken() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(leaving).await;
}

#[tokio::test]
async fn connections_that_are_only_kept_make_room_for_another_origin() {
    let (origin, leave) = reluctant("api.test").await;
    let (other, more) = reluctant("other.test").await;
    let lab = Arrangement::new(TWO)
        .origin("api.test:443", &origin)
        .origin("other.test:443", &other)
        .lab();
    leave.add_permits(100);
    more.add_permits(1);
    let answers = soon(many(&lab).await.join_all()).await;
    assert!(answers.iter().all(|status| *status == StatusCode::OK));
    let mut client = lab.https("other.test", "h2").await;
    let answer = soon(client.send(get("https://other.test/"))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(lab.subject.places().taken() <= 8);
}
