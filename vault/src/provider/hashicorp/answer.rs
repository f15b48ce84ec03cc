//! Reading what the server answers. Every text of a secret goes straight to where secrets are kept, the
//! fields that nobody wants too.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{HashicorpOptions, lifetime};
use crate::{
    fetch::FetchAnswer,
    kind::SecretText,
    provider::{ProvideError, Provided, without_line_end},
    secret_bytes::SecretBytes,
};

/// `GET /v1/:mount/data/:path`. A deleted version answers 404 with metadata.
#[derive(Deserialize)]
struct Read {
    data: ReadData,
}

#[derive(Deserialize)]
struct ReadData {
    data: Option<HashMap<String, Field>>,
    metadata: Metadata,
}

/// A field of a secret, wanted or not; `None` for one that is no text.
struct Field(Option<SecretBytes>);

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of a secret")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Field, E> {
        Ok(Field(Some(text.into())))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Field, E> {
        Ok(Field(None))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Field, E> {
        Ok(Field(None))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Field, E> {
        Ok(Field(None))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Field, E> {
        Ok(Field(None))
    }

    fn visit_unit<E: Error>(self) -> Result<Field, E> {
        Ok(Field(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Field, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field(None))
    }
}

#[derive(Deserialize)]
struct Metadata {
    version: u64,
}

/// `auth` of a login or renewal.
#[derive(Deserialize)]
pub(super) struct Granted {
    pub(super) auth: GrantedAuth,
}

#[derive(Deserialize)]
pub(super) struct GrantedAuth {
    pub(super) client_token: SecretText,
    pub(super) lease_duration: u64,
    #[serde(default)]
    pub(super) renewable: bool,
}

#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<String>,
}

/// The value of the field that is wanted.
pub(super) fn secret(
    options: &HashicorpOptions,
    answer: &FetchAnswer,
) -> Result<Provided, ProvideError> {
    let place = format!("{}/{}", options.mount, options.path);
    if answer.status != 200 {
        return Err(refusal(answer, &place));
    }
    let read: Read = parse(answer)?;
    let version = read.data.metadata.version;
    let mut fields = read.data.data.unwrap_or_default();
    let field = match fields.remove(&options.field) {
        Some(Field(Some(text))) if !options.keep_newline => {
            Some(Field(Some(without_line_end(text))))
        }
        other => other,
    };
    match field {
        Some(Field(Some(text))) if !text.is_empty() => Ok(Provided {
            value: text,
            version: Some(version),
            lifetime: lifetime(options.ttl),
        }),
        Some(_) => Err(ProvideError::Refused(format!(
            "field {} of {place} is no text, or empty",
            options.field
        ))),
        None => Err(ProvideError::Refused(format!(
            "{place} has no field {}",
            options.field
        ))),
    }
}

/// Reads JSON; what is wrong with it is not shown, since it may hold a value.
pub(super) fn parse<'a, T: Deserialize<'a>>(answer: &'a FetchAnswer) -> Result<T, ProvideError> {
    serde_json::from_slice(answer.body.expose()).map_err(|_| {
        ProvideError::Unavailable("the key store's answer is not as documented".to_owned())
    })
}

/// Why the server said no. Only words that such servers are known to say are shown: what else is in an answer
/// may be anything, the token that was sent or the value that was asked for.
pub(super) fn refusal(answer: &FetchAnswer, place: &str) -> ProvideError {
    let said = serde_json::from_slice::<Errors>(answer.body.expose());
    let said = said.map(|said| said.errors).unwrap_or_default();
    let said = said.iter().map(|said| said.to_ascii_lowercase());
    let known = KNOWN.iter().filter(|words| {
        let mut said = said.clone();
        let words = words.to_ascii_lowercase();
        said.any(|said| said.contains(&words))
    });
    let known = known.copied().collect::<Vec<_>>().join("; ");
    let status = answer.status;
    let said = if known.is_empty() {
        known
    } else {
        format!(": {known}")
    };
    match status {
        404 => ProvideError::Refused(format!("the key store has nothing at {place}")),
        300..=399 => ProvideError::Unavailable(format!(
            "the key store sends gig elsewhere (status {status}), as a standby does: let its address be that \
             of the active server, or of what forwards to it"
        )),
        // 412: a standby that has not heard yet of what it is asked with; 429: too many at once.
        400..=499 if !matches!(status, 412 | 429) => ProvideError::Refused(format!(
            "the key store refuses {place} (status {status}){said}"
        )),
        _ => ProvideError::Unavailable(format!(
            "the key store answers status {status} for {place}{said}"
        )),
    }
}

/// What Vault and OpenBao say; what tells a person what to look at.
const KNOWN: [&str; 27] = [
    "permission denied",
    "missing client token",
    "bad token",
    "invalid token",
    "token not found",
    "token mismatch",
    "invalid role or secret ID",
    "invalid role_id or secret_id",
    "invalid secret ID",
    "invalid role ID",
    "missing role_id",
    "missing secret_id",
    "source address",
    "could not be found",
    "failed to validate",
    "service account name not authorized",
    "namespace not authorized",
    "invalid role name",
    "invalid audience",
    "lease is not renewable",
    "wrapping token is not valid",
    "no handler for route",
    "invalid path for a versioned K/V secrets engine",
    "required index state not present",
    "Vault is sealed",
    "Vault is not initialized",
    "rate limit quota exceeded",
];
