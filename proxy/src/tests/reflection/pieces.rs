//! Pieces of answers: no half of a value comes back.

use gig_policy::DenyReason;

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
        // Without a value in the request a piece is what it is.
        let mut plain = ask("/asked", "", &[("range", "bytes=0-11")]);
        plain.headers_mut().remove("authorization");
        let answer = client.send(plain).await;
        assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT, "{answer:?}");
    }
}
