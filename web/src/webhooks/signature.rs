//! Signatures of webhooks: gig's own (Standard Webhooks 1.0) and Slack's (`v0`), made and checked.
//!
//! Each is an HMAC-SHA256 over a moment and the body. What comes in is compared in a time that tells
//! nothing and holds for five minutes around now; that it is heard once is the store's.

use std::fmt;

use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use zeroize::Zeroizing;

use crate::{credential::Digest, store::WebhookKind};

/// What signs for one webhook.
pub(crate) struct Key(hmac::Key);

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefused {
    /// Not as Standard Webhooks has it.
    #[error(
        "its secret is not whsec_ and 24 to 64 octets in base64: openssl rand -base64 32 makes them"
    )]
    Standard,
    /// Not as Slack has it.
    #[error("its secret is not Slack's signing secret, of 16 letters and digits or more")]
    Slack,
}

/// What came in has no signature, a wrong one, or one of another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsigned;

impl Key {
    /// From the text of a secret.
    pub(crate) fn read(kind: WebhookKind, text: &str) -> Result<Self, KeyRefused> {
        let octets = match kind {
            WebhookKind::Generic => {
                let coded = text.strip_prefix("whsec_").ok_or(KeyRefused::Standard)?;
                let octets = BASE64_STANDARD.decode(coded);
                let octets = Zeroizing::new(octets.map_err(|_| KeyRefused::Standard)?);
                // As the specification bounds it.
                if !(24..=64).contains(&octets.len()) {
                    return Err(KeyRefused::Standard);
                }
                octets
            }
            WebhookKind::Slack => {
                let plain = text.bytes().all(|octet| octet.is_ascii_alphanumeric());
                if text.len() < 16 || !plain {
                    return Err(KeyRefused::Slack);
                }
                Zeroizing::new(text.as_bytes().to_vec())
            }
        };
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &octets)))
    }

    /// The field `webhook-signature` of a message.
    pub(crate) fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> String {
        let signed = standard(id, at.as_second(), body);
        let tag = hmac::sign(&self.0, &signed);
        format!("v1,{}", BASE64_STANDARD.encode(tag.as_ref()))
    }

    /// What proves what came in: the signature's octets.
    ///
    /// # Errors
    /// [`Unsigned`].
    pub(crate) fn check(
        &self,
        kind: WebhookKind,
        (headers, body): (&HeaderMap, &[u8]),
        now: Timestamp,
    ) -> Result<Vec<u8>, Unsigned> {
        match kind {
            WebhookKind::Generic => self.check_standard(headers, body, now),
            WebhookKind::Slack => self.check_slack(headers, body, now),
        }
        .ok_or(Unsigned)
    }

    fn check_standard(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Option<Vec<u8>> {
        let id = one(headers, "webhook-id")?;
        let at = moment(one(headers, "webhook-timestamp")?, now)?;
        let signed = standard(id, at, body);
        // Several, while a sender changes keys.
        let signatures = one(headers, "webhook-signature")?
            .split(' ')
            .take(MOST_SIGNATURES);
        let mut known = signatures
            .filter_map(|one| one.strip_prefix("v1,"))
            .filter_map(|coded| BASE64_STANDARD.decode(coded).ok());
        known.find(|tag| hmac::verify(&self.0, &signed, tag).is_ok())
    }

    fn check_slack(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Option<Vec<u8>> {
        let at = moment(one(headers, "x-slack-request-timestamp")?, now)?;
        let coded = one(headers, "x-slack-signature")?.strip_prefix("v0=")?;
        let tag = hexadecimal(coded)?;
        let signed = [format!("v0:{at}:").as_bytes(), body].concat();
        hmac::verify(&self.0, &signed, &tag).ok()?;
        Some(tag)
    }
}

/// The key shows nothing of itself.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// What is kept of a webhook's signature that was found right, and until when it is: one from the farthest future that
/// is taken is good for twice as long.
pub(crate) fn noted(webhook: &str, tag: &[u8], now: Timestamp) -> (Digest, Timestamp) {
    let mut octets = webhook.len().to_be_bytes().to_vec();
    octets.extend_from_slice(webhook.as_bytes());
    octets.extend_from_slice(tag);
    let until = now.saturating_add(SignedDuration::from_secs(2 * WINDOW + 1));
    (Digest::of_octets(&octets), until.unwrap_or(now))
}

fn standard(id: &str, at: i64, body: &[u8]) -> Vec<u8> {
    [format!("{id}.{at}.").as_bytes(), body].concat()
}

/// A field that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    (values.next().is_none() && value.len() <= LONGEST_FIELD).then_some(value)
}

