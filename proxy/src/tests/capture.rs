//! Logins made inside: the program gets sentinels for the tokens that the server minted.

use std::{io::Write as _, sync::Arc};

use bytes::Bytes;
use gig_audit::Event;
use gig_policy::DenyReason;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;

use super::lab::{
    Arrangement, Lab,
    client::{Answer, Body, empty, full, get},
    keeper::Keeper,
    origin::{Origin, echo},
};

mod elsewhere;
mod identity;
mod member;
mod overridden;
mod saying_no;
mod summed;

const POLICY: &str = "
version: 1
name: test
egress:
  - host: auth.test
    ports: [443]
    allow_private: [127.0.0.0/8]
    rules: [{paths: ['/token/**']}]
    secrets: [{name: LOGIN, capture: true, from: ['cookie:sid', 'body:key']}]
  - host: auth.test
    ports: [443]
    allow_private: [127.0.0.0/8]
    rules: [{paths: ['/shown/**']}]
    secrets: [{name: LOGIN, capture: true, show: [id_token]}]
  - {host: auth.test, ports: [443], allow_private: [127.0.0.0/8], rules: [{paths: [/other, /other/said]}]}
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], secrets: [LOGIN]}
  - {host: other.test, ports: [443], allow_private: [127.0.0.0/8]}
";
const ACCESS: &str = "r3al-access-token-of-it";
const REFRESH: &str = "r3al-refresh-token-of-it";
/// Claims, and a signature that a program would verify.
const IDENTITY: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1c2VyIn0.c2lnbmF0dXJlLW9mLXRoZS1zZXJ2ZXI";

/// One sandbox that holds nothing yet, a server that mints tokens, and an API that sends back what it got.
struct World {
    lab: Lab,
    auth: Origin,
    api: Origin,
    other: Origin,
    keeper: Arc<Keeper>,
}

impl World {
    async fn new(alpn: &'static str) -> Self {
        let auth = Origin::https("auth.test", &[alpn], summed::mint).await;
        let api = Origin::https("api.test", &[alpn], repeat).await;
        let other = Origin::https("other.test", &[alpn], repeat).await;
        let keeper = Keeper::with(&[]);
        let lab = Arrangement::new(POLICY)
            .origin("auth.test:443", &auth)
            .origin("api.test:443", &api)
            .origin("other.test:443", &other)
            .keeper(&keeper)
            .lab();
        Self {
            lab,
            auth,
            api,
            other,
            keeper,
        }
    }

    async fn send(&self, host: &str, alpn: &str, mut request: Request<Body>) -> Answer {
        let mut client = self.lab.https(host, alpn).await;
        if alpn == "h2" {
            let path = request.uri().path_and_query().unwrap().to_string();
            *request.uri_mut() = format!("https://{host}{path}").parse().unwrap();
        } else {
            request.headers_mut().insert("host", host.parse().unwrap());
        }
        client.send(request).await
    }

    /// Asks for tokens, and gives those that the program gets.
    async fn log_in(&self) -> (String, String) {
        let answer = self
            .send(
                "auth.test",
                "http/1.1",
                post("/token/json", "grant_type=password"),
            )
            .await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let json = answer.json();
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        (text("access_token"), text("refresh_token"))
    }

    fn assert_nothing_recorded(&self) {
        let records = format!("{:?}", self.lab.log.records());
        assert!(
            !records.contains(ACCESS) && !records.contains(REFRESH),
            "{records}"
        );
    }
}

fn post(path: &str, form: &str) -> Request<Body> {
    Request::post(path)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("content-length", form.len())
        .body(full(form.to_owned()))
        .unwrap()
}

fn tokens() -> String {
    format!(
        "{{\"access_token\": \"{ACCESS}\", \"token_type\": \"Bearer\", \"expires_in\": 3600, \
         \"refresh_token\": \"{REFRESH}\", \"note\": \"Bearer {ACCESS}\"}}"
    )
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    coder.write_all(text.as_bytes()).unwrap();
    coder.finish().unwrap()
}

/// One octet a frame.
fn crumbs(octets: &[u8]) -> Body {
    let frames = octets
        .iter()
        .map(|octet| Ok(http_body::Frame::data(Bytes::copy_from_slice(&[*octet]))));
    let frames: Vec<_> = frames.collect();
    StreamBody::new(futures_util::stream::iter(frames)).boxed()
}

