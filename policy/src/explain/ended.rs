//! What was let pass by a rule that has ended: told as that, and not as if no rule had ever named it.

use serde::Serialize;

use super::{Explanation, ParseUrlError};
use crate::{moment::Moment, policy::Policy};

/// A rule that let something pass until it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// The rule.
    pub rule: String,
    /// The policy or floor that it is of.
    pub policy: String,
    /// When it ended: RFC 3339.
    pub at: String,
}

impl Policy {
    /// [`Policy::explain`] as of `now`. Where it is denied and a rule that has ended would let it pass, that is said;
    /// where such a rule speaks of the host alone, a note says so.
    ///
    /// # Errors
    /// As [`Policy::explain`].
    pub fn explain_at(
        &self,
        method: &str,
        url: &str,
        now: Moment,
    ) -> Result<Explanation, ParseUrlError> {
        let mut told = self.as_of(now).explain(method, url)?;
        if told.reason.is_none() {
            return Ok(told);
        }
        let before = self.explain(method, url)?;
        if before.reason.is_none() {
            let own = self.alone();
            for policy in [&own].into_iter().chain(self.floors()) {
                let by = policy.explain(method, url)?.rule;
                told.ended = by.and_then(|rule| policy.ended(rule, now));
                if told.ended.is_some() {
                    return Ok(told);
                }
            }
        }
        let ended = self.expired(now).into_iter();
        let named = ended.filter(|one| {
            let mut considered = before.considered.iter();
            considered.any(|rule| rule.rule == one.rule)
        });
        let notes = named.map(|one| format!("{} names it: {}", one.rule, one.message));
        told.notes.extend(notes);
        Ok(told)
    }

    /// The rule, or what it is a part of, where that has ended.
    fn ended(&self, rule: String, now: Moment) -> Option<Ended> {
        let mut rules = self.rules().iter();
        let whole = rules.find(|one| {
            let rest = rule.strip_prefix(&*one.reference.0);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let at = whole?.expires.filter(|end| *end <= now)?;
        Some(Ended {
            rule,
            policy: self.reference().name.to_string(),
            at: at.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_let_pass_until_it_ended_is_told_so_in_the_first_line() {
        let text = "version: 1
name: p
egress:
  - {host: a.example.com, rules: [{methods: [GET]}], expires: 2026-11-22T10:00:00Z}
  - {host: b.example.com}
";
        let policy = Policy::compile(text, "p").unwrap();
        let floor = "version: 1
name: f
egress:
  - {host: a.example.com}
  - {host: b.example.com, expires: 2026-11-22T11:00:00Z}
";
        let floored = Policy::compile(text, "p")
            .unwrap()
            .under(vec![Policy::compile(floor, "f").unwrap()]);
        let ask = |policy: &Policy, method: &str, host: &str, now: &str| {
            let url = format!("https://{host}/");
            policy
                .explain_at(method, &url, now.parse().unwrap())
                .unwrap()
        };
        let (before, after) = ("2026-11-22T09:59:59Z", "2026-11-22T12:00:00Z");
        assert!(ask(&policy, "GET", "a.example.com", before).passes());
        let over = ask(&policy, "GET", "a.example.com", after);
        assert!(!over.passes());
        let ended = over.ended.as_ref().unwrap();
        assert_eq!(
            (ended.policy.as_str(), ended.at.as_str()),
            ("p", "2026-11-22T10:00:00Z")
        );
        let first = over.to_string();
        let first = first.lines().next().unwrap();
        assert!(first.starts_with("DENY host_not_allowed: "), "{first}");
        assert!(first.contains("ended at 2026-11-22T10:00:00Z"), "{first}");
        // It never let this pass: its end is beside the point.
        let other = ask(&policy, "PUT", "a.example.com", after);
        assert!(other.ended.is_none());
        assert!(other.to_string().contains("egress[0] names it"), "{other}");
        // By a floor's.
        let floored = ask(&floored, "GET", "b.example.com", after);
        let ended = floored.ended.unwrap();
        assert_eq!((&*ended.policy, &*ended.rule), ("f", "egress[1]"));
        assert!(ask(&policy, "GET", "c.example.com", after).ended.is_none());
    }
}
