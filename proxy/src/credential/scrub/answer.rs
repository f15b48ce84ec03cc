//! What happens to one answer: its codings, lengths, ranges and validators.
//!
//! - A body is asked for in codings that can be undone here, and goes on plain where one was undone. A
//!   body in a coding that the program did not ask for goes on as it is and is looked into on the side. Where it
//!   holds a value, short text goes on plain, and all else is cut; so is none that cannot be looked into from a
//!   host that a secret is bound to.
//! - Short text is read whole first, and long text that says no length may come out with another one. Who is told
//!   a length counts on it (S3's and registries' clients refuse an answer without, downloads go on by it): what
//!   says one and is long, and what is not text, keeps it, and a sentinel takes exactly the room of its value. An
//!   answer to HEAD has nothing to be changed, and says what its origin does.
//! - A request to where a value may be placed asks for no range, because pieces can be cut anywhere, and none
//!   comes back: the host may have kept what another request gave it. One that is signed, or whose connection
//!   shows a certificate, gives no key away that could come back.
//! - An entity tag of what was coded or may have been changed is weak, as for any other representation of it
//!   (RFC 9110 §8.8.1), and nobody is asked whether what has a weak tag, or only a date, is still the same:
//!   another sandbox's copy of it holds other sentinels. What may have been changed is said to hash to nothing.
//! - Where a value may be placed no answer says what anything hashes to, changed or not: what the host kept of a
//!   request that carried the value would be said to. Nor does an entity tag, once a body carried one. A digest that
//!   was made of the request's body is taken out wherever it stands.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, OnceLock},
};

use gig_policy::DenyReason;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH},
};

use super::{
    Found, Scrub, Scrubbers,
    grpc::{Compressed, Messages, compressed, is_enveloped},
    stream::Fit,
    validators::{Weakened, ask_anew, forget_digests, forget_sums},
    work::{Became, Rewriter, Work},
};
use crate::{
    credential::{
        body::BodyPlan,
        coding::{Coded, Coding, Decoder, accepted, coded},
        inject::Carried,
        media::{is_text, media},
        memory::{Memory, NoMemory},
        ranges::{ask_for_all, is_piece},
        sums::scrub_of,
        tally::Tally,
    },
    http::headers::content_length,
};

/// Tells what the sandbox must not see now.
pub struct Newest(Box<dyn Fn() -> Option<Arc<Scrub>> + Send + Sync>);

/// What is known of a request when its answer comes.
#[derive(Debug)]
pub struct Returning {
    scrub: Arc<Scrub>,
    newest: Option<Newest>,
    tally: Arc<Tally>,
    memory: Arc<Memory>,
    weakened: Arc<Weakened>,
    sums: OnceLock<Option<Arc<Scrub>>>,
    accepts: Vec<Coding>,
    /// Some secret is bound to where it went.
    bound: bool,
    /// A value went with it, or may go to where it went.
    carrying: bool,
    head: bool,
}

/// An answer that nobody can look into, from where a value may come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// In a coding that cannot be undone.
    #[error("the answer is in a content coding that was not asked for and is not known")]
    Coding,
    /// A part of something, from where a value may be placed.
    #[error("the answer of a host that a secret is bound to is a piece, which was not asked for")]
    Piece,
    /// There is no memory to look into it.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

impl Unreadable {
    /// The word that it is told by.
    #[must_use]
    pub const fn reason(self) -> DenyReason {
        match self {
            Self::Coding | Self::Piece => DenyReason::OriginProtocol,
            Self::NoMemory(_) => DenyReason::DecoderLimit,
        }
    }
}

/// What happens to a body.
#[derive(Debug)]
pub enum Plan {
    /// It is looked at while it streams.
    Stream(Box<Work>),
    /// So short that it is read whole first.
    Gather(Box<Work>),
}

impl Returning {
    /// Readies a request of a sandbox that must not see what `scrub` looks for.
    pub fn new(
        (scrub, newest): (Arc<Scrub>, Option<Newest>),
        carried: &Carried,
        method: &Method,
        headers: &mut HeaderMap,
    ) -> Self {
        let accepts = accepted(headers);
        if headers.contains_key(GRPC_ACCEPT) {
            headers.insert(GRPC_ACCEPT, HeaderValue::from_static("identity,gzip"));
        }
        let in_body = carried.body.as_ref().is_some_and(BodyPlan::may_change);
        // Of a token that is to be captured no piece may come alone either; nor of a value that the host may
        // be sent at any time and keep: what one request gave it, the next could fetch in pieces.
        let told = scrub.places() || carried.capture.is_some();
        let carrying = carried.placed || in_body || told;
        if carrying {
            ask_for_all(method, headers);
            ask_anew(method, headers);
        }
        carried.weakened.strengthen(headers);
        Self {
            scrub,
            newest,
            tally: Arc::clone(&carried.tally),
            memory: Arc::clone(&carried.memory),
            weakened: Arc::clone(&carried.weakened),
            sums: OnceLock::new(),
            accepts,
            bound: carried.bound,
            carrying,
            head: *method == Method::HEAD,
        }
    }

