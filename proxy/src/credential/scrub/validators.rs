//! What an answer says of itself and a request asks by it: entity tags, dates and digests, honest where values
//! become sentinels.

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicBool, Ordering},
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH},
};
use parking_lot::Mutex;

use crate::credential::digested::DIGESTS;

/// What a sandbox was shown of validators.
#[derive(Debug, Default)]
pub struct Weakened {
    /// The entity tags that are strong at the origin and were shown as weak; the latest of them.
    tags: Mutex<Tags>,
    /// A body of the sandbox's carried a value: what some host has since may hash to a sum of it.
    gave: AtomicBool,
}

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
            self.tags.lock().add(tag.as_bytes());
            headers.insert(ETAG, weak);
        }
    }

    /// A body carried a value.
    pub(super) fn gave(&self) {
        self.gave.store(true, Ordering::Relaxed);
    }

    /// Leaves an entity tag out that looks like a hash, where one may be of a value.
    pub(super) fn forget_hashes(&self, headers: &mut HeaderMap) {
        let hash = headers.get(ETAG).is_some_and(|tag| is_hash(tag.as_bytes()));
        if hash && self.gave.load(Ordering::Relaxed) {
            headers.remove(ETAG);
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
        let tags = self.tags.lock();
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

/// The same with what stores say of what they keep, and of sums that no request holds.
pub(super) fn forget_sums(headers: &mut HeaderMap) {
    forget_digests(headers);
    for name in KEPT {
        headers.remove(name);
    }
    let sums = headers
        .keys()
        .filter(|name| name.as_str().starts_with(CHECKSUM));
    let sums: Vec<_> = sums.cloned().collect();
    for name in sums {
        headers.remove(name);
    }
}

/// MD5 and longer in hexadecimal digits, with the number of parts that S3 puts behind it, or in Base64.
fn is_hash(tag: &[u8]) -> bool {
    let tag = tag.strip_prefix(b"W/").unwrap_or(tag).trim_ascii();
    let tag = tag.strip_prefix(b"\"").unwrap_or(tag);
    let tag = tag.strip_suffix(b"\"").unwrap_or(tag);
    let hexadecimal = tag.iter().take_while(|octet| octet.is_ascii_hexdigit());
    if hexadecimal.count() >= SHORTEST_HASH {
        return true;
    }
    let of_base64 = |octet: &u8| octet.is_ascii_alphanumeric() || b"+/-_=".contains(octet);
    let signs = tag.iter().filter(|octet| **octet == b'=').count();
    matches!(tag.len() - signs, 22 | 27 | 43 | 64 | 86) && tag.iter().all(of_base64)
}

/// What says so of what a store keeps, and what a request's signature covers.
const KEPT: [HeaderName; 5] = [
    HeaderName::from_static("x-ms-blob-content-md5"),
    HeaderName::from_static("x-ms-content-md5"),
    HeaderName::from_static("x-oss-hash-crc64ecma"),
    HeaderName::from_static("x-cos-hash-crc64ecma"),
    HeaderName::from_static("x-amz-content-sha256"),
];
/// S3 adds to these.
const CHECKSUM: &str = "x-amz-checksum-";
/// 64 bits: what is shorter is a size, or a moment.
const SHORTEST_HASH: usize = 16;
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
    fn once_a_value_went_no_tag_shows_a_hash() {
        let weakened = Weakened::default();
        let md5 = "5d41402abc4b2a76b9719d911017c592";
        let shown = |weakened: &Weakened, tag: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, HeaderValue::from_str(tag).unwrap());
            weakened.forget_hashes(&mut headers);
            headers.contains_key(ETAG)
        };
        let hashes = [
            format!("\"{md5}\""),
            format!("W/\"{md5}\""),
            format!("\"{md5}-3\""),
            "\"XUFAKrxLKna5cZ2REBfFkg==\"".to_owned(),
            "\"XUFAKrxLKna5cZ2REBfFkg\"".to_owned(),
        ];
        assert!(hashes.iter().all(|tag| shown(&weakened, tag)));
        weakened.gave();
        for tag in hashes {
            assert!(!shown(&weakened, &tag), "{tag}");
        }
        for tag in [
            "\"17\"",
            "W/\"5f3e8a-62b1c\"",
            "\"rev-12\"",
            "\"0x8D4BCC2E4835CD0\"",
        ] {
            assert!(shown(&weakened, tag), "{tag}");
        }
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
