//! Sentinels that are JSON Web Tokens (RFC 7519).
//!
//! What a program reads of its token before it sends it stands in the sentinel as well: how it is signed,
//! and the claims that are registered or that clients look at (RFC 7519 §4.1, RFC 9068 §2.2). None of them
//! opens anything; a claim that holds a value which is guarded itself stays out, as does whatever else the real one
//! claims. The signature is random, and the end is some weeks off: the value may be renewed or rotated meanwhile.
//!
//! Header and signature are each told from any other's by their first octets: of a long text a search looks for both
//! ends (`forms`), and neither may be the real one's or another sandbox's.

use aws_lc_rs::rand;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use gig_vault::{Clock as _, SystemClock};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::{MintSentinelError, Original};
use crate::credential::watch::{Found, What};

/// Signed by nobody: its signature and its number are random.
pub(super) fn mint(original: Option<Original<'_>>) -> Result<String, MintSentinelError> {
    let told = original.and_then(|original| Some((original, told(original)?)));
    if let Some((original, (header, claims))) = told {
        let text = written(&header, &claims)?;
        if !original.is_betrayed_by(text.as_bytes()) {
            return Ok(text);
        }
    }
    let (header, claims) = plain();
    written(&header, &claims)
}

fn written(
    header: &Map<String, Value>,
    claims: &Map<String, Value>,
) -> Result<String, MintSentinelError> {
    let mut random = [0; 66];
    rand::fill(&mut random).map_err(|_| MintSentinelError)?;
    let (signature, names) = random.split_at(32);
    let (id, own) = names.split_at(16);
    let header = beginning("gig", own, header)?;
    let claims = beginning("jti", id, claims)?;
    Ok(format!(
        "{}.{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims),
        URL_SAFE_NO_PAD.encode(signature)
    ))
}

impl Original<'_> {
    /// Whether a value of some secret stands in a text, in any form.
    fn is_betrayed_by(&self, text: &[u8]) -> bool {
        let mut holds = false;
        let is_value = |found: &Found| {
            found.concerns(self.sandbox) && !matches!(found.what, What::Sentinel(_))
        };
        let mut tell = |found: &Found| holds |= is_value(found);
        self.watch.find_escaped(text, &mut tell);
        self.watch.find_split(text, &mut tell);
        holds
    }
}

/// The text of an object with one random member more, which comes first.
fn beginning(
    name: &str,
    random: &[u8],
    of: &Map<String, Value>,
) -> Result<String, MintSentinelError> {
    let text = serde_json::to_string(of).map_err(|_| MintSentinelError)?;
    let rest = text.strip_prefix('{').unwrap_or_default();
    let comma = if of.is_empty() { "" } else { "," };
    let random = URL_SAFE_NO_PAD.encode(random);
    Ok(format!("{{\"{name}\":\"{random}\"{comma}{rest}"))
}

/// Of what says nothing itself.
fn plain() -> (Map<String, Value>, Map<String, Value>) {
    let told =
        |members: [(&str, &str); 2]| members.map(|(name, word)| (name.to_owned(), json!(word)));
    (
        told([("alg", "HS256"), ("typ", "JWT")])
            .into_iter()
            .collect(),
        told([("iss", "gig"), ("sub", "sentinel")])
            .into_iter()
            .collect(),
    )
}

/// Header and claims of the real one that a program may read; `None` where it says none.
fn told(original: Original<'_>) -> Option<(Map<String, Value>, Map<String, Value>)> {
    let text = std::str::from_utf8(original.value.expose()).ok()?;
    let mut parts = text.trim().split('.');
    let mut next = || {
        let octets = Zeroizing::new(URL_SAFE_NO_PAD.decode(parts.next()?).ok()?);
        serde_json::from_slice::<Map<String, Value>>(&octets).ok()
    };
    let (header, claims) = (next()?, next()?);
    let header = some(&header, (&HEADER, HEADER_ROOM), original);
    let mut claims = some(&claims, (&CLAIMS, CLAIMS_ROOM), original);
    if let Some(end) = claims.get_mut("exp") {
        let least = SystemClock.now().as_second() + LEAST;
        if end.as_f64().is_none_or(|end| end < least as f64) {
            *end = json!(least);
        }
    }
    (header.contains_key("alg") && !claims.is_empty()).then_some((header, claims))
}

