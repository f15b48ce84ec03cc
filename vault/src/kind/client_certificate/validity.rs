//! When a certificate ends (RFC 5280 §4.1.2.5), and whether it says a version: all of it that matters here.
//!
//! Whoever made the certificate is trusted, since its owner stored it; what cannot be read has no end that is
//! known, and the border's TLS library judges it.

use jiff::{
    Timestamp,
    civil::{DateTime, date},
    tz::TimeZone,
};

/// The end of an X.509 certificate in DER.
pub(super) fn ends(certificate: &[u8]) -> Option<Timestamp> {
    let mut outer = Reader(certificate).within(SEQUENCE)?;
    let mut certificate = outer.within(SEQUENCE)?;
    if certificate.0.first() == Some(&VERSION) {
        certificate.skip()?;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        certificate.skip()?;
    }
    let mut validity = certificate.within(SEQUENCE)?;
    validity.skip()?;
    let (tag, text) = validity.next()?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// Whether an X.509 certificate in DER says no version: it is of the first.
pub(super) fn is_first_version(certificate: &[u8]) -> bool {
    let outer = Reader(certificate).within(SEQUENCE);
    let certificate = outer.and_then(|mut outer| outer.within(SEQUENCE));
    certificate.is_some_and(|inner| inner.0.first().is_some_and(|tag| *tag != VERSION))
}

/// DER that is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, first, rest @ ..] = self.0 else {
            return None;
        };
        let (length, rest) = if *first < 0x80 {
            (usize::from(*first), rest)
        } else {
            let octets = usize::from(*first & 0x7f);
            let (length, rest) = rest.split_at_checked(octets).filter(|_| octets <= 4)?;
            let length = length
                .iter()
                .fold(0, |all, octet| all << 8 | usize::from(*octet));
            (length, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    fn within(&mut self, wanted: u8) -> Option<Self> {
        let (tag, content) = self.next()?;
        (tag == wanted).then_some(Self(content))
    }

    fn skip(&mut self) -> Option<()> {
        self.next().map(drop)
    }
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &str) -> Option<Timestamp> {
    let digits = text
        .strip_suffix('Z')
        .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
    let (year, rest) = match tag {
        UTC_TIME if digits.len() == 12 => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year: i16 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME if digits.len() == 14 => {
            let (year, rest) = digits.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let (month, day) = (part(0)?, part(2)?);
    if !(1..=12).contains(&month) || !(1..=date(year, month, 1).days_in_month()).contains(&day) {
        return None;
    }
    let time = DateTime::new(year, month, day, part(4)?, part(6)?, part(8)?, 0).ok()?;
    time.to_zoned(TimeZone::UTC)
        .ok()
        .map(|zoned| zoned.timestamp())
}

const SEQUENCE: u8 = 0x30;
/// `[0]`, which version 1 leaves out.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As much of a certificate as is read.
    fn certificate(version: bool, end: (u8, &str)) -> Vec<u8> {
        let field = |tag: u8, content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[tag, 0x82], &length[..], content].concat()
        };
        let validity = [
            field(UTC_TIME, b"200101000000Z"),
            field(end.0, end.1.as_bytes()),
        ];
        let version = if version {
            field(VERSION, &[2, 1, 2])
        } else {
            Vec::new()
        };
        let content = [
            version,
            field(2, &[7; 20]),
            field(SEQUENCE, &[6, 1, 42]),
            field(SEQUENCE, &[0; 300]),
            field(SEQUENCE, &validity.concat()),
            field(SEQUENCE, b"subject"),
        ];
        field(SEQUENCE, &field(SEQUENCE, &content.concat()))
    }

    #[test]
    fn the_end_is_read_as_the_rfc_writes_it() {
        for (version, tag, text, expected) in [
            (
                true,
                UTC_TIME,
                "261121201500Z",
                Some("2026-11-21T20:15:00Z"),
            ),
            (
                false,
                UTC_TIME,
                "491231235959Z",
                Some("2049-12-31T23:59:59Z"),
            ),
            (
                true,
                UTC_TIME,
                "500101000000Z",
                Some("1950-01-01T00:00:00Z"),
            ),
            (true, GENERALIZED_TIME, "99991231235959Z", None),
            (true, GENERALIZED_TIME, "20500229000000Z", None),
            (
                true,
                GENERALIZED_TIME,
                "20520229000000Z",
                Some("2052-02-29T00:00:00Z"),
            ),
            (true, UTC_TIME, "2611212015Z", None),
            (true, UTC_TIME, "261321201500Z", None),
            (true, UTC_TIME, "261121201500+0100", None),
            (true, 4, "261121201500Z", None),
        ] {
            let read = ends(&certificate(version, (tag, text)));
            let expected = expected.map(|text| text.parse::<Timestamp>().unwrap());
            if text.starts_with("9999") {
                // "No end" (§4.1.2.5): beyond what this clock counts to or far away, never in the past.
                let past = read.is_some_and(|at| at < "2100-01-01T00:00:00Z".parse().unwrap());
                assert!(!past);
            } else {
                assert_eq!(read, expected, "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_not(
            octets in prop::collection::vec(any::<u8>(), 0..80),
            cut in 0_usize..400,
        ) {
            let _read = ends(&octets);
            let whole = certificate(true, (UTC_TIME, "261121201500Z"));
            let _read = ends(&whole[..cut.min(whole.len())]);
        }
    }
}
