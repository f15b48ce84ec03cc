//! Where a rule that a record names stands in its document, line by line, for who looks it up.
//!
//! Nothing is decided by it. It reads what it can, also of a document that is no longer valid: what was
//! in force then is to be found now.

use std::ops::RangeInclusive;

use crate::{document, rule::Position};

/// The lines of a rule, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleLines {
    /// Of the whole entry under `egress`.
    pub entry: RangeInclusive<u64>,
    /// Of the one of its `rules` that was named.
    pub request: Option<RangeInclusive<u64>>,
}

/// The lines of `rule`, as records name it: `egress[3]`, `egress[3].rules[0]`; of a limit, `limits.connections`. `None`
/// where the document has no such rule, or cannot be read.
#[must_use]
pub fn rule_lines(document: &str, rule: &str) -> Option<RuleLines> {
    if let Some(limit) = rule.strip_prefix("limits.") {
        let line = limit_line(document, limit)?;
        return Some(RuleLines {
            entry: line..=line,
            request: None,
        });
    }
    let (entry, request) = parts(rule)?;
    let read = document::read(document, &mut Vec::new())?;
    let lines: Vec<&str> = document.lines().collect();
    let place = read.egress.iter().position(|one| one.number == entry)?;
    let next = read.egress.get(place + 1).map(|one| one.at);
    let found = read.egress.get(place)?;
    let whole = extent(&lines, found.at, next, None);
    let Some(number) = request else {
        let request = None;
        return Some(RuleLines {
            entry: whole,
            request,
        });
    };
    let rules = found.rules.as_ref()?;
    let place = rules.iter().position(|one| one.number == number)?;
    let next = rules.get(place + 1).map(|one| one.at);
    let request = extent(&lines, rules.get(place)?.at, next, Some(*whole.end()));
    Some(RuleLines {
        entry: whole,
        request: Some(request),
    })
}

/// Where a limit's value stands.
fn limit_line(document: &str, limit: &str) -> Option<u64> {
    let limits = document::read(document, &mut Vec::new())?.limits?;
    let at = match limit {
        "requests_per_minute" => limits.requests_per_minute?.at,
        "connections" => limits.connections?.at,
        "request_body" => limits.request_body?.at,
        "upload_per_hour" => limits.upload_per_hour?.at,
        _ => return None,
    };
    Some(at.line)
}

/// The numbers in a rule's name.
fn parts(rule: &str) -> Option<(usize, Option<usize>)> {
    let rest = rule.strip_prefix("egress[")?;
    let (entry, rest) = rest.split_once(']')?;
    let entry = entry.parse().ok()?;
    if rest.is_empty() {
        return Some((entry, None));
    }
    let request = rest.strip_prefix(".rules[")?.strip_suffix(']')?;
    Some((entry, Some(request.parse().ok()?)))
}

/// From where something begins: all lines that are indented as deeply, up to the next of its kind, without
/// what is empty or a remark at the end.
fn extent(
    lines: &[&str],
    at: Position,
    next: Option<Position>,
    within: Option<u64>,
) -> RangeInclusive<u64> {
    let before_next = next.map(|next| next.line.saturating_sub(1));
    let bound = [before_next, within].into_iter().flatten().min();
    let bound = bound.unwrap_or(u64::MAX).max(at.line);
    let deep = usize::try_from(at.column).unwrap_or(usize::MAX);
    let mut end = at.line;
    for (number, line) in (1_u64..).zip(lines) {
        if number <= at.line {
            continue;
        }
        let text = line.trim_start();
        let says_nothing = text.is_empty() || text.starts_with('#');
        let indented = line.len() - text.len() + 1 >= deep;
        if number > bound || !(says_nothing || indented) {
            break;
        }
        if !says_nothing {
            end = number;
        }
    }
    at.line..=end
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
version: 1
egress:
  - host: a.example   # first
    ports: [443]

  # the second
  - host: b.example
    rules:
      - methods: [GET]
        paths: [/x]
      - {methods: [POST], paths: [/y]}
  - {host: c.example}
limits: {connections: 3}
";

    fn of(
        document: &str,
        rule: &str,
    ) -> Option<(RangeInclusive<u64>, Option<RangeInclusive<u64>>)> {
        rule_lines(document, rule).map(|found| (found.entry, found.request))
    }

    #[test]
    fn a_limit_is_found_where_it_stands_and_one_that_is_not_said_is_not() {
        assert_eq!(of(DOCUMENT, "limits.connections"), Some((13..=13, None)));
        assert_eq!(of(DOCUMENT, "limits.request_body"), None);
        let lines =
            "version: 1\negress: []\nlimits:\n  requests_per_minute: 7\n  upload_per_hour: 1MB\n";
        assert_eq!(of(lines, "limits.upload_per_hour"), Some((5..=5, None)));
        assert_eq!(of(lines, "limits.egress"), None);
    }

    #[test]
    fn a_rule_is_found_with_all_its_lines_and_no_others() {
        assert_eq!(of(DOCUMENT, "egress[0]"), Some((3..=4, None)));
        assert_eq!(of(DOCUMENT, "egress[1]"), Some((7..=11, None)));
        assert_eq!(
            of(DOCUMENT, "egress[1].rules[0]"),
            Some((7..=11, Some(9..=10)))
        );
        assert_eq!(
            of(DOCUMENT, "egress[1].rules[1]"),
            Some((7..=11, Some(11..=11)))
        );
        assert_eq!(of(DOCUMENT, "egress[2]"), Some((12..=12, None)));
    }

    #[test]
    fn json_and_flush_lists_are_found_too() {
        let json = "{\"version\": 1, \"egress\": [\n  {\"host\": \"a.example\",\n   \"ports\": [443]\n  },\n  {\"host\": \"b.example\"}\n]}\n";
        assert_eq!(of(json, "egress[0]"), Some((2..=4, None)));
        assert_eq!(of(json, "egress[1]"), Some((5..=5, None)));
        let flush = "version: 1\negress:\n- host: a.example\n  ports: [80]\n- host: b.example\n";
        assert_eq!(of(flush, "egress[0]"), Some((3..=4, None)));
        assert_eq!(of(flush, "egress[1]"), Some((5..=5, None)));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for rule in [
            "egress[3]",
            "egress[0].rules[0]",
            "egress[1].rules[2]",
            "egress[x]",
            "egress[0]x",
            "--allow a.example",
            "",
        ] {
            assert_eq!(of(DOCUMENT, rule), None, "{rule}");
        }
        assert_eq!(of("egress: [", "egress[0]"), None);
        // A mistake elsewhere hides nothing, and what is broken keeps its number.
        let wrong = "egress:\n  - hots: a\n  - host: b.example\nmodus: x\n";
        assert_eq!(of(wrong, "egress[1]"), Some((3..=3, None)));
    }
}
