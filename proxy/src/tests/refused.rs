//! Requests that an origin says it did not look at (RFC 9113 §8.7), and such as it may have.

use bytes::Bytes;
use gig_audit::Event;
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
    origin_after(reason, 0).await
}

/// The same, when it has had so much of that request's body.
async fn origin_after(reason: Reason, octets: usize) -> Origin {
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
                let (mut body, mut had) = (request.into_body(), 0);
                // The connection is not driven meanwhile: what it has room for came with the request, or comes.
                let reading = async {
                    while had < octets
                        && let Some(Ok(part)) = body.data().await
                    {
                        had += part.len();
                        let _same = body.flow_control().release_capacity(part.len());
                    }
                };
                tokio::select! {
                    () = reading => {}
                    _ = connection.accept() => {}
                }
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

/// A body that is here whole, because a secret was put into it, goes again with its request; one that streams does
/// where all that went of it is kept.
#[tokio::test]
async fn a_body_goes_again_of_which_all_is_here() {
    for (keeps, reason, again) in [
        (true, Reason::REFUSED_STREAM, true),
        (true, Reason::INTERNAL_ERROR, false),
        (false, Reason::REFUSED_STREAM, true),
        (false, Reason::INTERNAL_ERROR, false),
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
            true if keeps => (StatusCode::OK, 3, b"v4lue"),
            true => (StatusCode::OK, 3, b"plain"),
            false => (StatusCode::BAD_GATEWAY, 2, b""),
        };
        assert_eq!(outcome, expected, "{keeps} {reason}");
    }
}

#[tokio::test]
async fn a_body_that_streams_goes_again_from_its_beginning_while_that_is_kept() {
    for alpn in ["h2", "http/1.1"] {
        for (length, had, again) in [
            (5, 0, true),
            (60_000, 30_000, true),
            (500_000, 200_000, false),
        ] {
            let origin = origin_after(Reason::REFUSED_STREAM, had).await;
            let lab = Arrangement::new(ALLOW_API)
                .origin("api.test:443", &origin)
                .lab();
            let mut client = lab.https("api.test", alpn).await;
            let first = client.send(get_on(alpn, "/one")).await;
            assert_eq!(first.status, StatusCode::OK);
            let text: String = (0..length)
                .map(|n| char::from(b'a' + (n % 23) as u8))
                .collect();
            let mut request = get_on(alpn, "/two").map(|_| full(text.clone()));
            *request.method_mut() = Method::POST;
            let second = client.send(request).await;
            let seen = origin.seen.requests().len();
            let expected = match again {
                true => (StatusCode::OK, 3),
                false => (StatusCode::BAD_GATEWAY, 2),
            };
            assert_eq!((second.status, seen), expected, "{alpn} {length}");
            if again {
                let octets = origin.seen.octets.lock().clone();
                assert!(octets == text.as_bytes(), "{alpn} {}", octets.len());
            }
            let outcomes = lab.until_records(Event::Response, 2).await;
            let sent = outcomes.last().and_then(|one| one.entry.bytes_out);
            if again {
                assert_eq!(sent, Some(length), "{alpn}: counted once");
            }
        }
    }
}
