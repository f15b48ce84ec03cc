//! One secret's place: what is at hand, until when, who fetches, what failed.

use std::{cmp::Reverse, collections::VecDeque, sync::Arc, time::Duration};

use gig_policy::SecretName;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    Defined, Kept,
    flight::{Flight, HERE, Landed},
    making::{self, Failed, Source},
    unavailable,
};
use crate::{
    clock::after, keeper::SecretUnavailable, provider::Provided, secret::Secret,
    secret_bytes::SecretBytes, vault::RootId,
};

/// What a value was made of: the same stamp, the same value, as far as the store knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Of the definition's row; empty for a value that was given.
    pub(super) tag: Vec<u8>,
    /// Of the stored version, or where services replaced it since the one that they began with: what
    /// was minted of it stays good. `None` where nothing is stored.
    pub(super) root: Option<RootId>,
}

/// The place of one secret.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<State>,
    /// The provider keeps its session here.
    source: tokio::sync::Mutex<Option<Source>>,
}

#[derive(Debug, Default)]
struct State {
    ready: Option<Ready>,
    failure: Option<Failure>,
    /// The fetch that is under way.
    flight: Option<Flight>,
    /// Values that were handed out, newest first.
    known: VecDeque<Known>,
    /// Counts the values of a provider that does not.
    versions: u64,
    /// When a value was last renewed because a host refused it.
    heeded: Option<Timestamp>,
}

/// A value at hand.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) stamp: Stamp,
    pub(super) secret: Arc<Secret>,
    /// From then on it is renewed.
    pub(super) due: Option<Timestamp>,
    /// From then on it is not used before somebody was asked for another: a host said that it is good no
    /// more. Until then, and where it is `None`, nobody waits.
    pub(super) awaited: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    /// As the service that minted it says: how long hosts take it, whatever replaces it here.
    pub(super) lives: Option<Timestamp>,
    /// Somebody gives another when asked.
    pub(super) renews: bool,
    /// What a provider gave that only gig itself uses.
    pub(super) behind: Vec<SecretBytes>,
}

#[derive(Debug)]
struct Failure {
    stamp: Stamp,
    until: Timestamp,
    why: SecretUnavailable,
}

/// A value that was fetched or minted.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) version: u64,
    /// As [`crate::GuardedValue`] has it.
    pub(super) part: Option<usize>,
    pub(super) value: Arc<SecretBytes>,
    pub(super) current: bool,
    /// Nothing but renewals took its place, if anything did.
    pub(super) stands: bool,
    /// From then on no host takes it any more; `None` where nobody said.
    pub(super) lives: Option<Timestamp>,
}

impl Stamp {
    pub(super) const fn given() -> Self {
        Self {
            tag: Vec::new(),
            root: None,
        }
    }

    pub(super) const fn provided(tag: Vec<u8>) -> Self {
        Self { tag, root: None }
    }

    pub(super) const fn stored(tag: Vec<u8>, root: RootId) -> Self {
        Self {
            tag,
            root: Some(root),
        }
    }
}

impl Slot {
    /// What is at hand, if nobody has to do anything for it. A value that is due for renewal is at hand
    /// for everybody but the one who comes first; one that a host refused is not until somebody was asked.
    pub(super) fn at_hand(&self, stamp: &Stamp, now: Timestamp) -> Option<Arc<Secret>> {
        let state = self.state.lock();
        let (secret, due) = state.usable(stamp, now)?;
        (!due || state.flight.is_some() && !state.waits(now)).then_some(secret)
    }

    /// What is at hand, due for renewal or not.
    pub(super) fn usable(&self, stamp: &Stamp, now: Timestamp) -> Option<Arc<Secret>> {
        self.state
            .lock()
            .usable(stamp, now)
            .map(|(secret, _)| secret)
    }

    /// Whether a value that was made of this stamp, and perhaps renewed since, may be used on.
    pub(super) fn stands(&self, stamp: &Stamp, secret: &Secret, now: Timestamp) -> bool {
        let state = self.state.lock();
        let same = state
            .ready
            .as_ref()
            .is_some_and(|ready| ready.stamp == *stamp);
        let good = |known: &Known| known.stands && known.lives.is_none_or(|end| now < end);
        let of = |known: &Known| secret.parts.iter().any(|part| part.value == *known.value);
        let usable = state.usable(stamp, now);
        let newest = usable.is_some_and(|(newest, _)| std::ptr::eq(&*newest, secret));
        newest
            || same
                && state
                    .known
                    .iter()
                    .any(|known| !known.current && good(known) && of(known))
    }

