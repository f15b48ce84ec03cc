//! `gig secret rotate --master`: another master key, while everything goes on.
//!
//! The way there is a row of steps, each of which makes one write and each of which is decided anew
//! from what the store and the key file say. A change that was cut off anywhere is finished by asking
//! for it again, and whoever holds either key can read everything in the meantime, because the store
//! holds each of the two keys sealed with the other. Values are not sealed anew, only data keys are.
//! A key whose place was taken leads to its successor for its grace time and no longer; a later change
//! may shorten that time and never lengthens it.

use std::{
    cell::Cell,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{UseVaultError, Vault, View};
use crate::{
    cipher::CipherError,
    clock::after,
    envelope::{self, RewrapError},
    master_key::{self, MasterKey, MasterKeyError, MasterKeySource},
    store::{Change, CommitError, KeyRow, KeyState},
};

/// A change of keys that is under way.
#[derive(Debug)]
pub struct Rotation<'a> {
    vault: &'a Vault,
    new: Option<MasterKeySource>,
    grace: Duration,
    /// A change was begun here, or one that was cut off is gone on with: it is not followed by another.
    under_way: Cell<bool>,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationStep {
    /// The new key is in a file beside the old one.
    KeyFileMade,
    /// The store knows both keys.
    Begun,
    /// Some rows are under the new key; so many are left.
    Rewrapped {
        /// Under the old key.
        left: usize,
    },
    /// New rows are sealed with the new key.
    Switched,
    /// The key file holds the new key.
    FileReplaced,
    /// Keys before it end sooner than they would have.
    Shortened,
    /// Somebody else changed the store: look again.
    Overtaken,
    /// Nothing is left to do.
    Done,
}

/// The key cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum RotateMasterError {
    /// The new key is not known.
    #[error(
        "the new master key is not known: set GIG_MASTER_KEY_NEW or GIG_MASTER_KEY_NEW_FILE to it (64 hexadecimal digits; openssl rand -hex 32 makes one)"
    )]
    NoNewKey,
    /// Another change was begun with another new key.
    #[error(
        "a change to another master key ({begun}) was begun and not finished: give that key as the new one"
    )]
    OtherBegun {
        /// The key that was begun with.
        begun: master_key::KeyId,
    },
    /// The key file cannot be replaced.
    #[error("cannot replace the master key file {} by its successor {}", path.display(), next.display())]
    Replace {
        /// The file.
        path: PathBuf,
        /// What was to take its place.
        next: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The vault fails.
    #[error(transparent)]
    Vault(#[from] UseVaultError),
}

impl Vault {
    /// Begins or goes on with a change to the master key of `new`; to a fresh one in the key file when
    /// there is none. Who holds the old key can go on for the grace time.
    #[must_use]
    pub const fn rotate_master(
        &self,
        new: Option<MasterKeySource>,
        grace: Duration,
    ) -> Rotation<'_> {
        Rotation {
            vault: self,
            new,
            grace,
            under_way: Cell::new(false),
        }
    }
}

