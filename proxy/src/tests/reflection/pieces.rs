//! Pieces of answers: no half of a value comes back.

use gig_policy::DenyReason;
use parking_lot::Mutex;

use super::*;

/// Gives the first half of the token to who asks for a piece, and to who does not ask.
async fn cut(request: Request<Incoming>) -> Response<Body> {
    let (path, headers) = (request.uri().path().to_owned(), request.headers());
    let token = headers.get(header::AUTHORIZATION).map_or("", |given| {
        given.to_str().unwrap().trim_start_matches("Bearer ")
    });
    let asked = ["range", "request-range", "x-ms-range"];
    let asked = asked.into_iter().any(|name| headers.contains_key(name));
    let (half, _) = token.split_at(token.len() / 2);
    let answer = Response::builder().header("content-type", "text/plain");
    let answer = match path.as_str() {
        "/asked" if asked => answer
            .status(206)
            .header("content-range", "bytes 0-11/25")
            .body(full(half.to_owned())),
        "/asked" => answer.body(full(token.to_owned())),
        "/part" => answer.status(206).body(full(half.to_owned())),
        "/range" => answer
            .header("content-range", "bytes 0-11/25")
            .body(full(half.to_owned())),
        "/several" => answer
            .status(206)
            .header("content-type", "multipart/byteranges; boundary=b")
            .body(full(format!("--b\r\n\r\n{half}\r\n--b--\r\n"))),
        "/list" => answer
            .status(206)
            .header("content-range", "items 0-24/319")
            .body(full(token.to_owned())),
        path => panic!("{path}"),
    };
    std::future::ready(answer.unwrap()).await
}

#[tokio::test]
async fn no_piece_of_an_answer_comes_back_to_a_request_with_a_value() {
    for alpn in ["http/1.1", "h2"] {
        let origin = Origin::https("api.test", &[alpn], cut).await;
        let (lab, sentinel) = with_secret(Arrangement::new(POLICY).origin("api.test:443", &origin));
        let mut client = lab.https("api.test", alpn).await;
        for field in ["range", "request-range", "x-ms-range"] {
            let fields = [(field, "bytes=0-11")];
            let answer = client.send(ask("/asked", &sentinel, &fields)).await;
            assert_eq!(answer.status, StatusCode::OK, "{field}: {answer:?}");
            assert_eq!(answer.body, sentinel, "{field}");
        }
        for path in ["/part", "/range", "/several"] {
            let answer = client.send(ask(path, &sentinel, &[])).await;
            assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{path}: {answer:?}");
            assert_eq!(answer.json()["reason"], DenyReason::OriginProtocol.as_str());
        }
        // Entries of a list are whole.
        let answer = client.send(ask("/list", &sentinel, &[])).await;
        assert_eq!(
            (answer.status, &*answer.body),
            (StatusCode::PARTIAL_CONTENT, sentinel.as_bytes())
        );
    }
}

/// Keeps the token that it is given once, and gives pieces of it to who asks for some.
async fn keeping(kept: Arc<Mutex<String>>, request: Request<Incoming>) -> Response<Body> {
    let headers = request.headers();
    if let Some(given) = headers.get(header::AUTHORIZATION) {
        given.to_str().unwrap().clone_into(&mut kept.lock());
    }
    let text = kept.lock().clone();
    let answer = Response::builder()
        .header("content-type", "text/plain")
        .header("accept-ranges", "bytes");
    let answer = match headers.get(header::RANGE) {
        Some(_) => answer
            .status(206)
            .header("content-range", "bytes 0-11/32")
            .body(full(text.get(..12).unwrap_or("a plain text").to_owned())),
        None => answer.body(full(text)),
    };
    std::future::ready(answer.unwrap()).await
}

fn fetch(host: &str) -> Request<Body> {
    Request::get(format!("https://{host}/kept"))
        .header("host", host)
        .header("range", "bytes=0-11")
        .header("if-range", "\"tag\"")
        .body(empty())
        .unwrap()
}

const BY_METHOD: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], rules: [{methods: [POST]}], secrets: [TOKEN]}
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], rules: [{methods: [GET]}]}
";

#[tokio::test]
async fn what_a_host_was_given_by_one_rule_is_not_fetched_in_pieces_by_another() {
    for alpn in ["http/1.1", "h2"] {
        let kept = Arc::new(Mutex::new(String::new()));
        let keep = Arc::clone(&kept);
        let bound = move |request| keeping(Arc::clone(&keep), request);
        let bound = Origin::https("api.test", &[alpn], bound).await;
        let arrangement = Arrangement::new(BY_METHOD).origin("api.test:443", &bound);
        let (lab, sentinel) = with_secret(arrangement);
        let policy = Policy::compile(BY_METHOD, "test").unwrap();
        lab.subject.set_policy(policy);
        let mut client = lab.https("api.test", alpn).await;
        let mut given = ask("/kept", &sentinel, &[]);
        *given.method_mut() = http::Method::POST;
        client.send(given).await;
        assert_eq!(*kept.lock(), format!("Bearer {VALUE}"));
        let answer = client.send(fetch("api.test")).await;
        let whole = format!("Bearer {sentinel}");
        assert_eq!(
            (answer.status, &*answer.body),
            (StatusCode::OK, whole.as_bytes())
        );
        for got in bound.seen.requests() {
            assert_eq!((got.header("range"), got.header("if-range")), ("", ""));
        }
    }
}

#[tokio::test]
async fn what_a_host_was_given_is_not_fetched_from_it_in_pieces_and_elsewhere_ranges_are_ranges() {
    for alpn in ["http/1.1", "h2"] {
        let kept = Arc::new(Mutex::new(String::new()));
        let keep = Arc::clone(&kept);
        let bound = move |request| keeping(Arc::clone(&keep), request);
        let bound = Origin::https("api.test", &[alpn], bound).await;
        let nowhere = |request| keeping(Arc::default(), request);
        let other = Origin::https("other.test", &[alpn], nowhere).await;
        let arrangement = Arrangement::new(POLICY).origin("api.test:443", &bound);
        let (lab, sentinel) = with_secret(arrangement.origin("other.test:443", &other));
        let mut client = lab.https("api.test", alpn).await;
        client.send(ask("/kept", &sentinel, &[])).await;
        assert_eq!(*kept.lock(), format!("Bearer {VALUE}"));
        // A later request carries nothing.
        let answer = client.send(fetch("api.test")).await;
        let whole = format!("Bearer {sentinel}");
        assert_eq!(
            (answer.status, &*answer.body),
            (StatusCode::OK, whole.as_bytes())
        );
        assert_eq!(answer.header("accept-ranges"), "");
        for got in bound.seen.requests() {
            assert_eq!((got.header("range"), got.header("if-range")), ("", ""));
        }
        let mut client = lab.https("other.test", alpn).await;
        let answer = client.send(fetch("other.test")).await;
        assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT, "{answer:?}");
        assert_eq!(answer.header("accept-ranges"), "bytes");
    }
}