    /// A host does not take it any more: whoever comes next renews it.
    pub(super) fn refused(&self, now: Timestamp) {
        let mut state = self.state.lock();
        let recent = state.heeded.is_some_and(|at| now < after(at, HEED));
        let Some(ready) = state.ready.as_mut().filter(|ready| ready.renews && !recent) else {
            return;
        };
        tracing::info!(secret = %ready.secret.name, "refused by a host: renewed with its next use");
        ready.due = Some(now);
        ready.awaited = Some(now);
        state.heeded = Some(now);
    }

    /// Values to watch for, and when the newest ends. None may be used unless it was made of `stamp`.
    pub(super) fn known(
        &self,
        stamp: Option<&Stamp>,
        now: Timestamp,
    ) -> (Vec<Known>, Option<Timestamp>) {
        let state = self.state.lock();
        let usable = stamp.is_some_and(|stamp| state.usable(stamp, now).is_some());
        let known = state.known.iter().cloned().map(|known| Known {
            current: known.current && usable,
            ..known
        });
        let until = state.ready.as_ref().and_then(|ready| ready.until);
        (known.collect(), until.filter(|_| usable))
    }

    /// What is at hand, or what is fetched now. Who waits shares one fetch, which goes on when this is
    /// dropped. Nobody waits for the renewal of what may still be used.
    pub(super) async fn get(
        self: &Arc<Self>,
        kept: &Arc<Kept>,
        name: &SecretName,
    ) -> Result<Arc<Secret>, SecretUnavailable> {
        for _ in 0..ROUNDS {
            let defined = kept.defined(name)?;
            if let Some(answer) = self.settled(&defined.stamp, kept.clock.now()) {
                return answer;
            }
            if let Some(old) = self.still_good(&defined.stamp, kept.clock.now()) {
                if let Err(error) = self.flight(kept, name) {
                    tracing::warn!(secret = %name, %error, "not renewed: the old value is used on");
                }
                return Ok(old);
            }
            let landed = if defined.asks_nobody() {
                self.make(kept, name, defined, &mut None).await
            } else {
                self.flight(kept, name)?.landed(name).await?
            };
            // Meanwhile the secret may have become another, or have gone.
            if landed.stamp.is_none() || landed.stamp == kept.stamp(name, kept.clock.now()) {
                return landed.answer;
            }
        }
        let why = "it changes faster than it can be fetched";
        Err(unavailable(name, "the vault", why))
    }

    /// What is due for renewal and need not wait for it.
    fn still_good(&self, stamp: &Stamp, now: Timestamp) -> Option<Arc<Secret>> {
        let state = self.state.lock();
        let (secret, due) = state.usable(stamp, now)?;
        (due && !state.waits(now)).then_some(secret)
    }

    /// The fetch that is under way, begun if there is none.
    pub(super) fn flight(
        self: &Arc<Self>,
        kept: &Arc<Kept>,
        name: &SecretName,
    ) -> Result<Flight, SecretUnavailable> {
        let mut state = self.state.lock();
        if let Some(flight) = &state.flight {
            return Ok(flight.clone());
        }
        // Its thread can do nothing here before it is noted.
        let flight = Flight::begin(kept, self, name)?;
        state.flight = Some(flight.clone());
        Ok(flight)
    }

