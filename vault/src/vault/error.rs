//! Why the vault cannot do something, and what a person can do about it.

use std::sync::Arc;

use jiff::Timestamp;

use super::NotWitnessed;
use crate::{
    cipher::{CipherError, OpenError},
    definition::ParseDefinitionError,
    kind::UnusableValueError,
    master_key::{KeyId, MasterKeyError},
    memory::LockMemoryError,
    shape::WeakShapeError,
    store::StoreError,
};

/// The vault cannot do it.
#[derive(Debug, thiserror::Error)]
pub enum UseVaultError {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no usable master key.
    #[error(transparent)]
    Key(#[from] MasterKeyError),
    /// The master key is another one.
    #[error(
        "the secrets are sealed with master key {wanted}, and the key given is {given}: set GIG_MASTER_KEY or GIG_MASTER_KEY_FILE to the right one"
    )]
    WrongKey {
        /// The given key's id.
        given: KeyId,
        /// The current key's id.
        wanted: KeyId,
    },
    /// A row is sealed with a key that is not there.
    #[error(
        "secret {name} is sealed with master key {key}, which is not here; if a change of keys was interrupted, finish it with gig secret rotate --master"
    )]
    OtherKey {
        /// Whose row.
        name: Arc<str>,
        /// Its key.
        key: KeyId,
    },
    /// A row is not as gig wrote it.
    #[error(
        "the stored row of secret {name} was changed or moved by somebody without the key; restore the database from a backup"
    )]
    Tampered {
        /// Whose row.
        name: Arc<str>,
        /// Always [`OpenError`].
        #[source]
        source: OpenError,
    },
    /// No such secret.
    #[error("there is no secret named {name} in the vault; gig secret ls lists them")]
    Unknown {
        /// The name that was asked for.
        name: Arc<str>,
    },
    /// No such version.
    #[error("secret {name} has no version {version}")]
    NoVersion {
        /// Whose.
        name: Arc<str>,
        /// Which.
        version: u64,
    },
    /// Its owner's passphrase is needed.
    #[error(
        "secret {name} is in its owner's custody: unlock it with the passphrase (--passphrase-file, --passphrase-fd, or a terminal to type it at)"
    )]
    Locked {
        /// Whose.
        name: Arc<str>,
    },
    /// The passphrase that was given is no longer the one.
    #[error(
        "secret {name} was put under another passphrase since: give the new one (gig run: start it again)"
    )]
    PassphraseChanged {
        /// Whose.
        name: Arc<str>,
    },
    /// There is no passphrase to be changed.
    #[error(
        "no secret was ever put into custody, so there is no passphrase; gig secret set --custody"
    )]
    NoCustody,
    /// It is another passphrase.
    #[error(
        "the passphrase is wrong: it is not the one that these secrets were put into custody with"
    )]
    WrongPassphrase,
    /// It is too short.
    #[error("the passphrase is too short: use at least {least} characters, such as five words")]
    WeakPassphrase {
        /// Characters.
        least: usize,
    },
    /// The value is too large.
    #[error("the value has more than the {most} octets that are taken at most")]
    Large {
        /// What is taken.
        most: usize,
    },
    /// It says of itself that its time is over.
    #[error("the value for {name} ended at {at}, as it says itself: get a new one")]
    Over {
        /// Whose.
        name: Arc<str>,
        /// When.
        at: Timestamp,
    },
    /// A value was given to a secret that has its value elsewhere, or none to one that needs one.
    #[error("secret {name} {why}")]
    Value {
        /// Whose.
        name: Arc<str>,
        /// What is wrong.
        why: &'static str,
    },
    /// The value is not of its kind.
    #[error(transparent)]
    Kind(#[from] UnusableValueError),
    /// The sentinel's shape is weak.
    #[error(transparent)]
    Shape(#[from] WeakShapeError),
    /// The definition cannot be read.
    #[error(transparent)]
    Definition(#[from] ParseDefinitionError),
    /// Memory cannot be locked.
    #[error(transparent)]
    Memory(#[from] LockMemoryError),
    /// The cryptographic library refused.
    #[error(transparent)]
    Cipher(#[from] CipherError),
    /// The change could not be told first.
    #[error(transparent)]
    Witness(#[from] NotWitnessed),
    /// Another process has leave to ask for what replaces the value, and does not give it back.
    #[error(
        "another gig on this machine has been asking for a new value of secret {name} for too long; try again"
    )]
    Taken {
        /// Whose.
        name: Arc<str>,
    },
    /// Other processes change the store all the time.
    #[error("other processes keep changing the store of secrets; try again")]
    Busy,
}
