//! Recorded traffic for policies: what a draft would newly allow and newly deny of it, and the
//! narrowest draft for it.
//!
//! The code that enforces decides. The record keeps each attempt that differs from others once, with how often
//! it was: those of the days that are asked for are taken. What is not kept so (beyond the bounds of a server and
//! day, not counted yet, of one sandbox) is read from the newest records, no more than `reading::MOST` of them and no longer
//! than `reading::WITHIN`; what is left out for that is said. One reading runs at a time, beside the runtime, so that
//! nobody who looks slows down what is decided.

use std::sync::Arc;

use gig_policy::{Asked, Change, InPlaceOf, Reach, Replay, Suggestion, Width, suggest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{api_error::Problem, app::App, document, in_force::InForce};

mod reading;

use reading::{Recorded, read};

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

/// What a draft would do with recorded traffic. Limits take no part, nor does where in a request a secret stood.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Simulation {
    /// Records that were taken into account.
    pub(crate) records: u64,
    /// Records that this gig cannot read: a later one wrote them.
    pub(crate) unreadable: u64,
    /// Whether everything of the time that was asked for was taken into account.
    pub(crate) complete: bool,
    /// What was, in a sentence.
    pub(crate) covered: String,
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
    /// Passed then and is denied now by a floor, whatever the draft says.
    pub(crate) denied_by_floors: Vec<ByFloor>,
}

/// What a floor that is in force denies of what passed once.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ByFloor {
    /// The floor.
    pub(crate) policy: String,
    pub(crate) count: u64,
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

/// A draft for recorded traffic. Of the policy's newest version it keeps what records do not tell: `deny`, `hold`,
/// `limits`, and of rules for the same `expires`, `tls: passthrough` and where a secret may stand.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Suggested {
    /// Records that were taken into account.
    pub(crate) records: u64,
    /// Records that this gig cannot read: a later one wrote them.
    pub(crate) unreadable: u64,
    /// Whether everything of the time that was asked for was taken into account.
    pub(crate) complete: bool,
    /// What was, in a sentence.
    pub(crate) covered: String,
    /// The document, each rule with its evidence.
    pub(crate) document: String,
    /// What it does not cover; ends after 200.
    pub(crate) uncovered: Vec<String>,
    /// What a person should know of what was left out; ends after 200.
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
    /// Cut: hosts and paths are the sandbox's own words. A host is whole: its end says whose it is.
    pub(crate) fn short(&self) -> String {
        let from = self.asked.find("://").map_or(0, |at| at + 3);
        let path = self.asked.get(from..).and_then(|rest| rest.find('/'));
        match path.and_then(|at| self.asked.split_at_checked(from + at)) {
            Some((place, path)) => {
                let room = LONGEST.saturating_sub(place.chars().count());
                format!("{place}{}", cut(path, room))
            }
            None => cut(&self.asked, LONGEST_PLACE),
        }
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
            records: read.records(),
            unreadable: read.unreadable,
            complete: read.extent.is_complete(),
            covered: read.extent.words(),
            newly_allowed_total: replay.newly_allowed.len(),
            newly_denied_total: replay.newly_denied.len(),
            newly_allowed: listed(replay.newly_allowed).collect(),
            newly_denied: listed(replay.newly_denied).collect(),
            still_allowed: replay.still_allowed,
            still_denied: replay.still_denied,
            not_decided_by_rules: replay.not_of_rules,
            denied_by_floors: replay
                .by_floor
                .into_iter()
                .map(|(policy, count)| ByFloor {
                    policy: policy.to_string(),
                    count,
                })
                .collect(),
        }
    }

    /// In a line.
    pub(crate) fn words(&self) -> String {
        let unread = match self.unreadable {
            0 => String::new(),
            count => format!(" ({count} more cannot be read by this gig)"),
        };
        let by_floors = self.denied_by_floors.iter().map(|one| {
            format!(
                " {} passed then and are denied by the floor {} now, whatever this document says.",
                one.count, one.policy
            )
        });
        format!(
            "{} records{unread}. {} The same: {} allowed, {} denied; {} denied for a reason that no rule decides.{} \
             {NO_PART}",
            self.records,
            self.covered,
            self.still_allowed,
            self.still_denied,
            self.not_decided_by_rules,
            by_floors.collect::<String>()
        )
    }
}

