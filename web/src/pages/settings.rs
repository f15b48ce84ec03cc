//! Settings: what this gig is, where it keeps things, whether each part works, who is told what waits, and
//! the host examined.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use super::{Answer, Frame, shown_as, webhooks::Typed};
use crate::{
    api::{
        doctor::examined,
        nodes::{NodeView, nodes},
        webhooks::{WebhookView, webhooks},
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::Caller,
    control::{Examined, Health},
    role::Permission,
};

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    frame: Frame,
    problem: String,
    /// What came of an act, where it was good.
    done: String,
    webhooks: Vec<WebhookView>,
    /// The form of a webhook was refused: the problem is of it.
    refused: bool,
    /// What was typed into it.
    typed: Typed,
    about: Vec<(&'static str, String)>,
    health: Vec<Health>,
    /// Of a fleet.
    nodes: Vec<NodeView>,
    /// What was found, where somebody asked for it.
    examined: Option<Vec<Examined>>,
}

impl SettingsPage {
    /// The class of the colour of a node's state.
    fn alive(&self, one: &NodeView) -> &'static str {
        match one.state {
            "lives" => "works",
            _ => "broken",
        }
    }

    /// The class of a state's colour.
    fn class(&self, one: &Examined) -> &'static str {
        match one.state.as_str() {
            "works" => "works",
            "missing" => "broken",
            _ => "ended",
        }
    }
}

/// `GET /settings`.
pub(crate) async fn show(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    caller.require(Permission::Examine)?;
    page(&app, &caller, Shown::default()).await
}

/// `POST /settings`: examines the host, one who asks at a time.
pub(crate) async fn examine(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    // The page itself is an admin's: to nobody else it says why not.
    caller.require(Permission::Examine)?;
    let shown = match examined(&app, &caller).await {
        Ok(examined) => Shown {
            examined: Some(examined),
            ..Shown::default()
        },
        Err(problem) => Shown::not(problem),
    };
    page(&app, &caller, shown).await
}

/// What came of what was asked on it.
#[derive(Default)]
pub(super) struct Shown {
    examined: Option<Vec<Examined>>,
    problem: Option<Problem>,
    /// The form that it is a problem of, as it was sent.
    typed: Option<Typed>,
    done: String,
}

impl Shown {
    /// It was not done.
    pub(super) fn not(problem: Problem) -> Self {
        Self {
            problem: Some(problem),
            ..Self::default()
        }
    }

    /// The form of a webhook was not taken.
    pub(super) fn refused(problem: Problem, typed: Typed) -> Self {
        Self {
            typed: Some(typed),
            ..Self::not(problem)
        }
    }

    /// It was.
    pub(super) fn done(words: String) -> Self {
        Self {
            done: words,
            ..Self::default()
        }
    }
}

/// The page; `shown` beside what it always has.
pub(super) async fn page(app: &Arc<App>, caller: &Caller, shown: Shown) -> Answer {
    let problem = shown.problem;
    let status = AnswerStatus::beside(problem.as_ref());
    let page = SettingsPage {
        frame: Frame::new(caller, "/settings"),
        problem: problem.map(|problem| problem.detail).unwrap_or_default(),
        done: shown.done,
        webhooks: webhooks(app, caller).await?,
        refused: shown.typed.is_some(),
        typed: shown.typed.unwrap_or_default(),
        about: app.about.clone(),
        health: app.health().await,
        nodes: nodes(app, caller).await?,
        examined: shown.examined,
    };
    Ok(shown_as(status, &page))
}
