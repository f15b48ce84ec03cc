//! Setting, replacing and removing secrets.

use std::{sync::Arc, time::Duration};

use gig_policy::SecretName;
use jiff::Timestamp;

use super::{
    RootId, UseVaultError, Vault, View, custody_key,
    witness::{Announced, Doing},
};
use crate::{
    clock::after,
    definition::Definition,
    envelope::{self, Draft},
    provider::ProviderDefinition,
    secret_bytes::SecretBytes,
    store::{Change, SecretRow, VersionRow},
};

/// What becomes the newest version of a secret.
#[derive(Debug)]
pub struct NewVersion<'a> {
    /// The value; `None` for a secret whose provider has it.
    pub value: Option<&'a SecretBytes>,
    /// How long it may be used.
    pub expires: Option<Duration>,
    /// How long the versions before it stay usable, those that were promised longer as long as that; none at
    /// all when zero.
    pub grace: Duration,
    /// Opening it takes the owner's passphrase; the vault is unlocked.
    pub custody: bool,
}

/// Who gave a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Giver {
    Person,
    /// In place of the one before, which it takes no more.
    Service,
}

/// What a removal did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Versions that were usable until now.
    pub versions: usize,
}

impl Vault {
    /// Defines a secret, or defines it anew, with its value; earlier versions end at once. Returns the
    /// new version; 0 for a secret whose provider has the value.
    ///
    /// # Errors
    /// When the value is not of the kind, too large or missing, or the vault cannot be written.
    pub fn set(
        &self,
        name: &SecretName,
        definition: &Definition,
        new: &NewVersion<'_>,
    ) -> Result<u64, UseVaultError> {
        check(name, definition, new.value)?;
        let now = self.now().as_second();
        let told = |version: &u64| Some(Announced::of(name, Doing::Set, *version));
        self.announced(told, |view| {
            let before = view.secret(name.as_str())?;
            let row = SecretRow {
                owner: Arc::clone(&self.owner),
                name: name.shared().clone(),
                definition: definition.to_json(),
                given: before.as_ref().map_or(0, |(row, _)| row.given),
                created: before.map_or(now, |(row, _)| row.created),
                removed: None,
                key: view.keyring.current().id().clone(),
                tag: Vec::new(),
            };
            let row = envelope::tagged_secret(view.keyring.current(), row);
            let (mut changes, version) = self.replace(view, name, (definition, new))?;
            changes.insert(0, Change::PutSecret(row));
            Ok((changes, version))
        })
    }

    /// Adds a version to a secret that is there.
    ///
    /// # Errors
    /// As [`Vault::set`], and when there is no such secret.
    pub fn rotate(&self, name: &SecretName, new: &NewVersion<'_>) -> Result<u64, UseVaultError> {
        let told = |version: &u64| Some(Announced::of(name, Doing::Rotate, *version));
        self.announced(told, |view| {
            let (_, definition) = existing(view, name)?;
            check(name, &definition, new.value)?;
            self.replace(view, name, (&definition, new))
        })
    }

    /// Stores what a service gave in place of the value of `version`, such as a rotated refresh token.
    /// Does nothing when that version is not the newest any more, or another value has its number. Where it
    /// has ended meanwhile, as by a revocation, so has what the service gave: it is stored only to be
    /// watched for.
    ///
    /// # Errors
    /// When the vault cannot be written: the replacement is lost, and so may be the secret.
    pub fn supersede(
        &self,
        name: &SecretName,
        (version, own): (u64, RootId),
        value: &SecretBytes,
    ) -> Result<Option<u64>, UseVaultError> {
        let told =
            |made: &Option<u64>| made.map(|version| Announced::of(name, Doing::Supersede, version));
        self.announced(told, |view| {
            let newest = view.versions(name.as_str()).next_back();
            let same = |row: &&VersionRow| row.version == version && RootId::of(row) == own;
            let Some(newest) = newest.filter(same) else {
                return Ok((Vec::new(), None));
            };
            let as_before = (newest.custody, newest.expires);
            let mut row = self.sealed(view, name, value, as_before, Giver::Service)?;
            let mut changes = Vec::new();
            if newest.is_usable(self.now()) {
                changes = self.end(view, &[newest], Duration::ZERO)?;
                changes.extend(self.forget_oldest(view, name));
            }
            row.retires = newest.retires;
            row.revoked = newest.revoked;
            row.tag = envelope::version_tag(view.keyring.current(), &row);
            let version = row.version;
            changes.push(Change::PutVersion(row));
            Ok((changes, Some(version)))
        })
    }

