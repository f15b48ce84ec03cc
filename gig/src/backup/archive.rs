//! The file that a backup is: a tar archive of its manifest and its parts.
//!
//! The manifest comes first and says how long each part is and its SHA-256. What is read is checked
//! against it while it is unpacked, into a directory that was made for it, under names that are known:
//! an archive that was cut off, changed or made by somebody else ends in an error and nowhere else.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Part;

/// What a backup is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Of the archive: [`FORMAT`].
    pub(crate) format: u32,
    /// Which gig made it.
    pub(crate) gig: String,
    /// When it was begun.
    pub(crate) made: Timestamp,
    /// On which machine.
    pub(crate) node: String,
    /// By name.
    pub(crate) parts: BTreeMap<String, Facts>,
}

/// What is known of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// How long it is.
    pub(crate) octets: u64,
    /// Of all of it, in hexadecimal digits.
    pub(crate) sha256: String,
}

impl Manifest {
    /// Of the parts that are in `dir`.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(crate) fn of(dir: &Path, made: Timestamp, node: &str) -> anyhow::Result<Self> {
        let mut parts = BTreeMap::new();
        for part in Part::ALL {
            let path = dir.join(part.name());
            let mut file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read {}", path.display()));
                }
            };
            let facts = pass(&mut file, |_| Ok(()));
            let facts = facts.with_context(|| format!("cannot read {}", path.display()))?;
            parts.insert(part.name().to_owned(), facts);
        }
        Ok(Self {
            format: FORMAT,
            gig: env!("CARGO_PKG_VERSION").to_owned(),
            made,
            node: node.to_owned(),
            parts,
        })
    }

    /// Whether it has this part.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts.contains_key(part.name())
    }
}

/// Writes the archive of `manifest` and the parts that are in `dir`.
///
/// # Errors
/// When something cannot be read or written.
pub(crate) fn write(out: impl Write, manifest: &Manifest, dir: &Path) -> anyhow::Result<()> {
    let mut archive = tar::Builder::new(out);
    let when = manifest.made.as_second().try_into().unwrap_or_default();
    let header = |octets: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_size(octets);
        header.set_mode(0o600);
        header.set_mtime(when);
        header
    };
    let text = serde_json::to_vec_pretty(manifest).context("cannot write the manifest")?;
    let failed = "cannot write the backup";
    let length = text.len().try_into().unwrap_or(u64::MAX);
    archive
        .append_data(&mut header(length), MANIFEST, text.as_slice())
        .context(failed)?;
    for (name, facts) in &manifest.parts {
        let path = dir.join(name);
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        archive
            .append_data(&mut header(facts.octets), name, file)
            .context(failed)?;
    }
    archive
        .into_inner()
        .and_then(|mut out| out.flush())
        .context(failed)
}

/// Unpacks an archive into `dir`, which is empty.
///
/// # Errors
/// When it is no whole backup, was made by a later gig, or cannot be written.
pub(crate) fn read(from: impl Read, dir: &Path) -> anyhow::Result<Manifest> {
    let mut archive = tar::Archive::new(from);
    let mut entries = archive.entries().map_err(no_backup)?;
    let mut first = entries.next().context(NO_BACKUP)?.map_err(no_backup)?;
    let manifest = manifest(&mut first)?;
    let mut missing = manifest.parts.clone();
    for entry in entries {
        let mut entry = entry.context("the backup is cut off or damaged")?;
        let name = name(&entry)?;
        let Some(facts) = missing.remove(&name) else {
            bail!("the backup holds {name:?}, which its manifest does not list");
        };
        let taken = take(&mut entry, &dir.join(&name));
        let taken = taken.with_context(|| format!("cannot unpack {name} of the backup"))?;
        ensure!(
            taken == facts,
            "{name} of the backup is not what its manifest says: it was cut off or changed"
        );
    }
    if let Some(name) = missing.keys().next() {
        bail!("the backup is cut off: {name} is missing");
    }
    Ok(manifest)
}

/// What cannot be taken apart is none, whatever it holds: that is nobody's to read in an error.
fn no_backup(error: io::Error) -> anyhow::Error {
    // What takes the archive apart wraps what the system says.
    let system = anyhow::Error::from(error)
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .find_map(io::Error::raw_os_error);
    match system {
        Some(number) => anyhow::Error::from(io::Error::from_raw_os_error(number))
            .context("cannot read the backup"),
        None => anyhow::anyhow!(NO_BACKUP),
    }
}

fn manifest(entry: &mut tar::Entry<'_, impl Read>) -> anyhow::Result<Manifest> {
    ensure!(name(entry)? == MANIFEST, NO_BACKUP);
    let mut text = Vec::new();
    entry
        .take(LONGEST_MANIFEST)
        .read_to_end(&mut text)
        .context(NO_BACKUP)?;
    let format: Format = serde_json::from_slice(&text).context(NO_BACKUP)?;
    ensure!(
        format.format <= FORMAT,
        "the backup was made by a later gig: use that one"
    );
    let manifest: Manifest = serde_json::from_slice(&text).context(NO_BACKUP)?;
    let known = |name: &String| Part::ALL.iter().any(|part| part.name() == name);
    if let Some(name) = manifest.parts.keys().find(|name| !known(name)) {
        bail!("the backup lists {name:?}, which is no part of one");
    }
    Ok(manifest)
}

