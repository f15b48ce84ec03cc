//! Sealing and opening rows: envelope encryption, and a tag over everything else in a row.
//!
//! A value is sealed with a fresh 256-bit data key, which is sealed with the master key; for a secret
//! in its owner's custody the data key is sealed with the custody key first. Each sealing is bound to
//! format, owner, name, version and custody, the data key's also to the id of the master key. What a
//! row says in clear (definition, moments, states) is authenticated with a key derived from the master
//! key, so that a row that was swapped, mixed or edited is refused as a whole. Which rows exist, and
//! an older state of the whole store, cannot be told this way.

use std::sync::Arc;

use crate::{
    cipher::{CipherError, Fields, Key, OpenError, Sealed},
    master_key::MasterKey,
    secret_bytes::SecretBytes,
    store::{CustodyRow, KeyRow, SecretRow, VersionRow},
};

/// A version before it is sealed.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) owner: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) version: u64,
    pub(crate) created: i64,
    pub(crate) expires: Option<i64>,
    /// A service gave it in place of the one before.
    pub(crate) supersedes: bool,
}

/// Seals a new version.
pub(crate) fn seal_version(
    master: &MasterKey,
    custody: Option<&Key>,
    draft: Draft,
    value: &SecretBytes,
) -> Result<VersionRow, CipherError> {
    let data_key = Key::random()?;
    let mut row = VersionRow {
        owner: draft.owner,
        name: draft.name,
        version: draft.version,
        created: draft.created,
        expires: draft.expires,
        retires: None,
        revoked: None,
        custody: custody.is_some(),
        format: if draft.supersedes {
            SUPERSEDING
        } else {
            FORMAT
        },
        key: master.id().clone(),
        wrapped: empty(),
        value: empty(),
        tag: Vec::new(),
    };
    row.value = data_key.seal(value, context(&row, "value").as_slice())?;
    row.wrapped = match custody {
        Some(key) => {
            let inner = key.seal(data_key.octets(), context(&row, "custody").as_slice())?;
            let inner = SecretBytes::new(inner.to_row());
            wrap(master, &row, &inner)?
        }
        None => wrap(master, &row, data_key.octets())?,
    };
    row.tag = version_tag(master, &row);
    Ok(row)
}

/// Opens a version. A version in custody takes the custody key.
pub(crate) fn open_version(
    master: &MasterKey,
    custody: Option<&Key>,
    row: &VersionRow,
) -> Result<SecretBytes, OpenError> {
    check_version(master, row)?;
    let inner = unwrap(master, row)?;
    let data_key = match (row.custody, custody) {
        (false, _) => inner,
        (true, Some(key)) => {
            let sealed = Sealed::from_row(inner.expose()).ok_or(OpenError)?;
            key.open(&sealed, context(row, "custody").as_slice())?
        }
        (true, None) => return Err(OpenError),
    };
    let data_key = Key::of(data_key).ok_or(OpenError)?;
    data_key.open(&row.value, context(row, "value").as_slice())
}

/// Seals the data key of a row anew, under another master key. The value stays as it is.
pub(crate) fn rewrap(
    old: &MasterKey,
    new: &MasterKey,
    row: &VersionRow,
) -> Result<VersionRow, RewrapError> {
    check_version(old, row)?;
    let inner = unwrap(old, row)?;
    let mut row = row.clone();
    row.key = new.id().clone();
    row.wrapped = wrap(new, &row, &inner)?;
    row.tag = version_tag(new, &row);
    Ok(row)
}

/// Seals the data key of a row in custody anew, under another custody key.
pub(crate) fn recustody(
    master: &MasterKey,
    (old, new): (&Key, &Key),
    row: &VersionRow,
) -> Result<VersionRow, RewrapError> {
    check_version(master, row)?;
    let sealed = Sealed::from_row(unwrap(master, row)?.expose()).ok_or(OpenError)?;
    let data_key = old.open(&sealed, context(row, "custody").as_slice())?;
    let inner = new.seal(&data_key, context(row, "custody").as_slice())?;
    let mut row = row.clone();
    row.wrapped = wrap(master, &row, &SecretBytes::new(inner.to_row()))?;
    row.tag = version_tag(master, &row);
    Ok(row)
}

/// A row cannot be brought under another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RewrapError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Cipher(#[from] CipherError),
}

fn wrap(master: &MasterKey, row: &VersionRow, inner: &SecretBytes) -> Result<Sealed, CipherError> {
    let context = context(row, "data key").text(row.key.as_str());
    master.wrapping.seal(inner, context.as_slice())
}

fn unwrap(master: &MasterKey, row: &VersionRow) -> Result<SecretBytes, OpenError> {
    let context = context(row, "data key").text(row.key.as_str());
    master.wrapping.open(&row.wrapped, context.as_slice())
}

