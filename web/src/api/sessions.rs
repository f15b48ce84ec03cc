//! Who is signed in; everybody sees and ends their own sessions, admins those of all.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Asked, Items, Order, Paging, Path, precondition, time};
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
    /// How it began: `password`, `single sign-on`.
    pub(crate) began: String,
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
    params(Paging), responses((status = 200, body = Items<SessionView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<SessionView>>, Problem> {
    let items = of(&app, &caller).await?;
    let page = paging.page(items, Order::Falling, |one| {
        format!("{} {}", one.created, one.id)
    })?;
    Ok(Json(page))
}

/// Ends a session.
#[utoipa::path(delete, path = "/api/v1/sessions/{id}", tag = "sessions",
    responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    // Everybody may end their own.
    precondition::unless(caller.unkept)?;
    end_session(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The sessions that the caller may see.
pub(crate) async fn of(app: &App, caller: &Caller) -> Result<Vec<SessionView>, Problem> {
    let now = app.now();
    let sessions = match whose(caller) {
        Whose::Everybodys => app.ask(move |store| store.sessions(now)).await?,
        Whose::Own(name) => app.ask(move |store| store.sessions_of(&name, now)).await?,
        Whose::Nobodys => Vec::new(),
    };
    Ok(sessions
        .into_iter()
        .map(|one| SessionView {
            current: caller.session.as_deref() == Some(&one.id),
            id: one.id,
            user: one.user,
            role: one.role,
            created: time(one.created),
            seen: time(one.seen),
            address: one.address,
            agent: one.agent,
            began: one.began,
        })
        .collect())
}

/// Which sessions somebody may see and end.
enum Whose {
    Everybodys,
    Own(Arc<str>),
    Nobodys,
}

fn whose(caller: &Caller) -> Whose {
    if caller.may(Permission::ManageUsers) {
        return Whose::Everybodys;
    }
    match &caller.session {
        Some(_) => Whose::Own(Arc::clone(&caller.name)),
        None => Whose::Nobodys,
    }
}

/// Ends one of them; another one is not there for the caller.
pub(crate) async fn end_session(app: &App, caller: &Caller, id: String) -> Result<(), Problem> {
    let (wanted, now) = (id.clone(), app.now());
    let found = app.ask(move |store| store.session(&wanted, now)).await?;
    let may = found.is_some_and(|found| match whose(caller) {
        Whose::Everybodys => true,
        Whose::Own(name) => *name == *found.user,
        Whose::Nobodys => false,
    });
    if !may {
        return Err(Problem::missing("session", &id));
    }
    app.change(caller.actor(app), Change::EndSession { id })
        .await
        .map(drop)
}
