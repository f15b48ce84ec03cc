//! Sentinels of another run in a header section: what a program keeps of one (`.netrc`, `.npmrc`, a login's file)
//! stands for nothing in the next, and its host's refusal explains nothing. They are noted, and go as they are.
//! Those that are shaped like a value cannot be told from one.

use http::HeaderMap;
use memchr::memmem;

use super::{inject::basic_credentials, sentinel::PLAIN, tally::Tally, watch::Watch};

/// Notes each field that holds one which this sandbox does not know.
pub(super) fn note(watch: &Watch, headers: &HeaderMap, tally: &Tally) {
    for (name, value) in headers {
        let value = value.as_bytes();
        let decoded = basic_credentials(value);
        let text = decoded.as_deref().unwrap_or(value);
        if memmem::find(text, PLAIN.as_bytes()).is_some() && is_strange(watch, text) {
            tally.found(format!(
                "sentinel of another run in header {name}, {NOTHING}"
            ));
        }
    }
}

/// Whether one of them is of nobody that is known.
fn is_strange(watch: &Watch, text: &[u8]) -> bool {
    let mut known = Vec::new();
    watch.find(text, |_, at| known.push(at.start));
    memmem::find_iter(text, PLAIN.as_bytes()).any(|at| {
        let random = text.get(at + PLAIN.len()..).unwrap_or_default();
        let digits = random.iter().take_while(|octet| octet.is_ascii_hexdigit());
        digits.count() >= DIGITS && !known.contains(&at)
    })
}

/// How is told that no value will ever go in its place.
pub(super) const NOTHING: &str = "which stands for nothing in this one";
/// 128 random bits.
const DIGITS: usize = 32;
