//! Who holds which sentinels, and what they stand for.
//!
//! One [`Border`] for a whole gig knows the keeper and every sentinel that lives; each sandbox has a
//! [`Wallet`] with its own. When a wallet goes, its sentinels stand for nothing any more.

use std::{
    borrow::Cow,
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use gig_policy::{SandboxId, SecretGrant, SecretName, SecretPlace};
use gig_vault::{Guarded, Keeper, Part, Secret, Shape, Treatment};
use parking_lot::Mutex;

use super::{
    capture::overlay::Captured,
    memory::Memory,
    scrub::{KeptScrub, Scrub, Weakened, is_told},
    sentinel::{MintSentinelError, Original, mint},
    sign::treats_every_request,
    watch::{CapturedToken, LiveSentinel, Watch},
};

/// Where secrets and sentinels meet, for all sandboxes.
#[derive(Debug)]
pub struct Border {
    keeper: Arc<dyn Keeper>,
    live: Mutex<HashMap<SandboxId, Arc<Vec<Held>>>>,
    /// Counts up with every change of `live`.
    changes: AtomicU64,
    watch: ArcSwapOption<Current>,
    /// One rebuilds, the others wait for it.
    building: Mutex<()>,
}

/// A wait for secrets.
pub type Readying = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A watch, and what it was made of.
#[derive(Debug)]
struct Current {
    watch: Arc<Watch>,
    changes: u64,
    guarded: Arc<Guarded>,
}

/// The sentinels of one sandbox.
#[derive(Debug)]
pub struct Wallet {
    border: Arc<Border>,
    sandbox: SandboxId,
    pub(super) held: ArcSwap<Vec<Held>>,
    /// Secrets that treat every request they are granted to; hardly ever any.
    treating: ArcSwap<Vec<SecretName>>,
    /// Tokens that go in header fields alone, where no place is named.
    bearers: ArcSwap<Vec<SecretName>>,
    pub(super) changing: Mutex<()>,
    scrub: KeptScrub,
    memory: Arc<Memory>,
    weakened: Arc<Weakened>,
}

/// One sentinel.
#[derive(Debug, Clone)]
pub struct Held {
    /// For which secret.
    pub name: SecretName,
    /// For which of its parts, from 0.
    pub part: usize,
    /// The variable that holds it inside.
    pub variable: Arc<str>,
    /// The text.
    pub sentinel: Arc<str>,
    /// Hosts that it is granted to are told what it stands for; it does not only sign.
    pub told: bool,
    /// What it stands for, where that is no secret of the keeper's.
    pub captured: Option<Arc<Captured>>,
}

impl Border {
    /// The border of one gig.
    #[must_use]
    pub fn new(keeper: Arc<dyn Keeper>) -> Arc<Self> {
        Arc::new(Self {
            keeper,
            live: Mutex::new(HashMap::new()),
            changes: AtomicU64::new(0),
            watch: ArcSwapOption::empty(),
            building: Mutex::new(()),
        })
    }

    /// Who keeps the values.
    #[must_use]
    pub fn keeper(&self) -> &Arc<dyn Keeper> {
        &self.keeper
    }

    /// Has renewed what is due of these secrets, and waits for what has come to its end meanwhile: what
    /// is open for long asks for values that nobody used since. `None` where there is nothing to wait
    /// for. Dropping what is waited with is safe; what cannot be had is not told.
    pub fn readied<'a>(&self, names: impl Iterator<Item = &'a SecretName>) -> Option<Readying> {
        let mut ended = Vec::new();
        for name in names.filter(|name| self.keeper.at_hand(name).is_none()) {
            match self.keeper.usable(name) {
                Some(_) => self.keeper.renew(name),
                None => ended.push(name.clone()),
            }
        }
        if ended.is_empty() {
            return None;
        }
        let keeper = Arc::clone(&self.keeper);
        Some(Box::pin(async move {
            for name in ended {
                keeper.current(&name).await.ok();
            }
        }))
    }

    /// A wallet without sentinels for a sandbox that is about to start.
    #[must_use]
    pub fn wallet(self: &Arc<Self>, sandbox: SandboxId) -> Arc<Wallet> {
        Arc::new(Wallet {
            border: Arc::clone(self),
            sandbox,
            held: ArcSwap::default(),
            treating: ArcSwap::default(),
            bearers: ArcSwap::default(),
            changing: Mutex::new(()),
            scrub: KeptScrub::default(),
            memory: Memory::of_sandbox(),
            weakened: Arc::default(),
        })
    }

    /// What must not go astray now; made again when a sentinel or a value was added or taken away.
    #[must_use]
    pub fn watch(&self) -> Arc<Watch> {
        let guarded = self.keeper.guarded();
        if let Some(watch) = self.current(&guarded) {
            return watch;
        }
        let building = self.building.lock();
        if let Some(watch) = self.current(&guarded) {
            return watch;
        }
        // Read first: what is added while the watch is made belongs to the next one.
        let changes = self.changes.load(Ordering::Acquire);
        let live: Vec<LiveSentinel> = {
            let all = self.live.lock();
            let each = all.iter().flat_map(|(sandbox, held)| {
                held.iter().map(|held| LiveSentinel {
                    sandbox: *sandbox,
                    name: held.name.clone(),
                    text: Arc::clone(&held.sentinel),
                })
            });
            each.collect()
        };
        let watch = Arc::new(Watch::with_tokens(&live, &guarded, &self.captured()));
        self.watch.store(Some(Arc::new(Current {
            watch: Arc::clone(&watch),
            changes,
            guarded,
        })));
        drop(building);
        watch
    }

    fn current(&self, guarded: &Arc<Guarded>) -> Option<Arc<Watch>> {
        let current = self.watch.load();
        let current = current.as_ref()?;
        let same = current.changes == self.changes.load(Ordering::Acquire)
            && Arc::ptr_eq(&current.guarded, guarded);
        same.then(|| Arc::clone(&current.watch))
    }

    /// The tokens of all sandboxes' logins.
    pub(super) fn captured(&self) -> Vec<CapturedToken> {
        let all = self.live.lock();
        let each = all.iter().flat_map(|(sandbox, held)| {
            let tokens = held
                .iter()
                .filter_map(|held| Some((held, held.captured.as_ref()?)));
            tokens.flat_map(|(held, captured)| {
                captured.pieces.iter().map(|piece| CapturedToken {
                    sandbox: *sandbox,
                    name: held.name.clone(),
                    value: Arc::clone(piece),
                })
            })
        });
        each.collect()
    }

    pub(super) fn set_live(&self, sandbox: SandboxId, held: &Arc<Vec<Held>>) {
        let mut all = self.live.lock();
        if held.is_empty() {
            all.remove(&sandbox);
        } else {
            all.insert(sandbox, Arc::clone(held));
        }
        // Within the lock, so that who reads the new count reads the new sentinels.
        self.changes.fetch_add(1, Ordering::Release);
        drop(all);
    }
}

