//! Rules that hold until a moment: when the first of them ends, and the policy without those that have.

use super::Policy;
use crate::{index::Index, moment::Moment};

impl Policy {
    /// When the first of its rules ends; `None` when none does. Until then this policy decides as it
    /// is; from then on as [`Policy::as_of`] makes it.
    #[must_use]
    pub fn until(&self) -> Option<Moment> {
        match &self.floors {
            Some(floors) => floors.until(),
            None => self.own.until,
        }
    }

    /// This policy without the rules that have ended at `now`. Where a wider rule treats bytes otherwise
    /// than an ended one did, nothing passes: an end opens nothing.
    #[must_use]
    pub fn as_of(&self, now: Moment) -> Self {
        if self.until().is_none_or(|until| now < until) {
            return self.clone();
        }
        let floors = self.floors().iter().map(|floor| floor.as_of(now));
        self.own_as_of(now).under(floors.collect())
    }

    /// The same without its floors.
    fn own_as_of(&self, now: Moment) -> Self {
        if self.own.until.is_none_or(|until| now < until) {
            return self.alone();
        }
        let mut index = Index::default();
        let mut rules = Vec::new();
        let mut ended = self.own.ended.clone();
        for rule in self.rules() {
            let holds = rule.expires.is_none_or(|end| now < end);
            // Rules that agreed with all others agree with some of them; if not, nothing is allowed.
            if !holds {
                ended.push(rule.clone());
            } else if index.add(rule).is_ok() {
                rules.push(rule.clone());
            }
        }
        for rule in &ended {
            index.hold(rule);
        }
        let bindings = self.own.bindings.clone();
        let (reference, settings) = (self.reference().clone(), self.own.settings.clone());
        Self::assemble(reference, settings, (rules, ended, bindings), index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "version: 1
egress:
  - host: api.example.com
  - {host: soon.example.com, expires: 2026-11-22T10:00:00Z}
  - {host: '*.wide.example.com', expires: \"2026-11-22T12:00:00+01:00\"}
";

    fn at(text: &str) -> Moment {
        text.parse().unwrap()
    }

    fn passes(policy: &Policy, host: &str) -> bool {
        let answer = policy.explain("GET", &format!("https://{host}/"));
        answer.unwrap().passes()
    }

    #[test]
    fn a_rule_holds_until_its_moment_and_not_at_it() {
        let policy = Policy::compile(DOCUMENT, "p").unwrap();
        assert_eq!(policy.until(), Some(at("2026-11-22T10:00:00Z")));
        let hosts = ["api.example.com", "soon.example.com", "a.wide.example.com"];
        for (now, want, until) in [
            (
                "2026-11-22T09:59:59Z",
                [true, true, true],
                Some("2026-11-22T10:00:00Z"),
            ),
            (
                "2026-11-22T10:00:00Z",
                [true, false, true],
                Some("2026-11-22T11:00:00Z"),
            ),
            ("2026-11-22T11:00:00Z", [true, false, false], None),
        ] {
            let then = policy.as_of(at(now));
            assert_eq!(hosts.map(|host| passes(&then, host)), want, "{now}");
            assert_eq!(then.until(), until.map(at), "{now}");
            assert_eq!(then.reference(), policy.reference());
        }
    }

    #[test]
    fn the_end_of_a_rule_opens_nothing() {
        for wide in [
            "host: '*.example.com'",
            "host: '*.example.com', ports: [443, 8443]",
        ] {
            let text = format!(
                "version: 1
egress:
  - {{{wide}, tls: passthrough}}
  - {{host: api.example.com, rules: [{{methods: [GET]}}], expires: 2026-11-22T10:00:00Z}}
  - {{host: '*.b.example.com', rules: [{{methods: [GET]}}], expires: 2026-11-22T11:00:00Z}}
  - {{ip: 10.0.0.0/8, ports: [22], protocol: tcp, allow_private: [10.0.0.0/8]}}
  - {{ip: 10.1.2.3, ports: [22], allow_private: [10.1.2.3/32], expires: 2026-11-22T10:00:00Z}}
"
            );
            let whole = Policy::compile(&text, "p").unwrap();
            let first = whole.as_of(at("2026-11-22T10:00:00Z"));
            // Also from what was without some rules already.
            let then = first.as_of(at("2026-11-22T12:00:00Z"));
            let other = |policy: &Policy| passes(policy, "other.example.com");
            for policy in [&whole, &first, &then] {
                assert!(other(policy));
                let put = policy.explain("PUT", "https://api.example.com/").unwrap();
                assert!(!put.passes(), "{put}");
                assert!(
                    !policy
                        .explain("PUT", "https://a.b.example.com/")
                        .unwrap()
                        .passes()
                );
                let connect = |ip: &str, protocol| {
                    let host = crate::host::Host::Ip(ip.parse().unwrap());
                    policy.decide_connect(
                        &host,
                        crate::host::Port::new(22).unwrap(),
                        Some(protocol),
                    )
                };
                let tcp = crate::intent::AppProtocol::Tcp;
                assert!(matches!(
                    connect("10.1.2.3", tcp),
                    crate::verdict::Verdict::Deny(_)
                ));
                assert!(matches!(
                    connect("10.1.2.4", tcp),
                    crate::verdict::Verdict::Allow(_)
                ));
            }
            assert!(passes(&whole, "api.example.com") && !passes(&first, "api.example.com"));
            assert!(passes(&first, "a.b.example.com") && !passes(&then, "a.b.example.com"));
        }
    }

    #[test]
    fn a_moment_that_is_none_is_a_mistake_with_its_place() {
        let text = "version: 1\negress:\n  - host: a.example\n    expires: tomorrow\n";
        let refused = Policy::compile(text, "p").unwrap_err();
        let problem = &refused.problems[0];
        assert_eq!((problem.line, problem.column), (4, 14));
        assert!(problem.message.starts_with("`expires`: "), "{problem:?}");
    }

    #[test]
    fn what_ended_is_found_and_what_ends_sooner_covers_nothing() {
        let policy = Policy::compile(DOCUMENT, "p").unwrap();
        assert!(policy.expired(at("2026-11-22T09:00:00Z")).is_empty());
        let found = policy.expired(at("2026-11-22T10:30:00Z"));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].rule.as_str(), found[0].line), ("egress[1]", 4));
        let text = "version: 1
egress:
  - {host: a.example.com, rules: [{methods: [GET]}]}
  - {host: a.example.com, expires: 2026-11-22T10:00:00Z}
";
        let policy = Policy::compile(text, "p").unwrap();
        assert!(policy.findings().is_empty(), "{:?}", policy.findings());
        let for_ever = Policy::compile(&text.replace(", expires: 2026-11-22T10:00:00Z", ""), "p");
        let for_ever = for_ever.unwrap();
        assert!(!for_ever.findings().is_empty());
        let change = policy.difference(&for_ever);
        assert_eq!(change.added.len(), 1);
        let gone = &change.removed[0].says;
        assert!(gone.contains("until 2026-11-22T10:00:00Z"), "{gone}");
    }
}
