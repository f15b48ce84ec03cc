//! How much of the time that was asked for an answer is of, in words: nothing is claimed that was not read, is not
//! counted yet or may have been removed.

use gig_audit::{counts::MOST_ATTEMPTS, retention::Class};
use jiff::{SignedDuration, Timestamp};

use crate::{api_error::Problem, app::App, lately::minute};

/// How much of the time that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Covered {
    /// Days.
    pub(super) days: u16,
    /// Records before that time are not in it.
    pub(super) since: Option<String>,
    /// Records of attempts that differ too much from others to be kept and were too many to be read.
    pub(super) left_out: u64,
    /// New records that are not counted yet.
    pub(super) behind: u64,
    /// More than one answer holds.
    pub(super) cut: bool,
    /// The first day, of which all is in it: attempts are kept by days.
    pub(super) whole: Option<String>,
    /// Refusals of which nobody knows which requests they were.
    pub(super) guessed: u64,
    /// Days that records are kept, where that is fewer: of those before it is not known what there was.
    pub(super) kept: Option<u32>,
    /// When the newest record was written that was removed, where that is of the time.
    pub(super) removed: Option<String>,
}

impl Covered {
    pub(super) const fn is_complete(&self) -> bool {
        let read = self.since.is_none() && self.left_out == 0 && self.behind == 0 && !self.cut;
        read && self.guessed == 0 && !self.lacks()
    }

    /// Whether something may have been removed of it.
    const fn lacks(&self) -> bool {
        self.kept.is_some() || self.removed.is_some()
    }

    /// In a sentence or two.
    pub(super) fn words(&self) -> String {
        let mut words = match (&self.since, self.cut) {
            (Some(since), _) => {
                let since = minute(since);
                format!("Only what was recorded since {since} (UTC) was taken into account.")
            }
            (None, true) => "Only the newest part of that time was taken into account.".to_owned(),
            (None, false) if self.days == 1 => "All of the last day.".to_owned(),
            (None, false) if self.lacks() => {
                format!("What is kept of the last {} days.", self.days)
            }
            (None, false) => format!("All of the last {} days.", self.days),
        };
        if let Some(days) = self.kept {
            words = format!(
                "{words} Records of what is asked for are kept for {days} days (--keep): what was asked for before that \
                 may be missing."
            );
        }
        if let Some(newest) = &self.removed {
            let newest = minute(newest);
            words = format!(
                "{words} Records of what is asked for were removed, the newest of {newest} (UTC): what was asked for \
                 until then may be missing."
            );
        }
        let whole = self.whole.as_ref().filter(|_| !self.lacks());
        if let Some(day) = whole.filter(|_| self.since.is_none()) {
            words = format!(
                "{words} Attempts are kept by days: {day} (UTC) is in it from its beginning."
            );
        }
        if self.guessed > 0 {
            words = format!(
                "{words} Of {} refusals of private addresses host and port are kept: which of their requests they \
                 were is a guess.",
                self.guessed
            );
        }
        if self.left_out > 0 {
            words = format!(
                "{words} {} records more were left out: of each server and day {MOST_ATTEMPTS} attempts that differ are \
                 kept, and of others the newest records were read.",
                self.left_out
            );
        }
        if self.behind > 0 {
            words = format!("{words} {} new records are not counted yet.", self.behind);
        }
        words
    }
}

/// Days that records are kept, if it is fewer than were asked for.
fn kept_less(kept: Option<u32>, asked: u16) -> Option<u32> {
    kept.filter(|kept| *kept < u32::from(asked))
}

/// What was removed of these days: how many are kept, if it is fewer, and the newest record that was removed beside
/// that.
pub(super) fn removed(
    app: &App,
    begun: Timestamp,
    days: u16,
) -> Result<(Option<u32>, Option<String>), Problem> {
    let kept = kept_less(app.names_kept, days);
    let since = before(begun, kept.unwrap_or_else(|| days.into()))?;
    let newest = app.read(|log| log.removed(Class::TRAFFIC))?;
    Ok((kept, newest.filter(|newest| *newest >= since)))
}

/// So many days before a moment, as records have it.
pub(super) fn before(moment: Timestamp, days: u32) -> Result<String, Problem> {
    let hours = SignedDuration::from_hours(24 * i64::from(days));
    let then = moment.checked_sub(hours).map_err(Problem::internal)?;
    Ok(format!("{then:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_says_where_it_begins_and_what_is_a_guess() {
        let mut covered = Covered {
            days: 7,
            whole: Some("2026-11-19".to_owned()),
            ..Covered::default()
        };
        assert!(covered.is_complete());
        assert_eq!(
            covered.words(),
            "All of the last 7 days. Attempts are kept by days: 2026-11-19 (UTC) is in it from its beginning."
        );
        covered.guessed = 3;
        assert!(!covered.is_complete());
        assert!(
            covered.words().contains("Of 3 refusals"),
            "{}",
            covered.words()
        );
        // What retention removed is not claimed.
        assert_eq!(kept_less(Some(7), 7), None);
        covered = Covered {
            days: 30,
            kept: kept_less(Some(7), 30),
            whole: covered.whole,
            ..Covered::default()
        };
        assert!(!covered.is_complete());
        assert_eq!(
            covered.words(),
            "What is kept of the last 30 days. Records of what is asked for are kept for 7 days (--keep): what was asked for \
             before that may be missing."
        );
        // Nor what was removed by hand.
        covered = Covered {
            days: 30,
            removed: Some("2026-11-20T09:30:00.000001Z".to_owned()),
            whole: covered.whole,
            ..Covered::default()
        };
        assert!(!covered.is_complete());
        assert_eq!(
            covered.words(),
            "What is kept of the last 30 days. Records of what is asked for were removed, the newest of 2026-11-20 09:30 (UTC): \
             what was asked for until then may be missing."
        );
    }
}
