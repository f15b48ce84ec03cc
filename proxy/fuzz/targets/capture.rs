//! The answer of a token endpoint: taken apart or refused, and no token that was kept back comes out.
//!
//! The first octet says which answer it is (status, media type, coding), the second how it is cut; octets
//! below 16 of the rest stand for what such answers are made of.

use std::sync::Arc;

use gig_policy::{SandboxId, SecretGrant, SecretName};
use gig_proxy::credential::{Border, Wallet, capture::Capture, tally::Tally};
use gig_vault::{Guarded, Keeper, Secret, SecretFuture, SecretUnavailable};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::secrets::{VALUE, pieces};

/// Keeps nothing: all that is known was captured.
#[derive(Debug, Default)]
struct Nobody(Arc<Guarded>);

impl Keeper for Nobody {
    fn at_hand(&self, _: &SecretName) -> Option<Arc<Secret>> {
        None
    }

    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a> {
        let name = name.clone();
        Box::pin(async { Err(SecretUnavailable::Unknown { name }) })
    }

    fn guarded(&self) -> Arc<Guarded> {
        Arc::clone(&self.0)
    }
}

/// Reads one answer.
pub fn run(data: &[u8]) {
    let [how, cut, rest @ ..] = data else { return };
    let name: SecretName = "LOGIN".parse().expect("a name");
    let wallet = Border::new(Arc::new(Nobody::default())).wallet(SandboxId::new(uuid::Uuid::nil()));
    let from = ["cookie:sid", "header:x-own"].map(|place| place.parse().expect("a place"));
    let grant = SecretGrant {
        places: Some(from.into()),
        ..SecretGrant::capturing(name)
    };
    let capture = Capture::of(&wallet, &[grant], &Arc::<Tally>::default()).expect("it captures");
    let body = written(rest);
    let (status, mut headers) = head(*how, &body);
    let Ok(mut gathering) = capture.begin(status, &headers) else {
        return;
    };
    for piece in pieces(&body, &[*cut; 8]) {
        if gathering.push(piece).is_err() {
            return;
        }
    }
    let Ok(taken) = capture.take(status, &mut headers, gathering) else {
        return;
    };
    // What was kept back is nowhere in what the program sees.
    for token in kept(&wallet) {
        assert!(
            !holds(&taken.body, &token),
            "{}",
            String::from_utf8_lossy(&taken.body)
        );
        let shown = headers
            .values()
            .any(|value| holds(value.as_bytes(), &token));
        assert!(!shown, "{headers:?}");
    }
    assert_eq!(taken.findings.is_empty(), wallet.held().is_empty());
    // What the program gets is taken apart once more without being a token for anybody else.
    if status.is_success() && !taken.findings.is_empty() && headers.contains_key("content-length") {
        let length = headers["content-length"].to_str().expect("digits");
        assert_eq!(length, taken.body.len().to_string());
    }
}

/// Tokens that are long enough to be looked for.
fn kept(wallet: &Wallet) -> Vec<Vec<u8>> {
    let held = wallet.held();
    let captured = held.iter().filter_map(|held| held.captured.as_ref());
    let tokens = captured.map(|captured| captured.value.expose().to_vec());
    tokens
        .filter(|token| token.len() >= 8 && !token.iter().any(u8::is_ascii_whitespace))
        .collect()
}

fn head(how: u8, body: &[u8]) -> (StatusCode, HeaderMap) {
    let status = [
        StatusCode::OK,
        StatusCode::CREATED,
        StatusCode::BAD_REQUEST,
        StatusCode::FOUND,
    ];
    let media = [
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
        "text/html",
    ];
    let at = |shift: u8| usize::from(how >> shift & 3);
    let mut headers = HeaderMap::new();
    let mut add = |name: &'static str, value: &[u8]| {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    };
    add("content-type", media[at(2)].as_bytes());
    let line = body
        .split(|octet| *octet == b'\n')
        .next()
        .unwrap_or_default();
    match at(4) {
        1 => add("set-cookie", &[b"sid=", line].concat()),
        2 => add("x-auth-token", line),
        3 => add("location", line),
        _ => {}
    }
    if how >> 6 == 3 {
        add("content-encoding", b"gzip");
    }
    (status[at(0)], headers)
}

/// The octets of an input with the words of token answers in them.
fn written(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for octet in data {
        match octet {
            0 => out.extend_from_slice(b"\"access_token\":\""),
            1 => out.extend_from_slice(b"\"refreshToken\" : \""),
            2 => out.extend_from_slice(b"access_token="),
            3 => out.extend_from_slice(b"&id_token="),
            4 => out.extend_from_slice(b"\"expires_in\":\"60\","),
            5 => out.extend_from_slice(b"\"error\":"),
            6 => out.extend_from_slice(b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZSJ9."),
            7 => out.extend_from_slice(b"\\u0061"),
            8 => out.extend_from_slice(b"%2561"),
            9 => out.extend_from_slice("x".repeat(300).as_bytes()),
            11 => out.extend_from_slice(b"\",\"note\":\""),
            12 => out.extend_from_slice(b"{\""),
            14 => out.extend_from_slice(b"; Max-Age=60"),
            15 => out.extend_from_slice(b"\"}"),
            10 | 13 => out.push(*octet),
            b'~' => out.extend_from_slice(VALUE.as_bytes()),
            _ => out.push(*octet),
        }
    }
    out
}

fn holds(text: &[u8], token: &[u8]) -> bool {
    text.windows(token.len()).any(|here| here == token)
}
