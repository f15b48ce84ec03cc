//! Removing old counts little by little: who writes to the record waits for a few of them at most, and whoever
//! counts goes on where they cannot be removed.

use std::time::Duration;

use super::counting::{BETWEEN_OLDER, Ledger, oldest_day};
use crate::{clock::Moment, store::StoreError};

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Hours,
    Hosts,
    Attempts,
}

impl Kept {
    const ALL: [Self; 3] = [Self::Hours, Self::Hosts, Self::Attempts];

    /// Up to where a time names what is kept: the hour, or the day.
    pub(crate) fn of(self, time: &str) -> &str {
        let length = if self == Self::Hours { 13 } else { 10 };
        time.get(..length).unwrap_or(time)
    }
}

/// Counts that end before a time: of a chain, or of all; of a class, or of all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Old<'a> {
    pub(crate) chain: Option<u32>,
    pub(crate) class: Option<&'a str>,
    pub(crate) before: &'a str,
}

/// Removes all of these, little by little: who writes to the record waits for a little at most.
pub(crate) fn drop_counts(ledger: &mut impl Ledger, old: &Old<'_>) -> Result<(), StoreError> {
    for kept in Kept::ALL {
        let mut from = String::new();
        while let Some(newest) = ledger.drop_some(kept, old, &from)? {
            from = newest;
            std::thread::sleep(BETWEEN_OLDER);
        }
    }
    Ok(())
}

/// How far what is older than any count is kept has gone.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Nothing is older than this day.
    until: String,
    failed: Option<Moment>,
}

/// Removes some of what is older than any count is kept, once a day that was not seen before; whether there may
/// be more. Where that fails it is tried again later: nothing else waits for it.
pub(crate) fn sweep(ledger: &mut impl Ledger, swept: &mut Swept) -> bool {
    let oldest = oldest_day();
    if swept.until == oldest || swept.failed.is_some_and(|at| at.elapsed() < SWEEP_AGAIN) {
        return false;
    }
    let old = Old {
        chain: None,
        class: None,
        before: &oldest,
    };
    for kept in Kept::ALL {
        match ledger.drop_some(kept, &old, "") {
            Ok(Some(_)) => {
                std::thread::sleep(BETWEEN_OLDER);
                return true;
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "counts of long ago are not removed yet");
                swept.failed = Some(Moment::now());
                return false;
            }
        }
    }
    *swept = Swept {
        until: oldest,
        failed: None,
    };
    false
}

/// Rows, of which one may be some kilobytes: a writer of the database waits some milliseconds for them.
pub(crate) const MOST_DROPPED: u32 = 250;
const SWEEP_AGAIN: Duration = Duration::from_secs(60);
