//! Requests that an origin says it did not look at (RFC 9113 §8.7), and such as it may have.

use bytes::Bytes;
use h2::Reason;
use http::{Method, Response, StatusCode};

use super::{
    lab::{
        ALLOW_API, Arrangement,
        client::full,
        keeper::Keeper,
        origin::{Got, Origin},
    },
    requests::get_on,
};

const WITH_SECRET: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], secrets: [TOKEN]}
";

/// An origin over HTTP/2 that resets the second request of its first connection.
async fn origin(reason: Reason) -> Origin {
    Origin::tls("api.test", &["h2"], move |stream, seen| async move {
        let Ok(mut connection) = h2::server::handshake(stream).await else {
            return;
        };
        let mut asked = 0;
        while let Some(Ok((request, mut reply))) = connection.accept().await {
            let before = seen.requests().len();
            seen.requests.lock().push(Got {
                uri: request.uri().clone(),
                version: request.version(),
                headers: request.headers().clone(),
            });
            asked += 1;
            if asked == 2 && before == 1 {
                reply.send_reset(reason);
                continue;
            }
            let mut body = request.into_body();
            while let Some(Ok(octets)) = body.data().await {
                seen.octets.lock().extend(&octets);
            }
            if let Ok(mut body) = reply.send_response(Response::new(()), false) {
                let _sent = body.send_data(Bytes::from_static(b"done"), true);
            }
        }
    })
    .await
}

#[tokio::test]
async fn what_an_origin_did_not_look_at_is_sent_again_whatever_it_does() {
    for (reason, method, again) in [
        (Reason::REFUSED_STREAM, Method::POST, true),
        (Reason::REFUSED_STREAM, Method::GET, true),
        (Reason::INTERNAL_ERROR, Method::POST, false),
    ] {
        for alpn in ["h2", "http/1.1"] {
            let origin = origin(reason).await;
            let lab = Arrangement::new(ALLOW_API)
                .origin("api.test:443", &origin)
                .lab();
            let mut client = lab.https("api.test", alpn).await;
            let first = client.send(get_on(alpn, "/one")).await;
            assert_eq!(first.status, StatusCode::OK);
            let mut request = get_on(alpn, "/two");
            *request.method_mut() = method.clone();
            let second = client.send(request).await;
            let seen = origin.seen.requests().len();
            if again {
                assert_eq!(
                    (second.status, seen),
                    (StatusCode::OK, 3),
                    "{reason} {alpn}"
                );
            } else {
                assert_eq!(
                    (second.status, seen),
                    (StatusCode::BAD_GATEWAY, 2),
                    "{reason} {alpn}"
                );
            }
        }
    }
}

/// A body that is here whole, because a secret was put into it, goes again with its request; one that streams
/// is gone.
#[tokio::test]
async fn a_body_goes_again_that_is_here_whole() {
    for (keeps, reason, again) in [
        (true, Reason::REFUSED_STREAM, true),
        (true, Reason::INTERNAL_ERROR, false),
        (false, Reason::REFUSED_STREAM, false),
    ] {
        let origin = origin(reason).await;
        let keeper = Keeper::with(&[("TOKEN", "v4lue")]);
        let policy = if keeps { WITH_SECRET } else { ALLOW_API };
        let mut arrangement = Arrangement::new(policy).origin("api.test:443", &origin);
        if keeps {
            arrangement = arrangement.keeper(&keeper);
        }
        let lab = arrangement.lab();
        let wallet = lab.subject.wallet();
        let body = wallet.map_or_else(
            || "plain".to_owned(),
            |wallet| wallet.held()[0].sentinel.to_string(),
        );
        let mut client = lab.https("api.test", "http/1.1").await;
        let first = client.send(get_on("http/1.1", "/one")).await;
        assert_eq!(first.status, StatusCode::OK);
        let mut request = get_on("http/1.1", "/two").map(|_| full(body));
        *request.method_mut() = Method::PUT;
        let headers = request.headers_mut();
        headers.insert("content-type", "text/plain".parse().unwrap());
        let second = client.send(request).await;
        let seen = origin.seen.requests().len();
        let octets = origin.seen.octets.lock().clone();
        let outcome = (second.status, seen, octets.as_slice());
        let expected: (_, _, &[u8]) = match again {
            true => (StatusCode::OK, 3, b"v4lue"),
            false => (StatusCode::BAD_GATEWAY, 2, b""),
        };
        assert_eq!(outcome, expected, "{keeps} {reason}");
    }
}
