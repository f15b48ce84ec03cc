//! What a record can be found by, as numbers.
//!
//! A term is a field's letter and a value, hashed to 64 bits. Two values may share a number, by chance
//! or by a sandbox's design: whoever finds a record by a term looks at the record itself before it
//! counts, so that a collision costs a look and never a wrong answer. The numbers are kept in
//! databases: neither the letters nor the hash may change without a new index.

use super::whole;
use crate::{event::Event, row::Row};

/// A field that can be asked for by its whole value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Event,
    Verdict,
    Reason,
    Rule,
    Sandbox,
    Server,
    Profile,
    Node,
    Policy,
    Conn,
    Request,
    Host,
    /// A domain above the host.
    Domain,
    Method,
    Status,
    /// `2xx`.
    StatusClass,
    Secret,
    Word,
    /// An address that something came from.
    Source,
    /// Of a block: its records are found by the words of `deed` and `subject`.
    Told,
}

impl Field {
    const fn letter(self) -> u8 {
        match self {
            Self::Event => b'e',
            Self::Verdict => b'v',
            Self::Reason => b'r',
            Self::Rule => b'u',
            Self::Sandbox => b'x',
            Self::Server => b's',
            Self::Profile => b'p',
            Self::Node => b'n',
            Self::Policy => b'o',
            Self::Conn => b'c',
            Self::Request => b'q',
            Self::Host => b'h',
            Self::Domain => b'd',
            Self::Method => b'm',
            Self::Status => b't',
            Self::StatusClass => b'l',
            Self::Secret => b'k',
            Self::Word => b'w',
            Self::Source => b'a',
            Self::Told => b'g',
        }
    }
}

/// The number of a value in a field: FNV-1a, and a last mixing so that near values lie apart.
pub(crate) fn term(field: Field, value: &str) -> i64 {
    let mut hash = FNV_BASIS;
    for octet in [field.letter()].iter().chain(value.as_bytes()) {
        hash = (hash ^ u64::from(*octet)).wrapping_mul(FNV_PRIME);
    }
    hash ^= hash >> 32;
    hash.wrapping_mul(MIX).cast_signed()
}

/// What a block has whose index knows the words of `deed` and `subject`: at each record that has either, or at its
/// first. One that was indexed by an older gig does not.
pub(crate) fn told() -> i64 {
    term(Field::Told, "")
}

/// What a block has whose index knows from where something came: at its first record. It knows all that a block with
/// [`told`] does.
pub(crate) fn sourced() -> i64 {
    term(Field::Told, "src")
}

/// Events whose records have a `deed` or a `subject`, as terms.
pub(crate) fn telling_events() -> Vec<i64> {
    let events = TELLING.iter();
    events
        .map(|event| term(Field::Event, event.as_str()))
        .collect()
}

/// Adds every term of `row`, each perhaps more than once.
pub(crate) fn terms_of(row: &Row, found: &mut Vec<i64>) {
    let texts = [
        (Field::Verdict, &row.verdict),
        (Field::Reason, &row.reason),
        (Field::Rule, &row.rule),
        (Field::Sandbox, &row.sandbox),
        (Field::Server, &row.server),
        (Field::Profile, &row.profile),
        (Field::Policy, &row.policy),
        (Field::Request, &row.request),
        (Field::Method, &row.method),
    ];
    for (field, value) in texts {
        found.extend(value.as_deref().map(|value| term(field, value)));
    }
    found.push(term(Field::Event, &row.event));
    found.push(term(Field::Node, &row.node));
    if let Some(host) = &row.host {
        let host = host.to_ascii_lowercase();
        found.push(term(Field::Host, &host));
        found.extend(domains_above(&host).map(|domain| term(Field::Domain, domain)));
    }
    found.extend(row.conn.map(|conn| term(Field::Conn, &conn.to_string())));
    if let Some(status) = row.status {
        found.push(term(Field::Status, &status.to_string()));
        found.push(term(Field::StatusClass, &(status / 100).to_string()));
    }
    found.extend(whole::source_of(row).map(whole::source_term));
    found.extend(row.secrets.iter().map(|name| term(Field::Secret, name)));
    if row.deed.is_some() || row.subject.is_some() {
        found.push(told());
    }
    words_of(row, |word| found.push(term(Field::Word, word)));
}