/// What a sealing of this row is bound to.
fn context(row: &VersionRow, purpose: &str) -> Fields {
    Fields::of("gig secret")
        .text(purpose)
        .number(row.format.into())
        .text(&row.owner)
        .text(&row.name)
        .number(row.version)
        .number(row.custody.into())
}

/// Whether nobody but a holder of the key wrote this row.
pub(crate) fn check_version(master: &MasterKey, row: &VersionRow) -> Result<(), OpenError> {
    authentic(master, &version_fields(row), &row.tag)
}

/// Tags a version again after one of its moments changed.
pub(crate) fn version_tag(master: &MasterKey, row: &VersionRow) -> Vec<u8> {
    tag(master, &version_fields(row))
}

fn version_fields(row: &VersionRow) -> Fields {
    context(row, "version row")
        .moment(Some(row.created))
        .moment(row.expires)
        .moment(row.retires)
        .moment(row.revoked)
        .text(row.key.as_str())
        .octets(&row.wrapped.to_row())
        .octets(&row.value.to_row())
}

/// Names the key in a secret's row and tags it.
pub(crate) fn tagged_secret(master: &MasterKey, mut row: SecretRow) -> SecretRow {
    row.key = master.id().clone();
    row.tag = tag(master, &secret_fields(&row));
    row
}

/// Whether nobody but a holder of the key wrote this row.
pub(crate) fn check_secret(master: &MasterKey, row: &SecretRow) -> Result<(), OpenError> {
    authentic(master, &secret_fields(row), &row.tag)
}

fn secret_fields(row: &SecretRow) -> Fields {
    let fields = Fields::of("gig secret")
        .text("secret row")
        .text(&row.owner)
        .text(&row.name)
        .text(&row.definition)
        .moment(Some(row.created))
        .moment(row.removed)
        .text(row.key.as_str());
    // Left out where nothing was forgotten: so rows are read that came before it.
    match row.given {
        0 => fields,
        given => fields.number(given),
    }
}

/// Names the key in a custody's row and tags it.
pub(crate) fn tagged_custody(master: &MasterKey, mut row: CustodyRow) -> CustodyRow {
    row.key = master.id().clone();
    row.tag = tag(master, &custody_fields(&row));
    row
}

/// Whether nobody but a holder of the key wrote this row.
pub(crate) fn check_custody(master: &MasterKey, row: &CustodyRow) -> Result<(), OpenError> {
    authentic(master, &custody_fields(row), &row.tag)
}

fn custody_fields(row: &CustodyRow) -> Fields {
    Fields::of("gig secret")
        .text("custody row")
        .text(&row.owner)
        .octets(&row.salt)
        .number(row.memory.into())
        .number(row.passes.into())
        .number(row.lanes.into())
        .octets(&row.check.to_row())
        .text(row.key.as_str())
}

/// Seals `other` with `holder`, so that who holds the one learns the other.
pub(crate) fn link(holder: &MasterKey, other: &MasterKey) -> Result<Sealed, CipherError> {
    let context = link_context(holder.id().as_str(), other.id().as_str());
    holder
        .wrapping
        .seal(other.root().octets(), context.as_slice())
}

/// The other key of a key's row.
pub(crate) fn follow(holder: &MasterKey, row: &KeyRow) -> Option<MasterKey> {
    let (sealed, other) = (row.other.as_ref()?, row.other_id.as_ref()?);
    let context = link_context(row.id.as_str(), other.as_str());
    let root = holder.wrapping.open(sealed, context.as_slice()).ok()?;
    let key = MasterKey::new(Key::of(root)?).ok()?;
    (key.id() == other).then_some(key)
}

fn link_context(holder: &str, other: &str) -> Fields {
    Fields::of("gig master key link").text(holder).text(other)
}

fn tag(master: &MasterKey, fields: &Fields) -> Vec<u8> {
    master
        .authenticating
        .authenticate(fields.as_slice())
        .to_vec()
}

fn authentic(master: &MasterKey, fields: &Fields, tag: &[u8]) -> Result<(), OpenError> {
    if master.authenticating.is_authentic(fields.as_slice(), tag) {
        Ok(())
    } else {
        Err(OpenError)
    }
}

const fn empty() -> Sealed {
    Sealed {
        nonce: [0; 12],
        octets: Vec::new(),
    }
}

/// Of what is sealed; another one is bound into every sealing, so that none is mistaken for another.
const FORMAT: u32 = 1;
/// The same, where a service gave the value in place of the one before.
pub(crate) const SUPERSEDING: u32 = 2;

#[cfg(test)]
mod tests;