/// The token endpoint, which answers as its path says.
async fn mint(request: Request<Incoming>) -> Response<Body> {
    let answer = |status: u16, kind: &str| {
        Response::builder()
            .status(status)
            .header("content-type", kind)
    };
    let json = "application/json";
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let response = match path.as_str() {
        "/token/json" => answer(200, json)
            .header("x-token", ACCESS)
            .body(full(tokens())),
        "/token/crumbs" => answer(200, json).body(crumbs(tokens().as_bytes())),
        "/token/gzip" => answer(200, json)
            .header("content-encoding", "gzip")
            .body(crumbs(&gzipped(&tokens()))),
        "/token/form" => answer(200, "application/x-www-form-urlencoded").body(full(format!(
            "access_token={ACCESS}&scope=repo&token_type=bearer"
        ))),
        "/token/identity" | "/shown/identity" => answer(200, json).body(full(format!(
            "{{\"access_token\": \"{ACCESS}\", \"id_token\": \"{IDENTITY}\"}}"
        ))),
        // One that is a credential elsewhere stays out all the same.
        "/shown/same" => answer(200, json).body(full(format!(
            "{{\"access_token\": \"{ACCESS}\", \"id_token\": \"{ACCESS}\"}}"
        ))),
        // As OpenRouter gives a key for a code.
        "/token/key" => answer(200, json).body(full(format!(
            "{{\"key\": \"{ACCESS}\", \"user_id\": \"u\"}}"
        ))),
        "/token/error" => answer(400, json).body(full("{\"error\": \"invalid_grant\"}")),
        "/token/pending" => answer(200, json).body(full("{\"error\": \"authorization_pending\"}")),
        // What cannot be taken apart, where it says no success.
        path if path.starts_with("/token/no/") => saying_no::answer(path),
        "/token/page" => answer(503, "text/html").body(full("<p>later")),
        "/token/empty" => answer(200, json).body(empty()),
        "/token/revoked" => answer(200, json).body(full("{\"revoked\": true}")),
        // As a page that says who is in, unasked.
        "/other/said" => answer(200, json).body(full(format!("{{\"session\": \"{ACCESS}\"}}"))),
        "/token/ok" => answer(200, "text/plain").body(full("OK")),
        "/token/none" => answer(204, json).body(empty()),
        "/token/subject" | "/token/bearer" | "/token/cookie" => mint_in_fields(&path),
        "/token/moved" => answer(302, "text/plain")
            .header(
                "location",
                format!("https://app.test/#access_token={ACCESS}"),
            )
            .body(empty()),
        "/token/html" => answer(200, "text/html").body(full(format!("<p>{ACCESS}"))),
        "/token/elsewhere" => answer(200, json).body(full(format!("{{\"data\": \"{ACCESS}\"}}"))),
        "/token/cut" => answer(200, json).body(full(tokens().chars().take(60).collect::<String>())),
        "/token/coded" => answer(200, json)
            .header("content-encoding", "zip")
            .body(full(tokens())),
        "/token/part" => answer(206, json).body(full(tokens())),
        "/token/broken" => {
            let mut coded = gzipped(&tokens());
            coded.truncate(30);
            answer(200, json)
                .header("content-encoding", "gzip")
                .body(full(coded))
        }
        "/token/long" => {
            let padding = " ".repeat(1024 * 1024);
            answer(200, json).body(full(format!("{padding}{}", tokens())))
        }
        "/token/bomb" => {
            let padding = " ".repeat(32 * 1024 * 1024);
            answer(200, json)
                .header("content-encoding", "gzip")
                .body(full(gzipped(&padding)))
        }
        "/token/refresh" => {
            let form = String::from_utf8(body.to_vec()).unwrap();
            assert!(form.contains(&format!("refresh_token={REFRESH}")), "{form}");
            answer(200, json).body(full(format!(
                "{{\"access_token\": \"{ACCESS}-2\", \"refresh_token\": \"{REFRESH}-2\"}}"
            )))
        }
        _ => answer(200, "text/plain").body(full(body)),
    };
    response.unwrap()
}

