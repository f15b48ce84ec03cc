//! AWS Signature Version 4 and 4A: what the program signed with sentinels is signed with the keys.
//!
//! The program's own signature is checked first: a request that names the sentinel's key id and is not
//! signed by the sentinel's secret key is none of a program that holds them. It is checked against what
//! the program wrote. The new signature covers what gig sends: the same date and scope, and those of the
//! covered fields that are still there, as they are now. Forms: `Authorization` field, presigned query,
//! chunks that are signed one by one with or without a trailer, unsigned payload. Requests whose answers are
//! credentials are not signed (`handing_out`).

use std::sync::Arc;

use gig_policy::{DenyReason, path};
use gig_vault::{AwsScope, Clock, Secret, SystemClock};
use http::{HeaderMap, HeaderName, HeaderValue, header::HOST, uri::PathAndQuery};
use percent_encoding::percent_decode_str;

use super::untreatable;
use crate::credential::{
    digested::CONTENT_SHA256,
    rewrite::Rewrite,
    treat::{Signable, Treat, Untreatable},
};

mod canonical;
mod chunks;
mod date;
mod handing_out;
mod key;
mod request;

use canonical::{Canonical, Covered, hex_digest};
use chunks::Chunks;
use handing_out::{handing_out, reads_body};
use key::{Algorithm, Key};
use request::{Form, Signed, is_version_2};

/// One access key, and the sentinels that a program signs with.
#[derive(Debug)]
pub struct Aws {
    secret: Arc<Secret>,
    scope: Arc<AwsScope>,
    sentinels: Vec<Arc<str>>,
    clock: Arc<dyn Clock>,
}

/// What is signed with, on either side.
struct Credentials<'a> {
    id: &'a str,
    secret: &'a [u8],
    token: Option<&'a str>,
}

impl Aws {
    /// For a secret whose parts are key id, secret key and perhaps session token.
    #[must_use]
    pub fn new(secret: &Arc<Secret>, scope: &Arc<AwsScope>, sentinels: &[Arc<str>]) -> Self {
        Self {
            secret: Arc::clone(secret),
            scope: Arc::clone(scope),
            sentinels: sentinels.to_vec(),
            clock: Arc::new(SystemClock),
        }
    }

    fn misuse(&self, why: &str) -> Untreatable {
        untreatable(&self.secret, DenyReason::SecretMisuse, why)
    }

    fn unplaceable(&self, why: impl Into<String>) -> Untreatable {
        untreatable(&self.secret, DenyReason::SecretUnplaceable, why)
    }

