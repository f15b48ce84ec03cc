//! How far records were delivered, in a file: written whole when it begins and after each batch that was taken. One
//! delivery at a time has it: a lock on a file beside it, which ends with who holds it, keeps others away. A link to
//! it is the file it leads to.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use gig_audit::{
    log::{Log, ReadLogError},
    search::{Found, Marks, Position},
    store::sqlite::without_links,
};
use serde::{Deserialize, Serialize};

/// How far one record was delivered to one place.
#[derive(Debug)]
pub(crate) struct Cursor {
    path: PathBuf,
    kept: Kept,
    _lock: File,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// Where to: one cursor is of one destination.
    to: String,
    /// As a search's cursor.
    marks: String,
    /// The hash of the last record of each chain.
    last: BTreeMap<u32, String>,
    /// Where the record ended when delivery began: what was removed before delivery began, nobody waited for.
    #[serde(default = "start")]
    began: String,
    /// The hash of the record of each chain that stood there.
    #[serde(default)]
    ends: BTreeMap<u32, String>,
    /// How many records of each chain were there when delivery began, and have not come yet. None in a file of
    /// before this was kept.
    #[serde(default)]
    awaited: BTreeMap<u32, u64>,
    /// Records that the other side will never have: removed before they were delivered, or refused.
    #[serde(default)]
    missed: u64,
    /// Which records were asked for when delivery began, as a search is written. None in a file of before this was
    /// kept.
    #[serde(default)]
    asked: Option<String>,
}

fn start() -> String {
    Marks::default().to_string()
}

impl Kept {
    fn begin(to: &str, log: &mut dyn Log) -> Result<Self, ReadLogError> {
        let began = log.end()?;
        let mut ends = BTreeMap::new();
        for at in began.positions() {
            if let Some(found) = log.found_at(at)? {
                ends.insert(at.chain, found.row.hash);
            }
        }
        Ok(Self {
            to: to.to_owned(),
            marks: start(),
            last: BTreeMap::new(),
            awaited: log.kept_until(&began)?,
            began: began.to_string(),
            ends,
            missed: 0,
            asked: None,
        })
    }

    /// Whether nothing was settled yet.
    fn is_untouched(&self) -> bool {
        self.marks == start() && self.last.is_empty() && self.missed == 0
    }
}

impl Cursor {
    /// Reads the file, or begins a new one: at once, so that what is removed while the other side is away is
    /// counted. One that nothing came of may get another destination, and waits for what it waited for.
    ///
    /// # Errors
    /// When it cannot be read or written, belongs to another destination, or another delivery has it.
    pub(crate) fn open(path: &Path, to: &str, log: &mut dyn Log) -> anyhow::Result<Self> {
        let path = followed(path)?;
        let shown = path.display();
        let lock = lock(&path)?;
        let kept: Option<Kept> = match fs::read(&path) {
            Ok(octets) => Some(
                serde_json::from_slice(&octets)
                    .with_context(|| format!("{shown} is no cursor of gig's: name another file"))?,
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        };
        let with = |kept| Self {
            path: path.clone(),
            kept,
            _lock: lock,
        };
        match kept {
            Some(kept) if kept.to == to => Ok(with(kept)),
            Some(kept) if !kept.is_untouched() => bail!(
                "the cursor {shown} is of {}: name another file for each destination",
                kept.to
            ),
            unsettled => {
                let kept = match unsettled {
                    // What was there when delivery began is waited for still.
                    Some(kept) => Kept {
                        to: to.to_owned(),
                        ..kept
                    },
                    None => Kept::begin(to, log).context("cannot read the record")?,
                };
                let cursor = with(kept);
                cursor.write()?;
                Ok(cursor)
            }
        }
    }

    /// Since when records are delivered that are asked for so: since delivery began what was asked for then is what is
    /// awaited, however the time goes on. `None` where it begins now.
    ///
    /// # Errors
    /// When others were asked for: what they left out would never come.
    pub(crate) fn since(&self, asked: &str) -> anyhow::Result<Option<Option<String>>> {
        let Some(before) = &self.kept.asked else {
            return Ok(None);
        };
        let (since, these) = parted(before);
        match parted(asked).1 == these {
            true => Ok(Some(since.map(str::to_owned))),
            false if self.kept.is_untouched() => Ok(None),
            false => bail!(
                "the cursor {} is of {}: name another file for other records",
                self.path.display(),
                if before.is_empty() {
                    "all records"
                } else {
                    before
                }
            ),
        }
    }

    /// Delivery of what is asked for so begins.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn begins(&mut self, asked: String) -> anyhow::Result<()> {
        self.kept.asked = Some(asked);
        self.write()
    }

