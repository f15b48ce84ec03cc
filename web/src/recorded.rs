//! Recorded traffic for policies: what a draft would newly allow and newly deny of it, and the
//! narrowest draft for it.
//!
//! The code that enforces decides. The record keeps each attempt that differs from others once, with how often
//! it was: those of the days that are asked for are taken. What is not kept so (beyond the bounds of a server and
//! day, not counted yet, of one sandbox) is read from the newest records, no more than `reading::MOST` of them and no longer
//! than `reading::WITHIN`; what is left out for that is said. One reading runs at a time, beside the runtime, so that
//! nobody who looks slows down what is decided.

use std::sync::Arc;

use gig_policy::{Asked, InPlaceOf, Replay, Suggestion, Width, suggest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api_error::Problem,
    app::App,
    document,
    in_force::{InForce, Supposed, SupposedTeam},
};

mod covered;
mod deciding;
mod reading;
mod simulation;

use deciding::{Draft, policies};
use reading::{Under, read};

pub(crate) use simulation::Simulation;

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

/// A draft for recorded traffic. Of the policy's newest version it keeps what records do not tell: `deny`, `hold`,
/// `limits`, and of rules for the same `expires`, `tls: passthrough`, `allow_private` and where a secret may stand.
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
    /// How many of the attempts that it opens were denied when they were made.
    pub(crate) denied: u64,
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

/// What a document would newly allow and newly deny.
///
/// Of a policy that is a floor anywhere it stands in that floor's place: the traffic is that of all whom it bounds, and
/// each one's own policy decides beneath it.
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
        let in_force = InForce::read(app.store.as_ref()).map_err(Problem::internal)?;
        let is_floor = in_force.all_floors().any(|floor| floor == name);
        let mut draft = Draft::of(&name, &text)?;
        // What differs from the record by what was saved since is not of this draft.
        let newest = app.store.policy(&name, None).map_err(Problem::store)?;
        let newest = newest.map(|version| version.document);
        let newest = newest.as_deref().map(|text| Draft::of(&name, text));
        let mut newest = newest.and_then(Result::ok);
        if is_floor {
            return deciding::of_floor(app, (&mut draft, newest), span, now);
        }
        let read = read(app, &span, &Under::alone)?;
        let mut in_force = in_force;
        let (mut replay, mut already) = (Replay::default(), Replay::default());
        for (under, traffic) in &read.groups {
            let reach = under.reach();
            // As it would be enforced; a draft of a floor stands in its own place.
            let floors = policies(&mut in_force, &under.floors, reach)?;
            if let Some(newest) = &mut newest {
                let bounded = newest.as_of(reach)?.under(floors.clone()).as_of(now);
                already = already.and(bounded.replay(&traffic.attempts));
            }
            let bounded = draft.as_of(reach)?.under(floors).as_of(now);
            replay = replay.and(bounded.replay(&traffic.attempts));
        }
        Ok(Simulation::of(replay, &read).beside(&already))
    })
    .await
}

/// What a policy would do that is put in force somewhere, becomes a floor there, or no longer is either.
///
/// # Errors
/// When the store cannot be read, or others read for too long.
pub(crate) async fn simulate_place(
    app: &Arc<App>,
    supposed: Supposed,
    days: u16,
) -> Result<Simulation, Problem> {
    beside(app, move |app| {
        deciding::of_place(app, &supposed, days, document::moment(app.clock.now()))
    })
    .await
}

/// What would be done if a team had these members.
///
/// # Errors
/// As [`simulate_place`].
pub(crate) async fn simulate_team(
    app: &Arc<App>,
    supposed: SupposedTeam,
    days: u16,
) -> Result<Simulation, Problem> {
    beside(app, move |app| {
        deciding::of_team(app, &supposed, days, document::moment(app.clock.now()))
    })
    .await
}

/// The narrowest document for what was tried. Of the policy's newest version it keeps what records do not tell, or where
/// there is none, of that of `instead`.
///
/// # Errors
/// When others read for too long.
pub(crate) async fn suggestion(
    app: &Arc<App>,
    name: String,
    breadth: Breadth,
    span: Span,
    instead: Option<String>,
) -> Result<Suggested, Problem> {
    beside(app, move |app| {
        let mut read = read(app, &span, &Under::alone)?;
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
            denied,
        } = {
            let kept = |name: &str| app.store.policy(name, None).map_err(Problem::internal);
            let kept = match (kept(&name)?, &instead) {
                (None, Some(other)) => kept(other)?,
                (kept, _) => kept,
            };
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
            denied,
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
