//! gig's own store of secrets, with the keys to it.
//!
//! A [`Vault`] joins a [`Store`], which holds sealed rows, and a master key. Every look at it is a
//! [`View`]: the rows of one moment, checked, with the keys that open them. It is made anew when the
//! store changed, so that a revocation by another process shows at the next look.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gig_policy::SecretName;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};

mod change;
mod custody;
mod error;
mod keyring;
mod listing;
mod own;
mod rotation;
mod witness;

pub use change::{LARGEST, NewVersion, Removed};
pub use custody::Argon2Cost;
pub use error::UseVaultError;
pub use listing::{Listed, ListedVersion, VersionState};
pub use rotation::{RotateMasterError, Rotation, RotationStep};
pub use witness::{Announced, Doing, NotWitnessed, Witness};

use self::{custody::Unlocked, keyring::Keyring};
use crate::{
    cipher::Key,
    clock::Clock,
    definition::Definition,
    envelope,
    master_key::{KeyId, MasterKey, MasterKeySource},
    secret_bytes::SecretBytes,
    store::{Alone, Change, CommitError, KeyRow, KeyState, SecretRow, Snapshot, Store, VersionRow},
};

/// The store and its keys.
#[derive(Debug)]
pub struct Vault {
    store: Arc<dyn Store>,
    source: MasterKeySource,
    clock: Arc<dyn Clock>,
    owner: Arc<str>,
    /// The last look.
    seen: Mutex<Option<Arc<View>>>,
    /// Counts up with every look that brought something new, and with everything that is written here.
    changes: AtomicU64,
    /// The owner's custody key, once unlocked.
    custody: RwLock<Option<Arc<Unlocked>>>,
    cost: Argon2Cost,
    made: Option<PathBuf>,
    witness: Option<Arc<dyn Witness>>,
}

/// Which value a person gave: no other has it, also where one takes the name and the number of another that was
/// forgotten. A change of keys leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootId([u8; 12]);

impl RootId {
    /// Of this version itself, whichever it came of.
    #[must_use]
    pub const fn of(row: &VersionRow) -> Self {
        // Random, and authenticated with the row.
        Self(row.value.nonce)
    }
}

/// What the vault held at one moment.
#[derive(Debug)]
pub struct View {
    snapshot: Snapshot,
    keyring: Keyring,
}