/// The members of these names whose values are words, numbers, or lists of them, as many as there is room for; none
/// of them in which a value of some secret stands.
fn some(
    of: &Map<String, Value>,
    (names, room): (&[&str], usize),
    original: Original<'_>,
) -> Map<String, Value> {
    let plain = |value: &Value| match value {
        Value::String(text) => !original.is_betrayed_by(text.as_bytes()),
        Value::Number(number) => !original.is_betrayed_by(number.to_string().as_bytes()),
        Value::Bool(_) => true,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    let mut left = room;
    let found = names.iter().filter_map(|name| {
        let value = of.get(*name).filter(|value| match value {
            Value::Array(items) => items.iter().all(plain),
            value => plain(value),
        })?;
        let length = name.len() + value.to_string().len() + "\"\":,".len();
        left = left.checked_sub(length)?;
        Some(((*name).to_owned(), value.clone()))
    });
    found.collect()
}

const HEADER: [&str; 3] = ["alg", "kid", "typ"];
/// What is checked most often comes first.
const CLAIMS: [&str; 16] = [
    "exp",
    "nbf",
    "iat",
    "iss",
    "aud",
    "sub",
    "role",
    "scope",
    "azp",
    "client_id",
    "token_use",
    "ver",
    "scp",
    "roles",
    "appid",
    "auth_time",
];
/// Octets of each: a sentinel is looked for in every body, in all its forms.
const HEADER_ROOM: usize = 128;
const CLAIMS_ROOM: usize = 384;
/// Seconds that a sentinel is good for at least, whatever its first value is. Timers of JavaScript hold 24 days.
const LEAST: i64 = 20 * 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gig_policy::SandboxId;
    use gig_vault::{Guarded, GuardedValue, SecretBytes};

    use super::*;
    use crate::credential::{
        forms::forms,
        watch::{CapturedToken, Watch},
    };

    const SANDBOX: SandboxId = SandboxId::new(uuid::Uuid::from_u128(1));

    const HS256: &str = r#"{"alg":"HS256","kid":"k1","typ":"JWT","x5c":["certificate"]}"#;

    fn token(header: &str, claims: &str) -> SecretBytes {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let text = format!("{}.{}.c2lnbmF0dXJl", part(header), part(claims));
        SecretBytes::new(text.into_bytes())
    }

    /// What is looked for where these are the values of secrets.
    fn watching(values: &[&[u8]]) -> Watch {
        let values = values.iter().map(|value| GuardedValue {
            name: "OTHER".parse().unwrap(),
            version: 1,
            part: Some(0),
            value: Arc::new(SecretBytes::copy_of(value)),
            current: true,
        });
        let guarded = Guarded {
            generation: 1,
            values: values.collect(),
        };
        Watch::new([], &guarded)
    }

    fn original<'a>(value: &'a SecretBytes, watch: &'a Watch) -> Original<'a> {
        Original {
            value,
            watch,
            sandbox: SANDBOX,
        }
    }

    fn holds_value(watch: &Watch, text: &[u8]) -> bool {
        original(&SecretBytes::new(Vec::new()), watch).is_betrayed_by(text)
    }

    fn minted(value: &SecretBytes, watch: &Watch) -> (String, Value, Value) {
        let text = mint(Some(original(value, watch))).unwrap();
        let parts: Vec<_> = text
            .split('.')
            .map(|part| URL_SAFE_NO_PAD.decode(part).unwrap())
            .collect();
        assert!(parts.len() == 3 && parts[2].len() == 32);
        let json = |part: &[u8]| serde_json::from_slice(part).unwrap();
        let (header, claims) = (json(&parts[0]), json(&parts[1]));
        (text, header, claims)
    }

    #[test]
    fn a_sentinel_says_what_clients_check_and_nothing_else() {
        let value = token(
            HS256,
            r#"{"iss":"https://a.test","sub":"u1","aud":["api","web"],"exp":4102444800,"role":"anon","jti":"n1","email":"ana@a.test","deep":{"iss":"x"}}"#,
        );
        let (text, mut header, mut claims) = minted(&value, &watching(&[]));
        let own = |of: &mut Value, name: &str| of.as_object_mut().unwrap().remove(name).unwrap();
        assert!(
            own(&mut header, "gig")
                .as_str()
                .is_some_and(|own| own.len() == 24)
        );
        assert!(
            own(&mut claims, "jti")
                .as_str()
                .is_some_and(|id| id.len() == 22)
        );
        assert_eq!(header, json!({"alg": "HS256", "kid": "k1", "typ": "JWT"}));
        assert_eq!(
            claims,
            json!({"iss": "https://a.test", "sub": "u1", "aud": ["api", "web"], "exp": 4_102_444_800_u64, "role": "anon"})
        );
        assert!(!text.contains("c2lnbmF0dXJl"));
    }

    #[test]
    fn a_sentinel_does_not_end_with_its_first_value() {
        let now = SystemClock.now().as_second();
        for claims in [r#"{"sub":"u1","exp":1000}"#, r#"{"sub":"u1","exp":"soon"}"#] {
            let (_, _, claims) = minted(&token(HS256, claims), &watching(&[]));
            let left = claims["exp"].as_i64().unwrap() - now;
            assert!((19 * 86_400..=20 * 86_400 + 60).contains(&left), "{left}");
        }
        let endless = token(HS256, r#"{"sub":"u1"}"#);
        assert!(minted(&endless, &watching(&[])).2.get("exp").is_none());
    }

    #[test]
    fn no_sentinel_tells_the_value_of_another_secret() {
        let claims = r#"{"azp":"c1ient-id-Of-It","sub":"x c1ient-id-Of-It","aud":["a","C1IENT-ID-of-it"],"iat":1234567890123456,"iss":"i"}"#;
        let value = token(HS256, claims);
        let (.., all) = minted(&value, &watching(&[]));
        assert_eq!(all["azp"], "c1ient-id-Of-It");
        let watch = watching(&[b"c1ient-id-Of-It", b"1234567890123456"]);
        let (text, _, claims) = minted(&value, &watch);
        assert!(!holds_value(&watch, text.as_bytes()));
        let names: Vec<_> = claims.as_object().unwrap().keys().collect();
        assert_eq!(names, ["iss", "jti"]);
        // What two claims hold together by chance.
        let watch = watching(&[br#""azp":"c1ient-id-Of-It""#]);
        assert_eq!(minted(&value, &watch).2["iss"], "gig");
    }

    #[test]
    fn a_token_of_another_sandboxs_login_takes_no_claim_away() {
        let claims = r#"{"iss":"https://issuer.test","sub":"u1","scope":"read:all"}"#;
        let value = token(HS256, claims);
        let told = |owner: u128| {
            let token = CapturedToken {
                sandbox: SandboxId::new(uuid::Uuid::from_u128(owner)),
                name: "login".parse().unwrap(),
                value: Arc::new(SecretBytes::copy_of(b"https://issuer.test")),
            };
            let guarded = Guarded {
                generation: 1,
                values: Vec::new(),
            };
            let watch = Watch::with_tokens(&[], &guarded, &[token]);
            let (.., claims) = minted(&value, &watch);
            (claims["iss"].clone(), claims["sub"].clone())
        };
        assert_eq!(told(2), (json!("https://issuer.test"), json!("u1")));
        assert_eq!(told(1), (Value::Null, json!("u1")));
    }

    #[test]
    fn what_is_no_token_gets_a_plain_one() {
        for value in [
            SecretBytes::new(b"no token".to_vec()),
            SecretBytes::new(vec![0xff, b'.', b'.']),
            token(r#"{"typ":"JWT"}"#, r#"{"sub":"u1"}"#),
            token(HS256, r#"{"email":"ana@a.test"}"#),
            token(HS256, r#"["sub"]"#),
        ] {
            let (_, header, claims) = minted(&value, &watching(&[]));
            assert_eq!(
                (&header["alg"], &header["typ"]),
                (&json!("HS256"), &json!("JWT"))
            );
            assert_eq!(
                (&claims["iss"], &claims["sub"]),
                (&json!("gig"), &json!("sentinel"))
            );
        }
    }

    #[test]
    fn nothing_of_a_sentinel_is_looked_for_as_a_piece_of_another() {
        let kid = "k".repeat(200);
        let header = json!({"alg": "RS256", "kid": kid, "typ": "JWT"}).to_string();
        let claims =
            json!({"exp": 1, "iss": "i".repeat(200), "roles": ["r".repeat(600)], "sub": "u1"});
        let value = token(&header, &claims.to_string());
        let ((one, _, told), (other, ..)) = (
            minted(&value, &watching(&[])),
            minted(&value, &watching(&[])),
        );
        // What there is no room for is left out, and what fits after it is not.
        assert!(told.get("roles").is_none() && told["sub"] == "u1", "{told}");
        assert!(one.len() < 1000, "{}", one.len());
        let watch = watching(&[value.expose(), other.as_bytes()]);
        for (form, octets) in forms(one.as_bytes()) {
            assert!(!holds_value(&watch, &octets), "{form:?}");
        }
        assert!(!holds_value(&watch, one.as_bytes()));
        assert!(holds_value(&watch, other.as_bytes()));
    }
}