    /// Ends a secret or one version of it. Its values are remembered, so that they may leave nowhere,
    /// unless they are to be forgotten.
    ///
    /// # Errors
    /// When there is no such secret or version, or the vault cannot be written.
    pub fn remove(
        &self,
        name: &SecretName,
        version: Option<u64>,
        forget: bool,
    ) -> Result<Removed, UseVaultError> {
        let now = self.now();
        let doing = if forget { Doing::Forget } else { Doing::Revoke };
        let told = |_: &Removed| Some(Announced::of(name, doing, version.unwrap_or(0)));
        self.announced(told, |view| {
            let (row, _) = match (view.secret(name.as_str())?, forget) {
                (Some((row, definition)), true) => (row, definition),
                _ => existing(view, name)?,
            };
            let concerned = |row: &&VersionRow| version.is_none_or(|only| row.version == only);
            let rows: Vec<&VersionRow> = view.versions(name.as_str()).filter(concerned).collect();
            if let Some(version) = version.filter(|_| rows.is_empty()) {
                let name = name.shared().clone();
                return Err(UseVaultError::NoVersion { name, version });
            }
            let removed = Removed {
                versions: rows.iter().filter(|row| row.is_usable(now)).count(),
            };
            let mut changes = Vec::new();
            match (version, forget) {
                (None, true) => changes.push(Change::DeleteSecret {
                    owner: Arc::clone(&row.owner),
                    name: Arc::clone(&row.name),
                }),
                (Some(_), true) => {
                    changes.extend(rows.into_iter().map(forgotten));
                    // Another tag, too: what was made of the secret as it was is made anew.
                    let newest = view.versions(name.as_str()).next_back();
                    let mut row = row.clone();
                    row.given = newest.map_or(row.given, |last| last.version.max(row.given));
                    let key = view.keyring.current();
                    changes.push(Change::PutSecret(envelope::tagged_secret(key, row)));
                }
                (_, false) => {
                    for row in rows.into_iter().filter(|row| row.revoked.is_none()) {
                        let ended = |row: &mut VersionRow| row.revoked = Some(now.as_second());
                        changes.push(self.edited(view, row, ended)?);
                    }
                    if version.is_none() {
                        let mut row = row.clone();
                        row.removed = Some(now.as_second());
                        let key = view.keyring.current();
                        changes.push(Change::PutSecret(envelope::tagged_secret(key, row)));
                    }
                }
            }
            Ok((changes, removed))
        })
    }