/// Seconds since 1970, near enough.
fn moment(text: &str, now: Timestamp) -> Option<i64> {
    let plain = text.bytes().all(|octet| octet.is_ascii_digit());
    let at: i64 = text.parse().ok().filter(|_| plain)?;
    (at.abs_diff(now.as_second()) <= WINDOW.unsigned_abs()).then_some(at)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |octet: &u8| char::from(*octet).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

/// In seconds: what both schemes advise against replays.
const WINDOW: i64 = 300;
const MOST_SIGNATURES: usize = 8;
const LONGEST_FIELD: usize = 1024;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const STANDARD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SLACK: &str = "8f742231b10e8888abcd99yyyzzz85a5";

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let fields = fields.iter();
        fields
            .map(|(name, value)| {
                (
                    (*name).try_into().unwrap(),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn the_examples_of_both_specifications_hold() {
        // standard-webhooks/spec, "Signature scheme" of its libraries' tests.
        let key = Key::read(WebhookKind::Generic, STANDARD).unwrap();
        let (at, body) = (
            Timestamp::from_second(1_614_265_330).unwrap(),
            br#"{"test": 2432232314}"#,
        );
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", at, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        // Slack's "Verifying requests from Slack".
        let key = Key::read(WebhookKind::Slack, SLACK).unwrap();
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let sent = headers(&[
            ("x-slack-request-timestamp", "1531420618"),
            (
                "x-slack-signature",
                "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            ),
        ]);
        let now = Timestamp::from_second(1_531_420_618 + 300).unwrap();
        assert!(key.check(WebhookKind::Slack, (&sent, body), now).is_ok());
        for late in [301, -301] {
            let now = Timestamp::from_second(1_531_420_618 + late).unwrap();
            let refused = key.check(WebhookKind::Slack, (&sent, body), now);
            assert_eq!(refused, Err(Unsigned), "{late}");
        }
        let refused = key.check(WebhookKind::Slack, (&sent, b"token=other"), now);
        assert_eq!(refused, Err(Unsigned));
    }

    #[test]
    fn what_is_signed_is_heard_and_what_is_not_never() {
        let key = Key::read(WebhookKind::Generic, STANDARD).unwrap();
        let now = Timestamp::from_second(1_000_000).unwrap();
        let signature = key.sign("a", now, b"body");
        let sent = |id: &str, at: &str, signature: &str| {
            headers(&[
                ("webhook-id", id),
                ("webhook-timestamp", at),
                ("webhook-signature", signature),
            ])
        };
        let check = |headers: &HeaderMap, body: &[u8]| {
            key.check(WebhookKind::Generic, (headers, body), now)
        };
        let tag = check(&sent("a", "1000000", &signature), b"body").unwrap();
        let both = format!("v1,AAAA v1a,x {signature}");
        assert_eq!(
            check(&sent("a", "1000000", &both), b"body"),
            Ok(tag.clone())
        );
        for (id, at, signature, body) in [
            ("b", "1000000", signature.as_str(), "body"),
            ("a", "1000001", &signature, "body"),
            ("a", "+1000000", &signature, "body"),
            ("a", "1000000", &signature, "other"),
            ("a", "1000000", "v1,", "body"),
            ("a", "1000000", "", "body"),
        ] {
            let refused = check(&sent(id, at, signature), body.as_bytes());
            assert_eq!(refused, Err(Unsigned), "{id} {at} {signature} {body}");
        }
        let mut twice = sent("a", "1000000", &signature);
        twice.append("webhook-id", HeaderValue::from_static("a"));
        assert_eq!(check(&twice, b"body"), Err(Unsigned));
        let (kept, until) = noted("ops", &tag, now);
        assert_eq!(until, now + SignedDuration::from_secs(601));
        assert!(kept.is(&noted("ops", &tag, until).0));
        let others = [noted("other", &tag, now), noted("op", b"s", now)];
        assert!(others.iter().all(|(other, _)| !kept.is(other)));
    }

    #[test]
    fn a_weak_or_foreign_secret_is_no_key() {
        for (kind, text) in [
            (WebhookKind::Generic, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            (WebhookKind::Generic, "whsec_c2hvcnQ="),
            (WebhookKind::Generic, "whsec_?"),
            (WebhookKind::Slack, ""),
            (WebhookKind::Slack, "8f742231b10e888"),
            (WebhookKind::Slack, "8f742231b10e8888 abcd99"),
        ] {
            assert!(Key::read(kind, text).is_err(), "{text}");
        }
        let key = Key::read(WebhookKind::Slack, SLACK).unwrap();
        assert_eq!(format!("{key:?}"), "Key(…)");
    }
}
