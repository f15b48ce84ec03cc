//! Requests that an origin says it did not look at (RFC 9113 §8.7), and such as it may have.

use bytes::Bytes;
use h2::Reason;
use http::{Method, Response, StatusCode};

use super::{
    lab::{
        ALLOW_API, Arrangement,
        origin::{Got, Origin},
    },
    requests::get_on,
};

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
