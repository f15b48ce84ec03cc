//! The values of one sandbox: of the secrets whose sentinels it holds, and of no others.
//!
//! What others have is not looked for in its answers. It could be guessed there: whoever sends a value
//! and sees from within that it was replaced knows that it was right.

use std::{collections::HashMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use gig_policy::{SecretGrant, SecretName};
use gig_vault::{Guarded, GuardedValue, Keeper, Secret, Treatment};

use super::pattern::Patterns;
use crate::credential::{spelling::Waiting, wallet::Held};

/// What is looked for in the answers to one sandbox.
pub(in crate::credential) struct Own {
    pub(super) patterns: Patterns,
    /// In the order of the patterns' values.
    stands: Vec<Standing>,
    /// What was asked for before: a sandbox has few hosts with secrets.
    known: ArcSwap<Vec<Arc<Granted>>>,
}

/// The values that one request may take to its origin.
pub(super) struct Granted {
    values: Vec<bool>,
    /// They may come back; what may begin them is held back.
    pub(super) waiting: Arc<Waiting>,
    /// One of them is placed, or is not at hand though it may be: its last version was not asked for yet.
    placed: bool,
    /// For each value whose place it takes here: its own, or that of another secret's which is the same and may be
    /// taken there. What comes back to a program must be good for where it came from.
    meant: Vec<usize>,
}

/// What stands for a value.
#[derive(Debug)]
struct Standing {
    sentinel: Arc<str>,
    /// The value takes its sentinel's place in requests that it is granted to. Others sign, or were
    /// replaced by a newer version.
    placed: bool,
    /// The origin of such a request is told it, or was: what is placed or goes beside a signature, former versions
    /// of it, and what was when the sandbox was given its sentinel and cannot be had now.
    told: bool,
    /// What the secret is worth now is not at hand, so that nobody knows whether it is this.
    pending: bool,
}

impl Own {
    /// Of a sandbox that holds these sentinels; `None` when there is nothing to look for.
    pub(super) fn new(kept: &Guarded, held: &[Held], keeper: &dyn Keeper) -> Option<Self> {
        let mut values = Vec::new();
        let mut stands = Vec::new();
        for guarded in &kept.values {
            if let Some(standing) = Standing::of(guarded, held, keeper) {
                values.push(GuardedValue {
                    name: guarded.name.clone(),
                    version: guarded.version,
                    part: guarded.part,
                    value: Arc::clone(&guarded.value),
                    current: guarded.current,
                });
                stands.push(standing);
            }
        }
        // Of two that begin alike the newer is the one that comes.
        for held in held.iter().rev() {
            let pieces = held.captured.iter().flat_map(|captured| &captured.pieces);
            for (number, piece) in pieces.enumerate() {
                values.push(GuardedValue {
                    name: held.name.clone(),
                    version: 1,
                    part: Some(held.part),
                    value: Arc::clone(piece),
                    current: true,
                });
                // One sentinel stands for all pieces of a long token.
                let sentinel = if number == 0 { &*held.sentinel } else { "" };
                stands.push(Standing {
                    sentinel: sentinel.into(),
                    placed: true,
                    told: true,
                    pending: false,
                });
            }
        }
        let guarded = Guarded {
            generation: kept.generation,
            values,
        };
        Self::compiled(guarded, stands)
    }

    /// For values that stand for themselves.
    pub(super) fn of(guarded: Guarded, sentinels: &[&str]) -> Option<Self> {
        let stands = sentinels.iter().map(|sentinel| Standing {
            sentinel: (*sentinel).into(),
            placed: true,
            told: true,
            pending: false,
        });
        Self::compiled(guarded, stands.collect())
    }

    fn compiled(guarded: Guarded, stands: Vec<Standing>) -> Option<Self> {
        let patterns = Patterns::new(guarded);
        (!patterns.is_empty()).then(|| Self {
            patterns,
            stands,
            known: ArcSwap::default(),
        })
    }

    /// What stands for a value.
    pub(super) fn sentinel(&self, value: usize) -> Option<&Arc<str>> {
        Some(&self.stands.get(value)?.sentinel)
    }

    /// Whose value it is.
    pub(super) fn name(&self, value: usize) -> Option<&SecretName> {
        Some(&self.patterns.guarded().values.get(value)?.name)
    }

    /// The values that a request with these grants may take to its origin.
    pub(super) fn granted(&self, granted: &[SecretGrant]) -> Arc<Granted> {
        let values = &self.patterns.guarded().values;
        let is_granted = |value: &GuardedValue| {
            let mut granted = granted.iter().filter(|grant| !grant.captures);
            granted.any(|grant| grant.name == value.name)
        };
        let all = || values.iter().zip(&self.stands);
        let wanted = all().map(|(value, stands)| stands.told && is_granted(value));
        let wanted: Vec<bool> = wanted.collect();
        let is_placed = |stands: &Standing| stands.placed || stands.pending;
        let placed = all().any(|(value, stands)| is_placed(stands) && is_granted(value));
        let known = self.known.load();
        let same = |known: &&Arc<Granted>| known.values == wanted && known.placed == placed;
        if let Some(known) = known.iter().find(same) {
            return Arc::clone(known);
        }
        let of = |value: usize| wanted.get(value) == Some(&true);
        let mut alike = HashMap::new();
        for (number, value) in values.iter().enumerate().filter(|(number, _)| of(*number)) {
            if self
                .sentinel(number)
                .is_some_and(|sentinel| !sentinel.is_empty())
            {
                alike.entry(value.value.expose()).or_insert(number);
            }
        }
        let meant = values.iter().enumerate().map(|(number, value)| {
            let other = alike.get(value.value.expose()).filter(|_| !of(number));
            other.copied().unwrap_or(number)
        });
        let granted = Arc::new(Granted {
            meant: meant.collect(),
            waiting: Arc::new(self.patterns.waiting(of)),
            values: wanted,
            placed,
        });
        let before = known.iter().take(MOST - 1).cloned();
        let now = std::iter::once(Arc::clone(&granted)).chain(before);
        self.known.store(Arc::new(now.collect()));
        granted
    }

    /// Whether some value of this secret is among those.
    pub(super) fn takes(&self, granted: &Granted, name: &SecretName) -> bool {
        let values = self.patterns.guarded().values.iter();
        let mut taken = values.zip(&granted.values).filter(|(_, taken)| **taken);
        taken.any(|(value, _)| value.name == *name)
    }
}

impl Granted {
    /// Which value this one is here.
    pub(super) fn meant(&self, value: usize) -> usize {
        self.meant.get(value).copied().unwrap_or(value)
    }

    /// Whether they are the same; of one sandbox's values.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.values == other.values && self.placed == other.placed
    }

    /// Whether any is placed, or will be once it is asked for.
    pub(super) const fn any_placed(&self) -> bool {
        self.placed
    }
}

