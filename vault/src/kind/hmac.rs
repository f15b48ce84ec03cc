//! `hmac`: requests are signed by the border with a shared key, as a template says.
//!
//! The stored value is the key, or its text in `key_encoding`. The border signs every request to which
//! policy grants the secret; a field of the same name that the program sent is replaced. `NAME` holds a
//! sentinel for the key, for a program that insists on computing something.
//!
//! ```yaml
//! kind:
//!   hmac:
//!     message: "{timestamp}.{body}"
//!     header: Webhook-Signature
//!     value: "t={timestamp},v1={signature}"
//! ```

use std::sync::Arc;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use gig_policy::http_match::is_token;
use serde::{Deserialize, Serialize};

use super::{Kind, MintFuture, MintRequest, Minted, UnusableValueError};
use crate::{
    secret::{Part, Treatment},
    secret_bytes::SecretBytes,
};

mod template;

pub use template::{Piece, Template, TemplateError};

/// Its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HmacDefinition {
    /// The hash.
    #[serde(default)]
    pub algorithm: HmacAlgorithm,
    /// How the stored value spells the key.
    #[serde(default)]
    pub key_encoding: KeyEncoding,
    /// What is signed: text with `{method}`, `{scheme}`, `{host}`, `{path}`, `{query}`, `{target}`,
    /// `{body}`, `{body_sha256}`, `{timestamp}`, `{timestamp_ms}`, `{nonce}`, `{header:NAME}`; `{{` and
    /// `}}` for braces.
    pub message: Template,
    /// How the signature is written.
    #[serde(default)]
    pub encoding: SignatureEncoding,
    /// The field that carries it.
    pub header: String,
    /// The field's value, where `{signature}` stands for it.
    #[serde(default = "signature_alone")]
    pub value: Template,
    /// More fields, such as a timestamp of its own; their values know `{signature}` too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldDefinition>,
    /// Octets of body that are held while they are signed; a longer body is refused.
    #[serde(default = "largest_body")]
    pub largest_body: usize,
}

/// One more field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldDefinition {
    /// Its name.
    pub header: String,
    /// Its value.
    pub value: Template,
}

/// The hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HmacAlgorithm {
    /// SHA-1: some services still want it.
    Sha1,
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-512.
    Sha512,
}

/// How the stored value spells the key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyEncoding {
    /// It is the key.
    #[default]
    Raw,
    /// In hexadecimal digits.
    Hex,
    /// In base64.
    Base64,
}

/// How a signature is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureEncoding {
    /// Lower-case hexadecimal digits.
    #[default]
    Hex,
    /// Base64 (RFC 4648 §4).
    Base64,
    /// Base64url without padding (RFC 4648 §5).
    Base64url,
}

impl SignatureEncoding {
    /// Writes `octets`.
    #[must_use]
    pub fn write(self, octets: &[u8]) -> String {
        match self {
            Self::Hex => octets.iter().map(|octet| format!("{octet:02x}")).collect(),
            Self::Base64 => STANDARD.encode(octets),
            Self::Base64url => URL_SAFE_NO_PAD.encode(octets),
        }
    }
}

impl HmacDefinition {
    /// The key that `value` spells; `None` when it spells none.
    #[must_use]
    pub fn key(&self, value: &SecretBytes) -> Option<SecretBytes> {
        let text = value.expose();
        let key = match self.key_encoding {
            KeyEncoding::Raw => value.duplicate(),
            KeyEncoding::Hex => SecretBytes::new(unhex(text.trim_ascii())?),
            KeyEncoding::Base64 => SecretBytes::new(STANDARD.decode(text.trim_ascii()).ok()?),
        };
        (!key.is_empty()).then_some(key)
    }

    /// What is wrong with it; asked before it is stored.
    ///
    /// # Errors
    /// With a sentence for a person.
    pub fn check(&self) -> Result<(), &'static str> {
        let more = self
            .fields
            .iter()
            .map(|field| (&field.header, &field.value));
        let all = || std::iter::once((&self.header, &self.value)).chain(more.clone());
        if all().any(|(name, _)| !may_be_signed_into(name)) {
            return Err(
                "has a definition that writes a field which is none, or which frames or directs a request (Host, \
                 Content-Length, Transfer-Encoding and others)",
            );
        }
        let holds = |(_, value): (_, &Template)| value.pieces().contains(&Piece::Signature);
        match all().any(holds) {
            true => Ok(()),
            false => Err("has a definition none of whose fields holds {signature}"),
        }
    }

    /// Whether the message holds something of the body.
    #[must_use]
    pub fn signs_body(&self) -> bool {
        let of_body = |piece: &Piece| matches!(piece, Piece::Body | Piece::BodySha256);
        let more = self.fields.iter().map(|field| &field.value);
        let mut templates = [&self.message, &self.value].into_iter().chain(more);
        templates.any(|template| template.pieces().iter().any(of_body))
    }
}

