//! How fast somebody changes things: so many a minute, each session's user and each token by itself, so that a program
//! that went wrong or a token that leaked fills neither the record nor anybody's day. All tokens of one person have a
//! bound together, and those that tokens made that of one: making tokens buys nothing.
//!
//! What runs sandboxes is counted apart and fifty times as wide: gateways ask for it as often as they are asked, and
//! each time is in the record.
//!
//! Promises that reading is never counted, but for exports, each of which is in the record; nor what only computes, nor
//! what throws somebody out; and that this machine's owner, at gig's own socket, waits for nothing. Kept in memory, by
//! each node.

use std::{collections::HashMap, time::Duration};

use http::{Method, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{api_error::Problem, places::Turn};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// What changes something that is kept.
    Changes,
    /// What starts, attaches to, registers, speaks to or stops a sandbox.
    Runs,
}

impl Pace {
    /// Of this request, as `METHOD /path/of/the/route`; `None`: it is not counted.
    pub(crate) fn of(method: &Method, route: &str) -> Option<Self> {
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        match () {
            () if RUNS.contains(&route) => Some(Self::Runs),
            () if route == EXPORT => Some(Self::Changes),
            () if reads || FREE.contains(&route) => None,
            () => Some(Self::Changes),
        }
    }
}

/// Both, of every caller.
#[derive(Debug)]
pub(crate) struct Paces {
    changes: Counted,
    runs: Counted,
}

impl Paces {
    /// So many changes a minute, and twice as many at once.
    pub(crate) fn new(changes_a_minute: u32) -> Self {
        let runs = changes_a_minute.max(1).saturating_mul(RUNS_TO_A_CHANGE);
        Self {
            changes: Counted::new(
                changes_a_minute,
                "you change more than anybody does in a minute",
            ),
            runs: Counted::new(
                runs,
                "you start, stop and speak to more sandboxes than anybody does in a minute",
            ),
        }
    }

    /// Takes one of this caller.
    ///
    /// # Errors
    /// 429 where they made as many as may be, with the seconds to wait.
    pub(crate) fn take(&self, pace: Pace, caller: &Turn) -> Result<(), Problem> {
        match pace {
            Pace::Changes => self.changes.take(caller),
            Pace::Runs => self.runs.take(caller),
        }
    }
}

/// Of each caller, when all of theirs are there again.
#[derive(Debug)]
struct Counted {
    full: Mutex<HashMap<String, Instant>>,
    /// After how long one more is there.
    each: Duration,
    /// What is taken off, if nothing was of late.
    burst: Duration,
    /// What is wrong where there are too many.
    words: &'static str,
}

impl Counted {
    fn new(a_minute: u32, words: &'static str) -> Self {
        Self {
            full: Mutex::default(),
            each: MINUTE / a_minute.max(1),
            burst: 2 * MINUTE,
            words,
        }
    }

    fn take(&self, caller: &Turn) -> Result<(), Problem> {
        let now = Instant::now();
        let mut full = self.full.lock();
        if full.len() >= MOST {
            full.retain(|_, full| *full > now);
        }
        let mut counters = vec![(caller.own.to_string(), self.each)];
        if caller.own != caller.person {
            let all = format!("tokens of {}", caller.person);
            counters.push((all, self.each / TOGETHER));
        }
        let mut taken = Vec::new();
        let mut most = Duration::ZERO;
        for (who, each) in counters {
            let kept = full.get(&who).copied().unwrap_or(now);
            let after = kept.max(now) + each;
            most = most.max(after.duration_since(now));
            taken.push((who, after));
        }
        if most > self.burst {
            let wait = (most - self.burst).as_secs_f64().ceil();
            let words = format!("{}: go on when Retry-After says", self.words);
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_often", words);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at most a minute"
            )]
            return Err(problem.retried_after((wait as u64).max(1)));
        }
        // What was refused is owed by nobody.
        full.extend(taken);
        Ok(())
    }
}

/// Read, and recorded each time.
pub(crate) const EXPORT: &str = "GET /api/v1/audit/export/{format}";

/// What changes nothing that is kept, or has bounds of its own.
pub(crate) const FREE: [&str; 14] = [
    "POST /api/v1/policies/check",
    "POST /api/v1/policies/import",
    "POST /api/v1/policies/{name}/simulate",
    "POST /api/v1/policies/{name}/suggest",
    "POST /api/v1/assignments/simulate",
    "POST /api/v1/floors/simulate",
    "POST /api/v1/teams/{name}/simulate",
    // Whoever leaves is not kept, nor who throws somebody out who has got hold of their session or token.
    "POST /sign-out",
    "DELETE /api/v1/sessions/{id}",
    "DELETE /api/v1/tokens/{id}",
    "POST /people/sessions/{id}/end",
    "POST /people/tokens/{id}/remove",
    "POST /people/password",
    // Signed by who sends it, who has a bound of their own.
    "POST /api/v1/webhooks/{name}/answer",
];

