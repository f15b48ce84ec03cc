//! Recorded traffic for policies: what a draft would newly allow and newly deny of it, and the
//! narrowest draft for it.
//!
//! The code that enforces decides. The newest records are read, and no more than [`MOST`] of them or
//! for longer than [`WITHIN`]; what was left out for that is said. One reading runs at a time, beside
//! the runtime, so that nobody who looks slows down what is decided.

use std::sync::Arc;

use gig_audit::{
    Record,
    attempts::{Gathering, Traffic},
    search::{Filter, Page, Query},
};
use gig_policy::{Asked, Change, Replay, Suggestion, Width, suggest};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{api_error::Problem, app::App, document};

/// Which traffic is looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Span {
    /// Days until now, at most [`MOST_DAYS`].
    pub(crate) days: u16,
    /// Of what this policy decided.
    pub(crate) policy: Option<String>,
    /// Of this server.
    pub(crate) server: Option<String>,
    /// Of this sandbox.
    pub(crate) sandbox: Option<String>,
}

/// What a draft would do with recorded traffic.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Simulation {
    /// Records that were taken into account.
    pub(crate) records: u64,
    /// Whether all of the time that was asked for was read; else only the newest of it.
    pub(crate) complete: bool,
    /// Was denied and would pass, most frequent first.
    pub(crate) newly_allowed: Vec<Differs>,
    /// Passed and would be denied, most frequent first.
    pub(crate) newly_denied: Vec<Differs>,
    /// How many different ones there are; the lists end after 200.
    pub(crate) newly_allowed_total: usize,
    pub(crate) newly_denied_total: usize,
    pub(crate) still_allowed: u64,
    pub(crate) still_denied: u64,
    /// Denied for a reason that no rule decides.
    pub(crate) not_decided_by_rules: u64,
}

/// One thing that a draft decides otherwise.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Differs {
    /// `GET https://api.example.com:443/user`.
    pub(crate) asked: String,
    pub(crate) count: u64,
    pub(crate) first: String,
    pub(crate) last: String,
    /// The rule that lets it pass, or came nearest.
    pub(crate) rule: Option<String>,
    /// Why it was denied before, or would be now.
    pub(crate) reason: String,
}

/// A draft for recorded traffic.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Suggested {
    /// Records that were taken into account.
    pub(crate) records: u64,
    /// Whether all of the time that was asked for was read; else only the newest of it.
    pub(crate) complete: bool,
    /// The document, each rule with its evidence.
    pub(crate) document: String,
    /// What it does not cover; ends after 200.
    pub(crate) uncovered: Vec<String>,
    /// What a person should know of what was left out.
    pub(crate) notes: Vec<String>,
}

/// How wide a suggested rule is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Breadth {
    /// The methods and paths that were seen.
    #[default]
    Path,
    /// Every request to the host.
    Host,
}

impl From<Change> for Differs {
    fn from(change: Change) -> Self {
        Self {
            asked: change.asked.to_string(),
            count: change.count,
            first: change.first.to_string(),
            last: change.last.to_string(),
            rule: change.rule.map(|rule| rule.to_string()),
            reason: change.reason.to_string(),
        }
    }
}

impl Differs {
    /// Cut: hosts and paths are the sandbox's own words.
    pub(crate) fn short(&self) -> String {
        let mut kept: String = self.asked.chars().take(LONGEST).collect();
        if kept.len() < self.asked.len() {
            kept.push('…');
        }
        kept
    }

    /// To the second.
    pub(crate) fn moment(&self) -> String {
        let seconds = self.last.chars().take(19);
        seconds.map(|c| if c == 'T' { ' ' } else { c }).collect()
    }
}

impl Simulation {
    /// Both lists, as shown: what they are, how many there are, and what the rule did.
    pub(crate) fn parts(&self) -> [(&'static str, usize, &[Differs], &'static str); 2] {
        [
            (
                "It would newly allow",
                self.newly_allowed_total,
                &self.newly_allowed,
                "Rule that allows it",
            ),
            (
                "It would newly deny",
                self.newly_denied_total,
                &self.newly_denied,
                "Nearest rule",
            ),
        ]
    }

    fn of(replay: Replay, read: &Recorded) -> Self {
        let listed = |changes: Vec<Change>| changes.into_iter().take(MOST_LISTED).map(Into::into);
        Self {
            records: read.traffic.records,
            complete: read.complete,
            newly_allowed_total: replay.newly_allowed.len(),
            newly_denied_total: replay.newly_denied.len(),
            newly_allowed: listed(replay.newly_allowed).collect(),
            newly_denied: listed(replay.newly_denied).collect(),
            still_allowed: replay.still_allowed,
            still_denied: replay.still_denied,
            not_decided_by_rules: replay.not_of_rules,
        }
    }

    /// In a line.
    pub(crate) fn words(&self) -> String {
        let part = match self.complete {
            true => "",
            false => ", the newest part of that time only",
        };
        format!(
            "{} records{part}. The same: {} allowed, {} denied; {} denied for a reason that no rule decides.",
            self.records, self.still_allowed, self.still_denied, self.not_decided_by_rules
        )
    }
}

/// What a document would newly allow and newly deny.
///
/// # Errors
/// When the document is not valid, or another reading runs.
pub(crate) async fn simulate(
    app: &Arc<App>,
    name: String,
    text: String,
    span: Span,
) -> Result<Simulation, Problem> {
    beside(app, move |app| {
        let policy = document::compile(&name, 0, &text, None).map_err(Problem::document)?;
        let policy = policy.as_of(document::moment(app.clock.now()));
        let read = read(app, &span)?;
        Ok(Simulation::of(policy.replay(&read.traffic.attempts), &read))
    })
    .await
}

