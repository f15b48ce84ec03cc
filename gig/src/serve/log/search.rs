//! Lines that were kept, found again: a page at a time, and no request reads more than a bound.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use gig_web::control::{LogAsked, LogFrom, LogLine, LogPage, LogPlace};
use jiff::Timestamp;

use super::segment::{numbers, path, written};

/// One page of what is in this folder.
pub(super) fn read(folder: &Path, asked: &LogAsked) -> io::Result<LogPage> {
    let numbers = numbers(folder)?;
    let mut asked = asked.clone();
    if let Some(words) = &mut asked.grep {
        words.make_ascii_lowercase();
    }
    let asked = &asked;
    match asked.from {
        LogFrom::Oldest => forward(folder, &numbers, asked, LogPlace::default()),
        LogFrom::After(place) => forward(folder, &numbers, asked, place),
        LogFrom::Newest => newest(folder, &numbers, asked),
    }
}

fn forward(
    folder: &Path,
    numbers: &[u64],
    asked: &LogAsked,
    from: LogPlace,
) -> io::Result<LogPage> {
    let mut page = LogPage {
        next: from,
        ..LogPage::default()
    };
    let mut budget = SCANNED;
    for number in numbers.iter().copied().filter(|one| *one >= from.file) {
        let offset = if number == from.file { from.offset } else { 0 };
        page.next = LogPlace {
            file: number,
            offset,
        };
        if is_before(&path(folder, number), asked.since) {
            continue;
        }
        let Some(mut scan) = Scan::open(folder, number, offset)? else {
            continue;
        };
        while let Some(line) = scan.next()? {
            let found = line.filter(|line| fits(line, asked));
            page.lines.extend(found);
            page.next = scan.place;
            if page.lines.len() >= asked.limit || scan.read > budget {
                page.more = true;
                return Ok(page);
            }
        }
        budget = budget.saturating_sub(scan.read);
    }
    Ok(page)
}

fn newest(folder: &Path, numbers: &[u64], asked: &LogAsked) -> io::Result<LogPage> {
    let mut page = LogPage::default();
    let mut lines = VecDeque::new();
    let mut budget = SCANNED;
    for number in numbers.iter().rev().copied() {
        if lines.len() >= asked.limit || budget == 0 {
            page.more = true;
            break;
        }
        if is_before(&path(folder, number), asked.since) {
            break;
        }
        let Some(mut scan) = Scan::open(folder, number, 0)? else {
            continue;
        };
        let mut found = VecDeque::new();
        while let Some(line) = scan.next()? {
            found.extend(line.filter(|line| fits(line, asked)));
            if found.len() > asked.limit - lines.len() {
                drop(found.pop_front());
                page.more = true;
            }
        }
        page.next = page.next.max(scan.place);
        budget = budget.saturating_sub(scan.read);
        found.append(&mut lines);
        lines = found;
    }
    page.lines = lines.into();
    Ok(page)
}

/// Whether all of a file is older than what is asked for. One that is gone is not.
fn is_before(path: &Path, since: Option<Timestamp>) -> bool {
    let written = written(path).ok().map(Timestamp::try_from);
    matches!((written, since), (Some(Ok(written)), Some(since)) if written < since)
}

/// Whether it is what is asked for; the words are in lower case.
fn fits(line: &LogLine, asked: &LogAsked) -> bool {
    let holds = |words: &String| line.text.to_ascii_lowercase().contains(words);
    asked.sandbox.is_none_or(|wanted| wanted == line.sandbox)
        && asked.since.is_none_or(|since| line.time >= since)
        && asked.until.is_none_or(|until| line.time < until)
        && asked.grep.as_ref().is_none_or(holds)
        && asked.seen.takes_in(line.sandbox)
}

/// A file, line by line.
struct Scan {
    file: BufReader<File>,
    place: LogPlace,
    read: u64,
}

impl Scan {
    /// `None` for a file that is gone meanwhile.
    fn open(folder: &Path, number: u64, offset: u64) -> io::Result<Option<Self>> {
        let mut file = match File::open(path(folder, number)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Not every file system can be asked for a place far behind the end.
        let there = offset.min(file.metadata()?.len());
        file.seek(SeekFrom::Start(there))?;
        let place = LogPlace {
            file: number,
            offset,
        };
        Ok(Some(Self {
            file: BufReader::new(file),
            place,
            read: 0,
        }))
    }

    /// The next line that is whole: `Some(None)` for one that is none of ours.
    fn next(&mut self) -> io::Result<Option<Option<LogLine>>> {
        let mut octets = Vec::new();
        let mut bounded = self.file.by_ref().take(LONGEST);
        let read = bounded.read_until(b'\n', &mut octets)?;
        // Half a line is one that is being written.
        if !octets.ends_with(b"\n") && read < usize::try_from(LONGEST).unwrap_or(usize::MAX) {
            return Ok(None);
        }
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        self.read = self.read.saturating_add(read);
        self.place.offset = self.place.offset.saturating_add(read);
        Ok(Some(serde_json::from_slice(&octets).ok()))
    }
}

/// Octets of files that one request reads.
const SCANNED: u64 = 16 * 1024 * 1024;
/// A line of ours as JSON, each octet of it escaped.
const LONGEST: u64 = 256 * 1024;
