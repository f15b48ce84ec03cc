//! Why something was refused and what would help, where a record says it in a line of its own: a finding that
//! begins with a word that no other does.

use std::sync::Arc;

/// The finding that says so.
#[must_use]
pub fn why(text: &str) -> Arc<str> {
    format!("{WHY}{text}").into()
}

/// What it says, where one of these findings does.
#[must_use]
pub fn why_of<T: AsRef<str>>(findings: &[T]) -> Option<&str> {
    let mut findings = findings.iter();
    findings.find_map(|finding| finding.as_ref().strip_prefix(WHY))
}

const WHY: &str = "why: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_from_other_findings() {
        let found = ["secret A version 1".into(), why("A is bound elsewhere")];
        assert_eq!(why_of(&found), Some("A is bound elsewhere"));
        assert_eq!(why_of(&["why not", "held"]), None);
    }
}