/// `b.c` and `c` of `a.b.c`; at most [`MOST_DOMAINS`], since a name has at most 127 labels.
pub(crate) fn domains_above(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(above(host), |name| above(name))
        .take_while(|name| !name.is_empty())
        .take(MOST_DOMAINS)
}

fn above(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, above)| above)
}

/// Every word of a record's texts, in lower case: runs of letters and digits. What gig says and what a sandbox chose
/// have a bound each: nothing that is asked for keeps a record from being found by what gig says of it.
pub(crate) fn words_of(row: &Row, mut each: impl FnMut(&str)) {
    let says = [
        row.deed.as_ref(),
        row.subject.as_ref(),
        row.rule.as_ref(),
        row.reason.as_ref(),
        row.server.as_ref(),
        row.profile.as_ref(),
        row.policy.as_ref(),
        row.protocol.as_ref(),
    ];
    let chosen = [
        row.host.as_ref(),
        row.method.as_ref(),
        row.dst_ip.as_ref(),
        row.tls.as_ref().and_then(|tls| tls.sni.as_ref()),
        row.path.as_ref(),
    ];
    let says = says.into_iter().flatten().chain(&row.secrets);
    bounded(says.chain(&row.findings), &mut each);
    bounded(chosen.into_iter().flatten(), &mut each);
}

fn bounded<'t>(texts: impl Iterator<Item = &'t String>, each: &mut impl FnMut(&str)) {
    let words = texts.flat_map(|text| words_in(text));
    words.take(MOST_WORDS).for_each(|word| each(&word));
}

/// The words of one text, as they stand there.
pub(crate) fn bare_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// The words of one text, in lower case.
pub(crate) fn words_in(text: &str) -> impl Iterator<Item = String> + '_ {
    bare_words(text).map(|word| {
        word.chars()
            .take(LONGEST_WORD)
            .collect::<String>()
            .to_lowercase()
    })
}

const TELLING: [Event; 6] = [
    Event::SandboxStart,
    Event::SandboxExit,
    Event::PolicyChange,
    Event::SecretChange,
    Event::Admin,
    Event::Auth,
];
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
/// The odd number next to 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
/// A sandbox may ask for names of many labels; nobody asks for a suffix this deep.
const MOST_DOMAINS: usize = 16;
/// Words of one record that can be found, of gig's and of the sandbox's: none may inflate the index with long paths.
const MOST_WORDS: usize = 96;
/// A word is found by its beginning of this length.
const LONGEST_WORD: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_above_end_at_the_last_label() {
        let above: Vec<_> = domains_above("a.b.example.com").collect();
        assert_eq!(above, ["b.example.com", "example.com", "com"]);
        assert_eq!(domains_above("localhost").count(), 0);
        assert_eq!(domains_above("a.").count(), 0);
        assert_eq!(domains_above(&"a.".repeat(500)).count(), MOST_DOMAINS);
    }

    #[test]
    fn numbers_stay_what_they_are() {
        assert_eq!(
            term(Field::Host, "api.example.com"),
            2_992_460_959_632_132_320
        );
        assert_ne!(term(Field::Host, "a"), term(Field::Domain, "a"));
    }

    #[test]
    fn what_somebody_did_and_to_what_is_found_by_its_words() {
        let row = Row {
            deed: Some("user.add".into()),
            subject: Some("Ben".into()),
            ..Row::default()
        };
        let mut words = Vec::new();
        words_of(&row, |word| words.push(word.to_owned()));
        assert_eq!(words, ["user", "add", "ben"]);
    }

    #[test]
    fn words_are_bounded_whatever_a_sandbox_sends() {
        let row = Row {
            path: Some("/Über/x".repeat(2000)),
            findings: vec!["last".into()],
            ..Row::default()
        };
        let mut words = Vec::new();
        words_of(&row, |word| words.push(word.to_owned()));
        assert_eq!(words.len(), MOST_WORDS + 1);
        assert!(words.contains(&"über".to_owned()));
        assert!(words.contains(&"last".to_owned()), "what gig says is found");
    }
}