impl Vault {
    /// Opens the store with the key that `source` leads to; makes a key for an empty store.
    ///
    /// # Errors
    /// When the key is missing, malformed or another one, or the store cannot be read.
    pub fn open(
        store: Arc<dyn Store>,
        source: MasterKeySource,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, UseVaultError> {
        crate::memory::locked()?;
        let mut vault = Self {
            store,
            source,
            clock,
            owner: OWNER.into(),
            seen: Mutex::new(None),
            changes: AtomicU64::new(0),
            custody: RwLock::new(None),
            cost: Argon2Cost::default(),
            made: None,
            witness: None,
        };
        for _ in 0..TRIES {
            let snapshot = vault.store.snapshot()?;
            if !snapshot.keys.is_empty() {
                vault.view()?;
                return Ok(vault);
            }
            let found = vault.source.read(None)?;
            vault.made = vault.made.or(found.made);
            let row = KeyRow {
                id: found.key.id().clone(),
                created: vault.now().as_second(),
                state: KeyState::Current,
                other: None,
                other_id: None,
                until: None,
            };
            match vault
                .store
                .commit(snapshot.generation, &[Change::PutKey(row)])
            {
                Ok(()) | Err(CommitError::Overtaken) => {}
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Err(UseVaultError::Busy)
    }

    /// With cheaper derivation of custody keys.
    #[must_use]
    pub const fn with_cost(mut self, cost: Argon2Cost) -> Self {
        self.cost = cost;
        self
    }

    /// With somebody who is told of every change of a secret before it takes effect, and may refuse it.
    #[must_use]
    pub fn witnessed(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// The key file, when it was made by opening.
    #[must_use]
    pub fn key_file_made(&self) -> Option<&std::path::Path> {
        self.made.as_deref()
    }

    /// What the vault holds now. The same `Arc` until something changes.
    ///
    /// # Errors
    /// When the store cannot be read, or the key does not fit any more.
    pub fn view(&self) -> Result<Arc<View>, UseVaultError> {
        let mut seen = self.seen.lock();
        let generation = self.store.generation()?;
        if let Some(view) = seen
            .as_ref()
            .filter(|view| view.snapshot.generation == generation)
        {
            return Ok(Arc::clone(view));
        }
        let mut snapshot = self.store.snapshot()?;
        self.forget_keys(&mut snapshot);
        let keyring = match seen
            .as_ref()
            .and_then(|view| view.keyring.extended(&snapshot))
        {
            // Who held a key before a change of keys goes on with the new one.
            Some(keyring) => keyring,
            None => Keyring::open(&self.source, &snapshot)?,
        };
        let view = Arc::new(View { snapshot, keyring });
        *seen = Some(Arc::clone(&view));
        self.changed();
        Ok(view)
    }

    /// Counts up with everything that this process has read anew or written; asks no store. What somebody
    /// here has of the store is counted before they have it.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Leaves out keys whose grace time is over, and has the store forget them.
    fn forget_keys(&self, snapshot: &mut Snapshot) {
        let now = self.now();
        let over = snapshot.keys.extract_if(.., |row| row.is_over(now));
        let over: Vec<Change> = over.map(|row| Change::DeleteKey(row.id)).collect();
        if over.is_empty() {
            return;
        }
        // Whoever looks next tries again: here they open nothing either way.
        if let Err(error) = self.store.commit(snapshot.generation, &over) {
            tracing::debug!(%error, "master keys whose time is over are still in the store");
        }
    }

    /// The id of the key that new rows are sealed with.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn master_key_id(&self) -> Result<String, UseVaultError> {
        Ok(self.view()?.keyring.current().id().to_string())
    }

    /// Leave to be the one process that asks a service for what takes this secret's value out of use.
    /// What was read before is to be read again: another may have had leave meanwhile.
    ///
    /// # Errors
    /// When another does not give it back in time, or nobody can say who has it.
    pub async fn alone(&self, name: &SecretName) -> Result<Alone, UseVaultError> {
        let patience = tokio::time::sleep(PATIENCE);
        let mut patience = std::pin::pin!(patience);
        loop {
            if let Some(alone) = self.store.alone(name)? {
                return Ok(alone);
            }
            tokio::select! {
                () = &mut patience => {
                    let name = name.shared().clone();
                    return Err(UseVaultError::Taken { name });
                }
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// The time as the vault has it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The value of a version.
    ///
    /// # Errors
    /// When it is in custody and locked, or the row is not as it was written.
    pub fn open_version(
        &self,
        view: &View,
        row: &VersionRow,
    ) -> Result<SecretBytes, UseVaultError> {
        let master = view.master_of(&row.name, &row.key)?;
        let custody = self.custody.read().clone();
        let key = match row.custody {
            true => Some(custody_key(custody.as_deref(), view, &row.name)?),
            false => None,
        };
        let value = envelope::open_version(master, key, row);
        value.map_err(|source| UseVaultError::Tampered {
            name: Arc::clone(&row.name),
            source,
        })
    }

    /// Decides on a view and commits; looks again when somebody else was first.
    fn change<T>(
        &self,
        decide: impl Fn(&View) -> Result<(Vec<Change>, T), UseVaultError>,
    ) -> Result<T, UseVaultError> {
        self.announced(|_| None, decide)
    }

    /// The same, told to the witness before it takes effect.
    fn announced<T>(
        &self,
        told: impl Fn(&T) -> Option<Announced>,
        decide: impl Fn(&View) -> Result<(Vec<Change>, T), UseVaultError>,
    ) -> Result<T, UseVaultError> {
        let mut known = None;
        for _ in 0..TRIES {
            let view = self.view()?;
            let (changes, made) = decide(&view)?;
            if changes.is_empty() {
                return Ok(made);
            }
            if let (Some(witness), Some(announced)) = (&self.witness, told(&made)) {
                // Once for each version that it could have become.
                if known.as_ref() != Some(&announced) {
                    witness.announce(&announced)?;
                    known = Some(announced);
                }
            }
            match self.store.commit(view.snapshot.generation, &changes) {
                Ok(()) => {
                    self.changed();
                    return Ok(made);
                }
                Err(CommitError::Overtaken) => {}
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Err(UseVaultError::Busy)
    }
}

impl View {
    /// Counts up with every change.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.snapshot.generation
    }

    /// The secret of this name, removed ones too, with its definition.
    ///
    /// # Errors
    /// When the row is not as gig wrote it.
    pub fn secret(&self, name: &str) -> Result<Option<(&SecretRow, Definition)>, UseVaultError> {
        let mut rows = self.snapshot.secrets.iter();
        let Some(row) = rows.find(|row| &*row.owner == OWNER && &*row.name == name) else {
            return Ok(None);
        };
        let key = self.master_of(&row.name, &row.key)?;
        envelope::check_secret(key, row).map_err(|source| UseVaultError::Tampered {
            name: Arc::clone(&row.name),
            source,
        })?;
        Ok(Some((row, Definition::from_json(&row.definition)?)))
    }

    /// The master key that a row of `name` is sealed with.
    fn master_of(&self, name: &Arc<str>, key: &KeyId) -> Result<&MasterKey, UseVaultError> {
        let other = || UseVaultError::OtherKey {
            name: Arc::clone(name),
            key: key.clone(),
        };
        self.keyring.key(key).ok_or_else(other)
    }

    /// Its versions, oldest first.
    pub fn versions<'a>(
        &'a self,
        name: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a VersionRow> {
        let rows = self.snapshot.versions.iter();
        rows.filter(move |row| &*row.owner == OWNER && &*row.name == name)
    }

    /// Every version there is.
    pub fn all_versions(&self) -> impl Iterator<Item = &VersionRow> {
        let rows = self.snapshot.versions.iter();
        rows.filter(|row| &*row.owner == OWNER)
    }

    /// Whether a secret of this name is there and not removed; its row is not checked.
    #[must_use]
    pub fn has(&self, name: &SecretName) -> bool {
        let mut rows = self.snapshot.secrets.iter();
        rows.any(|row| &*row.owner == OWNER && &*row.name == name.as_str() && row.removed.is_none())
    }

    /// The version that a person gave, of which `row` came: the row itself, or where services gave one
    /// value in place of another the one that they began with.
    fn root<'a>(&'a self, row: &'a VersionRow) -> &'a VersionRow {
        let before = self.versions(&row.name).rev();
        let mut before = before.filter(|before| before.version <= row.version);
        before.find(|before| !before.supersedes()).unwrap_or(row)
    }

    /// Which value `row` has, or where services gave one in place of another which one they began with.
    #[must_use]
    pub fn root_id(&self, row: &VersionRow) -> RootId {
        RootId::of(self.root(row))
    }

    /// The newest version, where that may be used at `now`: one that it took the place of is known for its grace
    /// time, and serves no more.
    #[must_use]
    pub fn current<'a>(&'a self, name: &'a str, now: Timestamp) -> Option<&'a VersionRow> {
        let newest = self.versions(name).next_back();
        // Also where the one that took its place is forgotten.
        newest.filter(|row| row.retires.is_none() && row.is_usable(now))
    }
}

/// The key that rows in custody are sealed with now, if it was unlocked.
fn custody_key<'a>(
    unlocked: Option<&'a Unlocked>,
    view: &View,
    name: &Arc<str>,
) -> Result<&'a Key, UseVaultError> {
    let name = || Arc::clone(name);
    match unlocked {
        None => Err(UseVaultError::Locked { name: name() }),
        Some(unlocked) => unlocked
            .key_for(view)
            .ok_or_else(|| UseVaultError::PassphraseChanged { name: name() }),
    }
}

impl VersionRow {
    /// Whether it may be used at `now`: not revoked, not expired, not retired.
    #[must_use]
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.ends().is_none_or(|end| now.as_second() < end)
    }

    /// Whether a service gave it in place of the one before.
    #[must_use]
    pub const fn supersedes(&self) -> bool {
        self.format == envelope::SUPERSEDING
    }

    /// When it stops being used.
    #[must_use]
    pub fn ends(&self) -> Option<i64> {
        [self.expires, self.retires].into_iter().flatten().min()
    }
}

/// The owner of the secrets of a machine of one's own.
const OWNER: &str = "local";
/// Commits of others that one's own may meet.
const TRIES: usize = 100;
/// A service is asked within ten seconds, more than once if need be.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at whether another has given leave back.
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests;
