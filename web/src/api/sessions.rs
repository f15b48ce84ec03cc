//! Who is signed in; everybody sees and ends their own sessions, admins those of all.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Items, time};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::{Permission, Role},
    store::Change,
};

/// A session, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionView {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) role: Role,
    pub(crate) created: String,
    pub(crate) seen: String,
    pub(crate) address: String,
    pub(crate) agent: String,
    /// The one that asks.
    pub(crate) current: bool,
}

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    name: String,
    role: Role,
}

/// Who the caller is and what it may.
#[utoipa::path(get, path = "/api/v1/me", tag = "sessions", responses((status = 200, body = Me)))]
pub(crate) async fn me(caller: Caller) -> Json<Me> {
    Json(Me {
        name: caller.name.to_string(),
        role: caller.role,
    })
}

/// Sessions that have not ended.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions",
    responses((status = 200, body = Items<SessionView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Items<SessionView>>, Problem> {
    let items = of(&app, &caller).await?;
    Ok(Json(Items { items }))
}

/// Ends a session.
#[utoipa::path(delete, path = "/api/v1/sessions/{id}", tag = "sessions",
    responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    end_session(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The sessions that the caller may see.
pub(crate) async fn of(app: &App, caller: &Caller) -> Result<Vec<SessionView>, Problem> {
    let now = app.now();
    let sessions = app.ask(move |store| store.sessions(now)).await?;
    let all = caller.may(Permission::ManageUsers);
    let mine = |user: &str| caller.session.is_some() && *caller.name == *user;
    let shown = sessions.into_iter().filter(|one| all || mine(&one.user));
    Ok(shown
        .map(|one| SessionView {
            current: caller.session.as_deref() == Some(&one.id),
            id: one.id,
            user: one.user,
            role: one.role,
            created: time(one.created),
            seen: time(one.seen),
            address: one.address,
            agent: one.agent,
        })
        .collect())
}

/// Ends one of them; another one is not there for the caller.
pub(crate) async fn end_session(app: &App, caller: &Caller, id: String) -> Result<(), Problem> {
    let seen = of(app, caller).await?;
    if !seen.iter().any(|one| one.id == id) {
        return Err(Problem::missing("session", &id));
    }
    app.change(caller.actor(app), Change::EndSession { id })
        .await
        .map(drop)
}
