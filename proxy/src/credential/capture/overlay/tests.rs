//! Tokens that are held, expire, make room, and go with their sandbox.

use gig_policy::SandboxId;
use gig_vault::{Guarded, Keeper, SecretFuture, SecretUnavailable};

use super::*;
use crate::credential::{
    Border,
    misuse::{Bearer, HeadText, Matter, hidden::without_values, in_name},
};

/// Has nothing: all that is known here was captured.
#[derive(Debug, Default)]
struct NoKeeper(Arc<Guarded>);

impl Keeper for NoKeeper {
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

fn border() -> Arc<Border> {
    Border::new(Arc::new(NoKeeper::default()))
}

fn hold(wallet: &Wallet, token: &str, lives: Option<u64>) -> Arc<str> {
    let name: SecretName = "LOGIN".parse().unwrap();
    let held = wallet.hold_captured(&name, SecretBytes::from(token), lives);
    held.unwrap()
}

fn sandbox(number: u128) -> SandboxId {
    SandboxId::new(uuid::Uuid::from_u128(number))
}

/// How many real values gig looks for.
fn guarded(border: &Border) -> usize {
    border.captured().len()
}

#[tokio::test(start_paused = true)]
async fn a_token_is_forgotten_when_its_time_is_over() {
    let border = border();
    let wallet = border.wallet(sandbox(1));
    let short = hold(&wallet, "short-lived-token", Some(60));
    let long = hold(&wallet, "long-lived-token", None);
    assert!(short.starts_with("gigph-") && short != long);
    tokio::time::advance(Duration::from_secs(119)).await;
    wallet.forget_expired();
    assert_eq!((wallet.held().len(), guarded(&border)), (2, 2));
    // Given once more, it lives on, under the same sentinel.
    assert_eq!(hold(&wallet, "short-lived-token", Some(60)), short);
    tokio::time::advance(Duration::from_secs(119)).await;
    wallet.forget_expired();
    assert_eq!(wallet.held().len(), 2);
    tokio::time::advance(Duration::from_secs(2)).await;
    wallet.forget_expired();
    let held = wallet.held();
    assert_eq!((held.len(), &held[0].sentinel), (1, &long));
    assert_eq!(guarded(&border), 1);
    // A lifetime beyond all time is none.
    let _sentinel = hold(&wallet, "eternal-token-of-it", Some(u64::MAX - 60));
    wallet.forget_expired();
    assert_eq!(wallet.held().len(), 2);
    drop(wallet);
    assert_eq!(guarded(&border), 0);
    assert!(border.watch().is_empty());
}

#[tokio::test]
async fn the_oldest_tokens_make_room_in_number_and_size() {
    let border = border();
    let wallet = border.wallet(sandbox(1));
    let first = hold(&wallet, "token-number-0", None);
    for number in 1..=MOST {
        let _sentinel = hold(&wallet, &format!("token-number-{number}"), None);
    }
    let held = wallet.held();
    assert_eq!(held.len(), MOST);
    assert!(held.iter().all(|held| held.sentinel != first));
    for number in 0..20 {
        let _sentinel = hold(&wallet, &format!("{number:0>16000}"), None);
    }
    let octets = |held: &Held| held.captured.as_ref().unwrap().value.len();
    assert!(wallet.held().iter().map(octets).sum::<usize>() <= MOST_OCTETS);
}

#[tokio::test]
async fn a_long_token_is_known_by_its_pieces_and_stands_as_one_sentinel() {
    let border = border();
    let wallet = border.wallet(sandbox(1));
    for length in [2 * PIECE, 3 * PIECE - 1, 16_000] {
        let octet =
            |n: usize| char::from(b'!' + u8::try_from((n * n / 7 + n + length) % 90).unwrap());
        let token: String = (0..length).map(octet).collect();
        let shown = hold(&wallet, &token, None);
        assert!(shown.len() <= 2 * PIECE, "{}", shown.len());
        let longest = border
            .captured()
            .iter()
            .map(|value| value.value.len())
            .max();
        assert!(longest.unwrap() < 2 * PIECE);
        let grant = gig_policy::SecretGrant::everywhere("LOGIN".parse().unwrap());
        let scrub = wallet.scrub(&[grant]).unwrap();
        let mut found = std::collections::BTreeSet::new();
        let text = format!("before {token} after");
        let scrubbed = scrub.text(text.as_bytes(), &mut found).unwrap();
        assert_eq!(
            String::from_utf8(scrubbed).unwrap(),
            format!("before {shown} after")
        );
        let encoded = URL_SAFE_NO_PAD.encode(text);
        let scrubbed = scrub.text(encoded.as_bytes(), &mut found).unwrap();
        let plain = URL_SAFE_NO_PAD.decode(scrubbed).unwrap();
        assert_eq!(
            String::from_utf8(plain).unwrap(),
            format!("before {shown} after")
        );
        // A piece of it alone is no more of it either.
        let (_, piece) = token.split_at(PIECE);
        let scrubbed = scrub.text(piece.as_bytes(), &mut found).unwrap();
        assert!(scrubbed.len() < PIECE, "{}", scrubbed.len());
        let misuse = in_name(&border.watch(), sandbox(1), piece);
        assert!(misuse.is_some());
    }
    // What repeats itself is looked for once.
    let before = guarded(&border);
    let _sentinel = hold(&wallet, &"aaaaaaaa".repeat(2000), None);
    assert!(guarded(&border) - before <= 2);
}

#[tokio::test]
async fn a_signed_token_keeps_its_claims_and_no_signature() {
    let border = border();
    let wallet = border.wallet(sandbox(1));
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let open = format!(
        "{}.{}.",
        encode(r#"{"alg":"RS256"}"#),
        encode(r#"{"sub":"me"}"#)
    );
    let signature = "s1gnature_-".repeat(31);
    let shown = hold(&wallet, &format!("{open}{signature}"), None);
    let sentinel = shown
        .strip_prefix(open.as_str())
        .expect("header and claims");
    assert_eq!(sentinel.len(), signature.len());
    assert_ne!(sentinel, signature);
    assert_eq!(&*wallet.held()[0].sentinel, sentinel);
    // What only looks like one is kept back whole.
    for token in [
        format!("{}.{}.{}", encode("{}"), encode("{}"), signature),
        format!("{open}short"),
        format!("{open}{signature}.x"),
        format!("{}x.{signature}", open.replace('.', "")),
    ] {
        let shown = hold(&wallet, &token, None);
        let repeats = token
            .split('.')
            .any(|part| part.len() > 20 && shown.contains(part));
        assert!(!repeats, "{shown}");
    }
}

#[tokio::test]
async fn well_known_tokens_keep_their_look() {
    let border = border();
    let wallet = border.wallet(sandbox(1));
    let token = format!("gho_{}", "aB3dE6".repeat(6));
    let shown = hold(&wallet, &token, None);
    assert!(shown.starts_with("gho_") && shown.len() == token.len() && *shown != *token);
    // Another sandbox has another sentinel for it.
    let other = border.wallet(sandbox(2));
    assert_ne!(hold(&other, &token, None), shown);
}

#[tokio::test]
async fn what_a_login_calls_a_token_matters_to_no_other_sandbox() {
    let border = border();
    let (wallet, other) = (border.wallet(sandbox(1)), border.wallet(sandbox(2)));
    for word in ["api.github.com", "application/json", "gig-teams"] {
        drop(hold(&wallet, word, None));
    }
    let watch = border.watch();
    let judged = |by: SandboxId| {
        let mut headers = http::HeaderMap::new();
        headers.insert("accept", "application/json".parse().unwrap());
        let target = ("/repos/gig-teams/issues", Some("to=api.github.com"));
        let head = HeadText::of(&http::Method::GET, target, &headers);
        let bearer = Bearer {
            sandbox: by,
            granted: &[],
        };
        let mut refused = Vec::new();
        head.find(&watch, |found, place| {
            if bearer.judge(found, true) == Matter::Refused {
                refused.push(place);
            }
        });
        refused
    };
    assert_eq!(judged(other.sandbox()), Vec::<String>::new());
    assert_eq!(judged(wallet.sandbox()).len(), 3);
    let name = "api.github.com";
    assert_eq!(in_name(&watch, other.sandbox(), name), None);
    assert!(in_name(&watch, wallet.sandbox(), name).is_some());
    // Whose login it was may not write it into records; nobody's host is hidden.
    let path = |by| without_values(&watch, "/repos/gig-teams/issues", ('/', Some(by)));
    assert_eq!(path(other.sandbox()), None);
    assert_eq!(
        path(wallet.sandbox()).unwrap(),
        "/repos/[value of LOGIN]/issues"
    );
    assert_eq!(without_values(&watch, name, ('.', None)), None);
}
