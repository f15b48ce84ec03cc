//! What is on its way to where it is not bound, in every form.

use std::io::Write as _;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use gig_audit::Event;
use gig_policy::{DenyReason, SandboxId};
use gig_vault::Treatment;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, StreamBody};

use super::{POLICY, World, post, streamed::Kept, with};
use crate::tests::lab::{
    Arrangement,
    client::{Body, empty},
    keeper::Keeper,
    origin::{Origin, echo},
};

/// Writes a text in a form of its own.
type Form = fn(&str) -> String;

#[tokio::test]
async fn a_sentinel_towards_another_host_is_refused_in_every_form() {
    let value = "v4lue-of-the-token-1";
    let forms: [(&str, Form); 10] = [
        ("plain", str::to_owned),
        ("upper", str::to_uppercase),
        ("percent", |s| {
            s.bytes().map(|b| format!("%{b:02X}")).collect()
        }),
        ("twice percent", |s| {
            s.bytes().map(|b| format!("%25{b:02x}")).collect()
        }),
        ("base64", |s| STANDARD.encode(s)),
        ("base64 in the middle", |s| {
            URL_SAFE_NO_PAD.encode(format!("ab{s}cdef"))
        }),
        ("hex", |s| s.bytes().map(|b| format!("{b:02X}")).collect()),
        ("unicode", |s| {
            s.chars().map(|c| format!("\\u{:04x}", c as u32)).collect()
        }),
        ("entities", |s| {
            s.bytes().map(|b| format!("&#x{b:x};")).collect()
        }),
        ("reversed", |s| s.chars().rev().collect()),
    ];
    for (form, write) in forms {
        for real in [false, true] {
            let world = World::new("other.test", value).await;
            let text = write(if real { value } else { &world.sentinel });
            let what = format!("{form} {real}");
            let answer = world.send("other.test", with("x-api-key", &text)).await;
            world.assert_misuse(&answer, &what).await;
            if text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"%-=_".contains(&b))
            {
                let world = World::new("other.test", value).await;
                let text = write(if real { value } else { &world.sentinel });
                let request = Request::get(format!("/p?q={text}")).body(empty()).unwrap();
                let answer = world.send("other.test", request).await;
                world.assert_misuse(&answer, &what).await;
            }
        }
    }
}

#[tokio::test]
async fn a_sentinel_in_pieces_is_put_together() {
    let pieces = |s: &str| {
        let (a, b) = s.split_at(20);
        (a.to_owned(), b.to_owned())
    };
    let world = World::new("other.test", "v4lue").await;
    let (a, b) = pieces(&world.sentinel);
    let request = Request::get("/")
        .header("x-a", &a)
        .header("x-b", &b)
        .body(empty())
        .unwrap();
    let answer = world.send("other.test", request).await;
    world.assert_misuse(&answer, "headers").await;
    let world = World::new("other.test", "v4lue").await;
    let (a, b) = pieces(&world.sentinel);
    let request = Request::get(format!("/?one={a}&two={b}"))
        .body(empty())
        .unwrap();
    let answer = world.send("other.test", request).await;
    world.assert_misuse(&answer, "query").await;
    let world = World::new("other.test", "v4lue").await;
    let (a, b) = pieces(&world.sentinel);
    let answer = world
        .send("other.test", with("cookie", &format!("k={a}; l={b}")))
        .await;
    world.assert_misuse(&answer, "cookies").await;
}

#[tokio::test]
async fn a_sentinel_in_pieces_of_a_form_is_put_together() {
    let form = "application/x-www-form-urlencoded";
    for real in [false, true] {
        for (what, write) in [
            ("two fields", "a=1&b=<&c=>&d=2"),
            ("the first and the last", "<&b=>"),
            ("no names", "<&>"),
            ("with much between", "a=<+-+.+.+.+&b==%20%20>"),
        ] {
            for escaped in [false, true] {
                let world = World::new("other.test", "v4lue-of-the-token-1").await;
                let text = if real {
                    "v4lue-of-the-token-1"
                } else {
                    &*world.sentinel
                };
                let (head, tail) = text.split_at(9);
                let part = |part: &str| match escaped {
                    true => part.bytes().map(|b| format!("%{b:02X}")).collect(),
                    false => part.to_owned(),
                };
                let body = write.replace('<', &part(head)).replace('>', &part(tail));
                let answer = world.send("other.test", post(form, body)).await;
                world.assert_misuse(&answer, what).await;
                let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
                let told = &alarms[0].entry.findings[0];
                assert!(told.contains("form body (split)"), "{what}: {told}");
            }
        }
    }
    // Where it is bound, pieces are what they are.
    let world = World::new("api.test", "v4lue-of-the-token-1").await;
    let (head, tail) = world.sentinel.split_at(9);
    let body = format!("a={head}&b={tail}");
    let answer = world.send("api.test", post(form, body.clone())).await;
    assert_eq!(answer.body, body);
}

