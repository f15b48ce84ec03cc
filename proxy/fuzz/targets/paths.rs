//! Paths and path patterns: a normal path is its own normal path, and holds no way upwards.

use gig_policy::{
    http_match::{Method, PathPattern},
    path::{is_ambiguous, normalise},
};

/// Lines: two patterns, then paths.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut lines = text.split('\n');
    let patterns: Vec<_> = lines
        .by_ref()
        .take(2)
        .filter_map(|line| PathPattern::parse(line).ok())
        .collect();
    for pattern in &patterns {
        let again = PathPattern::parse(pattern.as_str()).expect("its own spelling");
        assert_eq!(again.as_str(), pattern.as_str());
        assert!(pattern.covers(pattern));
    }
    for line in lines.take(8) {
        let _method = Method::parse(line);
        let Ok(normal) = normalise(line) else {
            continue;
        };
        let again = normalise(normal.as_str()).expect("a normal path has a normal form");
        assert_eq!(again.as_str(), normal.as_str());
        assert!(again.is_unchanged());
        let mut segments = normal.as_str().split('/');
        assert!(
            !segments.any(|segment| segment == "." || segment == ".."),
            "{normal}"
        );
        assert_eq!(
            normal.is_ambiguous(),
            normal.as_str().split('/').any(is_ambiguous)
        );
    }
}