/// What runs sandboxes.
const RUNS: [&str; 8] = [
    "POST /api/v1/servers/{name}/start",
    "GET /api/v1/servers/{name}/attach",
    "POST /api/v1/servers/{name}/register",
    "DELETE /api/v1/sandboxes/{id}",
    // Each message: clients say many in a second.
    "POST /sandbox/{server}/mcp",
    "DELETE /sandbox/{server}/mcp",
    "POST /servers/{name}/start",
    "POST /sandboxes/{id}/stop",
];

/// So that a gateway may ask for as many at once as an appliance runs at most, 4,096.
const RUNS_TO_A_CHANGE: u32 = 50;
/// As many tokens of one person as work at full speed.
const TOGETHER: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);
/// Callers are users and tokens: as many as are remembered at once.
const MOST: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_changes_are_made_at_once_and_then_as_many_as_time_gives() {
        let paces = Paces::new(60);
        let take = |who: &str| paces.take(Pace::Changes, &who.into());
        for _ in 0..120 {
            take("token a").unwrap();
        }
        assert_eq!(
            take("token a").unwrap_err().status(),
            StatusCode::TOO_MANY_REQUESTS
        );
        take("token b").unwrap();
        tokio::time::advance(Duration::from_secs(3)).await;
        for _ in 0..3 {
            take("token a").unwrap();
        }
        assert!(take("token a").is_err(), "what was refused is not owed");
        tokio::time::advance(Duration::from_secs(3600)).await;
        for _ in 0..120 {
            take("token a").unwrap();
        }
        assert!(take("token a").is_err(), "nobody saves up");
    }

    #[tokio::test(start_paused = true)]
    async fn all_tokens_of_a_person_have_a_bound_together_and_leave_the_person_theirs() {
        let paces = Paces::new(60);
        let take = |own: &str, person: &str| {
            let turn = Turn {
                own: own.into(),
                person: person.into(),
            };
            paces.take(Pace::Changes, &turn).is_ok()
        };
        // One that went wrong takes what is its own.
        assert_eq!((0..500).filter(|_| take("token 0", "ana")).count(), 120);
        let made = (1..60).flat_map(|one| (0..120).map(move |_| format!("token {one}")));
        let made = made.filter(|one| take(one, "ana")).count();
        assert_eq!(made, 4 * 120);
        assert_eq!((0..500).filter(|_| take("ana", "ana")).count(), 120);
        assert!(take("token x", "ben"));
    }

    #[tokio::test(start_paused = true)]
    async fn running_sandboxes_has_a_pace_of_its_own_and_a_wide_one() {
        let paces = Paces::new(60);
        let runs = |many: usize| {
            let tries = (0..many).filter(|_| paces.take(Pace::Runs, &"gateway".into()).is_ok());
            tries.count()
        };
        assert_eq!(runs(10_000), 6_000);
        let refused = paces.take(Pace::Runs, &"gateway".into()).unwrap_err();
        assert!(refused.detail.contains("sandboxes"), "{}", refused.detail);
        paces.take(Pace::Changes, &"gateway".into()).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(runs(100), 50);
        let of = |route: &str| {
            let method = route.split(' ').next().unwrap().parse().unwrap();
            Pace::of(&method, route)
        };
        assert_eq!(of("GET /api/v1/servers/{name}/attach"), Some(Pace::Runs));
        assert_eq!(of("POST /servers/{name}/start"), Some(Pace::Runs));
        assert_eq!(of("POST /api/v1/users"), Some(Pace::Changes));
        assert_eq!(of(EXPORT), Some(Pace::Changes));
        assert_eq!(of("GET /api/v1/servers"), None);
        assert_eq!(of("POST /sign-out"), None);
    }

    #[test]
    fn every_route_that_is_not_counted_is_one() {
        let routes = include_str!("../router.rs");
        for free in FREE.into_iter().chain(RUNS).chain([EXPORT]) {
            let (_, path) = free.split_once(' ').unwrap();
            assert!(routes.contains(&format!("\"{path}\"")), "{free}");
        }
    }
}
