//! Logins made inside: the tokens that a server gives become sentinels before the program sees them.
//!
//! A request that policy captures is forwarded like any other. Its answer is read whole, and every token
//! in it (RFC 6749 §5.1, OpenID Connect Core §3.1.3.3, RFC 8628 §3.2) is put into the sandbox's wallet
//! and stands in the answer as a sentinel. An answer that cannot be taken apart does not come back, unless
//! nothing in it is long enough to be a token; where it says no success, words and numbers may be as long.
//!
//! ```text
//! names      what they are called
//! answer     where tokens stand in JSON and in forms
//! fields     where they stand in header fields and cookies
//! nested     JSON that is a text within JSON or a form
//! prose      texts that hold none
//! overlay    the wallet's tokens: bounded, expiring, gone with the sandbox
//! ```

use std::{collections::BTreeSet, fmt, sync::Arc};

use gig_policy::{DenyReason, SecretGrant, SecretName, SecretPlace};
use http::{
    HeaderMap, Method, StatusCode,
    header::{ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, ETAG},
};
use zeroize::Zeroizing;

use self::{
    answer::Token,
    names::Field,
    prose::{is_prose, says_nothing},
};
use super::{
    coding::{Coded, DecodeError, Decoder, accepted, coded},
    digested::DIGESTS,
    media::media,
    memory::{NoMemory, Share},
    ranges::{ask_for_all, is_piece},
    sentinel::MintSentinelError,
    sums::scrub_of,
    tally::Tally,
    wallet::Wallet,
};

mod answer;
mod fields;
mod names;
mod nested;
pub mod overlay;
mod prose;

/// What becomes of the tokens in one answer.
pub struct Capture {
    wallet: Arc<Wallet>,
    name: SecretName,
    /// Fields of the answer that the policy says hold tokens.
    from: Arc<[SecretPlace]>,
    /// The policy lets the program have ID tokens as they are.
    shows_identity: bool,
    tally: Arc<Tally>,
}

/// An answer whose tokens cannot be kept back. Shows nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// Longer than any token answer.
    #[error("the answer is longer than {MOST} octets")]
    TooLong,
    /// Its coding is not known, was broken, or it is a part of something.
    #[error("the answer cannot be decoded")]
    Undecodable,
    /// There is no memory to read it.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// Neither JSON nor a form.
    #[error("the answer is neither JSON nor a form")]
    Unparsable,
    /// A success without a token where tokens are known to stand.
    #[error("the answer says success and holds no token where one is known to stand")]
    NoToken,
    /// Something that is called a token and is none.
    #[error("what the answer calls a token is too long, or no text")]
    Strange,
    /// A token in a header field that none can be taken out of.
    #[error("the answer holds a token in a header field, such as a redirect's target")]
    InHeader,
    /// No sentinel could be made.
    #[error(transparent)]
    Mint(#[from] MintSentinelError),
}

/// An answer's body on its way to being whole.
pub struct Gathering {
    decoder: Option<Decoder>,
    plain: Zeroizing<Vec<u8>>,
    /// What `plain` holds.
    share: Share,
}

