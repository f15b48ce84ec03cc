//! The records that runs leave in the data directory when no `--audit` names a file: one each.
//!
//! A run's file is removed when it is both older than [`KEEP_DAYS`] and not among the newest
//! [`KEEP_NEWEST`]. Promises: a file that a run still holds stays, and so does everything that is not
//! called as run files are. Days are told by the name first, so that a full folder costs one listing.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::SystemTime,
};

use gig_policy::SandboxId;
use gig_sandbox::is_run_file;
use jiff::{SignedDuration, Timestamp};
use rustix::fs::{FlockOperation, fcntl_lock};

/// Long enough for whoever looks into last month's surprise.
const KEEP_DAYS: i64 = 30;
/// Who runs gig once a season finds the last season's runs.
const KEEP_NEWEST: usize = 50;

/// A run's file, held for as long as this value lives.
#[derive(Debug)]
pub(super) struct Held(#[expect(dead_code, reason = "its lock is what counts")] File);

/// The name of a new run's file.
pub(super) fn name(sandbox: SandboxId, now: Timestamp) -> String {
    format!("{}-{sandbox}.jsonl", day(now))
}

/// Marks the file as in use. A lock of fcntl(2), beside the flock(2) that guards each group of records.
pub(super) fn hold(path: &Path) -> Option<Held> {
    let file = File::options().read(true).write(true).open(path).ok()?;
    fcntl_lock(&file, FlockOperation::NonBlockingLockShared).ok()?;
    Some(Held(file))
}

/// Removes what is too old. What cannot be removed stays: the next run tries again.
pub(super) fn tidy(folder: &Path, now: Timestamp) {
    for path in too_old(folder, now) {
        let Ok(file) = File::options().read(true).write(true).open(&path) else {
            continue;
        };
        if fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if let Err(error) = fs::remove_file(&path) {
            tracing::debug!(path = %path.display(), %error, "an old record stays");
        }
    }
}

fn too_old(folder: &Path, now: Timestamp) -> Vec<PathBuf> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_run_file(name))
        .collect();
    // Day and id both grow with time: so do the names.
    names.sort_unstable();
    names.truncate(names.len().saturating_sub(KEEP_NEWEST));
    let Ok(limit) = now.checked_sub(SignedDuration::from_hours(24 * KEEP_DAYS)) else {
        return Vec::new();
    };
    let first_kept = day(limit);
    names
        .into_iter()
        .take_while(|name| *name < first_kept)
        .map(|name| folder.join(name))
        .filter(|path| {
            // A run may have gone on for long after the day it is named for.
            let changed = fs::symlink_metadata(path).and_then(|about| about.modified());
            changed.is_ok_and(|changed| changed < SystemTime::from(limit))
        })
        .collect()
}

fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests;
