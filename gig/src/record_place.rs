//! Where a record is kept, as `--audit` and `gig audit` name it.
//!
//! `sqlite:FILE` is a database whatever it is called; so is a file that is one already, and one not
//! yet there (or empty) whose name ends in `.db`, `.sqlite` or `.sqlite3`. Everything else is a file
//! of JSON lines. `postgres:` is the record that the nodes of a fleet share, in the database of
//! `GIG_DATABASE_URL`: a URL of its own would show its password to everybody on the machine. A database's links are followed once, here: what is guarded against a sandbox is what
//! is opened, and what SQLite keeps its journal beside.

use std::{
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{major, minor};

use gig_audit::store::sqlite::{is_sqlite, without_links};

/// Where a record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordPlace {
    /// `-`: standard error to write, standard input to read.
    Stream,
    /// A file of JSON lines, or a pipe.
    Lines(PathBuf),
    /// An SQLite database.
    Sqlite(PathBuf),
    /// The record of a fleet.
    Shared,
}

impl RecordPlace {
    /// Reads a name as typed; looks at the file, if it is there.
    ///
    /// # Errors
    /// When it names no file: a URL is a mistake, and must not become a file of that name.
    pub(crate) fn of(name: &Path) -> anyhow::Result<Self> {
        if let Some(scheme) = scheme(name) {
            anyhow::bail!(
                "a record is kept in a file, of JSON lines or an SQLite database, and not at {scheme}://…: \
                 name a file, or `postgres:` for the database of GIG_DATABASE_URL"
            );
        }
        Ok(Self::at(name))
    }

    /// As [`Self::of`], to write to: what keeps nothing is refused.
    ///
    /// # Errors
    /// Also when it is a device that swallows what is written.
    pub(crate) fn to_write(name: &Path) -> anyhow::Result<Self> {
        let place = Self::of(name)?;
        let (file, shown) = match place {
            // One that was closed when gig started is /dev/null now: the runtime opens it there.
            Self::Stream => (Path::new("/proc/self/fd/2"), Path::new("standard error")),
            _ => (name, name),
        };
        let found = file.metadata().ok();
        let found = found.filter(|found| found.file_type().is_char_device());
        let device = found.map(|found| (major(found.rdev()), minor(found.rdev())));
        if device.is_some_and(|device| [NULL, ZERO].contains(&device)) {
            anyhow::bail!(
                "no record can be kept in {}, which swallows what is written: name a file, or leave --audit out, and \
                 the record is kept in gig's own folder",
                shown.display()
            );
        }
        Ok(place)
    }

    fn at(name: &Path) -> Self {
        if name.as_os_str() == "-" {
            return Self::Stream;
        }
        if name.as_os_str() == "postgres:" {
            return Self::Shared;
        }
        let after = name.as_os_str().as_encoded_bytes().strip_prefix(b"sqlite:");
        if let Some(path) = after.and_then(|path| std::str::from_utf8(path).ok()) {
            return Self::database(path.as_ref());
        }
        let is_database = match name.metadata() {
            Ok(found) if found.is_file() && found.len() > 0 => is_sqlite(name),
            Ok(found) if !found.is_file() => false,
            _ => has_databases_ending(name),
        };
        if is_database {
            Self::database(name)
        } else {
            Self::Lines(name.to_owned())
        }
    }

    /// Where there is no such folder, opening it says so.
    fn database(name: &Path) -> Self {
        Self::Sqlite(without_links(name).unwrap_or_else(|_| name.to_owned()))
    }
}

/// `/dev/null` and `/dev/zero` (Documentation/admin-guide/devices.txt).
const NULL: (u32, u32) = (1, 3);
const ZERO: (u32, u32) = (1, 5);

/// `postgres` of `postgres://…`.
fn scheme(name: &Path) -> Option<&str> {
    let (scheme, _) = name.to_str()?.split_once("://")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (!scheme.is_empty() && scheme.chars().all(fits)).then_some(scheme)
}

fn has_databases_ending(name: &Path) -> bool {
    let ending = name.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ["db", "sqlite", "sqlite3"].contains(&ending))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_says_what_is_made_and_a_file_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        assert_eq!(RecordPlace::at("-".as_ref()), RecordPlace::Stream);
        assert_eq!(RecordPlace::at("postgres:".as_ref()), RecordPlace::Shared);
        for name in ["a.db", "a.sqlite", "a.sqlite3"] {
            assert_eq!(RecordPlace::at(&at(name)), RecordPlace::Sqlite(at(name)));
        }
        assert_eq!(
            RecordPlace::at(&at("a.jsonl")),
            RecordPlace::Lines(at("a.jsonl"))
        );
        let prefixed = RecordPlace::at("sqlite:records".as_ref());
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(prefixed, RecordPlace::Sqlite(here.join("records")));
        std::os::unix::fs::symlink(at("behind.db"), at("link.db")).unwrap();
        fs::write(at("behind.db"), b"SQLite format 3\0...").unwrap();
        let linked = RecordPlace::at(&at("link.db"));
        assert_eq!(linked, RecordPlace::Sqlite(at("behind.db")));
        fs::write(at("lines.db"), "{\"seq\":1").unwrap();
        assert_eq!(
            RecordPlace::at(&at("lines.db")),
            RecordPlace::Lines(at("lines.db"))
        );
        fs::write(at("plain"), b"SQLite format 3\0...").unwrap();
        assert_eq!(
            RecordPlace::at(&at("plain")),
            RecordPlace::Sqlite(at("plain"))
        );
        assert_eq!(
            RecordPlace::at("/dev/null".as_ref()),
            RecordPlace::Lines("/dev/null".into())
        );
    }

    #[test]
    fn what_swallows_everything_is_no_place_to_write() {
        for name in ["/dev/null", "/dev/zero"] {
            let refused = RecordPlace::to_write(name.as_ref()).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
        for name in ["-", "/dev/full", "a.jsonl"] {
            assert!(RecordPlace::to_write(name.as_ref()).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_url_is_no_file_and_its_password_is_not_repeated() {
        for url in [
            "postgres://u:hunter2@h/d",
            "postgresql://h/d",
            "mysql://h/d",
        ] {
            let refused = RecordPlace::of(url.as_ref()).unwrap_err().to_string();
            let scheme = url.split(':').next().unwrap();
            assert!(
                refused.contains(scheme) && !refused.contains("hunter2"),
                "{refused}"
            );
        }
        for name in ["a.jsonl", "./postgres:/d", "-", "sqlite:records"] {
            assert!(RecordPlace::of(name.as_ref()).is_ok(), "{name}");
        }
    }
}