/// The token endpoint where it answers in header fields.
fn mint_in_fields(path: &str) -> http::Result<Response<Body>> {
    let answer = Response::builder().header("content-type", "application/json");
    match path {
        "/token/subject" => answer
            .status(201)
            .header("x-subject-token", ACCESS)
            .body(full(
                "{\"token\": {\"user\": {\"id\": \"0123456789abcdef0123\"}}}",
            )),
        "/token/bearer" => answer
            .header("authorization", format!("Bearer {ACCESS}"))
            .body(empty()),
        _ => answer
            .status(303)
            .header("location", "/in")
            .header("set-cookie", format!("sid={ACCESS}; Max-Age=60; HttpOnly"))
            .header("set-cookie", "lang=en")
            .body(empty()),
    }
}

/// The API: repeats who asks.
async fn repeat(request: Request<Incoming>) -> Response<Body> {
    let bearer = request.headers().get("authorization").cloned();
    let bearer = bearer.map_or_else(Bytes::new, |b| Bytes::copy_from_slice(b.as_bytes()));
    let mut response = echo(request).await;
    *response.body_mut() = full(bearer);
    response
        .headers_mut()
        .insert("content-type", "text/plain".parse().unwrap());
    response
}

fn bearing(token: &str) -> Request<Body> {
    Request::get("/me")
        .header("authorization", format!("Bearer {token}"))
        .body(empty())
        .unwrap()
}

#[tokio::test]
async fn a_login_gets_sentinels_for_the_tokens_that_the_server_minted() {
    for alpn in ["http/1.1", "h2"] {
        let world = World::new(alpn).await;
        for path in ["/token/json", "/token/crumbs", "/token/gzip"] {
            let answer = world.send("auth.test", alpn, post(path, "a=b")).await;
            let text = format!("{answer:?}");
            assert_eq!(answer.status, StatusCode::OK, "{alpn} {path}: {text}");
            assert!(!text.contains("r3al"), "{alpn} {path}: {text}");
            let json = answer.json();
            let token = json["access_token"].as_str().unwrap();
            assert!(token.starts_with("gigph-"), "{text}");
            assert_eq!(json["expires_in"], 3600);
            // What repeats a token elsewhere in the answer is the same sentinel.
            assert_eq!(json["note"], format!("Bearer {token}"));
            assert_eq!(
                answer.header("content-length"),
                answer.body.len().to_string()
            );
            if path == "/token/json" {
                assert_eq!(answer.header("x-token"), token);
            }
            let used = world.send("api.test", alpn, bearing(token)).await;
            let seen = world.api.seen.requests().pop().unwrap();
            assert_eq!(seen.header("authorization"), format!("Bearer {ACCESS}"));
            assert_eq!(used.body, format!("Bearer {token}"));
        }
        let changes = world.lab.until_records(Event::SecretChange, 3).await;
        assert_eq!(&*changes[0].entry.secrets[0], "LOGIN");
        assert_eq!(
            changes[0]
                .entry
                .findings
                .iter()
                .map(|f| &**f)
                .collect::<Vec<_>>(),
            [
                // Of a header field that is called a token, whose life nobody tells.
                "access_token captured as LOGIN",
                "access_token captured as LOGIN, lives 3600 s",
                "refresh_token captured as LOGIN"
            ]
        );
        world.assert_nothing_recorded();
    }
}

#[tokio::test]
async fn a_form_and_a_device_login_get_sentinels_too() {
    let world = World::new("http/1.1").await;
    let answer = world
        .send("auth.test", "http/1.1", post("/token/form", "a=b"))
        .await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(
        text.starts_with("access_token=gigph-") && text.ends_with("&scope=repo&token_type=bearer"),
        "{text}"
    );
    for path in [
        "/token/error",
        "/token/pending",
        "/token/page",
        "/token/empty",
    ] {
        let answer = world.send("auth.test", "http/1.1", post(path, "a=b")).await;
        assert!(
            answer.header("proxy-status").is_empty(),
            "{path}: {answer:?}"
        );
    }
    let pending = world
        .send("auth.test", "http/1.1", post("/token/pending", "a=b"))
        .await;
    assert_eq!(pending.json()["error"], "authorization_pending");
}

