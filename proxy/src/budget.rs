//! How much one sandbox may still do: requests a minute, octets an hour, questions and names a second.
//!
//! Windows slide in small steps and err towards refusing: an allowance holds for *any* 60 seconds or
//! hour, not for calendar ones. Counting goes on while a policy sets no limit, so that a policy that
//! sets one later counts what was already sent. Connections are counted where they are registered
//! ([`crate::subject`]). DNS questions are paced before they are dropped: a stub resolver whose question is
//! lost waits five seconds, one that is answered a few milliseconds later goes on.

use std::time::Duration;

use gig_policy::{DenyReason, Limits};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The counters of one sandbox.
#[derive(Debug)]
pub struct Budget {
    requests: Mutex<Window>,
    upload: Mutex<Window>,
    questions: Mutex<Pace>,
    names: Mutex<Pace>,
}

impl Budget {
    /// Counters at zero.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "no Default for what limits a sandbox"
    )]
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            requests: Mutex::new(Window::new(now, REQUEST_STEP)),
            upload: Mutex::new(Window::new(now, UPLOAD_STEP)),
            questions: Mutex::new(Pace::new(now, QUESTIONS)),
            names: Mutex::new(Pace::new(now, NAMES)),
        }
    }

    /// Takes one request from the minute's allowance.
    ///
    /// # Errors
    /// [`DenyReason::RequestRate`]; nothing is taken then.
    pub fn request(&self, limits: &Limits) -> Result<(), DenyReason> {
        let limit = limits.requests_per_minute.map(u64::from);
        if self.requests.lock().take(Instant::now(), 1, limit) {
            Ok(())
        } else {
            Err(DenyReason::RequestRate)
        }
    }

    /// Takes `octets` from the hour's upload allowance; call before they are sent.
    ///
    /// # Errors
    /// [`DenyReason::UploadLimit`]; nothing is taken then.
    pub fn upload(&self, limits: &Limits, octets: u64) -> Result<(), DenyReason> {
        let limit = limits.upload_per_hour.map(|count| count.0);
        if self.upload.lock().take(Instant::now(), octets, limit) {
            Ok(())
        } else {
            Err(DenyReason::UploadLimit)
        }
    }

    /// Takes one DNS question: how long it waits before it is looked at. `None` means: drop it, the sandbox
    /// floods its name server.
    #[must_use]
    pub fn question(&self) -> Option<Duration> {
        self.questions.lock().take(Instant::now())
    }

    /// Takes one DNS question that needs a record of its own, as one for a new name does: how long it waits
    /// before it is recorded. `None` means: drop it.
    #[must_use]
    pub fn name(&self) -> Option<Duration> {
        self.names.lock().take(Instant::now())
    }
}

/// A sum over the last [`STEPS`] steps of equal length.
#[derive(Debug)]
struct Window {
    steps: Box<[u64]>,
    sum: u64,
    step: Duration,
    newest: u64,
    origin: Instant,
}

impl Window {
    fn new(now: Instant, step: Duration) -> Self {
        // One more than the window is long: the step that the window's beginning falls into counts
        // whole, so that the sum covers at least the window.
        Self {
            steps: vec![0; STEPS + 1].into(),
            sum: 0,
            step,
            newest: 0,
            origin: now,
        }
    }

    fn take(&mut self, now: Instant, amount: u64, limit: Option<u64>) -> bool {
        self.roll(now);
        let wanted = self.sum.saturating_add(amount);
        if limit.is_some_and(|limit| wanted > limit) {
            return false;
        }
        self.sum = wanted;
        if let Some(step) = self.current() {
            *step = step.saturating_add(amount);
        }
        true
    }

    fn roll(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.origin).as_nanos();
        let tick = u64::try_from(elapsed / self.step.as_nanos().max(1)).unwrap_or(u64::MAX);
        let passed = tick.saturating_sub(self.newest);
        if passed > STEPS as u64 {
            self.steps.fill(0);
            self.sum = 0;
            self.newest = tick;
        }
        while self.newest < tick {
            self.newest += 1;
            let gone = self.current().map_or(0, std::mem::take);
            self.sum = self.sum.saturating_sub(gone);
        }
    }

    fn current(&mut self) -> Option<&mut u64> {
        let index = self.newest % (STEPS as u64 + 1);
        self.steps.get_mut(usize::try_from(index).unwrap_or(0))
    }
}