impl Standing {
    /// `None` for a value of a secret that this sandbox does not hold.
    fn of(guarded: &GuardedValue, held: &[Held], keeper: &dyn Keeper) -> Option<Self> {
        let mut own = held
            .iter()
            .filter(|held| held.captured.is_none() && held.name == guarded.name);
        let first = own.clone().next()?;
        let secret = keeper.usable(&guarded.name);
        let of_part = own.find(|held| Some(held.part) == guarded.part);
        let told = match (&secret, guarded.part) {
            (Some(secret), Some(part)) => is_told(secret, part),
            (None, Some(_)) => of_part.is_some_and(|held| held.told),
            (_, None) => false,
        };
        let is_now = |secret: &Secret| {
            let value = guarded.value.expose();
            secret.parts.iter().any(|part| part.value.expose() == value)
        };
        let now = secret.as_ref().filter(|secret| is_now(secret));
        Some(Self {
            sentinel: Arc::clone(&of_part.unwrap_or(first).sentinel),
            pending: secret.is_none(),
            placed: now.is_some_and(|secret| replaces(secret)),
            told,
        })
    }
}

/// Whether hosts are told this part: it is placed, or goes beside what was signed.
pub(in crate::credential) fn is_told(secret: &Secret, part: usize) -> bool {
    replaces(secret) || goes_beside(secret, part)
}

fn replaces(secret: &Secret) -> bool {
    matches!(secret.treatment, Treatment::Replace | Treatment::Bearer)
}

/// Whether a part that is placed nowhere goes as it is all the same: a session token does, beside the signature
/// (`X-Amz-Security-Token`), and S3 repeats it in what it says of one that ended.
fn goes_beside(secret: &Secret, part: usize) -> bool {
    part == SESSION_TOKEN && matches!(secret.treatment, Treatment::Aws(_))
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Own({} values)", self.stands.len())
    }
}

/// Of the parts of an AWS key; a key's id is no secret.
const SESSION_TOKEN: usize = 2;
/// Sets of grants that are kept ready.
const MOST: usize = 16;
