//! The last that is done to a request with secrets: its length, its digests, its signature.
//!
//! A body into which a value may go has no length yet. A short one is read whole first, so that the
//! origin is told one, and so that nothing reaches it of a body that is refused; a long one goes in
//! chunks.

use std::sync::Arc;

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use gig_policy::{AppProtocol, DenyReason};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT},
    uri::PathAndQuery,
};
use md5::{Digest as _, Md5};

use super::{
    body::{Credentials, Gathered, Upload},
    headers,
    interim::Interims,
};
use crate::{
    credential::{
        body::BodyPlan,
        inject::Carried,
        rewrite::{Alarmed, Rewrite},
        tally::{Misuse, Tally},
        treat::{Sent, Signable, Treat},
    },
    failure::{Failure, Side},
};

/// What is left to do for a request with secrets.
#[derive(Debug)]
pub(super) struct Finishing {
    tally: Arc<Tally>,
    treats: Vec<Arc<dyn Treat>>,
    /// What the program wrote, where a treatment wants to see it.
    sent: Option<Box<Sent>>,
    /// The body may come out with another length.
    changing: bool,
    /// The body goes on without its content coding.
    undoing: bool,
    /// Something looks at the body.
    guarded: bool,
}

/// A request that is about to be sent.
#[derive(Debug)]
pub(super) struct Unsent<'a> {
    pub(super) request: Request<Upload>,
    pub(super) target: &'a mut PathAndQuery,
    pub(super) authority: &'a HeaderValue,
    pub(super) protocol: AppProtocol,
}

impl Finishing {
    /// What is left, and what the body passes through.
    pub(super) fn new(carried: Carried) -> (Option<Credentials>, Self) {
        let plan = carried.body.filter(|plan| !plan.is_idle());
        let finishing = Self {
            changing: plan.as_ref().is_some_and(|plan| plan.may_change()),
            undoing: plan.as_ref().is_some_and(BodyPlan::undoes_coding),
            guarded: plan.is_some(),
            treats: carried.treats,
            sent: carried.sent,
            tally: carried.tally,
        };
        (plan.map(Credentials::new), finishing)
    }

    /// Finishes `unsent`. A body that waits for leave is not read before the origin asks for it, unless
    /// a treatment must see it first.
    pub(super) async fn finish(
        self,
        unsent: &mut Unsent<'_>,
        interims: &Interims,
    ) -> Result<(), Failure> {
        let wanted = self.wanted(unsent.request.headers(), unsent.target);
        let announced = headers::content_length(unsent.request.headers());
        let short = announced.is_some_and(|length| length <= SHORT);
        let gathers = !interims.is_gated() && self.guarded && short;
        if let Some(most) = wanted {
            unsent.request.headers_mut().remove(EXPECT);
            interims.go_on();
            gather(unsent, most).await?;
        } else if gathers {
            // What a value adds is not the program's doing.
            gather(unsent, usize::MAX).await?;
        }
        if self.changing {
            self.settle(unsent);
        }
        self.treat(unsent)
    }

    /// How much of the body some treatment must see.
    fn wanted(&self, headers: &HeaderMap, target: &PathAndQuery) -> Option<usize> {
        let wants = self
            .treats
            .iter()
            .filter_map(|t| t.wants_body(headers, target));
        let changing = self.treats.iter().filter(|_| self.changing);
        let covers = changing.filter_map(|t| t.covers_body(headers));
        wants.chain(covers).max()
    }

    /// Makes length and digests those of the body that is sent.
    fn settle(&self, unsent: &mut Unsent<'_>) {
        let (parts, body) = (unsent.request.headers().clone(), unsent.request.body());
        let mut headers = parts;
        if self.undoing {
            headers.remove(CONTENT_ENCODING);
        }
        match body {
            Upload::Whole(gathered) => {
                let octets = gathered.octets();
                headers.insert(CONTENT_LENGTH, octets.len().into());
                if self.undoing || self.tally.body_changed() {
                    self.renew_digests(&mut headers, octets);
                }
            }
            Upload::Streaming(_) => {
                headers.remove(CONTENT_LENGTH);
                for name in DIGESTS {
                    if headers.remove(&name).is_some() {
                        self.tally.found(format!(
                            "{name} was left out: the body is sent before it is known"
                        ));
                    }
                }
            }
            Upload::Empty => {}
        }
        *unsent.request.headers_mut() = headers;
    }

