//! A secret in a file of its own: one line of text, in a file that nobody else can read or change.
//!
//! What others could have read is no secret, and what others can change is theirs: both are refused, with the
//! cure. No error shows anything of what the file holds.

use std::{
    env,
    fs::{File, Metadata},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use anyhow::{Context, bail};
use zeroize::Zeroizing;

/// The line, without white space around it.
///
/// # Errors
/// When the file cannot be read, is not its reader's alone, or does not hold one line.
pub(crate) fn line(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let found = line_if_there(path)?;
    found.with_context(|| format!("cannot read {}: it is not there", path.display()))
}

/// The same; `None` where there is no file.
///
/// # Errors
/// As [`line()`].
pub(crate) fn line_if_there(path: &Path) -> anyhow::Result<Option<Zeroizing<String>>> {
    let shown = path.display();
    let reading = || format!("cannot read {shown}");
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(reading),
    };
    let facts = file.metadata().with_context(reading)?;
    match others(path, &facts) {
        None => {}
        Some(Others::Owner(owner)) => {
            bail!("{shown} belongs to another user (uid {owner}), who can change it")
        }
        Some(Others::Mode(mode)) => bail!(
            "others can read or change {shown} (mode {mode:04o}): chmod 600 it, and replace what it holds if \
             that was so for long"
        ),
    }
    let mut octets = Zeroizing::new(Vec::with_capacity(LONGEST));
    let bound = u64::try_from(LONGEST).unwrap_or_default();
    let read = file.take(bound).read_to_end(&mut octets);
    read.with_context(reading)?;
    let text = std::str::from_utf8(&octets).unwrap_or_default().trim();
    let whole = octets.len() < LONGEST && !text.is_empty() && !text.contains(['\n', '\r', '\0']);
    if !whole {
        bail!("{shown} does not hold one line of text");
    }
    Ok(Some(Zeroizing::new(text.to_owned())))
}

/// Opens a file, and waits for nobody to write into a pipe.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    options.read(true).custom_flags(flags.cast_signed());
    options.open(path)
}

/// Who else can read or change a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Its owner, by this number.
    Owner(u32),
    /// Whoever this mode lets.
    Mode(u32),
}

/// Whether anybody but its reader and root can read or change a file, and who.
pub(crate) fn others(path: &Path, facts: &Metadata) -> Option<Others> {
    let handed = env::var_os("CREDENTIALS_DIRECTORY")
        .is_some_and(|directory| !directory.is_empty() && path.starts_with(directory));
    among((facts.uid(), facts.mode() & 0o777), handed)
}

/// What systemd hands a service (`LoadCredential=`) is root's, and its mask for the service's user looks like a
/// group's.
fn among((owner, mode): (u32, u32), handed: bool) -> Option<Others> {
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Some(Others::Owner(owner));
    }
    match mode & 0o077 {
        0 => None,
        0o040 if handed && owner == 0 => None,
        _ => Some(Others::Mode(mode)),
    }
}

/// In octets: the longest tokens of collectors and providers are shorter. Room for all of it is made at once,
/// so that none of it is left where it was moved from.
const LONGEST: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_secret_is_one_line_of_a_file_of_ones_own_and_no_error_tells_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(line_if_there(&path).unwrap().is_none());
        let missing = line(&path).unwrap_err().to_string();
        assert!(missing.contains("it is not there"), "{missing}");
        let put = |octets: &[u8], mode: u32| {
            fs::write(&path, octets).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        put(b"  whsec_abc\r\n", 0o600);
        assert_eq!(*line(&path).unwrap(), "whsec_abc");
        put(b"x", 0o400);
        assert_eq!(*line(&path).unwrap(), "x");
        for mode in [0o640, 0o604, 0o620, 0o644, 0o601] {
            put(b"hidden", mode);
            let refused = line(&path).unwrap_err().to_string();
            assert!(refused.contains("chmod 600"), "{mode:o}: {refused}");
            assert!(!refused.contains("hidden"), "{refused}");
        }
        let long = [b'x'; LONGEST];
        for wrong in [
            &b""[..],
            b" \n",
            b"\xff\xfe",
            b"hidden\nlines",
            b"a\0b",
            &long,
        ] {
            put(wrong, 0o600);
            let refused = line(&path).unwrap_err().to_string();
            assert!(
                refused.ends_with("does not hold one line of text"),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_systemd_hands_a_service_is_not_shared() {
        let own = rustix::process::geteuid().as_raw();
        for (facts, handed, expected) in [
            ((0, 0o400), false, None),
            ((own, 0o600), true, None),
            ((0, 0o440), true, None),
            ((0, 0o440), false, Some(Others::Mode(0o440))),
            ((0, 0o444), true, Some(Others::Mode(0o444))),
            ((0, 0o460), true, Some(Others::Mode(0o460))),
            ((own + 1, 0o440), true, Some(Others::Owner(own + 1))),
        ] {
            assert_eq!(among(facts, handed), expected, "{facts:?} {handed}");
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
            let refused = line(&path).unwrap_err().to_string();
            assert!(refused.contains("another user (uid 65534)"), "{refused}");
        }
    }
}