/// Which tokens there were, and how long they live.
type Kinds = BTreeSet<(&'static str, Option<u64>)>;

/// An answer with its tokens kept back.
pub struct Taken {
    /// The body that the program gets.
    pub body: Vec<u8>,
    /// What was kept back, in words for the record; empty when there was no token.
    pub findings: Vec<String>,
}

impl Capture {
    /// For a request with these grants; `None` where its answer passes like any other.
    #[must_use]
    pub fn of(wallet: &Arc<Wallet>, granted: &[SecretGrant], tally: &Arc<Tally>) -> Option<Self> {
        let grant = granted.iter().find(|grant| grant.captures)?;
        // Where rules differ, the one that shows less holds.
        let capturing = || granted.iter().filter(|grant| grant.captures);
        let from = capturing().filter_map(|grant| grant.places.as_deref());
        let from = from.flatten().cloned().collect();
        let shows_identity = capturing().all(|grant| grant.shows_identity);
        Some(Self {
            wallet: Arc::clone(wallet),
            name: grant.name.clone(),
            from,
            shows_identity,
            tally: Arc::clone(tally),
        })
    }

    /// Which secret the tokens become.
    #[must_use]
    pub const fn name(&self) -> &SecretName {
        &self.name
    }

    /// Has the request ask for a whole answer in a coding that can be undone.
    pub fn ready(method: &Method, headers: &mut HeaderMap) {
        drop(accepted(headers));
        ask_for_all(method, headers);
    }

    /// Begins to read an answer.
    ///
    /// # Errors
    /// [`CaptureError`]: it need not be read at all.
    pub fn begin(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<Gathering, CaptureError> {
        let memory = self.wallet.memory();
        if is_piece(status, headers) {
            return Err(CaptureError::Undecodable);
        }
        let decoder = match coded(headers) {
            Coded::Plain => None,
            Coded::Known(codings) => Some(Decoder::new(&codings, memory)?),
            Coded::Unknown | Coded::TooMany => return Err(CaptureError::Undecodable),
        };
        Ok(Gathering {
            decoder,
            plain: Zeroizing::default(),
            share: memory.share(),
        })
    }

    /// Keeps the tokens of a whole answer back, and readies its header section.
    ///
    /// # Errors
    /// [`CaptureError`]: nothing of it may come back.
    pub fn take(
        &self,
        status: StatusCode,
        headers: &mut HeaderMap,
        gathering: Gathering,
    ) -> Result<Taken, CaptureError> {
        let plain = gathering.end()?;
        let mut kinds = BTreeSet::new();
        let told = self.take_fields(headers, &mut kinds)?;
        let body = if plain.iter().all(u8::is_ascii_whitespace) {
            plain.to_vec()
        } else {
            let media = media(headers);
            let keep = |token: Token| self.keep(token, &mut kinds);
            let bare = told || !status.is_success();
            match answer::take_apart(&plain, (&media, &self.from), keep) {
                Ok(shown) if bare || shown.told || says_nothing(&shown.body) => shown.body,
                Ok(_) => return Err(CaptureError::NoToken),
                Err(CaptureError::Unparsable) if says_nothing(&plain) => plain.to_vec(),
                // A page that says what went wrong, where no token can be in it.
                Err(CaptureError::Unparsable) if !status.is_success() && is_prose(&plain) => {
                    plain.to_vec()
                }
                // It leads on by its header section.
                Err(CaptureError::Unparsable) if status.is_redirection() => {
                    let left = "the text of a redirect was left out: it may hold a token";
                    self.tally.found(left.to_owned());
                    Vec::new()
                }
                Err(error) => return Err(error),
            }
        };
        let body = self.scrubbed(headers, body);
        settle(headers, body.len());
        let findings = self.findings(kinds);
        Ok(Taken { body, findings })
    }

    /// Keeps the tokens of an answer without a body back, and gives what was, for the record.
    ///
    /// # Errors
    /// [`CaptureError`]: nothing of it may come back.
    pub fn take_head(&self, headers: &mut HeaderMap) -> Result<Vec<String>, CaptureError> {
        let mut kinds = BTreeSet::new();
        self.take_fields(headers, &mut kinds)?;
        drop(self.scrubbed(headers, Vec::new()));
        Ok(self.findings(kinds))
    }

    fn take_fields(
        &self,
        headers: &mut HeaderMap,
        kinds: &mut Kinds,
    ) -> Result<bool, CaptureError> {
        fields::take_apart(headers, &self.from, |token| self.keep(token, kinds))
    }

    fn findings(&self, kinds: Kinds) -> Vec<String> {
        let findings = kinds.into_iter().map(|(field, lives)| {
            let lives = lives.map_or_else(String::new, |s| format!(", lives {s} s"));
            format!("{} captured as {}{lives}", field, self.name)
        });
        let findings: Vec<String> = findings.collect();
        for finding in &findings {
            self.tally.found(finding.clone());
        }
        findings
    }

    /// The sentinel that stands for a token.
    fn keep(&self, token: Token, kinds: &mut Kinds) -> Result<Arc<str>, CaptureError> {
        if token.value.len() > LONGEST {
            return Err(CaptureError::Strange);
        }
        if token.field == Field::Identity && self.shows_identity {
            let shown = std::str::from_utf8(token.value.expose());
            let shown = shown.map_err(|_| CaptureError::Strange)?;
            self.tally
                .found(format!("id_token shown to the program ({})", self.name));
            return Ok(shown.into());
        }
        let name = match token.field {
            Field::Access | Field::Identity => self.name.clone(),
            Field::Refresh | Field::Device => {
                self.name.of_grants().map_err(|_| CaptureError::Strange)?
            }
        };
        kinds.insert((token.field.as_str(), token.lives));
        Ok(self.wallet.hold_captured(&name, token.value, token.lives)?)
    }

    /// What else of the answer repeats a value, of this login or any other, or a digest that was made of the request.
    fn scrubbed(&self, headers: &mut HeaderMap, mut body: Vec<u8>) -> Vec<u8> {
        if let Some(sums) = scrub_of(&self.tally.sums()) {
            let mut found = BTreeSet::new();
            sums.headers(headers, &mut found);
            body = sums.text(&body, &mut found).unwrap_or(body);
        }
        let Some(scrub) = self.wallet.scrub(&[]) else {
            return body;
        };
        let mut found = BTreeSet::new();
        scrub.headers(headers, &mut found);
        let text = scrub.text(&body, &mut found);
        for name in found {
            self.tally
                .found(format!("value of {name} came back in the answer, replaced"));
        }
        text.unwrap_or(body)
    }
}

impl Gathering {
    /// Takes the next octets.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn push(&mut self, octets: &[u8]) -> Result<(), CaptureError> {
        let Some(decoder) = &mut self.decoder else {
            return keep((&mut self.plain, &mut self.share), octets);
        };
        decoder.push(octets);
        let mut some = Zeroizing::new(Vec::new());
        while decoder.step(&mut some)? {
            keep((&mut self.plain, &mut self.share), &some)?;
            some.clear();
        }
        Ok(())
    }

    fn end(self) -> Result<Zeroizing<Vec<u8>>, CaptureError> {
        self.decoder.as_ref().map_or(Ok(()), Decoder::end)?;
        Ok(self.plain)
    }
}

/// Adds `octets` to what was read.
fn keep((plain, share): (&mut Vec<u8>, &mut Share), octets: &[u8]) -> Result<(), CaptureError> {
    if plain.len() + octets.len() > MOST {
        return Err(CaptureError::TooLong);
    }
    plain.extend_from_slice(octets);
    Ok(share.at_least(plain.capacity())?)
}

impl CaptureError {
    /// The word that it is told by.
    #[must_use]
    pub const fn reason(&self) -> DenyReason {
        match self {
            Self::NoMemory(_) => DenyReason::DecoderLimit,
            _ => DenyReason::TokenUnreadable,
        }
    }
}

impl From<DecodeError> for CaptureError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Broken => Self::Undecodable,
            DecodeError::NoMemory(none) => Self::NoMemory(none),
        }
    }
}

/// The header section of a body that was put together anew.
fn settle(headers: &mut HeaderMap, length: usize) {
    for name in [CONTENT_ENCODING, ACCEPT_RANGES, ETAG] {
        headers.remove(name);
    }
    for name in DIGESTS {
        headers.remove(name);
    }
    headers.insert(CONTENT_LENGTH, length.into());
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({})", self.name)
    }
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gathering({} octets)", self.plain.len())
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Taken({:?})", self.findings)
    }
}

/// No token answer is so long.
const MOST: usize = 1024 * 1024;
/// Shorter ones could be guessed (RFC 6749 §10.10).
const SHORTEST_TOKEN: usize = 16;
/// Longer ones go into no header field.
const LONGEST: usize = 16 * 1024;
