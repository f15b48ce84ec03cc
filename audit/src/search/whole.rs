//! Words that name a thing as a whole: the id of a request or a sandbox, an address that something came from.
//!
//! Split into words an id is found by none of them, and a record would have to be indexed by five more of each. So a
//! word that is written as an id is looked for in those fields themselves, which the index knows, beside the texts.

use std::net::{IpAddr, SocketAddr};

use super::term::{Field, term};
use crate::row::Row;

/// Each word that stands between spaces.
pub(crate) fn wholes(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// Whether the record is one of what this names.
pub(crate) fn names(whole: &str, row: &Row) -> bool {
    let is = |value: &Option<String>| value.as_deref() == Some(whole);
    match (is_id(whole), source(whole)) {
        (true, _) => is(&row.request) || is(&row.sandbox),
        (false, Some(from)) => source_of(row) == Some(from),
        (false, None) => false,
    }
}

/// What the index has of records that it names.
pub(crate) fn terms(whole: &str) -> Vec<i64> {
    match (is_id(whole), source(whole)) {
        (true, _) => vec![term(Field::Request, whole), term(Field::Sandbox, whole)],
        (false, Some(from)) => vec![source_term(from)],
        (false, None) => Vec::new(),
    }
}

/// Where something came from, without the port, as it is looked for.
pub(crate) fn source(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse::<IpAddr>().ok();
    address.map(|address| address.to_canonical())
}

/// The same of a record.
pub(crate) fn source_of(row: &Row) -> Option<IpAddr> {
    let from = row.src.as_deref()?.parse::<SocketAddr>().ok()?;
    Some(from.ip().to_canonical())
}

/// By which that is found.
pub(crate) fn source_term(from: IpAddr) -> i64 {
    term(Field::Source, &from.to_string())
}

/// How the lines of what came from there begin to say so.
pub(crate) fn source_needles(from: IpAddr) -> Vec<String> {
    match from {
        IpAddr::V4(from) => vec![
            format!("\"src\":\"{from}:"),
            format!("\"src\":\"[::ffff:{from}]:"),
        ],
        // A link's own name may follow.
        IpAddr::V6(from) => vec![format!("\"src\":\"[{from}")],
    }
}

/// Hexadecimal digits with dashes: a UUID, or sixteen digits and a count.
fn is_id(whole: &str) -> bool {
    let is_of_id = |octet: u8| octet == b'-' || octet.is_ascii_hexdigit();
    whole.len() >= SHORTEST_ID && whole.contains('-') && whole.bytes().all(is_of_id)
}

/// Sixteen digits, a dash and one.
const SHORTEST_ID: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_told_from_a_word_a_day_and_a_host() {
        for id in ["00ff00ff00ff00ff-1", "0193b4a2-7c1e-7a52-9f3b-2c4d5e6f7a8b"] {
            assert!(is_id(id), "{id}");
        }
        for other in [
            "2026-11-21",
            "deadbeef-cafe",
            "00ff00ff00ff00ff01",
            "a.example",
        ] {
            assert!(!is_id(other), "{other}");
        }
    }

    #[test]
    fn an_address_is_one_however_it_is_written() {
        let one = source("10.200.0.2");
        assert!(one.is_some());
        assert_eq!(source("::ffff:10.200.0.2"), one);
        assert_eq!(source("[2001:db8::1]"), source("2001:DB8:0::1"));
        for other in ["10.200.0.2:80", "10.200.0", "a.example", ""] {
            assert_eq!(source(other), None, "{other}");
        }
    }
}
