//! Settings: what this gig is, where it keeps things, whether each part works, and the host examined.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::StatusCode};

use super::{Answer, Frame, overview::health, shown_as};
use crate::{
    api_error::Problem,
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
    about: Vec<(&'static str, String)>,
    health: Vec<Health>,
    /// What was found, where somebody asked for it.
    examined: Option<Vec<Examined>>,
}

impl SettingsPage {
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
    page(&app, &caller, None).await
}

/// `POST /settings`: examines the host, one who asks at a time.
pub(crate) async fn examine(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    caller.require(Permission::Examine)?;
    let Ok(place) = Arc::clone(&app.examining).try_acquire_owned() else {
        let busy = "the host is being examined for somebody else: try again in a moment";
        return page(&app, &caller, Some(Err(Problem::unavailable(busy)))).await;
    };
    let control = Arc::clone(&app.control);
    let examined = tokio::task::spawn_blocking(move || {
        let examined = control.examine();
        drop(place);
        examined
    });
    let examined = examined.await.map_err(Problem::internal)?;
    page(&app, &caller, Some(examined.map_err(Problem::from))).await
}

async fn page(
    app: &Arc<App>,
    caller: &Caller,
    examined: Option<Result<Vec<Examined>, Problem>>,
) -> Answer {
    let (examined, problem) = match examined {
        Some(Ok(examined)) => (Some(examined), None),
        Some(Err(problem)) => (None, Some(problem)),
        None => (None, None),
    };
    let status = problem.as_ref().map_or(StatusCode::OK, Problem::status);
    let page = SettingsPage {
        frame: Frame::new(caller, "/settings"),
        problem: problem.map(|problem| problem.detail).unwrap_or_default(),
        about: app.about.clone(),
        health: health(app).await,
        examined,
    };
    Ok(shown_as(status, &page))
}
