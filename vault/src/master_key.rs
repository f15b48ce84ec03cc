//! The key-encryption key: read, named, made.
//!
//! 64 hexadecimal digits from `GIG_MASTER_KEY`, or from a file that nobody else can read: the one that
//! `GIG_MASTER_KEY_FILE` names, or one in the data directory that is made when it is first needed. A
//! key is named by its id, which is derived from it and tells nothing of it. Sealing rows with it is
//! `envelope`'s.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::{
    cipher::{CipherError, KEY, Key},
    secret_bytes::SecretBytes,
};

/// Names a master key; 16 hexadecimal digits that tell nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

/// A master key and what is derived from it.
#[derive(Debug)]
pub struct MasterKey {
    root: Key,
    pub(crate) wrapping: Key,
    pub(crate) authenticating: Key,
    id: KeyId,
}

/// Where the master key is.
#[derive(Debug)]
pub enum MasterKeySource {
    /// In a variable, as text.
    Variable {
        /// Which.
        name: &'static str,
        /// What it holds.
        value: SecretBytes,
    },
    /// In a file that the operator made.
    File(PathBuf),
    /// In a file that is made when it is first needed.
    Default(PathBuf),
}

/// There is no master key to work with.
#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    /// Both variables are set.
    #[error("{one} and {two} are both set, and only one key can be meant: unset one of them")]
    Both {
        /// The one.
        one: &'static str,
        /// The other.
        two: &'static str,
    },
    /// It is not what a key looks like.
    #[error(
        "{place} does not hold a master key: {why}; a key is 64 hexadecimal digits, such as openssl rand -hex 32 prints"
    )]
    Malformed {
        /// The variable or file.
        place: String,
        /// What is wrong; shows nothing of it.
        why: &'static str,
    },
    /// Others can read it.
    #[error("the master key file {} can be read by others (mode {mode:04o}): chmod 600 it, and make a new key if it was readable for long", path.display())]
    Readable {
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("the master key file {} belongs to user {owner}, who can change it: it has to be this user's or root's", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// Whose.
        owner: u32,
    },
    /// It cannot be read or made.
    #[error("cannot {action} the master key file {}", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is none, and the store is sealed with one.
    #[error("the secrets are sealed with master key {wanted}, and {} is not there: bring it back from its backup, on a further node of a fleet copy it from one that has it, or set GIG_MASTER_KEY or GIG_MASTER_KEY_FILE; without it the secrets are lost", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The key that is wanted.
        wanted: KeyId,
    },
    /// The cryptographic library refused.
    #[error(transparent)]
    Cipher(#[from] CipherError),
}

/// A key that was read, and whether it was made just now.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) key: MasterKey,
    pub(crate) made: Option<PathBuf>,
}

