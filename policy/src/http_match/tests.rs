//! Methods and paths against rules; the trie against a plain reading.

use proptest::prelude::*;

use super::{trie::PathTrie, *};

fn matches(pattern: &str, path: &str) -> bool {
    let mut trie = PathTrie::<()>::default();
    trie.leaf_mut(&PathPattern::parse(pattern).unwrap())
        .unwrap();
    let normal = path::normalise(path).unwrap();
    let mut found = false;
    trie.visit(normal.as_str(), |()| found = true);
    found
}

#[test]
fn globs_match_what_they_say() {
    for (pattern, path, expected) in [
        ("/", "/", true),
        ("/", "/a", false),
        ("/user", "/user", true),
        ("/user", "/user/", false),
        ("/user", "/User", false),
        ("/repos/acme/**", "/repos/acme/x", true),
        ("/repos/acme/**", "/repos/acme/x/y/z", true),
        ("/repos/acme/**", "/repos/acme/", true),
        ("/repos/acme/**", "/repos/acme", false),
        ("/repos/acme/**", "/repos/acmes/x", false),
        ("/repos/acme/**", "/repos/acme/../evil/x", false),
        ("/repos/acme/**", "/repos/acme/%2e%2e/evil/x", false),
        ("/a/**/b", "/a/b", true),
        ("/a/**/b", "/a/x/y/b", true),
        ("/a/**/b", "/a/x/y/c", false),
        ("/**", "/", true),
        ("/**", "/any/thing", true),
        ("/**/b/**", "/b/x", true),
        ("/**/b/**", "/a/b/b", true),
        ("/**/b/**", "/a/b", false),
        ("/*", "/a", true),
        ("/*", "/", false),
        ("/*", "/a/b", false),
        ("/*/x", "//x", false),
        ("/v*/x", "/v1/x", true),
        ("/v*/x", "/v/x", true),
        ("/*.json", "/a.json", true),
        ("/*.json", "/a.jsonx", false),
        ("/a*b*c", "/aXbYc", true),
        ("/a*b*c", "/abc", true),
        ("/a*bc*c", "/abc", false),
        ("/%7Euser", "/~user", true),
        ("*", "*", true),
        ("/*", "*", false),
        ("/**", "*", false),
    ] {
        assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
    }
}

#[test]
fn ambiguous_segments_match_no_wildcard() {
    for path in [
        "/pub/..%2Fadmin",
        "/pub/a%2Fb",
        "/pub/..;/admin",
        "/pub/..%5cadmin",
        "/pub/..\\admin",
        "/pub/%252e%252e/admin",
        "/pub/..%252fadmin",
        "/pub/x%2f..%2f..%2fadmin/y",
    ] {
        for pattern in ["/pub/**", "/**", "/pub/*", "/pub/..*"] {
            assert!(!matches(pattern, path), "{pattern} on {path}");
        }
    }
}

#[test]
fn an_encoded_slash_is_matched_where_the_pattern_has_it() {
    assert!(matches("/@types%2fnode", "/@types%2Fnode"));
    assert!(matches("/@*%2F*", "/@types%2fnode"));
    for path in [
        "/@types/node",
        "/@types%2F..",
        "/@a%2Fb%2Fc",
        "/@a%2F%252e%252e",
        "/@a%2F",
    ] {
        assert!(!matches("/@*%2F*", path), "{path}");
    }
}

#[test]
fn patterns_that_could_not_mean_what_they_say_are_refused() {
    for (text, cure) in [
        ("repos", "start with a slash"),
        ("", "start with a slash"),
        ("/a**", "stand alone"),
        ("/***", "stand alone"),
        ("/a?b=c", "query"),
        ("/a#b", "query"),
        ("/a/../b", "dot segments"),
        ("/./b", "dot segments"),
        ("/..", "dot segments"),
        ("/a b", "control"),
        ("/%zz", "percent"),
    ] {
        let error = PathPattern::parse(text).unwrap_err().to_string();
        assert!(error.contains(cure), "{text}: {error}");
    }
    for (text, cure) in [
        ("get", "GET"),
        ("*", "leave"),
        ("", "not an HTTP"),
        ("A B", "not an HTTP"),
    ] {
        let error = Method::parse(text).unwrap_err().to_string();
        assert!(error.contains(cure), "{text}: {error}");
    }
}

/// The slow, obvious reading of a pattern, to compare the tree with.
fn oracle(pattern: &[SegmentPattern], path: &[&str], took: bool) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((SegmentPattern::Deep, rest)), None) => rest.is_empty() && took,
        (Some((SegmentPattern::Deep, rest)), Some((_, tail))) => {
            (!rest.is_empty() && oracle(rest, path, false)) || oracle(pattern, tail, true)
        }
        (Some((SegmentPattern::Literal(l), rest)), Some((s, tail))) => {
            **l == **s && oracle(rest, tail, false)
        }
        (Some((SegmentPattern::Glob(g), rest)), Some((s, tail))) => {
            glob_matches(g, s, false) && oracle(rest, tail, false)
        }
        (Some(_), None) => false,
    }
}

proptest! {
    #[test]
    fn the_tree_finds_exactly_the_patterns_that_match(
        patterns in prop::collection::vec("(/(a|b|ab|a\\*|\\*|\\*\\*|)){1,5}", 1..8),
        path in "(/(a|b|ab|abb|)){1,6}",
    ) {
        let patterns: Vec<_> = patterns.iter().map(|p| PathPattern::parse(p).unwrap()).collect();
        let mut trie = PathTrie::<Vec<usize>>::default();
        for (i, pattern) in patterns.iter().enumerate() {
            trie.leaf_mut(pattern).unwrap().push(i);
        }
        let mut found = Vec::new();
        trie.visit(&path, |leaf| found.extend(leaf.iter().copied()));
        found.sort_unstable();
        let segments: Vec<_> = path.split('/').skip(1).collect();
        let expected: Vec<_> = (0..patterns.len())
            .filter(|i| oracle(patterns[*i].segments(), &segments, false))
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_glob_agrees_with_a_backtracking_one(glob in "[ab*]{1,7}", text in "[ab]{1,9}") {
        fn slow(g: &[u8], t: &[u8]) -> bool {
            match (g.split_first(), t.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), None) => slow(rest, t),
                (Some((b'*', rest)), Some((_, tail))) => slow(rest, t) || slow(g, tail),
                (Some((x, rest)), Some((y, tail))) => x == y && slow(rest, tail),
                _ => false,
            }
        }
        prop_assert_eq!(plain_glob(&glob, &text), slow(glob.as_bytes(), text.as_bytes()));
    }
}
