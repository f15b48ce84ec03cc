//! Bodies with chunks of their own, and what only seems to be one: looked at as any other.

use gig_audit::Event;

use super::{DenyReason, World, misuse::FIELD, post};

#[tokio::test]
async fn what_has_lengths_and_sums_of_its_own_keeps_the_sentinel() {
    let world = World::new("api.test", "v4lue-of-another-length").await;
    for (name, value) in [
        ("content-encoding", "aws-chunked"),
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ] {
        let chunk = format!("key {}", world.sentinel);
        let body = format!("{:x}\r\n{chunk}\r\n0\r\n\r\n", chunk.len());
        let mut request = post("text/plain", body.clone());
        request.headers_mut().insert(name, value.parse().unwrap());
        let answer = world.send("api.test", request).await;
        assert_eq!(answer.body, body, "{name}");
        let record = world.lab.records(Event::Response).pop().unwrap();
        let note = &record.entry.findings[0];
        assert!(note.starts_with("sentinel of TOKEN in"), "{note}");
    }
}

#[tokio::test]
async fn no_field_of_the_programs_and_no_beginning_has_less_looked_at() {
    const WHOLE: &str = "v4lue-of-the-token-8sKqW2";
    let (one, two) = WHOLE.split_at(12);
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    for (name, value) in [
        ("x-amz-content-sha256", "STREAMING-x"),
        ("content-encoding", "aws-chunked"),
        ("x-any", "thing"),
    ] {
        for (kind, text) in [
            (form, "token=<".to_owned()),
            (json, r#"{"api_key":"<"}"#.to_owned()),
            ("multipart/form-data; boundary=b", FIELD.to_owned()),
            (form, format!("a={one}&b={two}")),
            (form, format!("[\"=1&a={one}&b={two}")),
            (json, format!(r#"{{"a":"{one}","b":"{two}"}}"#)),
            (form, format!(r#"{{"a":"{one}","b":"{two}"}}"#)),
        ] {
            let world = World::new("other.test", WHOLE).await;
            let body = text.replace('<', &world.sentinel);
            let mut request = post(kind, body);
            request.headers_mut().insert(name, value.parse().unwrap());
            let answer = world.send("other.test", request).await;
            world
                .assert_misuse(&answer, &format!("{name}: {text}"))
                .await;
        }
    }
}

#[tokio::test]
async fn a_message_that_says_its_length_keeps_it_whatever_its_codec() {
    let sentinels = "gigph-".len() + 32;
    for kind in [
        "application/grpc+json",
        "application/grpc-web+json",
        "application/connect+json",
    ] {
        for (length, goes) in [(18, false), (sentinels, true), (100, false)] {
            let world = World::new("api.test", "v4lue-of-".repeat(20).get(..length).unwrap()).await;
            let message = |text: &str| {
                let json = format!(r#"{{"key":"{text}"}}"#);
                let length = u32::try_from(json.len()).unwrap().to_be_bytes();
                [&[0][..], &length, json.as_bytes()].concat()
            };
            let answer = world
                .send("api.test", post(kind, message(&world.sentinel)))
                .await;
            if goes {
                assert_eq!(answer.body.len(), message(&world.value).len(), "{kind}");
                let record = world.lab.until_records(Event::Response, 1).await.remove(0);
                assert_eq!(&*record.entry.secrets[0], "TOKEN", "{record:?}");
            } else {
                assert!(world.origin.seen.requests().is_empty(), "{kind} {length}");
                world.lab.assert_denied_for(DenyReason::SecretUnplaceable);
            }
        }
    }
}