impl Rotation<'_> {
    /// All steps that are left.
    ///
    /// # Errors
    /// When one fails; asking again goes on from there.
    pub fn finish(&self) -> Result<(), RotateMasterError> {
        while self.step()? != RotationStep::Done {}
        Ok(())
    }

    /// The next step.
    ///
    /// # Errors
    /// When it fails; nothing is half done.
    pub fn step(&self) -> Result<RotationStep, RotateMasterError> {
        let view = self.vault.view()?;
        let rows = &view.snapshot.keys;
        if let Some(next) = rows.iter().find(|row| row.state == KeyState::Next) {
            self.under_way.set(true);
            return self.go_on(&view, next);
        }
        if let Some(files) = self.files()
            && let Some(step) = files.replace(view.keyring.current())?
        {
            self.under_way.set(true);
            return Ok(step);
        }
        if !self.under_way.get() {
            let step = self.begin(&view)?;
            if step != RotationStep::Done {
                return Ok(step);
            }
        }
        match self.sooner(&view) {
            Some(changes) => self.commit(&view, &changes, RotationStep::Shortened),
            None => Ok(RotationStep::Done),
        }
    }

    /// Earlier keys lead to the current one by way of their successors, so that none may outlive those;
    /// and without a grace time nobody goes on with any of them.
    fn sooner(&self, view: &View) -> Option<Vec<Change>> {
        let until = after(self.vault.now(), self.grace).as_second();
        let past = view.snapshot.keys.iter();
        let past = past.filter(|row| row.state == KeyState::Past);
        let late = past.filter(|row| row.until.is_none_or(|end| until < end));
        let changes: Vec<Change> = late
            .map(|row| {
                Change::PutKey(KeyRow {
                    until: Some(until),
                    ..row.clone()
                })
            })
            .collect();
        (!changes.is_empty()).then_some(changes)
    }

    /// Makes the new key known to the store, each of the two sealed with the other.
    fn begin(&self, view: &View) -> Result<RotationStep, RotateMasterError> {
        let old = view.keyring.current();
        let new = match (&self.new, self.files()) {
            (Some(source), None) => source.read(None).map_err(UseVaultError::from)?.key,
            (None, None) => return Err(RotateMasterError::NoNewKey),
            (given, Some(files)) => match files.next(given.as_ref())? {
                NextKey::Made => return Ok(RotationStep::KeyFileMade),
                NextKey::There(key) => key,
            },
        };
        if new.id() == old.id() {
            return Ok(RotationStep::Done);
        }
        let now = self.vault.now().as_second();
        let row = |holder: &MasterKey, other: &MasterKey, state| {
            Ok::<_, CipherError>(Change::PutKey(KeyRow {
                id: holder.id().clone(),
                created: now,
                state,
                other: Some(envelope::link(holder, other)?),
                other_id: Some(other.id().clone()),
                until: None,
            }))
        };
        let changes = [
            row(old, &new, KeyState::Current).map_err(UseVaultError::from)?,
            row(&new, old, KeyState::Next).map_err(UseVaultError::from)?,
        ];
        let step = self.commit(view, &changes, RotationStep::Begun)?;
        self.under_way.set(step == RotationStep::Begun);
        Ok(step)
    }

    /// Brings rows under the new key; when none is left, makes it the current one.
    fn go_on(&self, view: &View, next: &KeyRow) -> Result<RotationStep, RotateMasterError> {
        let new = view
            .keyring
            .key(&next.id)
            .ok_or_else(|| RotateMasterError::OtherBegun {
                begun: next.id.clone(),
            })?;
        if let Some(given) = &self.new {
            let given = given.read(None).map_err(UseVaultError::from)?.key;
            if given.id() != new.id() {
                return Err(RotateMasterError::OtherBegun {
                    begun: next.id.clone(),
                });
            }
        }
        let mut changes = rewrapped(view, new)?;
        if !changes.is_empty() {
            let left = changes.len().saturating_sub(BATCH);
            changes.truncate(BATCH);
            return self.commit(view, &changes, RotationStep::Rewrapped { left });
        }
        let old = view.keyring.current();
        let now = self.vault.now();
        let past = KeyRow {
            id: old.id().clone(),
            created: now.as_second(),
            state: KeyState::Past,
            other: Some(envelope::link(old, new).map_err(UseVaultError::from)?),
            other_id: Some(new.id().clone()),
            until: Some(after(now, self.grace).as_second()),
        };
        let current = KeyRow {
            state: KeyState::Current,
            other: None,
            other_id: None,
            ..next.clone()
        };
        let changes = [Change::PutKey(past), Change::PutKey(current)];
        self.commit(view, &changes, RotationStep::Switched)
    }

    fn commit(
        &self,
        view: &View,
        changes: &[Change],
        step: RotationStep,
    ) -> Result<RotationStep, RotateMasterError> {
        match self.vault.store.commit(view.generation(), changes) {
            Ok(()) => {
                self.vault.changed();
                Ok(step)
            }
            Err(CommitError::Overtaken) => Ok(RotationStep::Overtaken),
            Err(CommitError::Store(error)) => Err(UseVaultError::from(error).into()),
        }
    }

    /// The key file and its successor, where gig keeps the key itself.
    fn files(&self) -> Option<Files<'_>> {
        match &self.vault.source {
            MasterKeySource::Default(path) => Some(Files {
                path,
                next: master_key::next_file(path),
            }),
            MasterKeySource::Variable { .. } | MasterKeySource::File(_) => None,
        }
    }
}

