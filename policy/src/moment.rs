//! A moment of the wall clock, to the second: until when a rule holds.
//!
//! This crate reads no clock: whoever asks says what time it is.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// Seconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

/// A text is no moment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no moment: write it as RFC 3339 has it, as in 2026-11-22T10:00:00Z")]
pub struct ParseMomentError(String);

impl Moment {
    /// As seconds of Unix time.
    #[must_use]
    pub const fn from_unix(seconds: i64) -> Self {
        Self(seconds)
    }

    /// In seconds of Unix time.
    #[must_use]
    pub const fn unix(self) -> i64 {
        self.0
    }
}

/// RFC 3339, with its offset; what is smaller than a second is left out, so that nothing holds longer
/// than was written.
impl FromStr for Moment {
    type Err = ParseMomentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseMomentError(text.chars().take(40).collect()))
    }
}

/// In UTC: `2026-11-22T10:00:00Z`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, second) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = civil(day);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

fn parse(text: &str) -> Option<Moment> {
    let (date, clock) = text.split_once(['T', 't'])?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (
        number(date.next()?, 4)?,
        number(date.next()?, 2)?,
        number(date.next()?, 2)?,
    );
    let (clock, offset) = match clock.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, 0),
        None => {
            let at = clock.rfind(['+', '-'])?;
            let (clock, offset) = clock.split_at_checked(at)?;
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            let (hours, minutes) = offset.get(1..)?.split_once(':')?;
            let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
            let within = hours < 24 && minutes < 60;
            (
                clock,
                within.then_some(sign * (hours * 3600 + minutes * 60))?,
            )
        }
    };
    let mut clock = clock.splitn(3, ':');
    let (hour, minute) = (number(clock.next()?, 2)?, number(clock.next()?, 2)?);
    let second = clock.next()?;
    let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let second = number(second, 2)?;
    let fraction = !fraction.is_empty() && fraction.bytes().all(|octet| octet.is_ascii_digit());
    let of_day = hour < 24 && minute < 60 && second < 60 && fraction;
    let known = (1..=12).contains(&month) && day >= 1 && day <= length(year, month);
    if year < 1970 || !known || !of_day {
        return None;
    }
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    Some(Moment(seconds - offset))
}

/// Exactly so many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|octet| octet.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

const fn length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of the proleptic Gregorian calendar, years beginning with March.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - BEFORE_1970
}

/// The other way round: year, month, day.
const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + BEFORE_1970;
    let era = days.div_euclid(ERA);
    let of_era = days.rem_euclid(ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// Seconds of a day; leap seconds are not counted in Unix time.
const DAY: i64 = 86_400;
/// Days of 400 Gregorian years.
const ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const BEFORE_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unix(text: &str) -> Option<i64> {
        text.parse::<Moment>().ok().map(Moment::unix)
    }

    #[test]
    fn moments_are_read_as_rfc_3339_has_them() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-22T10:00:00Z", 1_795_341_600),
            ("2026-11-22t10:00:00.999z", 1_795_341_600),
            ("2026-11-22T12:30:00+02:30", 1_795_341_600),
            ("2026-11-22T09:00:00-01:00", 1_795_341_600),
            ("2024-02-29T00:00:00Z", 1_709_164_800),
        ] {
            assert_eq!(unix(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2026-11-22",
            "2026-11-22T10:00:00",
            "2026-11-22 10:00:00Z",
            "2026-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T10:00:60Z",
            "2026-11-22T10:00:00.Z",
            "2026-11-22T10:00:00+24:00",
            "2026-11-22T10:00:00+0100",
            "+026-11-22T10:00:00Z",
            "2026-11-22T10:00:00Zé",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(unix(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(seconds in 0_i64..253_402_300_800) {
            let moment = Moment::from_unix(seconds);
            prop_assert_eq!(moment.to_string().parse(), Ok(moment));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _moment: Result<Moment, _> = text.parse();
        }
    }
}
