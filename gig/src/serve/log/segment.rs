//! Files of lines, one JSON object a line, numbered in the order they were begun: none is large, none is
//! of two days, and the oldest go first.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crate::data_dir;

/// The file that is written.
#[derive(Debug)]
pub(super) struct Segment {
    folder: PathBuf,
    file: File,
    size: u64,
    day: Date,
    /// Half a line may be at its end.
    torn: bool,
}

impl Segment {
    /// A new one after those that are there; the oldest go, where they are too many.
    pub(super) fn begin(folder: &Path, now: Timestamp) -> io::Result<Self> {
        data_dir::make_private(folder).map_err(|error| io::Error::other(format!("{error:#}")))?;
        trim(folder)?;
        let last = numbers(folder)?.last().copied().unwrap_or_default();
        let file = File::options()
            .create_new(true)
            .append(true)
            .mode(0o600)
            .open(path(folder, last.saturating_add(1)))?;
        Ok(Self {
            folder: folder.to_owned(),
            file,
            size: 0,
            day: day(now),
            torn: false,
        })
    }

    /// Writes lines; in a file after it when this one is full or of another day.
    pub(super) fn write(&mut self, lines: &[u8], now: Timestamp) -> io::Result<()> {
        let more = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let over = self.size.saturating_add(more) > LARGEST || self.day != day(now);
        if self.torn || (self.size > 0 && over) {
            *self = Self::begin(&self.folder, now)?;
        }
        if let Err(error) = self.file.write_all(lines) {
            // A disk that is full stays so for a while: the same file is tried again, without half a line.
            self.torn = self.file.set_len(self.size).is_err();
            return Err(error);
        }
        self.size = self.size.saturating_add(more);
        Ok(())
    }
}

/// The numbers of the files there, in order. None where there is no folder.
pub(super) fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Where a file of this number is.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}{SUFFIX}"))
}

/// When a file was last written.
pub(super) fn written(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

/// Removes the oldest files over the bound.
fn trim(folder: &Path) -> io::Result<()> {
    let mut room = MOST;
    for number in numbers(folder)?.into_iter().rev() {
        let path = path(folder, number);
        let size = fs::metadata(&path)?.len();
        if size > room {
            room = 0;
            fs::remove_file(&path)?;
        } else {
            room -= size;
        }
    }
    Ok(())
}

/// Removes what is older than `days`, and folders with nothing left; tells whose files went, and the last
/// error. One folder's does not keep the others.
pub(super) fn sweep(root: &Path, days: u32, now: Timestamp) -> (Vec<String>, io::Result<()>) {
    let age = Duration::from_secs(u64::from(days) * 86_400);
    let oldest = SystemTime::from(now).checked_sub(age);
    let Some(oldest) = oldest else {
        return (Vec::new(), Ok(()));
    };
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let (mut swept, mut outcome) = (Vec::new(), Ok(()));
    for entry in entries {
        match entry.and_then(|entry| sweep_one(&entry, oldest)) {
            Ok(gone) => swept.extend(gone),
            Err(error) => outcome = Err(error),
        }
    }
    (swept, outcome)
}

/// One server's folder; its name when nothing is left in it.
fn sweep_one(entry: &fs::DirEntry, oldest: SystemTime) -> io::Result<Option<String>> {
    if !entry.file_type()?.is_dir() {
        return Ok(None);
    }
    let folder = entry.path();
    let mut left = false;
    for number in numbers(&folder)? {
        let path = path(&folder, number);
        if written(&path)? < oldest {
            fs::remove_file(&path)?;
        } else {
            left = true;
        }
    }
    if left {
        return Ok(None);
    }
    // Others may keep something there: then it stays.
    let _kept = fs::remove_dir(&folder);
    Ok(Some(entry.file_name().to_string_lossy().into_owned()))
}

fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

const SUFFIX: &str = ".jsonl";
/// Of a file: read whole in some hundredths of a second.
const LARGEST: u64 = 4 * 1024 * 1024;
/// Of all files of one server.
const MOST: u64 = 64 * 1024 * 1024;
