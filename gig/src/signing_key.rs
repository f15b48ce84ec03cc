//! The key that signs checkpoints of the record: 64 hexadecimal digits in a file of the data directory
//! that nobody else can read, made when it is first needed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context;
use gig_audit::SigningKey;

use crate::{data_dir, secret_file};

/// Where the key is, whether it is there or not.
///
/// # Errors
/// When no variable says where the data directory would be.
pub(crate) fn path() -> anyhow::Result<PathBuf> {
    Ok(data_dir::path()?.join(FILE))
}

/// The key; made now if there is none.
///
/// # Errors
/// When it cannot be read or made, or others can read or change it.
pub(crate) fn ours() -> anyhow::Result<SigningKey> {
    let path = path()?;
    if let Some(key) = there(&path)? {
        return Ok(key);
    }
    let folder = data_dir::path()?;
    data_dir::make_private(&folder)?;
    data_dir::refuse_shared(&folder)?;
    make(&folder, &path)
        .with_context(|| format!("cannot make the signing key {}", path.display()))?;
    // Another gig may have been quicker: what stands there now is the key.
    let made = there(&path)?;
    made.with_context(|| format!("the signing key {} is gone again", path.display()))
}

/// The key, if there is one.
///
/// # Errors
/// When it cannot be read, or others can read or change it.
pub(crate) fn there(path: &Path) -> anyhow::Result<Option<SigningKey>> {
    let reading = || format!("cannot use the signing key {}", path.display());
    let Some(text) = secret_file::line_if_there(path).with_context(reading)? else {
        return Ok(None);
    };
    let seed = SigningKey::seed_of(&text);
    let seed = seed.with_context(|| format!("{} does not hold a signing key", path.display()))?;
    Ok(Some(SigningKey::from_seed(&seed)?))
}

/// Written whole before it has its name, so that nobody reads half a key.
fn make(folder: &Path, path: &Path) -> anyhow::Result<()> {
    let seed = SigningKey::new_seed()?;
    let mut text = zeroize::Zeroizing::new(String::with_capacity(2 * seed.len() + 1));
    for octet in seed.iter() {
        for nibble in [octet >> 4, octet & 0xf] {
            text.extend(char::from_digit(nibble.into(), 16));
        }
    }
    text.push('\n');
    let beside = folder.join(format!("{FILE}.{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
    let linked = written.and_then(|()| match fs::hard_link(&beside, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let removed = fs::remove_file(&beside);
    linked?;
    removed?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

const FILE: &str = "audit-signing.key";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert!(there(&path).unwrap().is_none());
        make(folder.path(), &path).unwrap();
        let first = there(&path).unwrap().unwrap().public();
        make(folder.path(), &path).unwrap();
        assert_eq!(there(&path).unwrap().unwrap().public(), first);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = format!("{:#}", there(&path).unwrap_err());
        assert!(refused.contains("chmod 600"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "abc").unwrap();
        assert!(there(&path).is_err());
    }
}
