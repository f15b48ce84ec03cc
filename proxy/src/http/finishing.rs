//! The last that is done to a request with secrets: its length, its digests, its signature.
//!
//! A body into which a value may go has no length yet. A short one is read whole first, so that the
//! origin is told one, and so that nothing reaches it of a body that is refused; a long one goes in
//! chunks.

use std::sync::Arc;

use gig_policy::{AppProtocol, DenyReason};
use gig_vault::Keeper;
use http::{
    HeaderMap, HeaderValue, Request,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT},
    uri::PathAndQuery,
};

use super::{
    body::{Begun, Credentials, Gathered, Upload},
    digests, headers,
    interim::Interims,
};
use crate::{
    credential::{
        body::BodyPlan,
        digested::CONTENT_SHA256,
        inject::Carried,
        memory::Memory,
        rewrite::{Alarmed, Rewrite},
        tally::{Misuse, Tally},
        treat::{Sent, Signable, Treat},
        written::Written,
    },
    failure::{Failure, Side},
};

/// What is left to do for a request with secrets.
#[derive(Debug)]
pub(super) struct Finishing {
    tally: Arc<Tally>,
    /// What is read whole is counted in it.
    memory: Arc<Memory>,
    treats: Vec<Arc<dyn Treat>>,
    /// Who says whether what treats a body that streams may still be used.
    keeper: Arc<dyn Keeper>,
    /// What the program wrote, where a treatment wants to see it.
    sent: Option<Box<Sent>>,
    length: Length,
    /// What the body hashes to as the program wrote it, where a signature covers that and says it nowhere.
    written: Written,
    /// The body goes on without its content coding.
    undoing: bool,
    /// Something looks at the body.
    guarded: bool,
}

/// What length the body comes out with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// The one that it has.
    Same,
    /// Perhaps another.
    Other,
    /// Perhaps another, and the program says what it hashes to.
    OfHashed,
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
    /// What is left, and what the body passes through; `digested` where the program says what that hashes
    /// to.
    pub(super) fn new(carried: Carried, digested: bool) -> (Option<Credentials>, Self) {
        let plan = carried.body.filter(|plan| !plan.is_idle());
        let sent = carried.sent.as_deref();
        let hashes = sent.is_some_and(|sent| !sent.headers.contains_key(CONTENT_SHA256));
        let written = Written::default();
        let finishing = Self {
            written: written.clone(),
            length: match plan.as_ref().is_some_and(BodyPlan::may_change) {
                true if digested => Length::OfHashed,
                true => Length::Other,
                false => Length::Same,
            },
            undoing: plan.as_ref().is_some_and(BodyPlan::undoes_coding),
            guarded: plan.is_some(),
            treats: carried.treats,
            keeper: carried.keeper,
            sent: carried.sent,
            memory: carried.memory,
            tally: carried.tally,
        };
        let credentials = plan.map(Credentials::new);
        let credentials = credentials.map(|credentials| match hashes {
            true => credentials.hashed(&written),
            false => credentials,
        });
        (credentials, finishing)
    }

    /// Whether the body may come out with another length.
    fn changing(&self) -> bool {
        self.length != Length::Same
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
            gather(unsent, most, &self.memory).await?;
        } else if gathers {
            // What a value adds is not the program's doing.
            gather(unsent, usize::MAX, &self.memory).await?;
        } else if self.length == Length::OfHashed && may_fit(announced) {
            // What it says of the body goes before it. Who waits for leave is told to go on.
            unsent.request.headers_mut().remove(EXPECT);
            interims.go_on();
            gather_or_begin(unsent, &self.memory).await?;
        }
        if self.changing() {
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
        let changing = self.treats.iter().filter(|_| self.changing());
        let covers = changing.filter_map(|t| t.covers_body(headers));
        wants.chain(covers).max()
    }

    /// Makes length and digests those of the body that is sent.
    fn settle(&self, unsent: &mut Unsent<'_>) {
        let mut headers = std::mem::take(unsent.request.headers_mut());
        if self.undoing {
            headers.remove(CONTENT_ENCODING);
        }
        match unsent.request.body_mut() {
            Upload::Whole(gathered) => {
                let octets = gathered.data();
                if gathered.trailers().is_some() {
                    // In HTTP/1.1 they come behind chunks alone.
                    headers.remove(CONTENT_LENGTH);
                } else {
                    headers.insert(CONTENT_LENGTH, octets.len().into());
                }
                if self.undoing || self.tally.body_changed() {
                    for fields in std::iter::once(&mut headers).chain(gathered.trailers()) {
                        digests::renew(fields, &octets, &self.tally);
                    }
                }
            }
            Upload::Streaming(streaming) => {
                streaming.leave_digests_out();
                headers.remove(CONTENT_LENGTH);
                digests::forget(&mut headers, &self.tally);
            }
            Upload::Empty => {}
        }
        *unsent.request.headers_mut() = headers;
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
                changed: self.tally.body_changed() || self.undoing,
                written: self.written.told(),
                memory: &self.memory,
            };
            let said = signable.headers.get(CONTENT_SHA256).cloned();
            let treated = treat.treat(signable);
            digests::resigned(said.as_ref(), &headers, &self.tally);
            *unsent.request.headers_mut() = headers;
            let after = treated.map_err(|error| {
                if error.reason == DenyReason::SecretMisuse {
                    let misuse = Misuse::of_own(&error.name, error.why.as_str());
                    self.tally.misused(misuse);
                }
                Failure::caused(Side::Internal, error.reason, error)
            })?;
            let secret = treat.secret();
            if let Some(after) = after {
                let after = Alarmed::new(after, &self.tally, (secret, &self.keeper));
                then(unsent, Box::new(after), &self.memory)?;
            }
            self.tally.swapped(&secret.name, secret.version);
        }
        Ok(())
    }
}

