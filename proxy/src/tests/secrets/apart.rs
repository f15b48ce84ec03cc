//! A value in the pieces of a body, or in letters of more than one octet.

use gig_audit::Event;

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::{DenyReason, World, post};

const VALUE: &str = "v4lue-of-the-token-1";

/// Bodies of two pieces, with the type that tells how they stand in it.
fn bodies(head: &str, tail: &str) -> Vec<(&'static str, &'static str, String)> {
    let parts = [head, tail].map(|part| {
        let head = "content-disposition: form-data; name=\"k\"";
        format!("--cut\r\n{head}\r\n\r\n{part}\r\n")
    });
    let member = format!("{{\"a\":\"{head}\",\"more\":{{\"b\":[\"{tail}\"]}}}}");
    vec![
        ("application/json", "JSON body", member.clone()),
        (
            "application/vnd.api+json; charset=utf-8",
            "JSON body",
            member.clone(),
        ),
        (
            "application/x-ndjson",
            "JSON body",
            format!("\"{head}\"\n\"{tail}\"\n"),
        ),
        (
            "application/json",
            "JSON body",
            format!("{{\"{head}\":1,\"{tail}\":2}}"),
        ),
        (
            "multipart/form-data; boundary=\"cut\"",
            "multipart body",
            parts.concat() + "--cut--\r\n",
        ),
        (
            "multipart/mixed; charset=utf-8; Boundary=cut",
            "multipart body",
            parts.concat() + "--cut--\r\n",
        ),
    ]
}

#[tokio::test]
async fn a_value_in_pieces_of_json_or_of_parts_is_refused_before_anything_leaves() {
    let (head, tail) = VALUE.split_at(9);
    for (kind, place, body) in bodies(head, tail) {
        let world = World::new("other.test", VALUE).await;
        let answer = world.send("other.test", post(kind, body.clone())).await;
        world.assert_misuse(&answer, &body).await;
        let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
        let told = &alarms[0].entry.findings[0];
        assert!(told.contains(&format!("{place} (split)")), "{kind}: {told}");
    }
    // Where it is bound, and where the pieces are of nothing.
    for (host, head) in [("api.test", head), ("other.test", "v4lux-of-")] {
        for (kind, _, body) in bodies(head, tail) {
            let world = World::new(host, VALUE).await;
            let answer = world.send(host, post(kind, body.clone())).await;
            assert_eq!(answer.status, 200, "{host} {kind}");
            assert!(answer.body == body, "{host} {kind}");
        }
    }
}

#[tokio::test]
async fn a_sentinel_in_pieces_of_json_is_noted() {
    let world = World::new("other.test", VALUE).await;
    let (head, tail) = world.sentinel.split_at(9);
    let body = format!("[\"{head}\", \"{tail}\"]");
    let answer = world
        .send("other.test", post("application/json", body.clone()))
        .await;
    assert_eq!(answer.body, body);
    let record = world.lab.until_records(Event::Response, 1).await.remove(0);
    let told = record.entry.findings.iter().map(ToString::to_string);
    let told: Vec<String> = told.collect();
    assert_eq!(told, ["sentinel of TOKEN in JSON body (split)"]);
}

/// A text in UTF-16 or UTF-32.
fn wide(text: &str, width: usize, little: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for octet in text.bytes() {
        let mut unit = vec![0; width];
        unit[if little { 0 } else { width - 1 }] = octet;
        out.extend(unit);
    }
    out
}

#[tokio::test]
async fn a_value_in_wide_letters_is_refused_elsewhere_and_comes_back_as_its_sentinel() {
    for (width, little) in [(2, true), (2, false), (4, true), (4, false)] {
        let text = |inner: &str| wide(&format!("<a>{inner}</a>"), width, little);
        for kind in [
            "text/plain; charset=utf-16",
            "application/json",
            "image/png",
        ] {
            let world = World::new("other.test", VALUE).await;
            let answer = world.send("other.test", post(kind, text(VALUE))).await;
            world.assert_misuse(&answer, kind).await;
            let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
            let told = &alarms[0].entry.findings[0];
            assert!(told.ends_with("(UTF-16 or UTF-32)"), "{told}");
        }
        // The origin sends back what it got.
        let world = World::new("api.test", VALUE).await;
        let request = post("text/plain; charset=utf-16", text(VALUE));
        let answer = world.send("api.test", request).await;
        // It does not say that it is text, so that its length stays.
        let (cut, _) = world.sentinel.split_at(VALUE.len());
        assert_eq!(answer.body, text(cut));
    }
}

/// A request with a last header field and a trailer.
fn with_trailer(host: &str, field: &str, trailer: &str) -> Request<super::Body> {
    let trailers = http::HeaderMap::from_iter([(
        http::header::HeaderName::from_static("x-more"),
        trailer.parse().unwrap(),
    )]);
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"data"))),
        Ok(Frame::trailers(trailers)),
    ];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
    let request = Request::post(format!("https://{host}/with/x"));
    let request = request
        .header("te", "trailers")
        .header("content-type", "text/plain");
    request.header("x-last", field).body(body).unwrap()
}

#[tokio::test]
async fn a_value_of_which_half_is_in_the_trailers_is_put_together() {
    let (head, tail) = VALUE.split_at(9);
    for (head, refused) in [(head, true), ("v4lux-of-", false)] {
        let world = World::speaking("other.test", VALUE, "h2").await;
        let mut client = world.lab.https("other.test", "h2").await;
        let request = with_trailer("other.test", head, tail);
        if !refused {
            assert_eq!(client.send(request).await.status, 200);
            continue;
        }
        drop(client.start(request).await);
        world.lab.until_denied().await;
        world.lab.assert_denied_for(DenyReason::SecretMisuse);
        let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
        let told = &alarms[0].entry.findings[0];
        assert!(told.contains("several fields (split)"), "{told}");
        let seen = world.origin.seen.requests();
        assert!(!format!("{seen:?}").contains(tail), "{seen:?}");
    }
    // What the head holds alone is not told of the trailers once more.
    let world = World::speaking("api.test", VALUE, "h2").await;
    let mut client = world.lab.https("api.test", "h2").await;
    let request = with_trailer("api.test", &world.sentinel, "nothing");
    assert_eq!(client.send(request).await.status, 200);
}