    fn renew_digests(&self, headers: &mut HeaderMap, octets: &[u8]) {
        for name in DIGESTS {
            let Some(value) = headers.remove(&name) else {
                continue;
            };
            match renewed(&name, value.as_bytes(), octets) {
                Some(value) => {
                    headers.insert(name, value);
                }
                None => self.tally.found(format!(
                    "{name} was left out: its algorithm is not known here"
                )),
            }
        }
    }

    fn treat(&self, unsent: &mut Unsent<'_>) -> Result<(), Failure> {
        for treat in &self.treats {
            let method = unsent.request.method().clone();
            let mut headers = std::mem::take(unsent.request.headers_mut());
            let body = match unsent.request.body() {
                Upload::Whole(gathered) => Some(gathered.octets()),
                Upload::Empty => Some(&[][..]),
                Upload::Streaming(_) => None,
            };
            let signable = Signable {
                method: &method,
                scheme: unsent.protocol.as_str(),
                authority: unsent.authority,
                target: &mut *unsent.target,
                headers: &mut headers,
                body,
                sent: self.sent.as_deref(),
                changed: self.tally.body_changed(),
            };
            let treated = treat.treat(signable);
            *unsent.request.headers_mut() = headers;
            let after = treated.map_err(|error| {
                if error.reason == DenyReason::SecretMisuse {
                    self.tally.misused(Misuse {
                        name: error.name.clone(),
                        text: error.why.as_str().into(),
                    });
                }
                Failure::caused(Side::Internal, error.reason, error)
            })?;
            let secret = treat.secret();
            if let Some(after) = after {
                let after = Alarmed::new(after, &self.tally, &secret.name);
                then(unsent, Box::new(after))?;
            }
            self.tally.swapped(&secret.name, secret.version);
        }
        Ok(())
    }
}

/// Has the body changed by `after`, last. One that is here whole and cannot be is not sent at all: its
/// header section is signed by now, and whoever reads it waits for the body that it announces.
fn then(unsent: &mut Unsent<'_>, after: Box<dyn Rewrite>) -> Result<(), Failure> {
    if !after.keeps_length() {
        unsent.request.headers_mut().remove(CONTENT_LENGTH);
    }
    let changed = unsent.request.body_mut().then(after);
    changed.map_err(|error| Failure::caused(Side::Downstream, error.reason(), error))?;
    let headers = unsent.request.headers();
    if let (Upload::Whole(gathered), true) =
        (unsent.request.body(), headers.contains_key(CONTENT_LENGTH))
    {
        let length = gathered.octets().len();
        let headers = unsent.request.headers_mut();
        headers.insert(CONTENT_LENGTH, length.into());
    }
    Ok(())
}

/// Reads the body whole.
async fn gather(unsent: &mut Unsent<'_>, most: usize) -> Result<(), Failure> {
    if matches!(unsent.request.body(), Upload::Empty) {
        return Ok(());
    }
    let body = std::mem::replace(unsent.request.body_mut(), Upload::Empty);
    let gathered = Gathered::read(body, most)
        .await
        .map_err(|error| Failure::caused(Side::Downstream, error.reason(), error))?;
    *unsent.request.body_mut() = Upload::Whole(gathered);
    Ok(())
}

/// The field with the digest of what is sent (RFC 9530; RFC 3230 for `Digest`; RFC 1864 for
/// `Content-MD5`, which protects from nothing but faults of the network).
fn renewed(name: &HeaderName, old: &[u8], octets: &[u8]) -> Option<HeaderValue> {
    if name == CONTENT_MD5 {
        return HeaderValue::try_from(STANDARD.encode(Md5::digest(octets))).ok();
    }
    let old = std::str::from_utf8(old).ok()?;
    let structured = name != DIGEST;
    let mut digests = Vec::new();
    for member in old.split(',') {
        let (algorithm, _) = member.trim().split_once('=')?;
        let encoded = match algorithm.to_ascii_lowercase().as_str() {
            "sha-256" => STANDARD.encode(digest::digest(&digest::SHA256, octets)),
            "sha-512" => STANDARD.encode(digest::digest(&digest::SHA512, octets)),
            "md5" => STANDARD.encode(Md5::digest(octets)),
            _ => return None,
        };
        digests.push(if structured {
            format!("{algorithm}=:{encoded}:")
        } else {
            format!("{algorithm}={encoded}")
        });
    }
    HeaderValue::try_from(digests.join(", ")).ok()
}

const DIGEST: HeaderName = HeaderName::from_static("digest");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const DIGESTS: [HeaderName; 4] = [
    CONTENT_MD5,
    DIGEST,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];
/// Most API calls are shorter; what is held for one request stays small.
const SHORT: u64 = 64 * 1024;