impl Wallet {
    /// Mints a sentinel for each part of a secret; one that is held already stays.
    ///
    /// # Errors
    /// [`MintSentinelError`].
    pub fn hold(&self, secret: &Secret) -> Result<(), MintSentinelError> {
        for (part, of) in secret.parts.iter().enumerate() {
            self.hold_part(secret, part, of)?;
        }
        let add = |to: &ArcSwap<Vec<SecretName>>| {
            to.rcu(|known| {
                let mut names = Vec::clone(known);
                if !names.contains(&secret.name) {
                    names.push(secret.name.clone());
                }
                names
            });
        };
        if treats_every_request(&secret.treatment) {
            add(&self.treating);
        }
        if matches!(secret.treatment, Treatment::Bearer) {
            add(&self.bearers);
        }
        Ok(())
    }

    /// Mints a sentinel for one part, where none is held.
    fn hold_part(&self, secret: &Secret, part: usize, of: &Part) -> Result<(), MintSentinelError> {
        let shape = match of.shape.tells_half_of(of.value.expose()) {
            true => &Shape::Plain,
            false => &of.shape,
        };
        let watch = matches!(shape, Shape::Jwt).then(|| self.border.watch());
        let original = watch.as_deref().map(|watch| Original {
            value: &of.value,
            watch,
            sandbox: self.sandbox,
        });
        let changing = self.changing.lock();
        let mut held = Vec::clone(&self.held.load());
        if held.iter().any(|h| h.name == secret.name && h.part == part) {
            return Ok(());
        }
        held.push(Held {
            name: secret.name.clone(),
            part,
            variable: Arc::clone(&of.variable),
            sentinel: mint(shape, of.value.len(), original)?.into(),
            told: is_told(secret, part),
            captured: None,
        });
        self.publish(held);
        drop(changing);
        Ok(())
    }