#[tokio::test]
async fn tokens_in_header_fields_and_named_cookies_get_sentinels() {
    for alpn in ["http/1.1", "h2"] {
        let world = World::new(alpn).await;
        for (path, field) in [
            ("/token/subject", "x-subject-token"),
            ("/token/bearer", "authorization"),
            ("/token/cookie", "set-cookie"),
        ] {
            let answer = world.send("auth.test", alpn, post(path, "a=b")).await;
            let text = format!("{answer:?}");
            assert!(!text.contains("r3al"), "{alpn} {path}: {text}");
            let shown = answer.header(field);
            let token = shown
                .split([' ', '=', ';'])
                .find(|word| word.starts_with("gigph-"));
            let token = token.unwrap_or_else(|| panic!("{text}"));
            world.send("api.test", alpn, bearing(token)).await;
            let seen = world.api.seen.requests().pop().unwrap();
            assert_eq!(seen.header("authorization"), format!("Bearer {ACCESS}"));
        }
        let changes = world.lab.until_records(Event::SecretChange, 3).await;
        let told = &changes[2].entry.findings[0];
        assert_eq!(&**told, "access_token captured as LOGIN, lives 60 s");
        world.assert_nothing_recorded();
    }
}

#[tokio::test]
async fn an_answer_too_short_to_hold_a_token_is_no_failure() {
    let world = World::new("http/1.1").await;
    for (path, body) in [
        ("revoked", "{\"revoked\":true}"),
        ("ok", "OK"),
        ("none", ""),
        ("empty", ""),
    ] {
        let path = format!("/token/{path}");
        let answer = world
            .send("auth.test", "http/1.1", post(&path, "token=x"))
            .await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        assert_eq!(answer.body, body, "{path}");
    }
    let ended = world.lab.until_records(Event::Response, 4).await;
    assert!(
        ended.iter().all(|record| record.entry.reason.is_none()),
        "{ended:#?}"
    );
    assert!(world.lab.records(Event::SecretChange).is_empty());
}

#[tokio::test]
async fn a_refresh_token_goes_back_to_its_endpoint_and_nowhere_else() {
    for alpn in ["http/1.1", "h2"] {
        let world = World::new(alpn).await;
        let answer = world
            .send("auth.test", alpn, post("/token/json", "a=b"))
            .await;
        let refresh = answer.json()["refresh_token"].as_str().unwrap().to_owned();
        let form = format!("grant_type=refresh_token&refresh_token={refresh}");
        let answer = world
            .send("auth.test", alpn, post("/token/refresh", &form))
            .await;
        let json = answer.json();
        for name in ["access_token", "refresh_token"] {
            let token = json[name].as_str().unwrap();
            assert!(token.starts_with("gigph-") && token != refresh, "{json}");
        }
        let named = world.lab.until_records(Event::Response, 2).await;
        let names: Vec<_> = named[1].entry.secrets.iter().map(|n| &**n).collect();
        assert_eq!(names, ["LOGIN_GRANT"], "{named:#?}");
        // Not in its header, not to the API that the access token is for, not to anybody else.
        for (host, request) in [
            ("auth.test", with_header("/token/json", &refresh)),
            ("api.test", bearing(&refresh)),
            ("api.test", post("/", &form)),
            ("other.test", post("/", &form)),
            ("auth.test", post("/other", &form)),
        ] {
            let before = world.auth.seen.requests().len() + world.api.seen.requests().len();
            let refused = world.send(host, alpn, request).await;
            assert_eq!(refused.json()["reason"], "secret_misuse", "{host}");
            let after = world.auth.seen.requests().len() + world.api.seen.requests().len();
            assert_eq!(before, after, "{host}");
        }
    }
}

fn with_header(path: &str, token: &str) -> Request<Body> {
    Request::get(path)
        .header("x-token", token)
        .body(empty())
        .unwrap()
}

#[tokio::test]
async fn an_answer_whose_tokens_cannot_be_kept_back_does_not_come_back() {
    for alpn in ["http/1.1", "h2"] {
        let world = World::new(alpn).await;
        for path in [
            "moved",
            "html",
            "elsewhere",
            "cut",
            "coded",
            "part",
            "broken",
            "long",
            "bomb",
        ] {
            let answer = world
                .send("auth.test", alpn, get(&format!("/token/{path}")))
                .await;
            assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{alpn} {path}");
            assert_eq!(answer.json()["reason"], "token_unreadable", "{alpn} {path}");
            assert!(!format!("{answer:?}").contains("r3al"), "{alpn} {path}");
        }
        let records = world.lab.until_records(Event::Response, 9).await;
        for record in records {
            assert_eq!(record.entry.reason, Some(DenyReason::TokenUnreadable));
        }
        assert!(world.lab.records(Event::SecretChange).is_empty());
        world.assert_nothing_recorded();
    }
}
