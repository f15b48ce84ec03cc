//! The master keys of a moment: one, and while keys change two.
//!
//! Who holds one of the two learns the other from the store, which holds each sealed with the other,
//! so that nobody has to stop while rows are sealed anew.

use std::{collections::HashMap, sync::Arc};

use super::UseVaultError;
use crate::{
    envelope,
    master_key::{KeyId, MasterKey, MasterKeySource},
    store::{KeyState, Snapshot},
};

/// The keys that open a snapshot's rows.
#[derive(Debug, Clone)]
pub(super) struct Keyring {
    keys: HashMap<KeyId, Arc<MasterKey>>,
    current: Arc<MasterKey>,
}

impl Keyring {
    /// Reads the key where `source` says, and learns others from it.
    pub(super) fn open(
        source: &MasterKeySource,
        snapshot: &Snapshot,
    ) -> Result<Self, UseVaultError> {
        let wanted = current(snapshot);
        let given = Arc::new(source.read(wanted)?.key);
        let given_id = given.id().clone();
        let ring = Self::from_keys([given], snapshot).or_else(|| {
            // A change of keys was cut off before the file was replaced, and leaves the old key no time.
            let next = source.successor()?;
            Self::from_keys([Arc::new(next)], snapshot)
        });
        ring.ok_or_else(|| UseVaultError::WrongKey {
            wanted: wanted.cloned().unwrap_or_else(|| given_id.clone()),
            given: given_id,
        })
    }

    /// The same for a later snapshot; `None` when no key of this ring leads to its current one.
    pub(super) fn extended(&self, snapshot: &Snapshot) -> Option<Self> {
        Self::from_keys(self.keys.values().cloned(), snapshot)
    }

    fn from_keys(
        held: impl IntoIterator<Item = Arc<MasterKey>>,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let mut keys: HashMap<KeyId, Arc<MasterKey>> = held
            .into_iter()
            .map(|key| (key.id().clone(), key))
            .collect();
        // Each key leads to one other, so that as many rounds as rows find all.
        for _ in &snapshot.keys {
            for row in &snapshot.keys {
                let holder = keys.get(&row.id);
                if let Some(other) = holder.and_then(|holder| envelope::follow(holder, row)) {
                    keys.entry(other.id().clone())
                        .or_insert_with(|| Arc::new(other));
                }
            }
        }
        let current = keys.get(current(snapshot)?).cloned()?;
        keys.retain(|id, _| snapshot.keys.iter().any(|row| row.id == *id));
        Some(Self { keys, current })
    }

    /// The key of this id.
    pub(super) fn key(&self, id: &KeyId) -> Option<&MasterKey> {
        self.keys.get(id).map(AsRef::as_ref)
    }

    /// What new rows are sealed with.
    pub(super) fn current(&self) -> &MasterKey {
        &self.current
    }
}

/// The current key's id.
fn current(snapshot: &Snapshot) -> Option<&KeyId> {
    let mut rows = snapshot.keys.iter();
    rows.find(|row| row.state == KeyState::Current)
        .map(|row| &row.id)
}
