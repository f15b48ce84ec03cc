//! Secrets on their way out: placed where they are bound, stopped everywhere else.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use gig_audit::Event;
use gig_policy::DenyReason;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;

use super::lab::{
    Arrangement, Lab,
    client::{Answer, Body, Client, empty, full},
    keeper::Keeper,
    origin::{Got, Origin, echo, switching},
};

mod apart;
mod coded;
mod digests;
mod ends;
mod framed;
mod known;
mod misuse;
mod opaque;
mod opened;
mod paths;
mod rehearsal;
mod renewal;
mod revoked;
mod socket;
mod streamed;
mod summed;
mod told;
mod unnamed;
mod unrecorded;
mod why;

const POLICY: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], secrets: [TOKEN]}
  - {host: other.test, ports: [443], allow_private: [127.0.0.0/8]}
  - {host: narrow.test, ports: [443], allow_private: [127.0.0.0/8],
     secrets: [{name: TOKEN, in: ['header:X-Key', 'query:key', 'cookie:sid']}],
     rules: [{methods: [GET, POST], paths: [/with/**]}]}
  - {host: narrow.test, ports: [443], allow_private: [127.0.0.0/8],
     rules: [{methods: [GET], paths: [/without/**]}]}
";
const VALUE: &str = "Re&l \"v\u{e4}lue\"/100%";

/// One sandbox with one secret, and an origin that sends bodies back.
struct World {
    lab: Lab,
    origin: Origin,
    keeper: Arc<Keeper>,
    sentinel: String,
    value: String,
}

impl World {
    async fn new(host: &'static str, value: &str) -> Self {
        Self::speaking(host, value, "http/1.1").await
    }

    async fn speaking(host: &'static str, value: &str, alpn: &'static str) -> Self {
        let origin = Origin::https(host, &[alpn], echo).await;
        Self::before(origin, host, value)
    }

    fn before(origin: Origin, host: &str, value: &str) -> Self {
        let keeper = Keeper::with(&[("TOKEN", value)]);
        let at = format!("{host}:443");
        let lab = Arrangement::new(POLICY)
            .origin(&at, &origin)
            .keeper(&keeper)
            .lab();
        let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
        Self {
            lab,
            origin,
            keeper,
            sentinel,
            value: value.to_owned(),
        }
    }

    async fn client(&self, host: &str) -> Client {
        self.lab.https(host, "http/1.1").await
    }

    /// Sends one request on a connection of its own.
    async fn send(&self, host: &str, mut request: Request<Body>) -> Answer {
        let mut client = self.client(host).await;
        request.headers_mut().insert("host", host.parse().unwrap());
        client.send(request).await
    }

    fn seen(&self) -> Got {
        self.origin.seen.requests().pop().expect("a request")
    }

    /// Refused, told, recorded, alarmed, and unseen by the origin.
    async fn assert_misuse(&self, answer: &Answer, what: &str) {
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{what}: {answer:?}");
        assert_eq!(answer.json()["reason"], "secret_misuse", "{what}");
        assert!(
            self.origin.seen.requests().is_empty(),
            "{what} reached the origin"
        );
        let alarms = self.lab.until_records(Event::SecretMisuse, 1).await;
        assert_eq!(&*alarms[0].entry.secrets[0], "TOKEN", "{what}");
        self.lab.assert_denied_for(DenyReason::SecretMisuse);
        self.assert_unrecorded(what);
    }

    /// No record holds the value, in any letter case.
    fn assert_unrecorded(&self, what: &str) {
        let records = format!("{:?}", self.lab.log.records()).to_ascii_lowercase();
        let value = self.value.to_ascii_lowercase();
        assert!(!records.contains(&value), "{what}: {records}");
    }
}

fn with(name: &str, value: &str) -> Request<Body> {
    Request::get("/").header(name, value).body(empty()).unwrap()
}

fn post(kind: &str, body: impl Into<Bytes>) -> Request<Body> {
    let body = full(body);
    let length = http_body::Body::size_hint(&body).exact().unwrap();
    Request::post("/")
        .header("content-type", kind)
        .header("content-length", length)
        .body(body)
        .unwrap()
}

#[tokio::test]
async fn a_value_goes_into_any_header_field_and_no_record() {
    let world = World::new("api.test", "v4lue-of-the-token").await;
    let request = Request::get("/")
        .header("authorization", format!("Bearer {}", world.sentinel))
        .header("x-key", &world.sentinel)
        .header(
            "x-key",
            format!("a={};b={}", world.sentinel, world.sentinel),
        )
        .body(empty())
        .unwrap();
    let answer = world.send("api.test", request).await;
    assert_eq!(answer.status, StatusCode::OK);
    let seen = world.seen();
    assert_eq!(seen.header("authorization"), "Bearer v4lue-of-the-token");
    let keys: Vec<_> = seen.headers.get_all("x-key").iter().collect();
    assert_eq!(
        keys,
        [
            "v4lue-of-the-token",
            "a=v4lue-of-the-token;b=v4lue-of-the-token"
        ]
    );
    for event in [Event::Request, Event::Response] {
        let record = world.lab.until_records(event, 1).await.remove(0);
        assert_eq!(&*record.entry.secrets[0], "TOKEN");
        assert!(!format!("{record:?}").contains("v4lue"));
    }
}

#[tokio::test]
async fn basic_credentials_cookies_and_binary_metadata_are_decoded() {
    let world = World::new("api.test", "pass:word=1").await;
    let credentials = STANDARD.encode(format!("user:{}", world.sentinel));
    let cookie = format!("a=1; sid={}; b=2", world.sentinel);
    let metadata = STANDARD.encode(format!("\u{0}{}\u{1}", world.sentinel));
    let request = Request::get("/")
        .header("authorization", format!("basic {credentials}"))
        .header("cookie", cookie)
        .header("token-bin", metadata.trim_end_matches('='))
        .body(empty())
        .unwrap();
    assert_eq!(world.send("api.test", request).await.status, StatusCode::OK);
    let seen = world.seen();
    let basic = seen.header("authorization").strip_prefix("Basic ").unwrap();
    assert_eq!(STANDARD.decode(basic).unwrap(), b"user:pass:word=1");
    assert_eq!(seen.header("cookie"), "a=1; sid=pass:word=1; b=2");
    let binary = base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(seen.header("token-bin"))
        .unwrap();
    assert_eq!(binary, b"\0pass:word=1\x01");
}

#[tokio::test]
async fn path_and_query_take_the_value_percent_encoded_and_the_record_keeps_the_sentinel() {
    let world = World::new("api.test", VALUE).await;
    let uri = format!("/a/{0}/b?x=%20y&key={0}&z=1", world.sentinel);
    let request = Request::get(&uri).body(empty()).unwrap();
    assert_eq!(world.send("api.test", request).await.status, StatusCode::OK);
    let encoded = "Re%26l%20%22v%C3%A4lue%22%2F100%25";
    let target = format!("/a/{encoded}/b?x=%20y&key={encoded}&z=1");
    assert_eq!(world.seen().uri.to_string(), target);
    let record = world.lab.records(Event::Request).remove(0);
    let path = format!("/a/{}/b", world.sentinel);
    assert_eq!(record.entry.path.as_deref(), Some(&*path));
}

#[tokio::test]
async fn bodies_take_the_value_as_their_type_wants_it_and_say_their_length() {
    // So short that it comes back as it is: the echo shows what the origin got.
    let world = World::new("api.test", "R&\"\u{e9}/%").await;
    let sentinel = &world.sentinel;
    let cases = [
        ("application/json", r#"{"k":"@"}"#, r#"{"k":"R&\"é"#),
        (
            "application/x-www-form-urlencoded",
            "a=1&k=@&b=2",
            "a=1&k=R%26%22%C3%A9%2F%25&b=2",
        ),
        ("text/plain", "key: @.", "key: R&\"é"),
        ("application/xml", "<k>@</k>", "<k>R&amp;&quot;é"),
        (
            "multipart/form-data; boundary=x",
            "--x\r\n\r\n@\r\n--x--",
            "--x\r\n\r\nR&\"é",
        ),
        // What clients say of JSON: curl's `-d`, fetch of a string, a part of its own, AWS.
        (
            "application/x-www-form-urlencoded",
            r#" {"k":"@"}"#,
            r#" {"k":"R&\"é/%"}"#,
        ),
        ("text/plain;charset=UTF-8", r#"{"k":"@"}"#, r#"{"k":"R&\"é"#),
        (
            "multipart/form-data; boundary=x",
            "--x\r\nA: form-data; name=\"payload_json\"\r\n\r\n{\"k\":\"@\"}\r\n--x--",
            "--x\r\nA: form-data; name=\"payload_json\"\r\n\r\n{\"k\":\"R&\\\"é",
        ),
        (
            "application/x-amz-json-1.1",
            r#"{"k":"@"}"#,
            r#"{"k":"R&\"é"#,
        ),
        (
            "application/graphql",
            r#"query {me(key: "@")}"#,
            r#"query {me(key: "R&\"é"#,
        ),
    ];
    for (kind, body, expected) in cases {
        let body = body.replace('@', sentinel);
        let answer = world.send("api.test", post(kind, body)).await;
        assert_eq!(answer.status, StatusCode::OK, "{kind}");
        let seen = world.seen();
        let length: usize = seen.header("content-length").parse().unwrap();
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(text.starts_with(expected), "{kind}: {text}");
        assert_eq!(length, text.len(), "{kind}");
    }
}

#[tokio::test]
async fn a_long_body_is_swapped_while_it_streams_wherever_it_is_cut() {
    for alpn in ["http/1.1", "h2"] {
        let world = World::speaking("api.test", "v4lue", alpn).await;
        let sentinel = world.sentinel.clone();
        let octets = sentinel.as_bytes().to_vec();
        let chunks = (0..=octets.len()).flat_map(|cut| {
            let (head, tail) = octets.split_at(cut);
            [head, tail, b"|"].map(Bytes::copy_from_slice)
        });
        let frames = chunks.map(|data| Ok(http_body::Frame::data(data)));
        let frames: Vec<_> = frames.collect();
        let count = octets.len() + 1;
        let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
        let request = Request::post("/")
            .header("content-type", "text/plain")
            .body(body)
            .unwrap();
        let answer = world.send("api.test", request).await;
        assert_eq!(answer.body, "v4lue|".repeat(count), "{alpn}");
        assert!(!world.seen().headers.contains_key("content-length"));
    }
}

#[tokio::test]
async fn trailers_take_the_value() {
    let origin = Origin::https("api.test", &["h2"], echo).await;
    let keeper = Keeper::with(&[("TOKEN", "v4lue")]);
    let lab = Arrangement::new(POLICY)
        .origin("api.test:443", &origin)
        .keeper(&keeper)
        .lab();
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    let mut client = lab.https("api.test", "h2").await;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-signature", format!("key={sentinel}").parse().unwrap());
    let frames = [
        Ok(http_body::Frame::data(Bytes::from_static(b"data"))),
        Ok(http_body::Frame::trailers(trailers)),
    ];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
    let request = Request::post("https://api.test/").header("te", "trailers");
    let answer = client.send(request.body(body).unwrap()).await;
    assert_eq!(answer.trailers.unwrap()["x-signature"], "key=v4lue");
}

#[tokio::test]
async fn each_of_many_lines_and_cookie_crumbs_takes_the_value_over_h2() {
    const VALUE: &str = "v4lue-of-the-token";
    for alpn in ["h2", "http/1.1"] {
        let world = World::speaking("api.test", VALUE, alpn).await;
        let sentinel = &world.sentinel;
        let basic = STANDARD.encode(format!("ann:{sentinel}"));
        let request = Request::get("https://api.test/")
            .header("x-key", sentinel)
            .header("x-key", "other")
            .header("x-key", format!("k={sentinel}, {sentinel}"))
            .header("authorization", format!("Basic {basic}"))
            .header("cookie", format!("sid={sentinel}"))
            .header("cookie", "theme=dark")
            .header("cookie", format!("old={sentinel}"));
        let mut client = world.lab.https("api.test", "h2").await;
        let answer = client.send(request.body(empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK, "{alpn}");
        let seen = world.seen();
        let all = |name: &str| {
            let lines = seen.headers.get_all(name).iter();
            lines
                .map(|line| line.to_str().unwrap().to_owned())
                .collect()
        };
        let keys: Vec<String> = all("x-key");
        let both = format!("k={VALUE}, {VALUE}");
        assert_eq!(keys, [VALUE, "other", &both], "{alpn}");
        let basic = STANDARD.encode(format!("ann:{VALUE}"));
        assert_eq!(seen.header("authorization"), format!("Basic {basic}"));
        let crumbs: Vec<String> = all("cookie");
        let (one, two) = (format!("sid={VALUE}"), format!("old={VALUE}"));
        assert_eq!(
            crumbs.join("; "),
            format!("{one}; theme=dark; {two}"),
            "{alpn}"
        );
    }
}

#[tokio::test]
async fn places_are_narrowed_by_the_policy() {
    let value = "v4lue-of-the-token";
    let world = World::new("narrow.test", value).await;
    let request = Request::get(format!("/with/x?key={0}", world.sentinel))
        .header("x-key", &world.sentinel)
        .header("cookie", format!("sid={}", world.sentinel))
        .body(empty())
        .unwrap();
    assert_eq!(
        world.send("narrow.test", request).await.status,
        StatusCode::OK
    );
    assert_eq!(world.seen().header("x-key"), value);
    assert_eq!(world.seen().header("cookie"), format!("sid={value}"));
    let wrong: [fn(&str) -> Request<Body>; 5] = [
        |s| {
            Request::get("/with/x")
                .header("x-other", s)
                .body(empty())
                .unwrap()
        },
        |s| {
            Request::get("/with/x")
                .header("cookie", format!("tid={s}"))
                .body(empty())
                .unwrap()
        },
        |s| {
            Request::get(format!("/with/x?kex={s}"))
                .body(empty())
                .unwrap()
        },
        |s| Request::get(format!("/with/{s}")).body(empty()).unwrap(),
        // The rule that lets this request go names no secret.
        |s| {
            Request::get("/without/x")
                .header("x-key", s)
                .body(empty())
                .unwrap()
        },
    ];
    for (number, request) in wrong.into_iter().enumerate() {
        let world = World::new("narrow.test", value).await;
        let answer = world.send("narrow.test", request(&world.sentinel)).await;
        world.assert_misuse(&answer, &number.to_string()).await;
    }
    // In text it stays what it is, and is noted.
    let world = World::new("narrow.test", value).await;
    let mut request = post("application/json", format!("\"{}\"", world.sentinel));
    *request.uri_mut() = "/with/x".parse().unwrap();
    let answer = world.send("narrow.test", request).await;
    assert_eq!(answer.body, format!("\"{}\"", world.sentinel));
    let record = world.lab.until_records(Event::Response, 1).await.remove(0);
    let note = &record.entry.findings[0];
    assert!(
        note.ends_with("where the policy does not take it"),
        "{note}"
    );
    // As a credential it does not pass.
    let parts = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n<\r\n--b--\r\n";
    for (kind, body) in [
        ("application/x-www-form-urlencoded", "a=1&key=<"),
        ("application/json", "{\"key\": \"<\"}"),
        ("multipart/form-data; boundary=b", parts),
    ] {
        let world = World::new("narrow.test", value).await;
        let mut request = post(kind, body.replace('<', &world.sentinel));
        *request.uri_mut() = "/with/x".parse().unwrap();
        let answer = world.send("narrow.test", request).await;
        world.assert_misuse(&answer, kind).await;
    }
}

#[tokio::test]
async fn rotation_and_revocation_hold_from_the_next_request_of_an_open_connection() {
    for alpn in ["http/1.1", "h2"] {
        let world = World::new("api.test", "first-value-of-it").await;
        let mut client = world.lab.https("api.test", alpn).await;
        let request = || {
            let uri = if alpn == "h2" {
                "https://api.test/"
            } else {
                "/"
            };
            let request = Request::get(uri).header("x-key", &world.sentinel);
            let request = if alpn == "h2" {
                request
            } else {
                request.header("host", "api.test")
            };
            request.body(empty()).unwrap()
        };
        assert_eq!(client.send(request()).await.status, StatusCode::OK);
        assert_eq!(world.seen().header("x-key"), "first-value-of-it");
        world.keeper.set("TOKEN", "second-value-of-it");
        assert_eq!(client.send(request()).await.status, StatusCode::OK);
        assert_eq!(world.seen().header("x-key"), "second-value-of-it");
        // The old value may go nowhere, its own host included.
        let mut old = request();
        old.headers_mut()
            .insert("x-key", "first-value-of-it".parse().unwrap());
        assert_eq!(client.send(old).await.json()["reason"], "secret_misuse");
        world.keeper.revoke("TOKEN");
        let answer = client.send(request()).await;
        assert_eq!(answer.json()["reason"], "secret_unavailable", "{alpn}");
        assert_eq!(world.origin.seen.requests().len(), 2);
    }
}

#[tokio::test]
async fn expect_continue_and_head_go_on_working() {
    let whole = |request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(full(body))
    };
    let origin = Origin::https("api.test", &["http/1.1"], whole).await;
    let keeper = Keeper::with(&[("TOKEN", "v4lue")]);
    let lab = Arrangement::new(POLICY)
        .origin("api.test:443", &origin)
        .keeper(&keeper)
        .lab();
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    let mut request = post("text/plain", sentinel);
    let headers = request.headers_mut();
    headers.insert("expect", "100-continue".parse().unwrap());
    headers.insert("host", "api.test".parse().unwrap());
    let mut client = lab.https("api.test", "http/1.1").await;
    assert_eq!(client.send(request).await.body, "v4lue");
    let world = World::new("api.test", "v4lue").await;
    let mut request = with("x-key", &world.sentinel);
    *request.method_mut() = Method::HEAD;
    assert_eq!(world.send("api.test", request).await.status, StatusCode::OK);
    assert_eq!(world.seen().header("x-key"), "v4lue");
}