    /// Fetches: on a thread of its own, one at a time.
    pub(super) async fn fetch(&self, kept: &Kept, name: &SecretName) -> Landed {
        let mut source = self.source.lock().await;
        let defined = match kept.defined(name) {
            Ok(defined) => defined,
            Err(why) => return Landed::failed(why),
        };
        let stamp = Some(defined.stamp.clone());
        // Looked at again: the one before may have fetched.
        let settled = self.state.lock().settled(&defined.stamp, kept.clock.now());
        if let Some(answer) = settled {
            return Landed { stamp, answer };
        }
        let leave = async {
            kept.flights.ending().await;
            let why = "it is ending, and does not wait for another value";
            Landed::failed(unavailable(name, HERE, why))
        };
        if !defined.rotates() {
            // Nothing is lost where nothing is replaced.
            return tokio::select! {
                biased;
                left = leave => left,
                landed = self.make(kept, name, defined, &mut source) => landed,
            };
        }
        let alone = tokio::select! {
            biased;
            left = leave => return left,
            alone = kept.alone(name) => alone,
        };
        let _alone = match alone {
            Ok(alone) => alone,
            Err(why) => {
                let failed = Failed {
                    why,
                    refused: false,
                };
                let stamp = defined.stamp;
                return self.landed(kept, stamp, Err(failed));
            }
        };
        // Another process may have been given another refresh token meanwhile: this one's is a thief's.
        match kept.defined(name) {
            Ok(defined) => self.make(kept, name, defined, &mut source).await,
            Err(why) => Landed::failed(why),
        }
    }

    /// Whoever comes next may fetch again.
    pub(super) fn ended(&self) {
        self.state.lock().flight = None;
    }

    /// Makes what is used of what is defined, and keeps it.
    async fn make(
        &self,
        kept: &Kept,
        name: &SecretName,
        defined: Defined,
        source: &mut Option<Source>,
    ) -> Landed {
        let stamp = defined.stamp.clone();
        let version = |provided: &Provided| self.state.lock().version(provided);
        let made = making::make(kept, name, defined, (source, &version)).await;
        self.landed(kept, stamp, made)
    }

    /// Keeps what was made of what was stamped so.
    fn landed(&self, kept: &Kept, stamp: Stamp, made: Result<Ready, Failed>) -> Landed {
        match made {
            Ok(ready) => {
                let landed = Landed {
                    stamp: Some(ready.stamp.clone()),
                    answer: Ok(Arc::clone(&ready.secret)),
                };
                let mut state = self.state.lock();
                state.learn(kept, &ready);
                state.failure = None;
                state.ready = Some(ready);
                drop(state);
                kept.guard.forget();
                landed
            }
            Err(failed) => Landed {
                stamp: Some(stamp.clone()),
                answer: self.state.lock().fail(failed, stamp, kept.clock.now()),
            },
        }
    }

    /// The answer that needs no fetch; what is due for renewal is one while somebody renews it.
    fn settled(
        &self,
        stamp: &Stamp,
        now: Timestamp,
    ) -> Option<Result<Arc<Secret>, SecretUnavailable>> {
        self.at_hand(stamp, now)
            .map(Ok)
            .or_else(|| self.state.lock().settled(stamp, now))
    }
}

impl State {
    /// Whether what is at hand was refused by a host, so that another is waited for.
    fn waits(&self, now: Timestamp) -> bool {
        let awaited = self.ready.as_ref().and_then(|ready| ready.awaited);
        awaited.is_some_and(|at| now >= at)
    }

    fn usable(&self, stamp: &Stamp, now: Timestamp) -> Option<(Arc<Secret>, bool)> {
        let ready = self.ready.as_ref()?;
        let good = ready.stamp == *stamp && ready.until.is_none_or(|until| now < until);
        let due = ready.due.is_some_and(|due| now >= due);
        good.then(|| (Arc::clone(&ready.secret), due))
    }

    fn settled(
        &self,
        stamp: &Stamp,
        now: Timestamp,
    ) -> Option<Result<Arc<Secret>, SecretUnavailable>> {
        match self.usable(stamp, now) {
            Some((secret, false)) => Some(Ok(secret)),
            Some((_, true)) => None,
            None => {
                let failure = self.failure.as_ref()?;
                let recent = failure.stamp == *stamp && now < failure.until;
                recent.then(|| Err(failure.why.clone()))
            }
        }
    }

    /// Remembers a failure; what is at hand is used on, unless it was refused.
    fn fail(
        &mut self,
        failed: Failed,
        stamp: Stamp,
        now: Timestamp,
    ) -> Result<Arc<Secret>, SecretUnavailable> {
        if failed.refused {
            self.ready = None;
        }
        if let Some((secret, _)) = self.usable(&stamp, now) {
            tracing::warn!(secret = %secret.name, error = %failed.why, "not renewed: the old value is used on");
            if let Some(ready) = &mut self.ready {
                ready.due = Some(after(now, RETRY));
                // Who waits for a provider that is silent waits in vain; but one that answers again may give another.
                ready.awaited = ready.awaited.map(|_| after(now, SILENCE));
            }
            return Ok(secret);
        }
        self.failure = Some(Failure {
            stamp,
            until: after(now, NEGATIVE),
            why: failed.why.clone(),
        });
        Err(failed.why)
    }

