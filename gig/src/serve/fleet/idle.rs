//! When a sandbox was idle for long enough: it printed nothing, had no connection and nobody asked for it
//! (requirement 003-24). One that somebody is attached to lives as long as they are.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::Instant;

use super::Member;

/// How long a server's sandboxes may be idle; `None`: for ever.
pub(super) fn limit(said: Option<u32>) -> Option<Duration> {
    match said {
        None => Some(DEFAULT),
        Some(0) => None,
        Some(seconds) => Some(Duration::from_secs(seconds.into())),
    }
}

/// Done when nothing came of the sandbox for so long.
pub(super) async fn idle(member: &Member, limit: Option<Duration>) {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    let look = (limit / 10).clamp(Duration::from_millis(100), Duration::from_secs(15));
    let mut seen = Seen::of(member);
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(look).await;
        let now = Seen::of(member);
        if now != seen || now.open {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() >= limit {
            return;
        }
    }
}

/// What tells that something was done.
#[derive(PartialEq)]
struct Seen {
    printed: u64,
    asked: u64,
    tries: u64,
    open: bool,
}

impl Seen {
    fn of(member: &Member) -> Self {
        let subject = member.subject.as_ref();
        Self {
            printed: member.log.printed(),
            asked: member.asked.load(Ordering::Relaxed),
            tries: subject.map_or(0, |subject| subject.tries()),
            open: subject.is_some_and(|subject| subject.connections() > 0),
        }
    }
}

/// Requirement 003-24.
const DEFAULT: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_minutes_unless_said_and_never_by_a_nought() {
        assert_eq!(limit(None), Some(Duration::from_secs(300)));
        assert_eq!(limit(Some(7)), Some(Duration::from_secs(7)));
        assert_eq!(limit(Some(0)), None);
    }
}
