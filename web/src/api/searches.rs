//! Searches of the record that are kept under a title, for all who read it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
    http::{StatusCode, Uri},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Asked, Body, Items, Made, Order, Paging, Path, audit::AuditAsked, reading::cause, time,
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    pages::audit::query,
    role::Permission,
    store::{Change, ChangeError, SavedSearch},
};

/// A search that is kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchView {
    /// By which it is removed.
    pub(crate) id: String,
    /// What it is called.
    pub(crate) title: String,
    /// As it stands behind `?`, of `/audit` and of `/api/v1/audit`.
    pub(crate) query: String,
    /// Who saved it.
    pub(crate) author: String,
    /// When: RFC 3339.
    pub(crate) created: String,
}

/// A search to keep.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSearch {
    /// What it is called: 1 to 80 characters.
    pub(crate) title: String,
    /// As it stands behind `?` of `/api/v1/audit`; a cursor in it is left out.
    pub(crate) query: String,
}

impl From<SavedSearch> for SearchView {
    fn from(kept: SavedSearch) -> Self {
        Self {
            id: kept.id,
            title: kept.title,
            query: kept.query,
            author: kept.author,
            created: time(kept.created),
        }
    }
}

/// The searches that are kept, by title.
#[utoipa::path(get, path = "/api/v1/searches", tag = "audit",
    params(Paging), responses((status = 200, body = Items<SearchView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<SearchView>>, Problem> {
    caller.require(Permission::ReadAudit)?;
    let items = kept(&app).await?;
    let page = paging.page(items, Order::Rising, |one| {
        format!("{}\n{}", one.title.to_lowercase(), one.id)
    })?;
    Ok(Json(page))
}

/// Keeps a search.
#[utoipa::path(post, path = "/api/v1/searches", tag = "audit", request_body = NewSearch,
    responses((status = 201, body = SearchView), (status = 400, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(new): Body<NewSearch>,
) -> Result<Made<SearchView>, Problem> {
    let view = save(&app, &caller, &new).await?;
    let place = format!("/api/v1/searches/{}", view.id);
    Ok(Made { place, view })
}

/// Keeps a search no more: who saved it may, and an admin.
#[utoipa::path(delete, path = "/api/v1/searches/{id}", tag = "audit",
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    forget(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// All, as shown; for who may read the record.
pub(crate) async fn kept(app: &App) -> Result<Vec<SearchView>, Problem> {
    let kept = app.ask(|store| store.searches()).await?;
    Ok(kept.into_iter().map(Into::into).collect())
}

/// Keeps a search; the console does the same.
pub(crate) async fn save(
    app: &App,
    caller: &Caller,
    new: &NewSearch,
) -> Result<SearchView, Problem> {
    caller.require(Permission::ReadAudit)?;
    let title = new.title.trim();
    let fits = (1..=LONGEST_TITLE).contains(&title.chars().count());
    if !fits || title.chars().any(char::is_control) {
        let words = "a title has 1 to 80 characters, and no control characters among them";
        return Err(Problem::invalid(words));
    }
    let (id, actor) = (Uuid::now_v7().simple().to_string(), caller.actor(app));
    let view = SearchView {
        id: id.clone(),
        title: title.to_owned(),
        query: plain(&new.query, app.now())?,
        author: actor.name.to_string(),
        // As it is kept.
        created: time(Timestamp::from_second(actor.at.as_second()).unwrap_or(actor.at)),
    };
    let change = Change::SaveSearch {
        id,
        title: view.title.clone(),
        query: view.query.clone(),
    };
    app.change(actor, change).await?;
    Ok(view)
}

/// Removes a search; the console does the same.
pub(crate) async fn forget(app: &App, caller: &Caller, id: String) -> Result<(), Problem> {
    let found = removable(app, caller, &id).await?;
    let change = Change::RemoveSearch { id: found.id };
    app.change(caller.actor(app), change).await.map(drop)
}

/// One that the caller may remove.
pub(crate) async fn removable(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<SavedSearch, Problem> {
    caller.require(Permission::ReadAudit)?;
    let kept = app.ask(|store| store.searches()).await?;
    let found = kept.into_iter().find(|one| one.id == id);
    let found = found.ok_or_else(|| ChangeError::Missing {
        what: "saved search",
        name: id.to_owned(),
    })?;
    if *found.author != *caller.name && !caller.may(Permission::ManageUsers) {
        return Err(Problem::forbidden(format!(
            "{} saved it: only they remove it, or an admin",
            found.author
        )));
    }
    Ok(found)
}

/// What a search asks, written as the console writes it: nothing that it does not know, nothing twice.
fn plain(text: &str, now: Timestamp) -> Result<String, Problem> {
    let wrong = |why: String| Problem::invalid(format!("this is no search of the record: {why}"));
    if text.len() > LONGEST_QUERY {
        return Err(wrong(format!("it is longer than {LONGEST_QUERY} octets")));
    }
    if text.contains('#') {
        return Err(wrong("a # is written %23".to_owned()));
    }
    let uri: Uri = format!("/?{text}")
        .parse()
        .map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
    let asked = Query::<AuditAsked>::try_from_uri(&uri);
    let Query(asked) = asked.map_err(|rejection| wrong(cause(&rejection)))?;
    // What cannot be searched for is refused now, not by who clicks on it.
    asked.query(now)?;
    Ok(query(&asked, ""))
}

/// Of a title, in characters.
const LONGEST_TITLE: usize = 80;
/// Of a query, in octets.
const LONGEST_QUERY: usize = 2_000;