    /// Adds the values of `ready` to those that are watched for.
    fn learn(&mut self, keeper: &Kept, ready: &Ready) {
        let renewed = self
            .ready
            .as_ref()
            .is_some_and(|old| old.stamp == ready.stamp);
        for known in &mut self.known {
            known.current = false;
            known.stands &= renewed;
        }
        for behind in &ready.behind {
            self.remember((ready.secret.version, None), behind, false);
        }
        let kind = keeper.defined(&ready.secret.name).ok();
        let kind = kind.map(|defined| defined.definition.kind.kind());
        for (index, part) in ready.secret.parts.iter().enumerate() {
            if kind.as_ref().is_some_and(|kind| !kind.guards(index)) {
                continue;
            }
            self.remember((ready.secret.version, Some(index)), &part.value, true);
            if let Some(known) = self.known.front_mut() {
                known.lives = ready.lives;
            }
        }
        self.forget(&ready.secret.name, keeper.clock.now());
    }

    fn remember(
        &mut self,
        (version, part): (u64, Option<usize>),
        value: &SecretBytes,
        current: bool,
    ) {
        self.known.retain(|known| *known.value != *value);
        self.known.push_front(Known {
            version,
            part,
            value: Arc::new(value.duplicate()),
            current,
            stands: current,
            lives: None,
        });
    }

    /// Lets go what no host takes any more, but for the latest. Where there is too much even so, what ends first
    /// goes; of what nobody said an end of, the oldest.
    fn forget(&mut self, name: &SecretName, now: Timestamp) {
        let mut number = 0;
        self.known.retain(|known| {
            number += 1;
            number <= LATEST || known.lives.is_none_or(|end| now < after(end, SLOW))
        });
        let octets = |known: &VecDeque<Known>| known.iter().map(|k| k.value.len()).sum::<usize>();
        let mut lost = 0_usize;
        while self.known.len() > LATEST
            && (self.known.len() > MOST || octets(&self.known) > MOST_OCTETS)
        {
            let former = self.known.iter().enumerate().skip(LATEST);
            // The last of those that end alike is the oldest.
            let first =
                former.min_by_key(|(at, known)| (known.lives.is_none(), known.lives, Reverse(*at)));
            let Some((at, _)) = first else { break };
            self.known.remove(at);
            lost += 1;
        }
        if lost > 0 {
            tracing::warn!(secret = %name, lost, "renewed so often that former values, which hosts may still take, are no longer watched for");
        }
    }

    /// The version of a value: the provider's own count, or one more for every other value.
    fn version(&mut self, provided: &Provided) -> u64 {
        let same = self
            .known
            .iter()
            .find(|known| *known.value == provided.value);
        match (provided.version, same) {
            (Some(version), _) => version,
            (None, Some(known)) => known.version,
            (None, None) => {
                self.versions += 1;
                self.versions
            }
        }
    }
}

/// A provider that is silent is asked again by whoever comes after this time.
const RETRY: Duration = Duration::from_secs(10);
/// For so long nobody waits for it.
const SILENCE: Duration = Duration::from_secs(60);
/// What a host says of a value is heeded once in this time: it may say so of the new one, too.
const HEED: Duration = Duration::from_secs(30);
/// A failure is answered again for this time, so that a program that tries all the time does not make
/// gig do so.
const NEGATIVE: Duration = Duration::from_secs(5);
/// Values of one secret, handed out in this run, that are watched for however long ago they ended.
const LATEST: usize = 16;
/// And of those that hosts may still take: a token of a day, renewed every five minutes.
const MOST: usize = 288;
/// Octets of all of them: as many long tokens.
const MOST_OCTETS: usize = 1 << 20;
/// A host whose clock is slow takes a token for so long after its end.
const SLOW: Duration = Duration::from_secs(5 * 60);
/// Changes of one secret that one look-up goes after.
const ROUNDS: usize = 8;

#[cfg(test)]
mod tests;