/// Whether a body that says this length, or none, may be read whole for the sake of its digest.
fn may_fit(announced: Option<u64>) -> bool {
    announced.is_none_or(|length| length <= LONGEST_DIGESTED as u64)
}

/// Reads the body whole, unless it is too long for that.
async fn gather_or_begin(unsent: &mut Unsent<'_>, memory: &Arc<Memory>) -> Result<(), Failure> {
    if matches!(unsent.request.body(), Upload::Empty) {
        return Ok(());
    }
    let body = std::mem::replace(unsent.request.body_mut(), Upload::Empty);
    let begun = Gathered::begin(body, LONGEST_DIGESTED, memory)
        .await
        .map_err(|error| Failure::caused(Side::Downstream, error.reason(), error))?;
    *unsent.request.body_mut() = match begun {
        Begun::Whole(gathered) => Upload::Whole(gathered),
        Begun::Long(rest) => Upload::Streaming(rest),
    };
    Ok(())
}

/// Has the body changed by `after`, last. One that is here whole and cannot be is not sent at all: its
/// header section is signed by now, and whoever reads it waits for the body that it announces.
fn then(
    unsent: &mut Unsent<'_>,
    after: Box<dyn Rewrite>,
    memory: &Arc<Memory>,
) -> Result<(), Failure> {
    if !after.keeps_length() {
        unsent.request.headers_mut().remove(CONTENT_LENGTH);
    }
    let changed = unsent.request.body_mut().then(after, memory);
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
async fn gather(unsent: &mut Unsent<'_>, most: usize, memory: &Arc<Memory>) -> Result<(), Failure> {
    if matches!(unsent.request.body(), Upload::Empty) {
        return Ok(());
    }
    let body = std::mem::replace(unsent.request.body_mut(), Upload::Empty);
    let gathered = Gathered::read(body, most, memory)
        .await
        .map_err(|error| Failure::caused(Side::Downstream, error.reason(), error))?;
    *unsent.request.body_mut() = Upload::Whole(gathered);
    Ok(())
}

/// Most API calls are shorter; what is held for one request stays small.
const SHORT: u64 = 64 * 1024;
/// What clients put a digest on is a part of an upload, of 5 to 16 MiB; a quarter of a dozen of them is what a
/// sandbox's bodies may hold.
const LONGEST_DIGESTED: usize = 16 << 20;