    /// What is looked for beside what was when the request was sent: values change while an answer is open.
    #[must_use]
    pub fn newer(&self) -> Option<Arc<Scrub>> {
        let newest = self.newest.as_ref().and_then(|newest| newest.0())?;
        (!newest.is_of(&self.scrub)).then_some(newest)
    }

    /// What changes a body or a message that begins now.
    #[must_use]
    pub fn scrubbers(&self, fit: Fit) -> Scrubbers {
        let mut scrubbers = Scrubbers::new(&self.scrub, fit).with_sums(self.sums_made());
        if let Some(newer) = self.newer() {
            scrubbers.renew(&newer);
        }
        scrubbers
    }

    /// What its parts are counted in.
    #[must_use]
    pub const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Replaces values in a header or trailer section.
    pub fn fields(&self, headers: &mut HeaderMap) {
        let mut found = Found::default();
        self.scrub.headers(headers, &mut found.names);
        if let Some(newer) = self.newer() {
            newer.headers(headers, &mut found.names);
        }
        if let Some(sums) = self.sums_made() {
            let mut made = BTreeSet::new();
            sums.headers(headers, &mut made);
            found.sum = !made.is_empty();
        }
        self.note(found, "a header");
    }

    /// What takes the digests out that were made of the request's body, which is whole before an answer comes.
    fn sums_made(&self) -> Option<&Arc<Scrub>> {
        let made = || scrub_of(&self.tally.sums());
        self.sums.get_or_init(made).as_ref()
    }

    /// Tells the record why an answer does not go on.
    pub fn untold(&self, why: &dyn std::error::Error) {
        self.tally.found(format!("the answer was refused: {why}"));
    }

    /// Tells the record whose values came back.
    pub fn note(&self, found: Found, place: &str) {
        if found.sum {
            self.tally.found(format!(
                "a digest of the body that was sent came back in {place}, replaced"
            ));
        }
        for name in found.names {
            let came = if self.scrub.takes(&name) {
                "came back"
            } else {
                "came from where it is not sent"
            };
            self.tally
                .found(format!("value of {name} {came} in {place}, replaced"));
        }
    }

