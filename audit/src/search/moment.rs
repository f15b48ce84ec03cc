//! Moments as people write them, where records are searched: a day, a time, or a span before now. All of them are UTC,
//! and become what records spell: RFC 3339 with microseconds.

use jiff::{SignedDuration, Timestamp, ToSpan, civil::DateTime, tz::TimeZone};
use thiserror::Error;

/// No moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a moment is 2026-11-21, 2026-11-21T09:30, 2026-11-21T09:30:00Z, or a span before now: 90s, 30m, 12h, 7d, 4w"
)]
pub struct ParseMomentError;

/// Where a search begins: of a day its first moment.
///
/// # Errors
/// Where it is none, or beyond what can be counted.
pub fn since(text: &str, now: Timestamp) -> Result<String, ParseMomentError> {
    moment(text, now).map(|(at, _)| spelt(at))
}

/// Where a search ends, which is before this: of a day its last moment, so that a day until itself is that day.
///
/// # Errors
/// The same.
pub fn until(text: &str, now: Timestamp) -> Result<String, ParseMomentError> {
    let (at, is_day) = moment(text, now)?;
    let end = match is_day {
        true => at.checked_add(24.hours()).map_err(|_| ParseMomentError)?,
        false => at,
    };
    Ok(spelt(end))
}

/// The moment, and whether it was written as a day alone.
fn moment(text: &str, now: Timestamp) -> Result<(Timestamp, bool), ParseMomentError> {
    let text = text.trim();
    // A zone or calendar in brackets would be another day.
    if text.contains('[') {
        return Err(ParseMomentError);
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok((at, false));
    }
    // A browser's field gives a time without its zone.
    if let Ok(at) = text.parse::<DateTime>() {
        let at = at.to_zoned(TimeZone::UTC).map_err(|_| ParseMomentError)?;
        let is_day = text
            .bytes()
            .all(|octet| octet.is_ascii_digit() || octet == b'-');
        return Ok((at.timestamp(), is_day));
    }
    let ago = ago(text).ok_or(ParseMomentError)?;
    let at = now.checked_sub(ago).map_err(|_| ParseMomentError)?;
    Ok((at, false))
}

/// `90s`, `12h`.
fn ago(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().last()?;
    let seconds: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let digits = text.strip_suffix(unit)?;
    if !digits.bytes().all(|octet| octet.is_ascii_digit()) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    Some(SignedDuration::from_secs(number.checked_mul(seconds)?))
}

fn spelt(at: Timestamp) -> String {
    format!("{at:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-28T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_day_is_whole_and_a_time_is_that_time() {
        for (text, from, to) in [
            ("2026-11-21", "2026-11-21T00:00:00", "2026-11-22T00:00:00"),
            ("20261121", "2026-11-21T00:00:00", "2026-11-22T00:00:00"),
            (
                "2026-11-21T09:30",
                "2026-11-21T09:30:00",
                "2026-11-21T09:30:00",
            ),
            (
                "2026-11-21 09:30:15",
                "2026-11-21T09:30:15",
                "2026-11-21T09:30:15",
            ),
            (
                "2026-11-21T09:30:00+02:00",
                "2026-11-21T07:30:00",
                "2026-11-21T07:30:00",
            ),
            (" 1h ", "2026-11-28T11:00:00", "2026-11-28T11:00:00"),
            ("90s", "2026-11-28T11:58:30", "2026-11-28T11:58:30"),
            ("7d", "2026-11-21T12:00:00", "2026-11-21T12:00:00"),
            ("1w", "2026-11-21T12:00:00", "2026-11-21T12:00:00"),
        ] {
            let spelt = |moment: &str| Ok(format!("{moment}.000000Z"));
            assert_eq!(since(text, now()), spelt(from), "{text}");
            assert_eq!(until(text, now()), spelt(to), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "h",
            "1",
            "-1h",
            "+1h",
            "1.5h",
            "1H",
            "1 h",
            "yesterday",
            "2026-13-01",
            "2026-11-21T",
            "1é",
            "2026-11-21[UTC]",
            "2026-11-21T09:30:00Z[UTC]",
            "99999999999999999999s",
            "9999999999w",
            "9223372036854775807s",
        ] {
            assert_eq!(since(text, now()), Err(ParseMomentError), "{text}");
            assert_eq!(until(text, now()), Err(ParseMomentError), "{text}");
        }
        assert_eq!(until("9999-12-31", now()), Err(ParseMomentError));
    }
}
