//! gRPC says in trailers, or in a header section that is all there is, that a token is not taken any more:
//! the next request takes another, and none is repeated.

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;

use super::lab::{
    Arrangement,
    client::{Body, empty, full},
    keeper::Keeper,
    origin::Origin,
};

const POLICY: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], secrets: [TOKEN]}
";

/// Ends as the path says: `/trailers/16`, `/head/16`, `/status/401`.
async fn ends(request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let (way, number) = path.trim_start_matches('/').split_once('/').unwrap();
    let status = HeaderValue::from_str(number).unwrap();
    let answer = Response::builder().header("content-type", "application/grpc");
    let answer = match way {
        "trailers" => {
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status)]);
            let message = bytes::Bytes::from_static(b"\0\0\0\0\x02hi");
            let frames = [Ok(Frame::data(message)), Ok(Frame::trailers(trailers))];
            answer.body(StreamBody::new(futures_util::stream::iter(frames)).boxed())
        }
        "head" => answer.header("grpc-status", status).body(empty()),
        _ => answer
            .status(number.parse::<u16>().unwrap())
            .body(full("x")),
    };
    std::future::ready(answer.unwrap()).await
}

#[tokio::test]
async fn what_grpc_says_is_unauthenticated_is_renewed_as_after_a_401() {
    let origin = Origin::https("api.test", &["h2"], ends).await;
    let keeper = Keeper::with(&[
        ("TOKEN", "t0ken-of-a-service"),
        ("SPARE", "sp4re-of-a-service"),
    ]);
    let arrangement = Arrangement::new(POLICY).origin("api.test:443", &origin);
    let lab = arrangement.keeper(&keeper).lab();
    let held = lab.subject.wallet().unwrap().held();
    let mut held = held.iter().filter(|held| held.name.to_string() == "TOKEN");
    let sentinel = held.next().unwrap().sentinel.to_string();
    let mut client = lab.https("api.test", "h2").await;
    for (path, bears, renewed) in [
        ("/trailers/16", true, true),
        ("/head/16", true, true),
        ("/status/401", true, true),
        ("/trailers/0", true, false),
        ("/trailers/7", true, false),
        ("/head/0", true, false),
        // What was not sent was not refused.
        ("/trailers/16", false, false),
        ("/head/16", false, false),
    ] {
        let before = origin.seen.requests().len();
        let mut request = Request::post(format!("https://api.test{path}"));
        request = request.header("te", "trailers");
        request = request.header("content-type", "application/grpc");
        if bears {
            request = request.header("authorization", format!("Bearer {sentinel}"));
        }
        let answer = client.send(request.body(empty()).unwrap()).await;
        if let Some(status) = path.strip_prefix("/trailers/") {
            assert_eq!(answer.trailers.unwrap()["grpc-status"], status);
        }
        let expected: &[&str] = if renewed { &["TOKEN"] } else { &[] };
        assert_eq!(keeper.take_refused(), expected, "{path} {bears}");
        assert_eq!(origin.seen.requests().len(), before + 1, "{path}");
    }
}