    /// Makes these the sentinels that live; whoever calls holds `changing`.
    pub(super) fn publish(&self, held: Vec<Held>) {
        let held = Arc::new(held);
        self.border.set_live(self.sandbox, &held);
        self.held.store(held);
    }

    /// Whose it is.
    #[must_use]
    pub const fn sandbox(&self) -> SandboxId {
        self.sandbox
    }

    /// The border that it belongs to.
    #[must_use]
    pub const fn border(&self) -> &Arc<Border> {
        &self.border
    }

    /// What its sandbox's bodies may hold while they are taken apart.
    #[must_use]
    pub const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The entity tags that this sandbox was shown as weak.
    pub(super) const fn weakened(&self) -> &Arc<Weakened> {
        &self.weakened
    }

    /// What this sandbox must not see in the answer of a host that may be given `granted`; `None` when it
    /// holds no sentinel or nothing is kept for one.
    #[must_use]
    pub fn scrub(&self, granted: &[SecretGrant]) -> Option<Arc<Scrub>> {
        let held = self.held();
        if held.is_empty() {
            return None;
        }
        let keeper = &*self.border.keeper;
        let own = self.scrub.of(held, keeper.guarded(), keeper)?;
        Some(Scrub::granted(own, granted))
    }

    /// What a request may carry, and where: a token that gig got goes in header fields, where no place is
    /// named for it; and the program was handed a value only where its secret is marked so, too.
    #[must_use]
    pub fn placed<'a>(&self, granted: &'a [SecretGrant]) -> Cow<'a, [SecretGrant]> {
        let bearers = self.bearers.load();
        let narrowed = |grant: &SecretGrant| {
            !grant.captures && grant.places.is_none() && bearers.contains(&grant.name)
        };
        let keeper = self.border.keeper();
        let is_marked = |name: &SecretName| {
            let secret = keeper.usable(name);
            secret.is_some_and(|secret| secret.entrusted)
        };
        let unmarked = |grant: &SecretGrant| grant.entrusted && !is_marked(&grant.name);
        if !granted
            .iter()
            .any(|grant| narrowed(grant) || unmarked(grant))
        {
            return Cow::Borrowed(granted);
        }
        let mut granted = granted.to_vec();
        for grant in granted.iter_mut().filter(|grant| unmarked(grant)) {
            grant.entrusted = false;
        }
        for grant in granted.iter_mut().filter(|grant| narrowed(grant)) {
            grant.places = Some([SecretPlace::any_header()].into());
        }
        Cow::Owned(granted)
    }

    /// The secrets that treat every request they are granted to.
    #[must_use]
    pub fn treating(&self) -> Vec<SecretName> {
        Vec::clone(&self.treating.load())
    }

    /// Every sentinel, in the order they were minted.
    #[must_use]
    pub fn held(&self) -> Arc<Vec<Held>> {
        self.held.load_full()
    }
}

impl Drop for Wallet {
    fn drop(&mut self) {
        self.border.set_live(self.sandbox, &Arc::default());
    }
}