    /// A new version beside the ones there are, which end now or after the grace time.
    fn replace(
        &self,
        view: &View,
        name: &SecretName,
        (definition, new): (&Definition, &NewVersion<'_>),
    ) -> Result<(Vec<Change>, u64), UseVaultError> {
        let mut changes = self.end_before(view, name, new.grace)?;
        if new.custody {
            // What the master key alone opens is no more in custody than before: it may be the same value.
            let open = view.versions(name.as_str()).filter(|row| !row.custody);
            changes.extend(open.map(forgotten));
        }
        let Some(value) = new.value else {
            return Ok((changes, 0));
        };
        let asked = new.expires.map(|span| after(self.now(), span));
        let own = definition.kind.kind().ends(value);
        if let Some(at) = own.filter(|at| *at <= self.now()) {
            let name = name.shared().clone();
            return Err(UseVaultError::Over { name, at });
        }
        // Whichever is sooner.
        let expires = own.into_iter().chain(asked).min();
        let expires = expires.map(Timestamp::as_second);
        let row = self.sealed(view, name, value, (new.custody, expires), Giver::Person)?;
        let version = row.version;
        changes.push(Change::PutVersion(row));
        Ok((changes, version))
    }

    /// The next version, in custody or not, until it expires.
    fn sealed(
        &self,
        view: &View,
        name: &SecretName,
        value: &SecretBytes,
        (in_custody, expires): (bool, Option<i64>),
        giver: Giver,
    ) -> Result<VersionRow, UseVaultError> {
        let custody = self.custody.read().clone();
        let custody = match in_custody {
            true => Some(custody_key(custody.as_deref(), view, name.shared())?),
            false => None,
        };
        let newest = view.versions(name.as_str()).next_back();
        let forgotten = view.secret(name.as_str())?.map_or(0, |(row, _)| row.given);
        let given = newest.map_or(forgotten, |row| row.version.max(forgotten));
        let draft = Draft {
            owner: Arc::clone(&self.owner),
            name: name.shared().clone(),
            version: given.saturating_add(1),
            created: self.now().as_second(),
            expires,
            supersedes: giver == Giver::Service,
        };
        let row = envelope::seal_version(view.keyring.current(), custody, draft, value)?;
        Ok(row)
    }

    /// Ends the versions that are usable, and forgets the oldest of those that ended long ago.
    fn end_before(
        &self,
        view: &View,
        name: &SecretName,
        grace: Duration,
    ) -> Result<Vec<Change>, UseVaultError> {
        let now = self.now();
        let usable = view.versions(name.as_str());
        let usable: Vec<&VersionRow> = usable.filter(|row| row.is_usable(now)).collect();
        let mut changes = self.end(view, &usable, grace)?;
        changes.extend(self.forget_oldest(view, name));
        Ok(changes)
    }

    /// Ends `rows` after the grace time, or at once. One that was promised a longer time before keeps that.
    fn end(
        &self,
        view: &View,
        rows: &[&VersionRow],
        grace: Duration,
    ) -> Result<Vec<Change>, UseVaultError> {
        let now = self.now();
        let ended = |row: &mut VersionRow| {
            if grace.is_zero() {
                row.revoked = Some(now.as_second());
            } else {
                row.retires = row.retires.max(Some(after(now, grace).as_second()));
            }
        };
        let edited = rows.iter().map(|row| self.edited(view, row, ended));
        edited.collect()
    }

    /// Of versions that ended, those whose values are not remembered any longer.
    fn forget_oldest(&self, view: &View, name: &SecretName) -> Vec<Change> {
        let now = self.now();
        // What services gave since is known by the one that they began with.
        let newest = view.versions(name.as_str()).next_back();
        let root = newest.map(|row| view.root(row).version);
        let ended = view
            .versions(name.as_str())
            .rev()
            .filter(|row| !row.is_usable(now) && Some(row.version) != root);
        ended.skip(REMEMBERED).map(forgotten).collect()
    }

    /// A row with other moments; one that somebody else edited is not made valid by it.
    fn edited(
        &self,
        view: &View,
        row: &VersionRow,
        edit: impl FnOnce(&mut VersionRow),
    ) -> Result<Change, UseVaultError> {
        let key = view.master_of(&row.name, &row.key)?;
        envelope::check_version(key, row).map_err(|source| UseVaultError::Tampered {
            name: Arc::clone(&row.name),
            source,
        })?;
        let mut row = row.clone();
        edit(&mut row);
        row.tag = envelope::version_tag(key, &row);
        Ok(Change::PutVersion(row))
    }
}

fn forgotten(row: &VersionRow) -> Change {
    Change::DeleteVersion {
        owner: Arc::clone(&row.owner),
        name: Arc::clone(&row.name),
        version: row.version,
    }
}

/// The secret of this name, if it is there and not removed.
fn existing<'a>(
    view: &'a View,
    name: &SecretName,
) -> Result<(&'a SecretRow, Definition), UseVaultError> {
    let found = view.secret(name.as_str())?;
    found
        .filter(|(row, _)| row.removed.is_none())
        .ok_or_else(|| UseVaultError::Unknown {
            name: name.shared().clone(),
        })
}

fn check(
    name: &SecretName,
    definition: &Definition,
    value: Option<&SecretBytes>,
) -> Result<(), UseVaultError> {
    let wrong = |why| UseVaultError::Value {
        name: name.shared().clone(),
        why,
    };
    if name.is_taken() {
        return Err(wrong(
            "has the name of a variable that is gig's own inside a sandbox, or is read by what starts programs: \
             give it a name of its own",
        ));
    }
    if let Some(shape) = &definition.shape {
        shape.shape()?;
    }
    definition.provider.check().map_err(wrong)?;
    definition.kind.check().map_err(wrong)?;
    let kind = definition.kind.kind();
    if definition.entrusted && !kind.may_be_entrusted() {
        return Err(wrong(
            "is of a kind whose value is never handed in: leave entrusted out",
        ));
    }
    if kind.rotates() && !matches!(definition.provider, ProviderDefinition::Embedded) {
        return Err(wrong(
            "is of a kind whose service may give something new in place of the value, which a provider \
             cannot store, so that the login would be lost: leave provider out and give the value to gig",
        ));
    }
    match (&definition.provider, value) {
        (ProviderDefinition::Embedded, None) => Err(wrong("needs a value")),
        (ProviderDefinition::Embedded, Some(value)) if value.len() > LARGEST => {
            Err(UseVaultError::Large { most: LARGEST })
        }
        (ProviderDefinition::Embedded, Some(value)) => Ok(kind.check(value)?),
        (_, None) => Ok(()),
        (_, Some(_)) => Err(wrong(
            "has its value from its provider; none is stored here",
        )),
    }
}

/// Keys and certificates have some thousand octets.
pub const LARGEST: usize = 64 * 1024;
/// Ended versions of a secret whose values may leave nowhere; older ones are forgotten.
const REMEMBERED: usize = 16;