/// Whether a definition may name this field: a token (RFC 9110 §5.1) that does not say where a message ends, how it is
/// coded or for whom it is (RFC 9110, RFC 9112).
#[must_use]
pub fn may_be_signed_into(name: &str) -> bool {
    let frames = FRAMING.iter().any(|one| one.eq_ignore_ascii_case(name));
    is_token(name) && !frames
}

const FRAMING: [&str; 10] = [
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The kind.
#[derive(Debug, Clone)]
pub struct Hmac(pub HmacDefinition);

impl Kind for Hmac {
    fn name(&self) -> &'static str {
        "hmac"
    }

    fn watched_parts(&self, value: &SecretBytes) -> Vec<(Option<usize>, SecretBytes)> {
        let written = SecretBytes::copy_of(value.expose().trim_ascii());
        let key = self.0.key(value).filter(|key| *key != written);
        let all = std::iter::once(written).chain(key);
        all.map(|part| (None, part)).collect()
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        let spelled = match self.0.key_encoding {
            KeyEncoding::Raw => "it has to be the key",
            KeyEncoding::Hex => "it has to be the key in hexadecimal digits",
            KeyEncoding::Base64 => "it has to be the key in base64",
        };
        let key = self.0.key(value);
        key.map(drop).ok_or_else(|| UnusableValueError {
            kind: self.name(),
            expected: spelled.to_owned(),
        })
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            self.check(request.value)?;
            Ok(Minted {
                parts: vec![Part {
                    variable: Arc::clone(request.name.shared()),
                    value: request.value.duplicate(),
                    shape: request.shape.cloned().unwrap_or_default(),
                }],
                treatment: Treatment::Hmac(Arc::new(self.0.clone())),
                expires: None,
                replacement: None,
            })
        })
    }
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |c: &u8| {
        char::from(*c)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let pairs = text.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

fn signature_alone() -> Template {
    Template::signature()
}

/// Signed bodies are small documents; a larger bound can be asked for.
fn largest_body() -> usize {
    1 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(yaml: &str) -> HmacDefinition {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn a_key_is_read_as_it_is_spelled() {
        let mut hmac = definition("{message: '{body}', header: X-Signature}");
        let key = |hmac: &HmacDefinition, text: &str| {
            hmac.key(&text.into()).map(|key| key.expose().to_vec())
        };
        assert_eq!(key(&hmac, "It's a Secret").unwrap(), b"It's a Secret");
        hmac.key_encoding = KeyEncoding::Hex;
        assert_eq!(key(&hmac, "00ffA1\n").unwrap(), [0, 255, 0xa1]);
        assert_eq!(key(&hmac, "0"), None);
        assert_eq!(key(&hmac, "zz"), None);
        hmac.key_encoding = KeyEncoding::Base64;
        assert_eq!(key(&hmac, "AP8=").unwrap(), [0, 255]);
        assert_eq!(key(&hmac, ""), None);
    }

    #[test]
    fn a_definition_that_can_sign_nothing_is_not_stored() {
        for good in [
            "{message: '{body}', header: X-Signature}",
            "{message: m, header: X-Time, value: '{timestamp}', fields: [{header: S, value: '{signature}'}]}",
        ] {
            assert_eq!(definition(good).check(), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("{message: '{body}', header: Host}", "frames or directs"),
            (
                "{message: '{body}', header: content-Length}",
                "frames or directs",
            ),
            ("{message: '{body}', header: 'X Y'}", "is none"),
            ("{message: '{body}', header: ''}", "is none"),
            (
                "{message: '{body}', header: S, fields: [{header: Upgrade, value: a}]}",
                "frames or directs",
            ),
            ("{message: '{body}', header: S, value: abc}", "{signature}"),
        ] {
            let said = definition(bad).check().unwrap_err();
            assert!(said.contains(why), "{bad}: {said}");
        }
    }

    #[test]
    fn only_a_template_with_a_body_wants_one() {
        assert!(definition("{message: '{timestamp}.{body}', header: S}").signs_body());
        assert!(definition("{message: '{body_sha256}', header: S}").signs_body());
        assert!(!definition("{message: '{method}{path}', header: S}").signs_body());
    }
}