/// At most one each interval, after a burst; what comes too early waits, what would wait too long is
/// refused (the generic cell rate algorithm of ITU-T I.371, with a queue).
#[derive(Debug)]
pub(crate) struct Pace {
    rate: PaceRate,
    /// When the next would come if all came evenly.
    due: Instant,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceRate {
    pub(crate) every: Duration,
    /// How far ahead of even arrival nothing waits.
    pub(crate) burst: Duration,
    /// Nothing waits longer.
    pub(crate) longest: Duration,
}

impl Pace {
    pub(crate) const fn new(now: Instant, rate: PaceRate) -> Self {
        Self { rate, due: now }
    }

    pub(crate) fn take(&mut self, now: Instant) -> Option<Duration> {
        let due = self.due.max(now);
        let wait = (due + self.rate.every)
            .saturating_duration_since(now)
            .saturating_sub(self.rate.burst);
        if wait > self.rate.longest {
            return None;
        }
        self.due = due + self.rate.every;
        Some(wait)
    }
}

/// Steps in a window.
const STEPS: usize = 60;
/// 60 steps make the minute of `requests_per_minute`.
const REQUEST_STEP: Duration = Duration::from_secs(1);
/// 60 steps make the hour of `upload_per_hour`.
const UPLOAD_STEP: Duration = Duration::from_secs(60);
/// 4,000 questions a second, after 2,000 at once: two for each of 2,000 new connections, and 8 % of what the
/// server can do. At most 64 wait.
const QUESTIONS: PaceRate = PaceRate {
    every: Duration::from_micros(250),
    burst: Duration::from_millis(500),
    longest: Duration::from_millis(16),
};
/// 200 records a second, for ever, after 500 at once, which a package manager or a browser needs: more than
/// any program has new names. At most 50 wait.
const NAMES: PaceRate = PaceRate {
    every: Duration::from_millis(5),
    burst: Duration::from_millis(2500),
    longest: Duration::from_millis(250),
};

#[cfg(test)]
mod tests {
    use gig_policy::ByteCount;

    use super::*;

    fn limits() -> Limits {
        Limits {
            requests_per_minute: Some(3),
            upload_per_hour: Some(ByteCount(1000)),
            ..Limits::UNSTATED
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_sixty_seconds_hold_more_requests_than_allowed() {
        let budget = Budget::new();
        for _ in 0..3 {
            assert_eq!(budget.request(&limits()), Ok(()));
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        for _ in 0..30 {
            assert_eq!(budget.request(&limits()), Err(DenyReason::RequestRate));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(budget.request(&limits()), Ok(()));
        assert_eq!(budget.request(&limits()), Err(DenyReason::RequestRate));
    }

    #[tokio::test(start_paused = true)]
    async fn upload_counts_octets_and_takes_nothing_when_refused() {
        let budget = Budget::new();
        assert_eq!(budget.upload(&limits(), 600), Ok(()));
        assert_eq!(budget.upload(&limits(), 401), Err(DenyReason::UploadLimit));
        assert_eq!(budget.upload(&limits(), 400), Ok(()));
        tokio::time::advance(Duration::from_secs(3661)).await;
        assert_eq!(budget.upload(&limits(), 1000), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_without_a_limit_counts_when_one_is_set() {
        let budget = Budget::new();
        assert_eq!(budget.upload(&Limits::UNSTATED, u64::MAX), Ok(()));
        assert_eq!(budget.upload(&limits(), 1), Err(DenyReason::UploadLimit));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_pause_empties_the_window() {
        let budget = Budget::new();
        for _ in 0..3 {
            assert_eq!(budget.request(&limits()), Ok(()));
        }
        tokio::time::advance(Duration::from_secs(10_000_000)).await;
        for _ in 0..3 {
            assert_eq!(budget.request(&limits()), Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_questions_is_paced_and_then_cut_to_the_sustained_rate() {
        let budget = Budget::new();
        let all: Vec<_> = (0..10_000).map_while(|_| budget.question()).collect();
        let at_once = all.iter().take_while(|wait| wait.is_zero()).count();
        assert_eq!((at_once, all.len()), (2_000, 2_064));
        assert_eq!(all.last(), Some(&QUESTIONS.longest));
        tokio::time::advance(Duration::from_secs(1)).await;
        let later = (0..10_000).filter(|_| budget.question().is_some()).count();
        assert_eq!(later, 2_064, "the burst is back, and no more than it");
        tokio::time::advance(Duration::from_millis(100)).await;
        let later = (0..10_000).filter(|_| budget.question().is_some()).count();
        assert_eq!(later, 400);
    }

    #[tokio::test(start_paused = true)]
    async fn new_names_are_paced_by_themselves() {
        let budget = Budget::new();
        assert_eq!((0..10_000).map_while(|_| budget.name()).count(), 550);
        assert_eq!(budget.question(), Some(Duration::ZERO));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..10_000).map_while(|_| budget.name()).count(), 200);
    }
}
