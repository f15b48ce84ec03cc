//! Second factors of people: a device that shows codes, set up in the console and asked for at sign-in.
//!
//! Promises that what a device knows is kept sealed, that whether a name or a password exists is told to
//! nobody by asking for a code, and that a factor which cannot be opened lets nobody in: it is never
//! skipped. How often somebody may try is the sign-in's, that a code is used once the store's.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    api_error::Problem,
    app::App,
    store::{SecondFactor, UsedCode},
};

mod code;
#[cfg(test)]
pub(crate) mod fake;
mod picture;

pub(crate) use code::{Seed, Typed, written_down};
pub(crate) use picture::picture;

/// Seals what is kept of factors. Implemented by the composition root, which alone knows the vault.
pub trait Sealer: Send + Sync + 'static {
    /// Seals `plain` so that it opens only together with `context`; makes the key at first use. Blocks.
    ///
    /// # Errors
    /// When the vault cannot be used.
    fn seal(&self, plain: &[u8], context: &[&str]) -> Result<Vec<u8>, SealError>;

    /// Opens what was sealed with the same context. Blocks.
    ///
    /// # Errors
    /// When the vault cannot be used, or it was sealed otherwise.
    fn open(&self, sealed: &[u8], context: &[&str]) -> Result<Zeroizing<Vec<u8>>, SealError>;

    /// A key of 256 bits to compute with, which no reader of the store has and all nodes have; made at first use. Blocks.
    ///
    /// # Errors
    /// When the vault cannot be used.
    fn key(&self, purpose: &str) -> Result<Zeroizing<Vec<u8>>, SealError>;
}

/// Something can be neither sealed nor opened.
#[derive(Debug, Error)]
pub enum SealError {
    /// What is to be opened was sealed otherwise or never: there is no key yet, or it is another one, or another context.
    #[error("{0}")]
    Otherwise(String),
    /// The vault cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// Somebody's factor, open: codes can be compared with it.
pub(crate) struct OpenFactor {
    seed: Seed,
    since: Timestamp,
}

/// A factor that is being set up: not kept anywhere but in the page that shows it, sealed.
pub(crate) struct DraftFactor {
    pub(crate) seed: Seed,
    /// Comes back with the first code.
    pub(crate) text: String,
}

impl OpenFactor {
    /// What the store is to let be used once; `None` for what is no code of it.
    pub(crate) fn check(&self, typed: &str, now: Timestamp) -> Option<UsedCode> {
        match Typed::read(typed)? {
            Typed::Device(code) => Some(UsedCode::Device {
                step: self.seed.step_of(&code, now)?,
                since: self.since,
            }),
            Typed::WrittenDown(digest) => Some(UsedCode::WrittenDown(digest)),
        }
    }
}

impl App {
    /// The factor of somebody, whether they are there or not.
    ///
    /// # Errors
    /// 503 where it cannot be opened.
    pub(crate) async fn factor_of(&self, name: &str) -> Result<Option<OpenFactor>, Problem> {
        let wanted = name.to_owned();
        let kept = self.ask(move |store| store.second_factor(&wanted)).await?;
        let Some(SecondFactor { sealed, since, .. }) = kept else {
            return Ok(None);
        };
        let (folded, at) = (name.to_ascii_lowercase(), since.as_second().to_string());
        let opened = self
            .with_sealer(move |sealer| sealer.open(&sealed, &["kept", &folded, &at]))
            .await?;
        if let Err(error @ SealError::Otherwise(_)) = &opened {
            tracing::warn!(%error, user = name, "a second factor that is kept cannot be opened");
        }
        let seed = opened.ok().and_then(|octets| Seed::of(&octets));
        match seed {
            Some(seed) => Ok(Some(OpenFactor { seed, since })),
            None => Err(Problem::unavailable(UNOPENED)),
        }
    }

    /// Seals a factor for the store.
    pub(crate) async fn seal_factor(
        &self,
        name: &str,
        seed: &Seed,
        since: Timestamp,
    ) -> Result<Vec<u8>, Problem> {
        let octets = Zeroizing::new(seed.octets().to_vec());
        let (folded, at) = (name.to_ascii_lowercase(), since.as_second().to_string());
        let sealed = self
            .with_sealer(move |sealer| sealer.seal(&octets, &["kept", &folded, &at]))
            .await?;
        sealed.map_err(|_| Problem::unavailable(UNSEALED))
    }

    /// A new factor, for this session alone and for a while.
    pub(crate) async fn draft_factor(
        &self,
        name: &str,
        session: &str,
    ) -> Result<DraftFactor, Problem> {
        let seed = Seed::random().map_err(Problem::internal)?;
        let until = self.now().checked_add(TO_SET_UP);
        let until = until.map_err(Problem::internal)?.as_second();
        let mut octets = Zeroizing::new(until.to_be_bytes().to_vec());
        octets.extend_from_slice(seed.octets());
        let (folded, session) = (name.to_ascii_lowercase(), session.to_owned());
        let sealed = self
            .with_sealer(move |sealer| sealer.seal(&octets, &["draft", &folded, &session]))
            .await?;
        let sealed = sealed.map_err(|_| Problem::unavailable(UNSEALED))?;
        let text = BASE64_URL_SAFE_NO_PAD.encode(sealed);
        Ok(DraftFactor { seed, text })
    }

    /// What was begun in this session not long ago; refuses all else.
    pub(crate) async fn drafted_factor(
        &self,
        name: &str,
        session: &str,
        text: &str,
    ) -> Result<DraftFactor, Problem> {
        let stale = || Problem::invalid("that page is too old: begin again");
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| stale())?;
        let (folded, session) = (name.to_ascii_lowercase(), session.to_owned());
        let opened = self
            .with_sealer(move |sealer| sealer.open(&sealed, &["draft", &folded, &session]))
            .await?;
        // A browser brings what it likes: that is no trouble of the vault's, and not told to the log.
        let octets = opened.map_err(|error| match error {
            SealError::Otherwise(_) => stale(),
            SealError::Unusable(_) => Problem::unavailable(UNSEALED),
        })?;
        let (until, seed) = octets.split_first_chunk::<8>().ok_or_else(stale)?;
        if i64::from_be_bytes(*until) <= self.now().as_second() {
            return Err(stale());
        }
        let seed = Seed::of(seed).ok_or_else(stale)?;
        let text = text.to_owned();
        Ok(DraftFactor { seed, text })
    }
}

/// What a device reads: by whom, for whom, and the seed.
pub(crate) fn address(name: &str, place: &str, seed: &Seed) -> Zeroizing<String> {
    let issuer = crate::pages::in_query(format!("gig {place}").trim_end());
    let name = crate::pages::in_query(name);
    let words = seed.words();
    Zeroizing::new(format!(
        "otpauth://totp/{issuer}:{name}?secret={}&issuer={issuer}&algorithm=SHA1&digits=6&period=30",
        *words
    ))
}

/// Enough to find a telephone.
const TO_SET_UP: SignedDuration = SignedDuration::from_mins(15);
const UNOPENED: &str = "this node cannot open second factors: its master key is missing or another one than they are \
     sealed with; bring it back (GIG_MASTER_KEY, GIG_MASTER_KEY_FILE or master.key), or let this machine's owner \
     remove the factor: gig user factor NAME --remove";
const UNSEALED: &str =
    "a second factor cannot be set up here: this node's vault cannot be used; its own log says why";

#[cfg(test)]
mod tests;