/// The narrowest document for what was tried.
///
/// # Errors
/// When another reading runs.
pub(crate) async fn suggestion(
    app: &Arc<App>,
    name: String,
    breadth: Breadth,
    span: Span,
) -> Result<Suggested, Problem> {
    beside(app, move |app| {
        let read = read(app, &span)?;
        let width = match breadth {
            Breadth::Path => Width::Path,
            Breadth::Host => Width::Host,
        };
        let Suggestion {
            draft,
            uncovered,
            notes,
        } = suggest(&name, &read.traffic.attempts, None, width);
        Ok(Suggested {
            records: read.traffic.records,
            complete: read.complete,
            document: draft.to_string(),
            uncovered: uncovered
                .iter()
                .take(MOST_LISTED)
                .map(Asked::to_string)
                .collect(),
            notes,
        })
    })
    .await
}

/// One at a time: who comes meanwhile is told to come again.
async fn beside<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let Ok(place) = Arc::clone(&app.replays).try_acquire_owned() else {
        return Err(Problem::unavailable(
            "recorded traffic is being read for somebody else: try again in a moment",
        ));
    };
    let app = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || {
        let done = work(&app);
        drop(place);
        done
    });
    done.await.map_err(Problem::internal)?
}

struct Recorded {
    traffic: Traffic,
    complete: bool,
}

/// The newest records of the span, taken oldest first.
fn read(app: &App, span: &Span) -> Result<Recorded, Problem> {
    let begun = app.clock.now();
    let hours = SignedDuration::from_hours(24 * i64::from(span.days.clamp(1, MOST_DAYS)));
    let since = begun.checked_sub(hours).map_err(Problem::internal)?;
    let list = |one: &Option<String>| one.iter().cloned().collect::<Vec<_>>();
    let events = ["dns", "connect", "request", "response"];
    let query = Query {
        filter: Filter {
            since: Some(format!("{since:.6}")),
            event: events.map(str::to_owned).to_vec(),
            policy: list(&span.policy),
            server: list(&span.server),
            sandbox: list(&span.sandbox),
            ..Filter::default()
        },
        before: None,
        limit: AT_ONCE,
    };
    let late = || app.clock.now().duration_since(begun) > WITHIN;
    let (lines, complete) = newest(query, |query| app.page(query), late)?;
    let mut gathering = Gathering::default();
    for line in lines.iter().rev() {
        let record: Record = serde_json::from_str(line).map_err(Problem::internal)?;
        gathering.take(&record);
    }
    Ok(Recorded {
        traffic: gathering.finish(),
        complete,
    })
}

/// Lines, newest first, and whether there are no more.
fn newest(
    mut query: Query,
    mut page: impl FnMut(&Query) -> Result<Page, Problem>,
    late: impl Fn() -> bool,
) -> Result<(Vec<String>, bool), Problem> {
    let mut lines = Vec::new();
    loop {
        let page = page(&query)?;
        lines.extend(page.records.into_iter().map(|found| found.line));
        query.before = match page.next {
            Some(next) => Some(next),
            None => return Ok((lines, true)),
        };
        if late() || lines.len() >= MOST {
            return Ok((lines, false));
        }
    }
}

/// Some fifty megabytes of lines.
const MOST: usize = 100_000;
/// Well within what a request may take.
const WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// Records of one page.
const AT_ONCE: usize = 1000;
/// As long as anybody keeps requests.
pub(crate) const MOST_DAYS: u16 = 90;
/// A line of a table.
const LONGEST: usize = 160;
/// More than a person reads.
const MOST_LISTED: usize = 200;

#[cfg(test)]
mod tests {
    use gig_audit::{
        row::Row,
        search::{Found, Marks, Position},
    };

    use super::*;

    fn query() -> Query {
        Query {
            filter: Filter::default(),
            before: None,
            limit: AT_ONCE,
        }
    }

    fn a_page(next: bool) -> Result<Page, Problem> {
        let found = Found {
            at: Position { chain: 1, seq: 1 },
            line: "{}".to_owned(),
            row: Row::default(),
        };
        Ok(Page {
            records: vec![found; AT_ONCE],
            next: next.then(Marks::default),
        })
    }

    #[test]
    fn a_reading_ends_at_its_bounds_and_says_so() {
        let (lines, complete) = newest(query(), |_| a_page(true), || false).unwrap();
        assert_eq!((lines.len(), complete), (MOST, false));
        let (lines, complete) = newest(query(), |_| a_page(true), || true).unwrap();
        assert_eq!((lines.len(), complete), (AT_ONCE, false));
        let (lines, complete) = newest(query(), |_| a_page(false), || true).unwrap();
        assert_eq!((lines.len(), complete), (AT_ONCE, true));
    }

    #[test]
    fn what_a_sandbox_asked_for_is_shown_cut() {
        let mut differs = Differs {
            asked: "x".repeat(LONGEST + 1),
            count: 1,
            first: String::new(),
            last: "2026-11-21T12:00:00.000000Z".to_owned(),
            rule: None,
            reason: String::new(),
        };
        assert!(differs.short().ends_with("x…"));
        differs.asked.truncate(LONGEST);
        assert_eq!(differs.short(), differs.asked);
        assert_eq!(differs.moment(), "2026-11-21 12:00:00");
    }
}
