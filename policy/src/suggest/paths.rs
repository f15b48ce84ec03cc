//! Patterns for a set of paths: the paths themselves, until a list of them would say less than a `*`.
//!
//! Three steps, each only as far as needed. Segments that look like identifiers (numbers, UUIDs, long
//! hexadecimal or mixed words) become `*` where three or more differ; other segments where more than
//! eight do; and where more than fifty patterns are left, those below one first segment become
//! `/first/**`. Every pattern that stands for more than one path is remarked upon.

use std::collections::{BTreeMap, BTreeSet};

use crate::{http_match::PathPattern, path};

/// Patterns and what they stand for.
#[derive(Debug, Default)]
pub(super) struct Widened {
    pub(super) patterns: Vec<String>,
    pub(super) remarks: Vec<String>,
}

/// Pattern, and the paths behind it.
type Behind<'a> = BTreeMap<Vec<&'a str>, BTreeSet<&'a str>>;

/// Patterns for paths that were asked for so often.
pub(super) fn patterns(paths: &BTreeMap<&str, u64>) -> Widened {
    let mut behind: Behind<'_> = BTreeMap::new();
    for path in paths.keys() {
        // What stands deeper stays one text, however many segments it has: a sandbox wrote it.
        let segments = path.splitn(DEEPEST + 1, '/').collect();
        behind.entry(segments).or_default().insert(path);
    }
    let longest = behind.keys().map(Vec::len).max().unwrap_or_default();
    // Longer paths stay as they are: nobody's identifiers stand so deep.
    let longest = longest.min(DEEPEST);
    for place in (1..longest).rev() {
        behind = merge(behind, place, FEWEST_IDENTIFIERS, looks_like_identifier);
    }
    for place in (1..longest).rev() {
        behind = merge(behind, place, MOST_SIBLINGS + 1, |_| true);
    }
    if behind.len() > MOST_PATTERNS {
        behind = by_first_segment(behind);
    }
    let mut widened = Widened::default();
    for (segments, paths) in behind {
        let pattern = segments.join("/");
        // A path that no pattern can spell stays uncovered, and is told so.
        if PathPattern::parse(&pattern).is_err() {
            continue;
        }
        if paths.len() > 1 {
            let remark = format!("{pattern} stands for {} paths", paths.len());
            widened.remarks.push(remark);
        }
        widened.patterns.push(pattern);
    }
    widened
}

/// Replaces what stands at `place` by `*` where the same is asked for with `fewest` different ones.
fn merge(behind: Behind<'_>, place: usize, fewest: usize, fits: fn(&str) -> bool) -> Behind<'_> {
    let fits = |segments: &[&str]| {
        let segment = segments.get(place).filter(|s| !s.is_empty());
        segment.is_some_and(|s| *s != "*" && !path::is_ambiguous(s) && fits(s))
    };
    let mut variants: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for segments in behind.keys().filter(|segments| fits(segments)) {
        *variants.entry(starred(segments, place)).or_default() += 1;
    }
    let mut out: Behind<'_> = BTreeMap::new();
    for (segments, paths) in behind {
        let star = fits(&segments).then(|| starred(&segments, place));
        let star = star.filter(|star| variants.get(star).is_some_and(|count| *count >= fewest));
        out.entry(star.unwrap_or(segments))
            .or_default()
            .extend(paths);
    }
    out
}

fn starred<'a>(segments: &[&'a str], place: usize) -> Vec<&'a str> {
    let numbered = segments.iter().enumerate();
    let starred = numbered.map(|(at, segment)| if at == place { "*" } else { segment });
    starred.collect()
}

/// `/first/**` for everything below a first segment that many patterns share.
fn by_first_segment(behind: Behind<'_>) -> Behind<'_> {
    let mut shared: BTreeMap<&str, usize> = BTreeMap::new();
    for first in behind.keys().filter_map(|segments| first_of(segments)) {
        *shared.entry(first).or_default() += 1;
    }
    let mut out: Behind<'_> = BTreeMap::new();
    for (segments, paths) in behind {
        let deep = first_of(&segments)
            .filter(|first| {
                shared
                    .get(*first)
                    .is_some_and(|count| *count > MOST_SIBLINGS)
            })
            .filter(|_| {
                !segments
                    .iter()
                    .any(|s| s.split('/').any(path::is_ambiguous))
            })
            .map(|first| vec!["", first, "**"]);
        out.entry(deep.unwrap_or(segments))
            .or_default()
            .extend(paths);
    }
    out
}

/// Only of a path that has more behind it: `/a/**` does not speak of `/a`.
fn first_of<'a>(segments: &[&'a str]) -> Option<&'a str> {
    match segments {
        [_, first, _, ..] if !first.contains('*') => Some(first),
        _ => None,
    }
}

/// A number, a UUID, a long hexadecimal word, a long word of letters and digits.
fn looks_like_identifier(segment: &str) -> bool {
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 {
        return false;
    }
    let hex = |b: u8| b.is_ascii_hexdigit() || b == b'-';
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    digits == segment.len()
        || (segment.len() >= SHORTEST_HEX && segment.bytes().all(hex))
        || (segment.len() >= SHORTEST_WORD && digits >= 4 && segment.bytes().all(word))
}

/// Two may be all there are.
const FEWEST_IDENTIFIERS: usize = 3;

/// A list that a person still reads.
const MOST_SIBLINGS: usize = 8;

/// The same, of one rule.
const MOST_PATTERNS: usize = 50;

/// Each place costs a look at every path.
const DEEPEST: usize = 32;

/// Abbreviated commit hashes have seven or more digits.
const SHORTEST_HEX: usize = 7;

/// ULIDs have 26, Stripe's and Slack's ids 11 and more; versions such as `v2beta1` are shorter.
const SHORTEST_WORD: usize = 11;
