//! Records that stand for many: a question that is repeated, what was dropped unread, denials that are folded.
//!
//! How many is said by a finding, here alone: whoever counts decisions asks for it.

/// How many things a record with these findings stands for; `None` where it stands for itself.
#[must_use]
pub fn counted<T: AsRef<str>>(findings: &[T]) -> Option<u64> {
    let of = |finding: &T| {
        let (word, count) = finding.as_ref().split_once(':')?;
        let digits = !count.is_empty() && count.bytes().all(|digit| digit.is_ascii_digit());
        (WORDS.contains(&word) && digits).then(|| count.parse().unwrap_or(u64::MAX))
    };
    findings.iter().find_map(of)
}

/// Whether a record with these findings stands for what was dropped unread, and so never answered.
#[must_use]
pub(crate) fn is_dropped<T: AsRef<str>>(findings: &[T]) -> bool {
    let mut findings = findings.iter();
    findings.any(|finding| finding.as_ref().starts_with("dropped:"))
}

/// How a record tells that another one of its chain, which let something go, came too late for who asked.
pub(crate) fn too_late(seq: u64) -> String {
    format!("record {seq}{TOO_LATE}")
}

/// The place of the record that one with these findings takes back.
#[must_use]
pub(crate) fn takes_back<T: AsRef<str>>(findings: &[T]) -> Option<u64> {
    let first = findings.first()?.as_ref().strip_prefix("record ")?;
    first.strip_suffix(TOO_LATE)?.parse().ok()
}

/// Names of hosts in the findings of folded denials: some of those that have no record of their own.
pub fn hosts_of<T: AsRef<str>>(findings: &[T]) -> impl Iterator<Item = &str> {
    let folded = findings
        .first()
        .is_some_and(|first| first.as_ref().starts_with("folded:"));
    let rest = if folded { findings.get(1..) } else { None };
    let rest = rest.unwrap_or_default().iter();
    rest.filter_map(|finding| finding.as_ref().strip_prefix("host:"))
}

const TOO_LATE: &str = " came too late for who asked: this was refused after all";
const WORDS: [&str; 3] = ["repeated", "dropped", "folded"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counts_count() {
        assert_eq!(counted(&["folded:4000", "host:7.example"]), Some(4000));
        assert_eq!(counted(&["repeated:4"]), Some(4));
        assert_eq!(counted(&["held", "dropped:12"]), Some(12));
        for other in [
            "folded:",
            "folded:-1",
            "folded:4x",
            "host:4",
            "sentinel of T",
        ] {
            assert_eq!(counted(&[other]), None, "{other}");
        }
        assert_eq!(counted::<&str>(&[]), None);
        assert_eq!(takes_back(&[too_late(7)]), Some(7));
        assert_eq!(takes_back(&["record x", &too_late(7)]), None);
        let hosts: Vec<_> = hosts_of(&["folded:2", "host:a.example"]).collect();
        assert_eq!(hosts, ["a.example"]);
        assert_eq!(hosts_of(&["held", "host:a.example"]).count(), 0);
    }
}