    fn sentinels(&self) -> Option<Credentials<'_>> {
        Some(Credentials {
            id: self.sentinels.first()?,
            secret: self.sentinels.get(1)?.as_bytes(),
            token: self.sentinels.get(2).map(|token| &**token),
        })
    }

    fn keys(&self) -> Option<Credentials<'_>> {
        let text = |part: usize| {
            let part = self.secret.parts.get(part)?;
            std::str::from_utf8(part.value.expose()).ok()
        };
        Some(Credentials {
            id: text(0)?,
            secret: self.secret.parts.get(1)?.value.expose(),
            token: text(2),
        })
    }

    /// Whether the key may sign for this region and service.
    fn check_scope(&self, signed: &Signed, headers: &HeaderMap) -> Result<(), Untreatable> {
        let allowed =
            |list: &[String], word: &str| list.is_empty() || list.iter().any(|w| w == word);
        if !allowed(&self.scope.services, &signed.service) {
            let why = format!(
                "its definition does not list the service {}",
                signed.service
            );
            return Err(self.unplaceable(why));
        }
        let regions = signed.regions(headers);
        let Some(strange) = regions.iter().find(|r| !allowed(&self.scope.regions, r)) else {
            return Ok(());
        };
        Err(self.unplaceable(format!("its definition does not list the region {strange}")))
    }

    /// Whether the answer may hold what it holds.
    fn check_answer(&self, signed: &Signed, request: &Signable<'_>) -> Result<(), Untreatable> {
        let handed = match self.scope.hands_out {
            true => None,
            false => handing_out(signed, request),
        };
        handed.map_or(Ok(()), |why| Err(self.unplaceable(why)))
    }

    /// Whether the program signed without saying what the body hashes to, so that the body has to be seen.
    fn hash_unsaid(headers: &HeaderMap, signed: Option<&Signed>) -> bool {
        let presigned_s3 = signed.is_some_and(|s| s.form == Form::Query && s.is_s3());
        !headers.contains_key(&CONTENT_SHA256) && !presigned_s3
    }

    /// The program's date stays, so it has to be one that the service takes.
    fn check_date(&self, signed: &Signed) -> Result<(), Untreatable> {
        let now = self.clock.now().as_second();
        let signed_at = date::seconds(&signed.date)
            .filter(|_| signed.date.starts_with(&signed.day))
            .ok_or_else(|| self.misuse("its date is no date, or not that of its scope"))?;
        let late = match signed.expires {
            Some(expires) if expires <= LONGEST_PRESIGNED => expires.saturating_add(SKEW),
            Some(_) => return Err(self.unplaceable("a presigned URL lives for a week at most")),
            None => SKEW,
        };
        let age = now.saturating_sub(signed_at);
        if age > late || age < -SKEW {
            return Err(self.unplaceable(
                "the program's clock is more than five minutes off, or its presigned URL has expired",
            ));
        }
        Ok(())
    }

    /// What the signature says of the body.
    fn payload(&self, signed: &Signed, request: &Signable<'_>) -> Result<String, Untreatable> {
        if let Some(said) = request.headers.get(&CONTENT_SHA256) {
            let said = said.to_str().ok().filter(|said| said.len() <= 80);
            return said
                .map(str::to_owned)
                .ok_or_else(|| self.misuse("x-amz-content-sha256 is no text"));
        }
        if signed.form == Form::Query && signed.is_s3() {
            return Ok(UNSIGNED.to_owned());
        }
        if request.changed {
            return request.written.map(str::to_owned).ok_or_else(|| {
                self.unplaceable(
                    "a secret's value went into its body, and what the program signed of that is not known",
                )
            });
        }
        request
            .body
            .map(hex_digest)
            .ok_or_else(|| self.unplaceable("its body was not read"))
    }

    /// What the signature says of the body that is sent. Where a value went into it, that is another one
    /// than the program hashed: the request says what it is now, where it said what it was.
    fn payload_sent(&self, said: &str, request: &mut Signable<'_>) -> Result<String, Untreatable> {
        if !request.changed || said == UNSIGNED {
            return Ok(said.to_owned());
        }
        if said.starts_with(STREAMING) {
            return Err(self.unplaceable(
                "a secret's value went into a body that the program sent in chunks for AWS, each with its length",
            ));
        }
        let body = request.body.ok_or_else(|| {
            self.unplaceable("a secret's value went into its body, which was not read to be signed")
        })?;
        let digest = hex_digest(body);
        if !request.headers.contains_key(&CONTENT_SHA256) {
            return Ok(digest);
        }
        let value = HeaderValue::from_str(&digest);
        let value = value.map_err(|_| self.unplaceable("its digest fits in no field"))?;
        request.headers.insert(CONTENT_SHA256, value);
        Ok(digest)
    }

    /// Checks that the program's sentinels signed what it wrote, and gives its key and signature.
    fn check_theirs(
        &self,
        request: &Signable<'_>,
        payload: &str,
        sentinels: &Credentials<'_>,
    ) -> Result<(Key, String), Untreatable> {
        let (headers, target) = match request.sent {
            Some(sent) => (&sent.headers, &sent.target),
            None => (&*request.headers, &*request.target),
        };
        let signed = self.read(target, headers)?;
        if signed.key_id != sentinels.id {
            return Err(self.misuse("the request is signed with another key id"));
        }
        let theirs = self.key(sentinels, &signed)?;
        let covered = Covered {
            method: request.method,
            host: headers.get(HOST).unwrap_or(request.authority),
            path: target.path(),
            headers,
        };
        let canonical = Canonical::new(&signed, covered, payload);
        if !theirs.verifies(&canonical.to_sign(&signed), &signed.signature) {
            return Err(self.misuse("the request is not signed by the program's sentinel"));
        }
        if !same_path(target.path(), request.target.path()) && is_resolved(target.path()) {
            // S3 would take another object than the program means. Where nothing was resolved a value went in.
            return Err(self.unplaceable(
                "its path has dot segments, which are resolved before a request is decided",
            ));
        }
        Ok((theirs, signed.signature))
    }

    fn read(&self, target: &PathAndQuery, headers: &HeaderMap) -> Result<Signed, Untreatable> {
        Signed::read(target, headers).ok_or_else(|| match is_version_2(target, headers) {
            true => self.unplaceable(
                "Signature Version 2 is not signed: have the program sign by Version 4 (boto3: \
                 Config(signature_version='s3v4'))",
            ),
            false => self.misuse("the request holds its sentinel and no AWS signature"),
        })
    }

    fn key(&self, with: &Credentials<'_>, signed: &Signed) -> Result<Key, Untreatable> {
        let key = match signed.algorithm {
            Algorithm::Hmac => {
                let scope = (&*signed.day, &*signed.region, &*signed.service);
                Some(Key::hmac(with.secret, scope))
            }
            Algorithm::Ecdsa => Key::ecdsa(with.id, with.secret),
        };
        key.ok_or_else(|| self.unplaceable("no signing key can be derived from it"))
    }

    /// Writes the real session token where the sentinel stands, or adds it.
    fn place_token(
        &self,
        signed: &mut Signed,
        request: &mut Signable<'_>,
        keys: &Credentials<'_>,
    ) -> Result<(), Untreatable> {
        let sent = signed.token(request.headers);
        let sentinel = self.sentinels.get(2).map(|token| &**token);
        if sent.is_some() && sent.as_deref() != sentinel {
            return Err(self.misuse("its session token is not the sentinel"));
        }
        let Some(token) = keys.token else {
            if sent.is_some() {
                return Err(self.unplaceable("the key has no session token any more"));
            }
            return Ok(());
        };
        match signed.form {
            Form::Query => signed.set_query(TOKEN_QUERY, token),
            Form::Header => {
                let mut value = HeaderValue::from_str(token)
                    .map_err(|_| self.unplaceable("its session token fits in no field"))?;
                value.set_sensitive(true);
                request.headers.insert(TOKEN, value);
                signed.cover(TOKEN.as_str());
            }
        }
        Ok(())
    }
}

