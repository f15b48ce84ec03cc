//! What the README says a person may do.

use std::path::Path;

use gig_policy::{Moment, Policy, special_purpose::core_within};

use super::{all_files, read};

/// The places that a page says to allow, or shows gig saying so.
fn advised(text: &str) -> Vec<(&str, String)> {
    let quiet = |c: char| matches!(c, '`' | '\'' | '"' | ',' | '[' | ']' | '(' | ')');
    let mut found = Vec::new();
    for line in text.lines() {
        for mark in ["--allow ", "--allow-private ", "ask for: "] {
            for (_, rest) in line
                .match_indices(mark)
                .map(|(at, _)| line.split_at(at + mark.len()))
            {
                let word = rest.split(|c: char| c.is_whitespace() || quiet(c)).next();
                found.push((line, word.unwrap_or_default().to_owned()));
            }
        }
    }
    found
}

/// Whether a value of `--allow` or `--allow-private` touches what nothing opens.
fn touches_the_core(place: &str) -> bool {
    let place = place.rsplit_once("cp:").map_or(place, |(_, rest)| rest);
    let host = place.split(':').next().unwrap_or_default();
    let net = host
        .parse()
        .or_else(|_| host.parse::<std::net::IpAddr>().map(Into::into));
    net.is_ok_and(|net| core_within(&net).is_some())
}

#[test]
fn no_page_hints_at_opening_what_nothing_opens() {
    let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let mut asked = 0;
    for page in all_files().iter().filter(|path| is_page(path)) {
        let text = read(page);
        for (line, place) in advised(&text) {
            asked += 1;
            assert!(!touches_the_core(&place), "{}: {line}", page.display());
        }
    }
    assert!(asked > 5, "the pages have hints: {asked}");
}

/// A document that is shown whole is taken by `gig run` as it stands.
#[test]
fn documents_of_the_readme_are_policies_that_hold() {
    let text = read(Path::new("README.md"));
    let mut shown = 0;
    for block in text.split("```yaml\n").skip(1) {
        let document = block.split("```").next().unwrap();
        if !document.starts_with("version: 1") {
            continue;
        }
        shown += 1;
        let policy = Policy::compile(document, "README.yaml").unwrap();
        assert!(policy.hold().is_none(), "a run has nobody to ask");
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_secs();
        let ended = policy.expired(Moment::from_unix(now.try_into().unwrap()));
        assert!(ended.is_empty(), "{ended:?}");
    }
    assert!(shown > 0);
}

#[test]
fn a_hint_is_found_however_it_is_written() {
    for line in [
        "      allow it with: --allow 169.254.169.254:80",
        "{\"hint\":\"ask for: 169.254.169.254:80\"}",
        "gig run --allow-private 169.254.0.0/16 -- x",
        "`--allow tcp:169.254.169.254:80`",
    ] {
        let found = advised(line);
        assert!(
            found.iter().any(|(_, place)| touches_the_core(place)),
            "{line}: {found:?}"
        );
    }
    assert!(!touches_the_core("api.example.com:443") && !touches_the_core("10.0.0.0/8"));
}
