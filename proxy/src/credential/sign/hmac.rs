//! A request signed with a shared key, as its secret's template says.

use std::sync::Arc;

use aws_lc_rs::{digest, hmac};
use gig_policy::DenyReason;
use gig_vault::{
    Clock, Secret, SystemClock,
    kind::{HmacAlgorithm, HmacDefinition, Piece, Template, may_be_signed_into},
};
use http::{HeaderMap, HeaderName, HeaderValue, header::HOST, uri::PathAndQuery};

use super::untreatable;
use crate::credential::{
    digits::hex,
    rewrite::Rewrite,
    treat::{Signable, Treat, Untreatable},
};

/// One key and its template.
#[derive(Debug)]
pub struct Hmac {
    secret: Arc<Secret>,
    definition: Arc<HmacDefinition>,
    clock: Arc<dyn Clock>,
}

/// What a template is filled in from.
struct Filling<'a> {
    request: &'a Signable<'a>,
    milliseconds: i64,
    nonce: String,
    signature: Option<String>,
}

impl Hmac {
    /// For a secret whose one part is the key.
    #[must_use]
    pub fn new(secret: &Arc<Secret>, definition: &Arc<HmacDefinition>) -> Self {
        Self {
            secret: Arc::clone(secret),
            definition: Arc::clone(definition),
            clock: Arc::new(SystemClock),
        }
    }

    fn unplaceable(&self, why: impl Into<String>) -> Untreatable {
        untreatable(&self.secret, DenyReason::SecretUnplaceable, why)
    }

    fn key(&self) -> Option<hmac::Key> {
        let key = self.definition.key(&self.secret.parts.first()?.value)?;
        let algorithm = match self.definition.algorithm {
            HmacAlgorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            HmacAlgorithm::Sha256 => hmac::HMAC_SHA256,
            HmacAlgorithm::Sha512 => hmac::HMAC_SHA512,
        };
        Some(hmac::Key::new(algorithm, key.expose()))
    }

    /// A field that a template takes the value of and that stands there more than once.
    fn repeated(&self, headers: &HeaderMap) -> Option<&str> {
        let definition = &self.definition;
        let own = [&definition.message, &definition.value];
        let more = definition.fields.iter().map(|field| &field.value);
        let mut pieces = own.into_iter().chain(more).flat_map(Template::pieces);
        pieces.find_map(|piece| match piece {
            Piece::Header(name) if headers.get_all(name.as_str()).iter().nth(1).is_some() => {
                Some(name.as_str())
            }
            _ => None,
        })
    }

    fn field(
        &self,
        name: &str,
        value: &Template,
        filling: &Filling<'_>,
    ) -> Result<(HeaderName, HeaderValue), Untreatable> {
        let known = HeaderName::try_from(name).ok();
        let name = known.filter(|_| may_be_signed_into(name)).ok_or_else(|| {
            self.unplaceable(
                "its definition names a field that is none, or that frames or directs the request",
            )
        })?;
        let text = filling
            .fill(value)
            .ok_or_else(|| self.unplaceable("the body was not read"))?;
        let value = HeaderValue::from_bytes(&text)
            .map_err(|_| self.unplaceable("what it makes does not fit in a field"))?;
        Ok((name, value))
    }
}

impl Treat for Hmac {
    fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }

    fn wants_body(&self, _: &HeaderMap, _: &PathAndQuery) -> Option<usize> {
        let definition = &self.definition;
        definition.signs_body().then_some(definition.largest_body)
    }

    fn treat(&self, request: Signable<'_>) -> Result<Option<Box<dyn Rewrite>>, Untreatable> {
        let key = self
            .key()
            .ok_or_else(|| self.unplaceable("it spells no key"))?;
        let mut random = [0; 16];
        aws_lc_rs::rand::fill(&mut random)
            .map_err(|_| self.unplaceable("the system gives no random numbers"))?;
        if let Some(name) = self.repeated(request.headers) {
            return Err(self.unplaceable(format!(
                "the field {name}, which its template signs, was sent in several lines, and origins read such in several ways: send it in one"
            )));
        }
        let mut filling = Filling {
            milliseconds: self.clock.now().as_millisecond(),
            nonce: hex(&random),
            signature: None,
            request: &request,
        };
        let message = filling
            .fill(&self.definition.message)
            .ok_or_else(|| self.unplaceable("the body was not read"))?;
        let tag = hmac::sign(&key, &message);
        filling.signature = Some(self.definition.encoding.write(tag.as_ref()));
        let own = (&*self.definition.header, &self.definition.value);
        let more = self.definition.fields.iter();
        let more = more.map(|field| (&*field.header, &field.value));
        let fields: Result<Vec<_>, _> = std::iter::once(own)
            .chain(more)
            .map(|(name, value)| self.field(name, value, &filling))
            .collect();
        for (name, value) in fields? {
            request.headers.insert(name, value);
        }
        Ok(None)
    }
}

impl Filling<'_> {
    /// `None` where it would need a body that is not at hand.
    fn fill(&self, template: &Template) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for piece in template.pieces() {
            self.piece(piece, &mut text)?;
        }
        Some(text)
    }

    fn piece(&self, piece: &Piece, text: &mut Vec<u8>) -> Option<()> {
        let request = self.request;
        match piece {
            Piece::Text(plain) => text.extend_from_slice(plain.as_bytes()),
            Piece::Method => text.extend_from_slice(request.method.as_str().as_bytes()),
            Piece::Scheme => text.extend_from_slice(request.scheme.as_bytes()),
            Piece::Host => text.extend_from_slice(request.authority.as_bytes()),
            Piece::Path => text.extend_from_slice(request.target.path().as_bytes()),
            Piece::Query => {
                text.extend_from_slice(request.target.query().unwrap_or_default().as_bytes());
            }
            Piece::Target => text.extend_from_slice(request.target.as_str().as_bytes()),
            Piece::Body => text.extend_from_slice(request.body?),
            Piece::BodySha256 => {
                let digest = digest::digest(&digest::SHA256, request.body?);
                text.extend_from_slice(hex(digest.as_ref()).as_bytes());
            }
            Piece::Timestamp => {
                let seconds = self.milliseconds.div_euclid(1000);
                text.extend_from_slice(seconds.to_string().as_bytes());
            }
            Piece::TimestampMs => {
                text.extend_from_slice(self.milliseconds.to_string().as_bytes());
            }
            Piece::Nonce => text.extend_from_slice(self.nonce.as_bytes()),
            // Whatever the program spoke, it is this that the origin sees.
            Piece::Header(name) if name.eq_ignore_ascii_case(HOST.as_str()) => {
                text.extend_from_slice(request.authority.as_bytes());
            }
            Piece::Header(name) => {
                let value = request.headers.get(name.as_str());
                text.extend_from_slice(value.map_or(&[][..], HeaderValue::as_bytes));
            }
            Piece::Signature => {
                text.extend_from_slice(self.signature.as_deref().unwrap_or_default().as_bytes());
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