#[tokio::test]
async fn a_prompt_that_quotes_a_sentinel_passes_and_is_noted() {
    let world = World::new("other.test", "v4lue-of-the-token").await;
    let body = format!(r#"{{"prompt":"what is {}?"}}"#, world.sentinel);
    let answer = world
        .send("other.test", post("application/json", body.clone()))
        .await;
    assert_eq!(answer.body, body);
    let record = world.lab.until_records(Event::Response, 1).await.remove(0);
    let note = &record.entry.findings[0];
    assert!(note.starts_with("sentinel of TOKEN in JSON body"), "{note}");
    assert!(record.entry.secrets.is_empty());
    assert!(world.lab.records(Event::SecretMisuse).is_empty());
}

pub(super) const FIELD: &str = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--b\r\n\
                     Content-Disposition: form-data; name=\"password\"\r\n\r\n<\r\n--b--\r\n";
const FILE: &str = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\n\
                    it was <.\r\n--b--\r\n";

#[tokio::test]
async fn a_sentinel_where_credentials_stand_in_a_body_is_refused_and_elsewhere_noted() {
    let (json, form) = ("application/json", "multipart/form-data; boundary=b");
    let (curl, fetch) = ("application/x-www-form-urlencoded", "text/plain");
    for (kind, text, refused) in [
        (json, r#"{"api_key": "<"}"#, true),
        (json, r#"{"headers": {"Authorization": "Bearer <"}}"#, true),
        (
            json,
            r#"{"query": "q", "variables": {"authToken": "<"}}"#,
            true,
        ),
        (json, r#"{"prompt": "<"}"#, false),
        (json, r#"{"api_key": "is it <?"}"#, false),
        (form, FIELD, true),
        (form, FILE, false),
        (curl, r#"{"api_key": "<"}"#, true),
        (curl, "prompt=<", true),
        (curl, r#"{"prompt": "what is <?"}"#, false),
        (fetch, r#"{"api_key": "<"}"#, true),
        (fetch, r#"{"prompt": "<"}"#, false),
        (fetch, r#"the log said {"api_key": "<"} here"#, false),
        // A form that begins as JSON does is one to who reads forms.
        (curl, "[]=1&token=<", true),
        (curl, "[0][token]=<", true),
        (curl, "[\"=1&authorization=Bearer+<", true),
    ] {
        let world = World::new("other.test", "v4lue-of-the-token").await;
        let body = text.replace('<', &world.sentinel);
        let answer = world.send("other.test", post(kind, body.clone())).await;
        if refused {
            world.assert_misuse(&answer, text).await;
            continue;
        }
        assert_eq!(answer.body, body);
        let record = world.lab.until_records(Event::Response, 1).await.remove(0);
        assert!(
            record.entry.findings[0].starts_with("sentinel of TOKEN in"),
            "{text}"
        );
        assert!(world.lab.records(Event::SecretMisuse).is_empty(), "{text}");
    }
}

#[tokio::test]
async fn a_compressed_grpc_message_is_looked_into() {
    let value = "v4lue-of-the-token";
    let bad = [&[1, 0, 0, 0, 3][..], b"bad"].concat();
    for (before, text, refused) in [
        (&[][..], value, true),
        (&[], "harmless", false),
        // What cannot be decoded ends the looking no further than it goes.
        (&bad, value, true),
        (&bad, "harmless", false),
    ] {
        let world = World::new("other.test", value).await;
        let mut to = GzBuilder::new().write(Vec::new(), Compression::fast());
        to.write_all(format!("\n\u{12}{text}").as_bytes()).unwrap();
        let message = to.finish().unwrap();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [before, &[1], &length, &message].concat();
        let mut request = post("application/grpc", body);
        let coding = "gzip".parse().unwrap();
        request.headers_mut().insert("grpc-encoding", coding);
        let answer = world.send("other.test", request).await;
        let seen = world.origin.seen.requests().len();
        assert_eq!(seen, usize::from(!refused), "{answer:?}");
        if refused {
            let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
            assert_eq!(&*alarms[0].entry.secrets[0], "TOKEN");
            world.lab.assert_denied_for(DenyReason::SecretMisuse);
        }
    }
}

#[tokio::test]
async fn a_token_that_gig_got_goes_in_header_fields_alone() {
    let value = "v4lue-of-the-token";
    let origin = Origin::https("api.test", &["http/1.1"], echo).await;
    let keeper = Keeper::with(&[]);
    keeper.put("TOKEN", &[value], Treatment::Bearer);
    let lab = Arrangement::new(POLICY)
        .origin("api.test:443", &origin)
        .keeper(&keeper)
        .lab();
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    let send = async |mut request: Request<Body>| {
        let host = "api.test".parse().unwrap();
        request.headers_mut().insert("host", host);
        let mut client = lab.https("api.test", "http/1.1").await;
        client.send(request).await
    };
    let basic = STANDARD.encode(format!("x-access-token:{sentinel}"));
    for (name, text, gone) in [
        (
            "authorization",
            format!("Bearer {sentinel}"),
            format!("Bearer {value}"),
        ),
        ("x-api-key", sentinel.clone(), value.to_owned()),
        ("authorization", format!("Basic {basic}"), String::new()),
    ] {
        assert_eq!(
            send(with(name, &text)).await.status,
            StatusCode::OK,
            "{name}"
        );
        let seen = origin.seen.requests().pop().unwrap();
        assert!(gone.is_empty() || seen.header(name) == gone, "{name}");
    }
    let seen = origin.seen.requests().len();
    for request in [
        Request::get(format!("/?key={sentinel}"))
            .body(empty())
            .unwrap(),
        Request::get(format!("/{sentinel}")).body(empty()).unwrap(),
        post("application/x-www-form-urlencoded", format!("a={sentinel}")),
        post("application/json", format!("{{\"token\":\"{sentinel}\"}}")),
    ] {
        let answer = send(request).await;
        assert_eq!(answer.json()["reason"], "secret_misuse");
        let hint = answer.json()["hint"].as_str().unwrap().to_owned();
        let cure = "TOKEN is taken in header:* alone: send it there, or add the place to `in`";
        assert!(hint.contains(cure), "{hint}");
    }
    assert_eq!(origin.seen.requests().len(), seen);
    // In other text it stays what it is.
    let text = format!("it is {sentinel}");
    assert_eq!(send(post("text/plain", text.clone())).await.body, text);
}

#[tokio::test]
async fn trailers_take_the_value_where_the_policy_says_and_refuse_what_cannot_be_had() {
    let value = "v4lue-of-the-token";
    for (name, revoked, reason) in [
        ("x-key", false, None),
        ("x-other", false, Some(DenyReason::SecretMisuse)),
        ("x-key", true, Some(DenyReason::SecretUnavailable)),
    ] {
        // What is refused meets an origin that keeps what arrives.
        let (world, kept) = match reason {
            None => {
                let world = World::speaking("narrow.test", value, "h2").await;
                (world, Kept::default())
            }
            Some(_) => World::keeping("narrow.test", value, "h2").await,
        };
        if revoked {
            world.keeper.revoke("TOKEN");
        }
        let request = with_trailer("https://narrow.test/with/x", name, &world.sentinel);
        let mut client = world.lab.https("narrow.test", "h2").await;
        let Some(reason) = reason else {
            // The origin sends them back, and they come back with the sentinel; the record says that they went.
            let answer = client.send(request).await;
            assert_eq!(answer.trailers.unwrap()[name], world.sentinel.as_str());
            let record = world.lab.until_records(Event::Response, 1).await.remove(0);
            assert_eq!(&*record.entry.secrets[0], "TOKEN");
            continue;
        };
        drop(client.start(request).await);
        world.lab.until_denied().await;
        world.lab.assert_denied_for(reason);
        let arrived = kept.text().await;
        let there = [value, &*world.sentinel]
            .iter()
            .any(|one| arrived.contains(one));
        assert!(!there && kept.whole() == 0, "{name}: {arrived}");
    }
}

#[tokio::test]
async fn a_form_and_a_real_value_in_any_body_are_refused_before_anything_leaves() {
    let world = World::new("other.test", "v4lue-of-the-token").await;
    let body = format!("grant=x&client_secret={}", world.sentinel);
    let form = post("application/x-www-form-urlencoded", body);
    let answer = world.send("other.test", form).await;
    world.assert_misuse(&answer, "a form").await;
    for body in [
        "..v4lue-of-the-token..",
        "djRsdWUtb2YtdGhlLXRva2Vu",
        "V4LUE-OF\\u002dTHE-TOKEN",
    ] {
        let world = World::new("other.test", "v4lue-of-the-token").await;
        let answer = world
            .send("other.test", post("application/json", body))
            .await;
        world.assert_misuse(&answer, body).await;
    }
}

#[tokio::test]
async fn another_sandboxs_sentinel_is_worthless_and_an_alarm() {
    let world = World::new("api.test", "v4lue-of-the-token").await;
    let other = SandboxId::new(uuid::Uuid::from_u128(8));
    let neighbour = world.keeper.wallet(other);
    let theirs = neighbour.held()[0].sentinel.to_string();
    let answer = world.send("api.test", with("x-key", &theirs)).await;
    world.assert_misuse(&answer, "a neighbour's").await;
    // When the neighbour is gone it is a text like any other.
    drop(neighbour);
    let answer = world.send("api.test", with("x-key", &theirs)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(world.seen().header("x-key"), theirs);
}

#[tokio::test]
async fn a_host_name_holds_no_sentinel() {
    let world = World::new("api.test", "v4lue-of-the-token").await;
    let label = world.sentinel.replace('-', ".");
    let (_, head) = world
        .lab
        .connect_by_proxy(&format!("{label}.api.test:443"))
        .await;
    assert!(
        head.starts_with("HTTP/1.1 403") && head.contains("secret_misuse"),
        "{head}"
    );
    let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
    assert!(alarms[0].entry.findings[0].contains("host's name"));
    // Bound to that name it would be bound to another with the next run.
    let denied = world.lab.until_records(Event::Connect, 1).await.remove(0);
    let why = gig_audit::why_of(&denied.entry.findings).unwrap();
    assert!(
        why.starts_with("a host's name is no place for a secret"),
        "{why}"
    );
}

/// A body with a trailer section.
pub(super) fn with_trailer(uri: &str, name: &'static str, value: &str) -> Request<Body> {
    let mut trailers = http::HeaderMap::new();
    trailers.insert(name, value.parse().unwrap());
    let frames = [
        Ok(http_body::Frame::data(Bytes::from_static(b"data"))),
        Ok(http_body::Frame::trailers(trailers)),
    ];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
    let request = Request::post(uri).header("te", "trailers");
    let request = request
        .header("trailer", name)
        .header("content-type", "text/plain");
    request.body(body).unwrap()
}

#[tokio::test]
async fn what_a_coding_has_room_for_beside_its_content_is_looked_at() {
    let value = "value-of-the-token";
    for named in [true, false] {
        let world = World::new("other.test", value).await;
        let name = if named { value } else { "x" };
        let mut to = GzBuilder::new()
            .filename(name)
            .write(Vec::new(), Compression::fast());
        to.write_all(b"harmless").unwrap();
        let mut body = to.finish().unwrap();
        if !named {
            body.extend_from_slice(value.as_bytes());
        }
        let mut request = post("text/plain", body);
        let headers = request.headers_mut();
        headers.insert("content-encoding", "gzip".parse().unwrap());
        let answer = world.send("other.test", request).await;
        world.assert_misuse(&answer, "a coded body").await;
    }
}

#[tokio::test]
async fn what_basic_credentials_hold_is_looked_at_in_every_form() {
    let value = "v4lue-of-the-token-1";
    let forms: [(&str, Form); 6] = [
        ("plain", str::to_owned),
        ("base64", |s| STANDARD.encode(s)),
        ("hex", |s| s.bytes().map(|b| format!("{b:02x}")).collect()),
        ("percent", |s| {
            s.bytes().map(|b| format!("%{b:02x}")).collect()
        }),
        ("reversed", |s| s.chars().rev().collect()),
        ("in pieces", |s| s.replace('-', ".:.")),
    ];
    for (form, write) in forms {
        for real in [false, true] {
            let world = World::new("other.test", value).await;
            let text = write(if real { value } else { &world.sentinel });
            let basic = format!("Basic {}", STANDARD.encode(format!("user:{text}")));
            let answer = world
                .send("other.test", with("authorization", &basic))
                .await;
            world
                .assert_misuse(&answer, &format!("{form} {real}"))
                .await;
            assert_eq!(world.lab.records(Event::SecretMisuse).len(), 1, "{form}");
        }
    }
}