    /// Readies an answer's header section, and tells what happens to the body; `None`: it has none.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn answer(
        &self,
        status: StatusCode,
        headers: &mut HeaderMap,
        empty: bool,
    ) -> Result<Option<Plan>, Unreadable> {
        self.fields(headers);
        let partial = is_piece(status, headers);
        if self.carrying {
            if partial {
                return Err(Unreadable::Piece);
            }
            headers.remove(ACCEPT_RANGES);
            self.sums(headers);
        }
        let coded = coded(headers);
        if empty && !self.head {
            return Ok(None);
        }
        let mut fit = fit(headers);
        if partial {
            fit = Fit::Exact;
        }
        let plan = match coded {
            Coded::Plain => self.plain(headers, fit)?,
            Coded::Known(codings) => {
                let asked = codings.iter().all(|c| self.accepts.contains(c)) && !partial;
                let decoder = Decoder::new(&codings, &self.memory)?;
                if asked {
                    self.undo(headers);
                    Plan::Stream(Work::decoding(decoder, self.rewriter(headers, fit)?))
                } else if !partial && self.is_short_text(headers, fit) {
                    let (raw, looking) = (self.scrubbers(fit), (decoder, self.memory.share()));
                    Plan::Gather(Work::whole(looking, raw, self.rewriter(headers, fit)?))
                } else {
                    let scrubbers = || self.scrubbers(Fit::Exact);
                    let rewriter = Rewriter::Body(scrubbers());
                    let looking = (decoder, self.memory.share());
                    Plan::Stream(Work::looking(looking, scrubbers(), rewriter))
                }
            }
            Coded::TooMany => return Err(Unreadable::Coding),
            Coded::Unknown if self.bound => return Err(Unreadable::Coding),
            Coded::Unknown => {
                self.tally
                    .found("an answer in an unknown content coding was not undone".to_owned());
                Plan::Stream(Work::passing(self.rewriter(headers, Fit::Exact)?))
            }
        };
        Ok((!empty).then_some(plan))
    }

    fn plain(&self, headers: &mut HeaderMap, fit: Fit) -> Result<Plan, Unreadable> {
        let text = fit != Fit::Exact && !is_enveloped(headers);
        let length = content_length(headers).filter(|_| fit == Fit::Free);
        if self.is_short_text(headers, fit) {
            return Ok(Plan::Gather(Work::passing(self.rewriter(headers, fit)?)));
        }
        let fit = if length.is_some() { Fit::Exact } else { fit };
        let work = Work::passing(self.rewriter(headers, fit)?);
        if text && length.is_none() {
            headers.remove(CONTENT_LENGTH);
        }
        if self.carrying {
            self.weakened.changed(headers);
        } else if text {
            forget_digests(headers);
        }
        Ok(Plan::Stream(work))
    }

    /// Whether it can be read whole before its head goes on, and may come out with another length.
    fn is_short_text(&self, headers: &HeaderMap, fit: Fit) -> bool {
        let is_short = content_length(headers).is_some_and(|length| length <= SHORT);
        fit == Fit::Free && is_short && !self.head && !is_enveloped(headers)
    }

    /// The header section of a body whose codings are undone.
    fn undo(&self, headers: &mut HeaderMap) {
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
        headers.remove(ACCEPT_RANGES);
        self.weakened.changed(headers);
        headers.append(http::header::VARY, HeaderValue::from_name(ACCEPT_ENCODING));
    }

    fn rewriter(&self, headers: &HeaderMap, fit: Fit) -> Result<Rewriter, Unreadable> {
        if !is_enveloped(headers) {
            return Ok(Rewriter::Body(self.scrubbers(fit)));
        }
        let coding = match compressed(headers) {
            Compressed::Not => None,
            Compressed::By(coding) => Some(coding),
            Compressed::Strangely if self.bound => return Err(Unreadable::Coding),
            Compressed::Strangely => None,
        };
        let scrubbers = self.scrubbers(Fit::Exact);
        Ok(Rewriter::Messages(Messages::new(
            scrubbers,
            coding,
            Arc::clone(&self.memory),
        )))
    }

    /// Leaves out what says what something with a value hashes to: of this request's body, or of what the host
    /// kept of another's. A checksum gives the value away, and so does any sum of one that can be guessed.
    fn sums(&self, headers: &mut HeaderMap) {
        forget_sums(headers);
        if self.tally.body_changed() {
            self.weakened.gave();
        }
        self.weakened.forget_hashes(headers);
    }

    /// Replaces values in a trailer section; behind a body that may have been changed it says nothing of it.
    pub fn trailers(&self, trailers: &mut HeaderMap, changed: bool) {
        self.fields(trailers);
        if self.carrying {
            self.sums(trailers);
        } else if changed {
            forget_digests(trailers);
        }
    }

    /// A body that was read whole came out as `scrubbed`.
    pub fn settle(&self, headers: &mut HeaderMap, scrubbed: usize, became: Became) {
        match became {
            Became::Same => {}
            Became::Changed => self.weakened.changed(headers),
            Became::Undone => self.undo(headers),
        }
        headers.insert(CONTENT_LENGTH, scrubbed.into());
    }
}

impl Newest {
    /// As `tell` says.
    pub fn new(tell: impl Fn() -> Option<Arc<Scrub>> + Send + Sync + 'static) -> Self {
        Self(Box::new(tell))
    }
}

impl fmt::Debug for Newest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Newest")
    }
}

/// Text may change its length; what is not known to be text may not.
fn fit(headers: &HeaderMap) -> Fit {
    let media = media(headers);
    let main = media.split_once('/').map_or(&*media, |(main, _)| main);
    if media == "text/event-stream" {
        return Fit::Events;
    }
    // Parts of several kinds may be of any.
    let text = main != "multipart" && is_text(&media) || main == "message";
    if text { Fit::Free } else { Fit::Exact }
}

const GRPC_ACCEPT: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// Most answers of an API; what is held for one stays small.
const SHORT: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::{fit as fit_of, *};

    #[test]
    fn text_of_every_name_has_room_for_a_whole_sentinel() {
        let fit = |media: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, media.parse().unwrap());
            fit_of(&headers)
        };
        for media in [
            "text/plain",
            "application/json",
            "application/vnd.acme+json; v=1",
            "application/jwt",
            "application/jose",
            "application/csv",
            "application/x-sh",
            "application/xml",
            "image/svg+xml",
            "message/rfc822",
            "application/sql",
        ] {
            assert_eq!(fit(media), Fit::Free, "{media}");
        }
        for media in [
            "application/octet-stream",
            "multipart/mixed",
            "image/png",
            "json",
        ] {
            assert_eq!(fit(media), Fit::Exact, "{media}");
        }
        assert_eq!(fit("text/event-stream"), Fit::Events);
        assert_eq!(fit_of(&HeaderMap::new()), Fit::Exact);
    }
}