impl Treat for Aws {
    fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }

    fn wants_body(&self, headers: &HeaderMap, target: &PathAndQuery) -> Option<usize> {
        let signed = Signed::read(target, headers);
        let asks = !self.scope.hands_out && signed.as_ref().is_some_and(reads_body);
        (asks || Self::hash_unsaid(headers, signed.as_ref())).then_some(LONGEST_BODY)
    }

    fn covers_body(&self, headers: &HeaderMap) -> Option<usize> {
        let said = headers.get(&CONTENT_SHA256)?.as_bytes();
        let free = said == UNSIGNED.as_bytes() || said.starts_with(STREAMING.as_bytes());
        (!free).then_some(LONGEST_BODY)
    }

    fn wants_sent(&self) -> bool {
        true
    }

    fn treat(&self, mut request: Signable<'_>) -> Result<Option<Box<dyn Rewrite>>, Untreatable> {
        let mut signed = self.read(request.target, request.headers)?;
        let (sentinels, keys) = self
            .sentinels()
            .zip(self.keys())
            .ok_or_else(|| self.unplaceable("it has no access key"))?;
        self.check_scope(&signed, request.headers)?;
        self.check_date(&signed)?;
        self.check_answer(&signed, &request)?;
        let payload = self.payload(&signed, &request)?;
        let theirs = self.check_theirs(&request, &payload, &sentinels)?;
        let payload = self.payload_sent(&payload, &mut request)?;
        signed.keep_present(request.headers);
        self.place_token(&mut signed, &mut request, &keys)?;
        keys.id.clone_into(&mut signed.key_id);
        signed.settle_credential();
        let ours = self.key(&keys, &signed)?;
        let covered = Covered {
            method: request.method,
            host: request.authority,
            path: request.target.path(),
            headers: request.headers,
        };
        let canonical = Canonical::new(&signed, covered, &payload);
        let signature = ours
            .sign(&canonical.to_sign(&signed))
            .ok_or_else(|| self.unplaceable("it cannot sign"))?;
        signed
            .write(&signature, &mut request)
            .ok_or_else(|| self.unplaceable("the signed request fits in no header section"))?;
        let chunked = payload.strip_prefix(STREAMING).and_then(chunks::Mode::of);
        if payload.starts_with(STREAMING) && chunked.is_none() && payload != UNSIGNED_TRAILER {
            return Err(self.unplaceable("its chunks are signed in a way that is not known here"));
        }
        Ok(chunked.map(|mode| -> Box<dyn Rewrite> {
            let scope = (signed.date.clone(), signed.scope());
            let ours = (ours, signature);
            Box::new(Chunks::new(mode, scope, theirs, ours, request.memory))
        }))
    }
}

/// Whether both name the same, however it is escaped.
fn same_path(one: &str, other: &str) -> bool {
    percent_decode_str(one).eq(percent_decode_str(other))
}

/// Whether a path becomes another before a request is decided.
fn is_resolved(path: &str) -> bool {
    let resolved = path::normalise(path).map(path::NormalPath::into_string);
    resolved.map_or(true, |resolved| !same_path(path, &resolved))
}

/// SHA-256 of nothing.
fn empty_digest() -> String {
    hex_digest(b"")
}

const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const TOKEN_QUERY: &str = "X-Amz-Security-Token";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
const STREAMING: &str = "STREAMING-";
const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
/// AWS takes fifteen; a program whose clock is off by more than this has another trouble.
const SKEW: i64 = 300;
/// AWS's limit.
const LONGEST_PRESIGNED: i64 = 7 * 24 * 3600;
/// Services whose requests do not say what their body hashes to are asked with documents: DynamoDB
/// takes 16 MB.
const LONGEST_BODY: usize = 16 << 20;

#[cfg(test)]
mod tests;
