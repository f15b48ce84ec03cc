//! Hosts that are written to be taken for others: `аpple.com` with a Cyrillic `а`.
//!
//! Everywhere a name is its A-labels (`xn--pple-43d.com`), which deceive nobody and tell nobody anything. What a person
//! would see elsewhere, and take it for, is told here, by UTS 39: letters of scripts that no word has together, and
//! letters that each look like one of ASCII. What is written in one script below a top-level domain of its own is as its
//! owner's language has it, and told of only where its scripts do not belong together.

use std::fmt;

use unicode_script::{Script, UnicodeScript as _};
use unicode_security::{RestrictionLevel, RestrictionLevelDetection as _, skeleton};

use crate::{fqdn::Fqdn, printable::printable};

/// How a host may be mistaken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookalike {
    /// In A-labels.
    host: String,
    /// As people write it, fit to be shown.
    written: String,
    /// What it is taken for.
    reads_as: Option<String>,
    /// Of which its letters are, by name.
    scripts: Vec<&'static str>,
}

impl Lookalike {
    /// How `name` may be mistaken; `None` for what is what it seems.
    #[must_use]
    pub fn of(name: &Fqdn) -> Option<Self> {
        if !name.labels().any(is_coded) {
            return None;
        }
        let own_top = name.labels().next_back().is_some_and(is_coded);
        let mut found = false;
        let mut scripts = Vec::new();
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for label in name.labels() {
            let (unicode, _) = idna::domain_to_unicode(label);
            let looks = looks_like(&unicode);
            if is_coded(label) {
                let mixed = unicode.as_str().detect_restriction_level()
                    > RestrictionLevel::HighlyRestrictive;
                if mixed || (looks.is_some() && !own_top) {
                    found = true;
                    add_scripts(&unicode, &mut scripts);
                }
            }
            read.push(looks.unwrap_or_else(|| unicode.clone()));
            written.push(unicode);
        }
        let read = read.join(".");
        found.then(|| Self {
            host: name.to_string(),
            written: printable(&written.join(".")),
            reads_as: Some(read).filter(|read| read.is_ascii()),
            scripts,
        })
    }

    /// The same of a host as it was recorded; `None` also for what is no name.
    #[must_use]
    pub fn of_host(host: &str) -> Option<Self> {
        Self::of(&Fqdn::parse(host).ok()?)
    }
}

/// A sentence without its end: `xn--pple-43d.com is "аpple.com", …`.
impl fmt::Display for Lookalike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scripts = self.scripts.join(" and ");
        let (host, written) = (&self.host, &self.written);
        write!(f, "{host} is \"{written}\" in letters of {scripts}")?;
        match &self.reads_as {
            Some(other) => write!(f, ": it looks like {other} and is another host"),
            None => {
                f.write_str(": no word has these together, and it may be taken for another host")
            }
        }
    }
}

fn is_coded(label: &str) -> bool {
    label.starts_with("xn--")
}

/// A label as it is read by who knows ASCII alone, where each of its letters looks like some of that; itself where it is of
/// ASCII.
fn looks_like(label: &str) -> Option<String> {
    let mut read = String::new();
    let mut octets = [0; 4];
    for letter in label.chars() {
        match letter.is_ascii() {
            true => read.push(letter),
            false => read.extend(skeleton(letter.encode_utf8(&mut octets))),
        }
    }
    Some(read.to_ascii_lowercase()).filter(|read| read.is_ascii())
}

fn add_scripts(label: &str, scripts: &mut Vec<&'static str>) {
    let letters = label.chars().map(|letter| letter.script());
    for script in letters.filter(|one| !matches!(one, Script::Common | Script::Inherited)) {
        let name = script.full_name();
        if !scripts.contains(&name) {
            scripts.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(host: &str) -> Option<String> {
        Lookalike::of_host(host).map(|found| found.to_string())
    }

    #[test]
    fn what_looks_like_another_host_is_told_in_both_spellings() {
        let mixed = told("\u{430}pple.com").unwrap();
        assert_eq!(
            mixed,
            "xn--pple-43d.com is \"\u{430}pple.com\" in letters of Cyrillic and Latin: it looks like apple.com and is another host"
        );
        for (host, other) in [
            // One script, and each letter like one of ours.
            (
                "\u{440}\u{430}\u{443}\u{440}\u{430}\u{443}.com",
                "paypay.com",
            ),
            ("api.\u{455}lack.com", "api.slack.com"),
            ("xn--pple-43d.com", "apple.com"),
            ("\u{261}ithub.com", "github.com"),
            (
                "\u{440}\u{430}\u{443}.api.example.com",
                "pay.api.example.com",
            ),
        ] {
            let told = told(host).unwrap_or_else(|| panic!("{host}"));
            assert!(told.contains(&format!("looks like {other} and")), "{told}");
        }
        let strange = told("\u{436}apple.com").unwrap();
        assert!(strange.contains("no word has these together"), "{strange}");
    }

    #[test]
    fn what_people_write_in_their_own_languages_is_what_it_seems() {
        for host in [
            "apple.com",
            "b\u{fc}cher.example",
            "stra\u{df}e.de",
            "\u{43f}\u{440}\u{438}\u{43c}\u{435}\u{440}.\u{440}\u{444}",
            // Each letter like one of ours, below a domain of that script.
            "\u{441}\u{43e}\u{440}.\u{440}\u{444}",
            "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{30c9}\u{30e1}\u{30a4}\u{30f3}.jp",
            "jp\u{8a9e}\u{306e}.jp",
            "\u{3b5}\u{3bb}\u{3bb}\u{3ac}\u{3b4}\u{3b1}.gr",
            "127.0.0.1",
            "a b",
        ] {
            assert_eq!(told(host), None, "{host}");
        }
    }
}