impl KeyId {
    /// As rows and listings spell it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads it back from a row.
    pub(crate) const fn from_row(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl MasterKey {
    pub(crate) fn new(root: Key) -> Result<Self, CipherError> {
        let name = root.derive(b"id")?;
        let id = name.octets().expose().iter().take(ID);
        Ok(Self {
            id: KeyId(id.map(|octet| format!("{octet:02x}")).collect()),
            wrapping: root.derive(b"wrap")?,
            authenticating: root.derive(b"authenticate")?,
            root,
        })
    }

    /// A fresh one.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn random() -> Result<Self, CipherError> {
        Self::new(Key::random()?)
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> &KeyId {
        &self.id
    }

    pub(crate) const fn root(&self) -> &Key {
        &self.root
    }

    /// Reads 64 hexadecimal digits; one line end after them is fine.
    fn parse(text: &SecretBytes, place: &str) -> Result<Self, MasterKeyError> {
        let malformed = |why| MasterKeyError::Malformed {
            place: place.to_owned(),
            why,
        };
        let octets = text.expose();
        let digits = octets.strip_suffix(b"\n").unwrap_or(octets);
        if digits.is_empty() {
            return Err(malformed("it is empty"));
        }
        if digits.len() != 2 * KEY {
            return Err(malformed("it has another length"));
        }
        let mut key = SecretBytes::zeroed(KEY);
        for (octet, pair) in key.expose_mut().iter_mut().zip(digits.chunks_exact(2)) {
            let text = std::str::from_utf8(pair).unwrap_or_default();
            // A sign is no digit, though from_str_radix takes it.
            let digits = pair.iter().all(u8::is_ascii_hexdigit);
            *octet = u8::from_str_radix(text, 16)
                .ok()
                .filter(|_| digits)
                .ok_or_else(|| malformed("it holds something else than hexadecimal digits"))?;
        }
        let key = Key::of(key).ok_or(CipherError)?;
        Ok(Self::new(key)?)
    }
}

impl MasterKeySource {
    /// What the variables say; a file in `data_dir` when they say nothing.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn from_env(
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
        data_dir: &Path,
    ) -> Result<Self, MasterKeyError> {
        let default = Self::Default(data_dir.join(FILE));
        Ok(Self::named(&variable, ["GIG_MASTER_KEY", "GIG_MASTER_KEY_FILE"])?.unwrap_or(default))
    }

    /// The key that is to replace the present one, where the variables name one.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn new_from_env(
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Option<Self>, MasterKeyError> {
        Self::named(&variable, ["GIG_MASTER_KEY_NEW", "GIG_MASTER_KEY_NEW_FILE"])
    }

    fn named(
        variable: &impl Fn(&str) -> Option<std::ffi::OsString>,
        [text, file]: [&'static str; 2],
    ) -> Result<Option<Self>, MasterKeyError> {
        match (variable(text), variable(file)) {
            (Some(_), Some(_)) => Err(MasterKeyError::Both {
                one: text,
                two: file,
            }),
            (Some(value), None) => Ok(Some(Self::Variable {
                name: text,
                value: SecretBytes::new(value.into_encoded_bytes()),
            })),
            (None, Some(path)) => Ok(Some(Self::File(path.into()))),
            (None, None) => Ok(None),
        }
    }

    /// Whether what somebody named is a key that could be used. The default file is nobody's word: it counts where
    /// there is a vault.
    ///
    /// # Errors
    /// When it is none.
    pub fn check(&self) -> Result<(), MasterKeyError> {
        match self {
            Self::Variable { name, value } => MasterKey::parse(value, name).map(drop),
            Self::File(path) => read_file(path).map(drop),
            Self::Default(_) => Ok(()),
        }
    }

    /// Where the key is, if its digits stand somewhere in `text`. What cannot be read is looked for by nobody.
    #[must_use]
    pub fn found_in(&self, text: &[u8]) -> Option<String> {
        let (key, place) = match self {
            Self::Variable { name, value } => (MasterKey::parse(value, name), (*name).to_owned()),
            Self::File(path) | Self::Default(path) => (read_file(path), path.display().to_string()),
        };
        let key = key.ok()?;
        let is_it = |digits: &[u8]| {
            let all = digits.iter().all(u8::is_ascii_hexdigit);
            let other = || MasterKey::parse(&SecretBytes::copy_of(digits), "");
            all && other().is_ok_and(|other| other.id == key.id)
        };
        text.windows(2 * KEY).any(is_it).then_some(place)
    }

    /// Reads the key. A default file that is not there is made, unless something is `sealed` already.
    pub(crate) fn read(&self, sealed: Option<&KeyId>) -> Result<Found, MasterKeyError> {
        let key = match self {
            Self::Variable { name, value } => MasterKey::parse(value, name)?,
            Self::File(path) => read_file(path)?,
            Self::Default(path) => match (read_file(path), sealed) {
                (Err(MasterKeyError::File { source, .. }), None)
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    let made = write_new(path, &MasterKey::random()?)?;
                    let key = read_file(path)?;
                    return Ok(Found {
                        key,
                        made: made.then(|| path.clone()),
                    });
                }
                (Err(MasterKeyError::File { source, .. }), Some(wanted))
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    return Err(MasterKeyError::Missing {
                        path: path.clone(),
                        wanted: wanted.clone(),
                    });
                }
                (read, _) => read?,
            },
        };
        Ok(Found { key, made: None })
    }

    /// Where gig keeps the key itself, the one that is to take its place, if there is one.
    pub(crate) fn successor(&self) -> Option<MasterKey> {
        match self {
            Self::Default(path) => read_file(&next_file(path)).ok(),
            Self::Variable { .. } | Self::File(_) => None,
        }
    }
}

/// The file that is to take the place of the one that gig keeps its key in.
pub(crate) fn next_file(path: &Path) -> PathBuf {
    path.with_extension("next")
}

/// Reads a key file that only this user (or root) can read and write.
pub(crate) fn read_file(path: &Path) -> Result<MasterKey, MasterKeyError> {
    let failed = |source| MasterKeyError::File {
        action: "read",
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(failed(io::Error::other("it is no file")));
    }
    if facts.mode() & 0o077 != 0 {
        return Err(MasterKeyError::Readable {
            path: path.to_owned(),
            mode: facts.mode() & 0o7777,
        });
    }
    let owner = facts.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(MasterKeyError::Foreign {
            path: path.to_owned(),
            owner,
        });
    }
    let mut text = Vec::with_capacity(LONGEST);
    file.take(LONGEST as u64)
        .read_to_end(&mut text)
        .map_err(failed)?;
    MasterKey::parse(&SecretBytes::new(text), &path.display().to_string())
}

/// Writes a key file that was not there, whole and on the disk before it has its name. False when
/// another process was first.
pub(crate) fn write_new(path: &Path, key: &MasterKey) -> Result<bool, MasterKeyError> {
    let failed = |source| MasterKeyError::File {
        action: "make",
        path: path.to_owned(),
        source,
    };
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let mut hex = SecretBytes::zeroed(2 * KEY);
    for (pair, octet) in hex
        .expose_mut()
        .chunks_exact_mut(2)
        .zip(key.root.octets().expose())
    {
        for (digit, half) in pair.iter_mut().zip([octet >> 4, octet & 0xf]) {
            *digit = DIGITS.get(usize::from(half)).copied().unwrap_or_default();
        }
    }
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(hex.expose())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            linked => linked.map(|()| true),
        }
    })();
    // A draft that stays holds a key that nothing was sealed with, or has its name by now.
    fs::remove_file(&draft).ok();
    let made = written.map_err(failed)?;
    sync_directory(path).map_err(failed)?;
    Ok(made)
}

/// Makes names in the directory of `path` last through a loss of power.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    File::open(directory)?.sync_all()
}

/// In the data directory.
pub const FILE: &str = "master.key";
/// Octets of an id: enough that two keys never share one.
const ID: usize = 8;
/// More than a key and a line end, so that something longer is noticed.
const LONGEST: usize = 2 * KEY + 2;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests;
