//! Where sealed secrets are kept: rows, and a trait that any database can implement.
//!
//! A store knows no key and opens nothing. It promises that a [`Snapshot`] is one moment, that a commit
//! happens wholly or not at all and only if nothing changed since its snapshot, and that the generation
//! counts up with every commit of any process, by one or more. Names in rows are the owner's (`local` on a machine of
//! one's own), so that a fleet can keep many owners apart.

use std::{fmt, fs::File, sync::Arc};

pub mod postgres;
pub mod sqlite;
mod transfer;

use gig_policy::SecretName;
use gig_postgres::Link;

pub use self::transfer::{empty, fill};

use crate::{cipher::Sealed, master_key::KeyId};

/// Keeps rows. Calls block for microseconds when nothing changed, milliseconds otherwise.
pub trait Store: Send + Sync + fmt::Debug {
    /// Counts up with every commit.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn generation(&self) -> Result<u64, StoreError>;

    /// Everything, as of one moment.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn snapshot(&self) -> Result<Snapshot, StoreError>;

    /// Makes all changes, or none.
    ///
    /// # Errors
    /// [`CommitError::Overtaken`] when something changed since `generation`.
    fn commit(&self, generation: u64, changes: &[Change]) -> Result<(), CommitError>;

    /// Leave for one process at a time to ask a service for what takes this secret's value out of use;
    /// `None` while another has it. Does not wait. A process that ends gives it back.
    ///
    /// # Errors
    /// When nobody can say who has it.
    fn alone(&self, name: &SecretName) -> Result<Option<Alone>, StoreError>;
}

/// Leave to be the only one; given back when dropped.
#[derive(Debug)]
pub struct Alone {
    _held: Held,
}

/// By what the system, or a database, knows who has leave.
#[derive(Debug)]
enum Held {
    File { _lock: File },
    Connection { _link: Box<Link> },
}

impl Alone {
    /// As long as `lock` is open.
    const fn by_file(lock: File) -> Self {
        Self {
            _held: Held::File { _lock: lock },
        }
    }

    /// As long as `link` is connected.
    fn by_connection(link: Link) -> Self {
        Self {
            _held: Held::Connection {
                _link: Box::new(link),
            },
        }
    }
}

/// The store cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {action} the store of secrets {place}: {why}")]
pub struct StoreError {
    /// What was attempted.
    pub action: &'static str,
    /// Which store.
    pub place: String,
    /// What went wrong.
    pub why: String,
}

/// Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Another process was first: look again and decide anew.
    #[error("somebody else changed the store of secrets meanwhile")]
    Overtaken,
    /// It cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All rows of one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Of the moment.
    pub generation: u64,
    /// By owner and name.
    pub secrets: Vec<SecretRow>,
    /// By owner, name and version.
    pub versions: Vec<VersionRow>,
    /// By owner.
    pub custodies: Vec<CustodyRow>,
    /// Oldest first.
    pub keys: Vec<KeyRow>,
}

impl Snapshot {
    /// Whether there is no row: the vault was never used.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.secrets.is_empty()
            && self.versions.is_empty()
            && self.custodies.is_empty()
            && self.keys.is_empty()
    }
}

/// One change.
#[derive(Debug, Clone)]
pub enum Change {
    /// Adds or replaces.
    PutSecret(SecretRow),
    /// Adds or replaces.
    PutVersion(VersionRow),
    /// Adds or replaces.
    PutCustody(CustodyRow),
    /// Adds or replaces.
    PutKey(KeyRow),
    /// Removes a secret and its versions.
    DeleteSecret {
        /// Whose.
        owner: Arc<str>,
        /// Which.
        name: Arc<str>,
    },
    /// Removes one version.
    DeleteVersion {
        /// Whose.
        owner: Arc<str>,
        /// Which.
        name: Arc<str>,
        /// Of it.
        version: u64,
    },
    /// Removes how an owner's custody key is made.
    DeleteCustody {
        /// Whose.
        owner: Arc<str>,
    },
    /// Removes a key's row.
    DeleteKey(KeyId),
}

/// What a secret is, beside its values. Moments are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    /// Whose.
    pub owner: Arc<str>,
    /// What it is called.
    pub name: Arc<str>,
    /// A [`crate::Definition`] as JSON.
    pub definition: String,
    /// The newest version that there was when one was forgotten, 0 where none ever was: no number is given twice.
    pub given: u64,
    /// When it was first set.
    pub created: i64,
    /// When it was removed; its values are remembered, so that they may leave nowhere.
    pub removed: Option<i64>,
    /// With which key it is authenticated.
    pub key: KeyId,
    /// Authenticates all fields above.
    pub tag: Vec<u8>,
}

/// One version of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRow {
    /// Whose.
    pub owner: Arc<str>,
    /// Of which secret.
    pub name: Arc<str>,
    /// Counts from 1.
    pub version: u64,
    /// When it was set.
    pub created: i64,
    /// When it stops being used, whatever happens.
    pub expires: Option<i64>,
    /// When it stops being used, because a newer one took its place.
    pub retires: Option<i64>,
    /// When it was revoked.
    pub revoked: Option<i64>,
    /// Whether opening it takes the owner's passphrase too.
    pub custody: bool,
    /// The form of what is sealed: 1, or 2 where a service gave the value in place of the one before.
    pub format: u32,
    /// Which master key wraps the data key.
    pub key: KeyId,
    /// The data key.
    pub wrapped: Sealed,
    /// The value, sealed with the data key.
    pub value: Sealed,
    /// Authenticates all fields above.
    pub tag: Vec<u8>,
}

/// How an owner's custody key is made of a passphrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustodyRow {
    /// Whose.
    pub owner: Arc<str>,
    /// Of the derivation.
    pub salt: Vec<u8>,
    /// Memory of the derivation, in KiB.
    pub memory: u32,
    /// Passes of the derivation.
    pub passes: u32,
    /// Lanes of the derivation.
    pub lanes: u32,
    /// Opens with the right passphrase only.
    pub check: Sealed,
    /// With which master key it is authenticated.
    pub key: KeyId,
    /// Authenticates all fields above.
    pub tag: Vec<u8>,
}

/// A master key that rows are sealed with, or will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Its id.
    pub id: KeyId,
    /// When it came.
    pub created: i64,
    /// What it is for.
    pub state: KeyState,
    /// While keys change: the other key, sealed with this one, so that who holds either holds both.
    pub other: Option<Sealed>,
    /// The id of that other key.
    pub other_id: Option<KeyId>,
    /// When the row may go.
    pub until: Option<i64>,
}

/// What a master key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// New rows are sealed with it.
    Current,
    /// It is about to be current; rows are being sealed with it.
    Next,
    /// It was current; who still holds it learns the current one by it.
    Past,
}

impl KeyRow {
    /// Whether its grace time is over: it leads nowhere any more.
    #[must_use]
    pub fn is_over(&self, now: jiff::Timestamp) -> bool {
        self.state == KeyState::Past && self.until.is_some_and(|until| now.as_second() >= until)
    }
}

impl KeyState {
    /// As rows spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Next => "next",
            Self::Past => "past",
        }
    }

    /// Reads it back.
    #[must_use]
    pub fn from_row(text: &str) -> Option<Self> {
        [Self::Current, Self::Next, Self::Past]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

#[cfg(test)]
mod tests;