/// What every format says of itself.
#[derive(Debug, Deserialize)]
struct Format {
    format: u32,
}

/// The name of a plain file.
fn name(entry: &tar::Entry<'_, impl Read>) -> anyhow::Result<String> {
    let name = entry.path().context(NO_BACKUP)?;
    let name = name.to_str().context(NO_BACKUP)?.to_owned();
    ensure!(
        entry.header().entry_type().is_file(),
        "{name:?} in the backup is no file"
    );
    Ok(name)
}

fn take(entry: &mut impl Read, to: &Path) -> io::Result<Facts> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)?;
    let facts = pass(entry, |octets| file.write_all(octets))?;
    file.sync_all()?;
    Ok(facts)
}

/// Hands on all that `from` has, and says what it was.
fn pass(from: &mut impl Read, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Facts> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    let mut octets = 0;
    loop {
        let count = from.read(&mut buffer)?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
            let sha256 = hex(&digest.finalize());
            return Ok(Facts { octets, sha256 });
        };
        digest.update(read);
        to(read)?;
        octets += count as u64;
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

const MANIFEST: &str = "manifest.json";
const FORMAT: u32 = 1;
const NO_BACKUP: &str = "this is no backup that gig made";
const LONGEST_MANIFEST: u64 = 64 << 10;
const BUFFER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn made(dir: &Path) -> Vec<u8> {
        std::fs::write(dir.join("gig.db"), vec![7; 100_000]).unwrap();
        std::fs::write(dir.join("audit.jsonl"), "{}\n").unwrap();
        let manifest = Manifest::of(dir, Timestamp::UNIX_EPOCH, "here").unwrap();
        let mut out = Vec::new();
        write(&mut out, &manifest, dir).unwrap();
        out
    }

    fn refused(archive: &[u8]) -> String {
        let into = tempfile::tempdir().unwrap();
        format!("{:#}", read(archive, into.path()).unwrap_err())
    }

    #[test]
    fn what_goes_in_comes_out() {
        let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let archive = made(from.path());
        let manifest = read(archive.as_slice(), into.path()).unwrap();
        assert!(manifest.has(Part::Store) && !manifest.has(Part::Record));
        for name in ["gig.db", "audit.jsonl"] {
            let [from, into] = [from.path(), into.path()].map(|dir| dir.join(name));
            assert_eq!(std::fs::read(from).unwrap(), std::fs::read(&into).unwrap());
        }
    }

    #[test]
    fn what_was_cut_off_or_changed_is_refused() {
        let from = tempfile::tempdir().unwrap();
        let archive = made(from.path());
        // Behind the last part there are zeros only.
        let end = archive.iter().rposition(|octet| *octet != 0).unwrap() + 1;
        for length in (0..end).step_by(509) {
            let cut = archive.get(..length).unwrap();
            assert!(!refused(cut).is_empty(), "{length} octets");
        }
        let mut changed = archive.clone();
        let place = changed.iter().rposition(|octet| *octet == 7).unwrap();
        *changed.get_mut(place).unwrap() = 8;
        let why = refused(&changed);
        assert!(why.contains("gig.db") && why.contains("changed"), "{why}");
    }

    #[test]
    fn nothing_is_unpacked_that_is_no_part() {
        let header = |kind| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o600);
            header
        };
        let listed = |name: &str| {
            let facts = hex(&Sha256::digest([]));
            format!(
                r#"{{"format": 1, "gig": "1", "made": "1970-01-01T00:00:00Z", "node": "n",
                "parts": {{"{name}": {{"octets": 0, "sha256": "{facts}"}}}}}}"#
            )
        };
        let archive = |manifest: &str, kind, name: &str| {
            let mut archive = tar::Builder::new(Vec::new());
            let mut first = header(tar::EntryType::Regular);
            first.set_size(manifest.len() as u64);
            archive
                .append_data(&mut first, MANIFEST, manifest.as_bytes())
                .unwrap();
            let mut second = header(kind);
            if kind.is_symlink() {
                archive.append_link(&mut second, name, "/etc").unwrap();
            } else {
                archive.append_data(&mut second, name, io::empty()).unwrap();
            }
            archive.into_inner().unwrap()
        };
        let regular = tar::EntryType::Regular;
        let into = tempfile::tempdir().unwrap();
        let good = archive(&listed("gig.db"), regular, "gig.db");
        read(good.as_slice(), into.path()).unwrap();
        for (manifest, kind, name, why) in [
            (
                listed("gig.db"),
                tar::EntryType::Symlink,
                "gig.db",
                "no file",
            ),
            (listed("gig.db"), regular, "record.db", "does not list"),
            (listed("a/../../b"), regular, "gig.db", "no part"),
            (
                listed("gig.db").replace("1,", "2,"),
                regular,
                "gig.db",
                "later gig",
            ),
            ("{}".to_owned(), regular, "gig.db", "no backup"),
        ] {
            let told = refused(&archive(&manifest, kind, name));
            assert!(told.contains(why), "{told}: {why}");
        }
    }
}