/// What a document would newly allow and newly deny.
///
/// # Errors
/// When the document is not valid, or others read for too long.
pub(crate) async fn simulate(
    app: &Arc<App>,
    name: String,
    text: String,
    span: Span,
) -> Result<Simulation, Problem> {
    beside(app, move |app| {
        let now = document::moment(app.clock.now());
        let compiled = |reach| {
            let policy = document::compile(&name, 0, &text, Some(reach));
            policy.map_err(Problem::document)
        };
        let (external, mut local) = (compiled(Reach::External)?, None);
        let read = read(app, &span)?;
        let mut in_force = InForce::read(app.store.as_ref()).map_err(Problem::internal)?;
        let mut replay = Replay::default();
        for (under, traffic) in &read.groups {
            let (reach, draft) = match under.is_local {
                true => (Reach::Local, once(&mut local, || compiled(Reach::Local))?),
                false => (Reach::External, external.clone()),
            };
            // As it would be enforced; a draft of a floor stands in its own place.
            let floors = under.floors.iter().filter(|floor| **floor != name);
            let floors = floors.map(|floor| in_force.read_policy(floor.clone(), reach));
            let floors = floors
                .collect::<Result<_, _>>()
                .map_err(Problem::internal)?;
            let bounded = draft.under(floors).as_of(now);
            replay = both(replay, bounded.replay(&traffic.attempts));
        }
        Ok(Simulation::of(replay, &read))
    })
    .await
}

/// What was made before, or is made now.
fn once<T: Clone, E>(kept: &mut Option<T>, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    match kept {
        Some(kept) => Ok(kept.clone()),
        None => Ok(kept.insert(make()?).clone()),
    }
}

/// The narrowest document for what was tried.
///
/// # Errors
/// When others read for too long.
pub(crate) async fn suggestion(
    app: &Arc<App>,
    name: String,
    breadth: Breadth,
    span: Span,
) -> Result<Suggested, Problem> {
    beside(app, move |app| {
        let mut read = read(app, &span)?;
        let (records, mut attempts) = (read.records(), Vec::new());
        for (under, traffic) in std::mem::take(&mut read.groups) {
            let mut theirs = traffic.attempts;
            // A private address is what such a server is for: no rule has to open it.
            for attempt in theirs.iter_mut().filter(|_| under.is_local) {
                attempt.address = None;
            }
            attempts.append(&mut theirs);
        }
        let width = match breadth {
            Breadth::Path => Width::Path,
            Breadth::Host => Width::Host,
        };
        let Suggestion {
            draft,
            uncovered,
            notes,
        } = {
            let kept = app.store.policy(&name, None).map_err(Problem::internal)?;
            let instead = kept.as_ref().map(|kept| InPlaceOf {
                document: &kept.document,
                now: document::moment(app.clock.now()),
            });
            suggest(&name, &attempts, None, instead, width)
        };
        Ok(Suggested {
            records,
            unreadable: read.unreadable,
            complete: read.extent.is_complete(),
            covered: read.extent.words(),
            document: draft.to_string(),
            uncovered: uncovered
                .iter()
                .take(MOST_LISTED)
                .map(Asked::to_string)
                .collect(),
            notes: few(notes),
        })
    })
    .await
}

/// One at a time, callers in turns: whoever asks again and again keeps nobody else from theirs, least of all who
/// approves what they proposed.
async fn beside<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let place = tokio::time::timeout(PATIENCE, app.replays.take()).await;
    let place = place.map_err(|_| {
        Problem::unavailable("recorded traffic is being read for others: try again in a moment")
    })??;
    let app = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || {
        let done = work(&app);
        drop(place);
        done
    });
    done.await.map_err(Problem::internal)?
}

/// More notes than anybody reads are counted; each is cut: hosts are the sandbox's own words.
fn few(notes: Vec<String>) -> Vec<String> {
    let more = notes.len().saturating_sub(MOST_LISTED);
    let notes = notes.iter().take(MOST_LISTED);
    let mut kept: Vec<_> = notes.map(|note| cut(note, LONGEST_NOTE)).collect();
    if more > 0 {
        kept.push(format!("and {more} more"));
    }
    kept
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// One comparison of two.
fn both(mut one: Replay, other: Replay) -> Replay {
    one.newly_allowed.extend(other.newly_allowed);
    one.newly_denied.extend(other.newly_denied);
    for changes in [&mut one.newly_allowed, &mut one.newly_denied] {
        changes.sort_by_key(|change| std::cmp::Reverse(change.count));
    }
    one.still_allowed += other.still_allowed;
    one.still_denied += other.still_denied;
    one.not_of_rules += other.not_of_rules;
    for (floor, count) in other.by_floor {
        *one.by_floor.entry(floor).or_default() += count;
    }
    one
}

/// What recorded traffic cannot tell of a document.
pub(crate) const NO_PART: &str = "Limits take no part, nor does where in a request a secret stood.";
/// A few sentences.
const LONGEST_NOTE: usize = 400;
/// As long as anybody keeps requests.
pub(crate) const MOST_DAYS: u16 = 90;
/// A line of a table; a host that is longer takes more.
const LONGEST: usize = 160;
/// Longer than any host (RFC 1035 §3.1) with what stands beside it.
const LONGEST_PLACE: usize = 320;
/// Longer than one reading takes, and within what a request may.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// More than a person reads.
const MOST_LISTED: usize = 200;

#[cfg(test)]
mod tests;
