//! Paths in their normal form, and those that have none.

use proptest::prelude::*;

use super::*;

fn normal(path: &str) -> String {
    normalise(path).unwrap().into_string()
}

#[test]
fn spellings_of_one_path_are_one_path() {
    for (given, expected) in [
        ("", "/"),
        ("*", "*"),
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/%61/%62", "/a/b"),
        ("/%7Euser", "/~user"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/b/..", "/a/"),
        ("/a/b/.", "/a/b/"),
        ("/a/..", "/"),
        ("/a//b", "/a//b"),
        ("/a//../b", "/a/b"),
        ("/@scope%2fname", "/@scope%2Fname"),
        ("/%c3%a9", "/%C3%A9"),
        ("/é", "/%C3%A9"),
        ("/a%20b", "/a%20b"),
        ("/...", "/..."),
        ("/a;v=1/b", "/a;v=1/b"),
    ] {
        assert_eq!(normal(given), expected, "{given}");
    }
}

#[test]
fn what_no_honest_client_sends_is_refused() {
    use NormalisePathError as E;
    for (given, expected) in [
        ("a", E::NotAbsolute),
        ("**", E::NotAbsolute),
        ("http://a/", E::NotAbsolute),
        ("/%", E::BadEscape),
        ("/%4", E::BadEscape),
        ("/%zz", E::BadEscape),
        ("/%u0041", E::BadEscape),
        ("/a b", E::Control),
        ("/a\tb", E::Control),
        ("/a\nb", E::Control),
        ("/a%00", E::Control),
        ("/a%0d%0aX:y", E::Control),
        ("/a%7f", E::Control),
        ("/a?b", E::NotPath),
        ("/a#b", E::NotPath),
        ("/..", E::AboveRoot),
        ("/a/../../b", E::AboveRoot),
        ("/%2e%2e/b", E::AboveRoot),
    ] {
        assert_eq!(normalise(given), Err(expected), "{given}");
    }
}

#[test]
fn segments_that_servers_read_in_two_ways_are_marked() {
    for segment in [
        "%C0%AE%C0%AE",
        "a%E0%80%AFb",
        "%F0%80%80%AF",
        "a%2Fb",
        "%2f",
        "a%5Cb",
        "a\\b",
        "..;",
        "..;x=1",
        ".;",
        "..%3B",
        "%252e%252e",
        "%252F",
        "%25252f",
        "%255c",
        "..%253b",
        "%252500",
        "..%20",
        ".%20",
        "%20..",
        "..+",
        ".%20.",
        "..%A0",
        "..%C2%A0",
        "..%E3%80%80",
        "..%2520",
        "..%20;x",
        "..%EF%BC%8Fx",
        "%EF%BC%8E%EF%BC%8E",
        "..%EF%BC%BCx",
        "%E2%80%A5",
        "a%EF%BC%8Fb",
    ] {
        assert!(is_ambiguous(segment), "{segment}");
    }
    for segment in [
        "",
        "a",
        "a%20b",
        "%C3%A9",
        "a;b=c",
        "100%25",
        "%2541",
        "a%3Bb",
        "...",
        "a..;",
        "a.%20",
        "%20",
        "+",
        "c++",
        "a+b",
        ".a%20",
        "%E2%80%A6",
        "%EF%BC%A1",
    ] {
        assert!(!is_ambiguous(segment), "{segment}");
    }
}

proptest! {
    #[test]
    fn normalising_twice_changes_nothing(path in "/[a-c./%2efF5;\\\\é]{0,24}") {
        if let Ok(once) = normalise(&path) {
            let again = normalise(once.as_str()).unwrap();
            prop_assert!(again.is_unchanged());
            prop_assert_eq!(once.as_str(), again.as_str());
        }
    }

    #[test]
    fn a_normal_path_has_no_dot_segment_and_one_spelling_of_each_octet(path in "/.{0,40}") {
        if let Ok(normal) = normalise(&path) {
            let text = normal.as_str();
            prop_assert!(text.starts_with('/'));
            prop_assert!(text.split('/').all(|s| s != "." && s != ".."));
            prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
        }
    }

    #[test]
    fn encoding_any_octets_of_a_plain_path_changes_nothing(
        segments in prop::collection::vec("[a-z0-9_~-]{1,5}", 1..5), mask in any::<u64>(),
    ) {
        let plain = format!("/{}", segments.join("/"));
        let mut spelt = String::new();
        for (i, b) in plain.bytes().enumerate() {
            if b != b'/' && mask >> (i % 64) & 1 == 1 {
                spelt.push_str(&format!("%{b:02x}"));
            } else {
                spelt.push(char::from(b));
            }
        }
        prop_assert_eq!(normal(&spelt), plain);
    }
}
