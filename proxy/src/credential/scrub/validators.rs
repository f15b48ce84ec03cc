//! What an answer says of itself and a request asks by it: entity tags, dates and digests, honest where values
//! become sentinels.

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
};

use http::{
    HeaderMap, HeaderValue, Method,
    header::{ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH},
};
use parking_lot::Mutex;

use crate::credential::digested::DIGESTS;

/// The entity tags that a sandbox was shown as weak and that are strong at the origin; the latest of them.
#[derive(Debug, Default)]
pub struct Weakened(Mutex<Tags>);

#[derive(Debug, Default)]
struct Tags {
    known: HashSet<u64>,
    /// The oldest first.
    order: VecDeque<u64>,
    hashing: RandomState,
}

impl Weakened {
    /// The header section of a body that is, or may be, another than was sent.
    pub(super) fn changed(&self, headers: &mut HeaderMap) {
        forget_digests(headers);
        if let Some(tag) = headers.get(ETAG)
            && tag.as_bytes().starts_with(b"\"")
            && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
        {
            self.0.lock().add(tag.as_bytes());
            headers.insert(ETAG, weak);
        }
    }

    /// `If-Match` compares strongly (RFC 9110 §13.1.1): tags that were made weak here are given back as the
    /// origin made them. What was weak there stays so: services that compare as text want it back as it was.
    pub(super) fn strengthen(&self, headers: &mut HeaderMap) {
        let lines: Vec<HeaderValue> = headers.get_all(IF_MATCH).iter().cloned().collect();
        if !lines.iter().any(|line| is_weak(line.as_bytes())) {
            return;
        }
        headers.remove(IF_MATCH);
        let tags = self.0.lock();
        for line in lines {
            let strong = tags.strong(line.as_bytes());
            let line = HeaderValue::from_bytes(&strong).unwrap_or(line);
            headers.append(IF_MATCH, line);
        }
    }
}

impl Tags {
    fn add(&mut self, tag: &[u8]) {
        let tag = self.hashing.hash_one(tag);
        if !self.known.insert(tag) {
            return;
        }
        self.order.push_back(tag);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// A line without `W/` before the tags that are known.
    fn strong(&self, mut line: &[u8]) -> Vec<u8> {
        let mut strong = Vec::with_capacity(line.len());
        while let Some((&first, rest)) = line.split_first() {
            let weak = line.starts_with(WEAK);
            let tag = if weak { rest.get(1..) } else { Some(line) };
            // The tag from its quote to the next.
            let quoted = tag.filter(|tag| tag.starts_with(b"\""));
            let length = quoted.and_then(|tag| tag.iter().skip(1).position(|octet| *octet == b'"'));
            let Some((tag, after)) = quoted
                .zip(length)
                .and_then(|(tag, at)| tag.split_at_checked(at + 2))
            else {
                strong.push(first);
                line = rest;
                continue;
            };
            if weak && !self.known.contains(&self.hashing.hash_one(tag)) {
                strong.extend_from_slice(b"W/");
            }
            strong.extend_from_slice(tag);
            line = after;
        }
        strong
    }
}

/// Has the request ask for what there is, not whether it is still what the program kept. A strong tag is of
/// what no sandbox was given changed, and may be asked about.
pub(super) fn ask_anew(method: &Method, headers: &mut HeaderMap) {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return;
    }
    let tags = headers.get_all(IF_NONE_MATCH).iter();
    match tags
        .map(|tags| !is_weak(tags.as_bytes()))
        .reduce(|all, one| all && one)
    {
        // Beside tags a date says nothing (RFC 9110 §13.1.3).
        Some(true) => {}
        Some(false) => {
            headers.remove(IF_NONE_MATCH);
            headers.remove(IF_MODIFIED_SINCE);
        }
        None => {
            headers.remove(IF_MODIFIED_SINCE);
        }
    }
}

/// Whether a line may name a weak tag.
fn is_weak(line: &[u8]) -> bool {
    line.windows(WEAK.len()).any(|three| three == WEAK)
}

/// Has a section say nothing of what a body hashes to.
pub(super) fn forget_digests(headers: &mut HeaderMap) {
    for name in DIGESTS {
        headers.remove(name);
    }
}

const WEAK: &[u8] = b"W/\"";
/// An editor of many things at once.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_a_strong_tag_is_asked_for_again() {
        let date = "Mon, 23 Nov 2026 03:00:00 GMT";
        for (method, tags, asked) in [
            (Method::GET, vec!["\"a\""], 2),
            (Method::GET, vec!["\"a\", \"b\"", "\"c\""], 3),
            (Method::GET, vec!["W/\"a\""], 0),
            (Method::GET, vec!["\"a\", W/\"b\""], 0),
            (Method::HEAD, vec!["\"a\"", "W/\"b\""], 0),
            (Method::GET, vec![], 0),
            (Method::PUT, vec!["W/\"a\""], 2),
            (Method::PUT, vec!["*"], 2),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_MODIFIED_SINCE, HeaderValue::from_static(date));
            for tag in &tags {
                headers.append(IF_NONE_MATCH, HeaderValue::from_static(tag));
            }
            ask_anew(&method, &mut headers);
            assert_eq!(headers.len(), asked, "{method} {tags:?}: {headers:?}");
        }
    }

    #[test]
    fn what_was_changed_has_a_weak_tag_and_no_digest() {
        let weakened = Weakened::default();
        let mut headers = HeaderMap::new();
        headers.insert(ETAG, HeaderValue::from_static("\"a\""));
        for name in DIGESTS {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        weakened.changed(&mut headers);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers[ETAG], "W/\"a\"");
        weakened.changed(&mut headers);
        assert_eq!(headers[ETAG], "W/\"a\"");
        headers.insert(IF_MATCH, headers[ETAG].clone());
        weakened.strengthen(&mut headers);
        assert_eq!(headers[IF_MATCH], "\"a\"");
    }

    #[test]
    fn a_tag_that_was_weak_at_the_origin_is_given_back_as_it_was() {
        let weakened = Weakened::default();
        for tag in ["\"a\"", "\"b, c\""] {
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, HeaderValue::from_static(tag));
            weakened.changed(&mut headers);
        }
        for (asked, goes) in [
            ("W/\"JzEtVGFzayAgQDYk\"", "W/\"JzEtVGFzayAgQDYk\""),
            (
                "W/\"a\", W/\"weak\",W/\"b, c\"",
                "\"a\", W/\"weak\",\"b, c\"",
            ),
            ("\"W/\", W/\"a\"", "\"W/\", \"a\""),
            ("W/\"a", "W/\"a"),
            ("*", "*"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_MATCH, HeaderValue::from_static(asked));
            weakened.strengthen(&mut headers);
            assert_eq!(headers[IF_MATCH], goes);
        }
    }

    #[test]
    fn the_oldest_tag_is_forgotten_first() {
        let mut tags = Tags::default();
        for number in 0..=MOST {
            tags.add(format!("\"{number}\"").as_bytes());
        }
        assert_eq!((tags.known.len(), tags.order.len()), (MOST, MOST));
        assert_eq!(tags.strong(b"W/\"0\", W/\"1\""), b"W/\"0\", \"1\"");
    }
}
