//! `20130524T000000Z`, as AWS writes a moment.

/// Seconds since 1970; `None` when it is no date of this form.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let octets = text.as_bytes();
    if octets.len() != 16 || octets.get(8) != Some(&b'T') || octets.get(15) != Some(&b'Z') {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|c| c.is_ascii_digit()).then_some(())?;
        digits.parse().ok()
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let fits = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    fits.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days since 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn moments_are_read() {
        assert_eq!(seconds("19700101T000000Z"), Some(0));
        assert_eq!(seconds("20130524T000000Z"), Some(1_369_353_600));
        assert_eq!(seconds("20240229T235959Z"), Some(1_709_251_199));
        for bad in [
            "",
            "20130524",
            "20131324T000000Z",
            "2013-05-24T00:00:00Z",
            "+0130524T000000Z",
        ] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