    /// Where delivery goes on. The record must still be the one that was delivered up to here.
    ///
    /// # Errors
    /// When another is in its place.
    pub(crate) fn resume(&self, log: &mut dyn Log) -> anyhow::Result<Marks> {
        let shown = self.path.display();
        let marks: Marks = self
            .kept
            .marks
            .parse()
            .with_context(|| format!("{shown} is damaged"))?;
        let other = || {
            format!(
                "the record is not the one that {shown} speaks of: deliver the old one to its end, then \
                 name a new cursor"
            )
        };
        let began = self.began()?;
        for (marks, hashes) in [(&marks, &self.kept.last), (&began, &self.kept.ends)] {
            if log.replaced(marks)? {
                bail!(other());
            }
            for (chain, hash) in hashes {
                let at = Position {
                    chain: *chain,
                    seq: marks.of(*chain),
                };
                let is_it = match log.found_at(at).with_context(other)? {
                    Some(found) => found.row.hash == *hash,
                    // One that was removed since says nothing; a file loses none.
                    None => at.chain != FILE,
                };
                if !is_it {
                    bail!(other());
                }
            }
        }
        Ok(marks)
    }

    /// How many records are not there any more of those that should have come behind `marks`, by what came:
    /// places of a database without a record, and of what was there when delivery began as many as did not come.
    /// To be asked once of what came; a file loses none of its lines.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(crate) fn missing(&mut self, marks: &Marks, came: &[Found]) -> anyhow::Result<u64> {
        let began = self.began()?;
        let mut behind = marks.clone();
        let mut missing = 0_u64;
        for at in came.iter().map(|found| found.at) {
            let first = began.of(at.chain);
            if at.chain != FILE {
                let last = behind.of(at.chain).max(first);
                missing = missing.saturating_add(at.seq.saturating_sub(last.saturating_add(1)));
            }
            if at.seq > first {
                missing = missing.saturating_add(self.kept.awaited.remove(&at.chain).unwrap_or(0));
            } else if let Some(awaited) = self.kept.awaited.get_mut(&at.chain) {
                *awaited = awaited.saturating_sub(1);
            }
            behind.set(at);
        }
        Ok(missing)
    }

    /// The same where nothing is behind `marks` any more: what was awaited still will not come.
    pub(crate) fn missing_at_the_end(&mut self) -> u64 {
        std::mem::take(&mut self.kept.awaited).into_values().sum()
    }

    fn began(&self) -> anyhow::Result<Marks> {
        let damaged = || format!("{} is damaged", self.path.display());
        self.kept.began.parse().with_context(damaged)
    }

    /// Notes that so many will never be delivered; kept with the next batch.
    pub(crate) fn miss(&mut self, missing: u64) {
        self.kept.missed = self.kept.missed.saturating_add(missing);
    }

    /// Notes that a batch was taken, up to `marks`.
    ///
    /// # Errors
    /// When it cannot be written: the batch will be sent again.
    pub(crate) fn commit(&mut self, marks: &Marks, batch: &[Found]) -> anyhow::Result<()> {
        self.kept.marks = marks.to_string();
        for found in batch {
            self.kept
                .last
                .insert(found.at.chain, found.row.hash.clone());
        }
        self.write()
    }

    /// Another record is delivered from its beginning now.
    pub(crate) fn begin_anew(&mut self) {
        self.kept.last.clear();
        self.kept.awaited.clear();
        self.kept.ends.clear();
        self.kept.began = start();
    }

    fn write(&self) -> anyhow::Result<()> {
        self.replace()
            .with_context(|| format!("cannot write the cursor {}", self.path.display()))
    }

    fn replace(&self) -> anyhow::Result<()> {
        let beside = beside(&self.path, ".new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?;
        serde_json::to_writer(&mut file, &self.kept)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

/// Since when, and what else is asked for.
fn parted(asked: &str) -> (Option<&str>, &str) {
    let Some(since) = asked.strip_prefix("since=") else {
        return (None, asked);
    };
    let (since, these) = since.split_once('&').unwrap_or((since, ""));
    (Some(since), these)
}

/// Where a file is, or will be: as one name whoever names it.
fn followed(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    let found = without_links(path).with_context(|| format!("cannot look at {shown}"))?;
    if found.is_symlink() {
        bail!("{shown} cannot be followed: it leads nowhere; name a file");
    }
    Ok(found)
}

/// Two that write one cursor would each send what the other has sent.
fn lock(path: &Path) -> anyhow::Result<File> {
    let beside = beside(path, ".lock");
    let shown = beside.display();
    let mut file = OpenOptions::new();
    let file = file.write(true).create(true).truncate(false).mode(0o600);
    let file = file.open(&beside);
    let file = file.with_context(|| format!("cannot write {shown} beside the cursor"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another delivery has the cursor {}: end it, or name another file",
            path.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {shown} beside the cursor"))
        }
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut beside = OsString::from(path);
    beside.push(end);
    beside.into()
}

/// The only chain of a file, whose places are octets.
const FILE: u32 = 0;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use gig_audit::{log::jsonl::JsonlLog, row::Row};

    fn came(places: &[(u32, u64)]) -> Vec<Found> {
        let found = |&(chain, seq)| Found {
            at: Position { chain, seq },
            line: String::new(),
            row: Row::default(),
        };
        places.iter().map(found).collect()
    }

    fn cursor(began: &str, awaited: &[(u32, u64)]) -> Cursor {
        Cursor {
            path: "cursor".into(),
            _lock: tempfile::tempfile().unwrap(),
            kept: Kept {
                to: String::new(),
                marks: start(),
                last: BTreeMap::new(),
                began: began.to_owned(),
                ends: BTreeMap::new(),
                awaited: awaited.iter().copied().collect(),
                missed: 0,
                asked: None,
            },
        }
    }

    #[test]
    fn what_was_removed_before_it_came_is_counted_and_nothing_else() {
        let missing = |began: &str, marks: &str, places: &[(u32, u64)]| {
            let marks = marks.parse().unwrap();
            cursor(began, &[]).missing(&marks, &came(places)).unwrap()
        };
        assert_eq!(missing("start", "1:10", &[(1, 11), (1, 12)]), 0);
        assert_eq!(missing("start", "1:10", &[(1, 13), (1, 14), (1, 20)]), 7);
        assert_eq!(
            missing("start", "1:10", &[(1, 11), (2, 3)]),
            2,
            "a new node's"
        );
        assert_eq!(
            missing("1:30", "start", &[(1, 5), (1, 20), (1, 31)]),
            0,
            "of before"
        );
        assert_eq!(missing("1:30", "start", &[(1, 5), (1, 33)]), 2);
        assert_eq!(
            missing("start", "0:100", &[(0, 180), (0, 300)]),
            0,
            "a file"
        );
    }

    #[test]
    fn a_cursor_goes_on_with_what_it_began_with() {
        let mut one = cursor("1:30", &[]);
        one.kept.asked = Some("since=2026-01-01T00:00:00.000000Z&event=dns".to_owned());
        let since = |one: &Cursor, asked: &str| one.since(asked).map_err(|error| error.to_string());
        let began = Some(Some("2026-01-01T00:00:00.000000Z".to_owned()));
        let later = "since=2026-01-09T00:00:00.000000Z&event=dns";
        assert_eq!(since(&one, later), Ok(began.clone()));
        assert_eq!(since(&one, "event=dns"), Ok(began));
        assert_eq!(
            since(&one, "event=dns&host=a"),
            Ok(None),
            "nothing came of it"
        );
        one.kept.missed = 1;
        for other in ["event=dns&host=a", "", later.trim_end_matches("&event=dns")] {
            assert!(
                since(&one, other)
                    .unwrap_err()
                    .contains("name another file"),
                "{other}"
            );
        }
    }

    #[test]
    fn what_was_there_when_delivery_began_and_was_removed_is_counted() {
        // Of thirty places six had records: gaps of before are nobody's.
        let mut one = cursor("1:30", &[(1, 6)]);
        let first = came(&[(1, 4), (1, 9)]);
        assert_eq!(one.missing(&Marks::default(), &first).unwrap(), 0);
        // Of the four that are left one comes still; behind it two were removed as well.
        let marks = "1:9".parse().unwrap();
        let rest = came(&[(1, 25), (1, 33), (1, 34)]);
        assert_eq!(one.missing(&marks, &rest).unwrap(), 3 + 2);
        assert_eq!(one.missing_at_the_end(), 0, "told once");
        // All of it is gone, and nothing came behind.
        let mut one = cursor("1:30.2:8", &[(1, 6), (2, 8)]);
        let first = came(&[(1, 4), (2, 8)]);
        assert_eq!(one.missing(&Marks::default(), &first).unwrap(), 0);
        assert_eq!(one.missing_at_the_end(), 5 + 7);
    }

    #[test]
    fn a_cursor_is_there_as_soon_as_delivery_begins_and_has_one_destination_once_something_came() {
        let folder = tempfile::tempdir().unwrap();
        let (record, path) = (folder.path().join("record"), folder.path().join("cursor"));
        let line = |hash: &str| {
            format!("{{\"seq\":1,\"time\":\"t\",\"event\":\"dns\",\"hash\":\"{hash}\"}}\n")
        };
        fs::write(&record, line("ours")).unwrap();
        let end = line("ours").len() as u64;
        let mut log = JsonlLog::open(&record).unwrap();
        let first = Cursor::open(&path, "syslog+tcp://one:514", &mut log).unwrap();
        first.resume(&mut log).unwrap();
        // Before anything came it is of that record already.
        let other = folder.path().join("other");
        for hash in ["me", "them", "others"] {
            fs::write(&other, line(hash)).unwrap();
            let mut other = JsonlLog::open(&other).unwrap();
            let refused = first.resume(&mut other).unwrap_err().to_string();
            assert!(refused.contains("the record is not the one"), "{refused}");
        }
        drop(first);
        let kept = |path| serde_json::from_slice::<Kept>(&fs::read(path).unwrap()).unwrap();
        assert_eq!(kept(&path).began, format!("0:{end}"));
        let mut cursor = Cursor::open(&path, "syslog+tcp://two:514", &mut log).unwrap();
        assert_eq!(kept(&path).to, "syslog+tcp://two:514");
        let came = came(&[(0, end)]);
        let marks = format!("0:{end}").parse().unwrap();
        cursor.commit(&marks, &came).unwrap();
        drop(cursor);
        let refused = Cursor::open(&path, "syslog+tcp://one:514", &mut log).unwrap_err();
        assert!(
            refused.to_string().contains("is of syslog+tcp://two:514"),
            "{refused}"
        );
    }

    #[test]
    fn one_delivery_at_a_time_has_a_cursor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cursor");
        fs::write(&path, "").unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        let held = lock(&followed(&path).unwrap()).unwrap();
        for name in [&path, &link] {
            let refused = lock(&followed(name).unwrap()).unwrap_err().to_string();
            assert!(refused.contains("another delivery has"), "{refused}");
        }
        drop(held);
        lock(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let refused = followed(&link).unwrap_err().to_string();
        assert!(refused.contains("cannot be followed"), "{refused}");
        assert_eq!(followed(&path).unwrap().file_name(), path.file_name());
    }
}