/// Every row that is not under `new`, brought under it.
fn rewrapped(view: &View, new: &MasterKey) -> Result<Vec<Change>, UseVaultError> {
    let snapshot = &view.snapshot;
    let mut changes = Vec::new();
    for row in snapshot.versions.iter().filter(|row| row.key != *new.id()) {
        let old = key_of(view, &row.key, &row.name)?;
        let moved = envelope::rewrap(old, new, row).map_err(|error| match error {
            RewrapError::Cipher(error) => UseVaultError::from(error),
            RewrapError::Open(source) => UseVaultError::Tampered {
                name: row.name.clone(),
                source,
            },
        })?;
        changes.push(Change::PutVersion(moved));
    }
    for row in snapshot.secrets.iter().filter(|row| row.key != *new.id()) {
        let old = key_of(view, &row.key, &row.name)?;
        envelope::check_secret(old, row).map_err(|source| UseVaultError::Tampered {
            name: row.name.clone(),
            source,
        })?;
        changes.push(Change::PutSecret(envelope::tagged_secret(new, row.clone())));
    }
    for row in snapshot.custodies.iter().filter(|row| row.key != *new.id()) {
        let name = "(custody)".into();
        let old = key_of(view, &row.key, &name)?;
        envelope::check_custody(old, row)
            .map_err(|source| UseVaultError::Tampered { name, source })?;
        changes.push(Change::PutCustody(envelope::tagged_custody(
            new,
            row.clone(),
        )));
    }
    Ok(changes)
}

fn key_of<'a>(
    view: &'a View,
    id: &master_key::KeyId,
    name: &std::sync::Arc<str>,
) -> Result<&'a MasterKey, UseVaultError> {
    view.keyring.key(id).ok_or_else(|| UseVaultError::OtherKey {
        name: name.clone(),
        key: id.clone(),
    })
}

/// The file that holds the key, and the one that is to take its place.
struct Files<'a> {
    path: &'a Path,
    next: PathBuf,
}

enum NextKey {
    Made,
    There(MasterKey),
}

impl Files<'_> {
    /// The successor, made if it is not there.
    fn next(&self, given: Option<&MasterKeySource>) -> Result<NextKey, UseVaultError> {
        let given = given.map(|source| source.read(None)).transpose()?;
        match master_key::read_file(&self.next) {
            Ok(key) => {
                // A given key takes the place of one that was never used.
                if given
                    .as_ref()
                    .is_none_or(|given| given.key.id() == key.id())
                {
                    return Ok(NextKey::There(key));
                }
                fs::remove_file(&self.next).map_err(|source| MasterKeyError::File {
                    action: "replace",
                    path: self.next.clone(),
                    source,
                })?;
            }
            Err(MasterKeyError::File { source, .. })
                if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let key = match given {
            Some(found) => found.key,
            None => MasterKey::random()?,
        };
        master_key::write_new(&self.next, &key)?;
        Ok(NextKey::Made)
    }

    /// Puts the successor in place once its key is the current one.
    fn replace(&self, current: &MasterKey) -> Result<Option<RotationStep>, RotateMasterError> {
        let next = match master_key::read_file(&self.next) {
            Err(MasterKeyError::File { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(None);
            }
            read => read.map_err(UseVaultError::from)?,
        };
        if next.id() != current.id() {
            return Ok(None);
        }
        let replaced =
            fs::rename(&self.next, self.path).and_then(|()| master_key::sync_directory(self.path));
        replaced.map_err(|source| RotateMasterError::Replace {
            path: self.path.to_owned(),
            next: self.next.clone(),
            source,
        })?;
        Ok(Some(RotationStep::FileReplaced))
    }
}

/// Rows in one commit: others wait for it no longer than a moment.
const BATCH: usize = 64;
