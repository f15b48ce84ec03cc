//! Service tokens: made, listed without their secret, removed.

use std::sync::Arc;

use axum::{Extension, Json, extract::State, http::StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::{Asked, Body, Items, Made, Order, Paging, Path, time};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    credential::mint_token,
    narrowing::{Narrowing, Scope},
    once::ShownOnce,
    role::{Permission, Role},
    store::{Change, Name, Token},
};

/// A token, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenView {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) author: String,
    pub(crate) created: String,
    pub(crate) expires: Option<String>,
    pub(crate) used: Option<String>,
    /// What of its role it may; empty: all of it.
    #[schema(value_type = Vec<Scope>)]
    pub(crate) scopes: Vec<&'static str>,
    /// Of which servers; empty: all of them.
    pub(crate) servers: Vec<String>,
}

/// A token to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    #[schema(value_type = String)]
    name: Name,
    role: Role,
    /// Days until it ends; absent: never.
    #[serde(default)]
    #[schema(minimum = 1)]
    days: Option<u16>,
    /// What of its role it may; absent or empty: all of it. A narrowed token never manages people.
    #[serde(default)]
    #[schema(value_type = Vec<Scope>)]
    scopes: Vec<String>,
    /// Of which servers, which are there; absent or empty: all of them. Such a token reaches these servers and their
    /// sandboxes and nothing else: `audit` is what they print, not the record.
    #[serde(default)]
    servers: Vec<String>,
}

/// What somebody wants a token to be.
pub(crate) struct Wanted<'a> {
    pub(crate) name: Name,
    pub(crate) role: Role,
    pub(crate) days: Option<u16>,
    pub(crate) scopes: Vec<&'a str>,
    pub(crate) servers: Vec<&'a str>,
}

/// A new token; the only time that it is shown.
#[derive(Serialize, ToSchema)]
pub(crate) struct MintedToken {
    id: String,
    token: String,
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        Self {
            id: token.id,
            name: token.name,
            role: token.role,
            author: token.author,
            created: time(token.created),
            expires: token.expires.map(time),
            used: token.used.map(time),
            scopes: token.narrowing.scopes(),
            servers: token.narrowing.servers().to_vec(),
        }
    }
}

/// All tokens.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens",
    params(Paging), responses((status = 200, body = Items<TokenView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<TokenView>>, Problem> {
    caller.require(Permission::ManageUsers)?;
    let tokens = app.ask(|store| store.tokens()).await?;
    let items: Vec<TokenView> = tokens.into_iter().map(Into::into).collect();
    let page = paging.page(items, Order::Falling, |one| {
        format!("{} {}", one.created, one.id)
    })?;
    Ok(Json(page))
}

/// Makes a token.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, body = MintedToken), (status = 409, body = Problem),
              (status = 422, description = "it could do nothing, or more than its role", body = Problem)))]
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(new): Body<NewToken>,
) -> Result<(Extension<ShownOnce>, Made<MintedToken>), Problem> {
    let wanted = Wanted {
        name: new.name,
        role: new.role,
        days: new.days,
        scopes: new.scopes.iter().map(String::as_str).collect(),
        servers: new.servers.iter().map(String::as_str).collect(),
    };
    let (id, text) = make(&app, &caller, wanted).await?;
    let token = text.to_string();
    let place = format!("/api/v1/tokens/{id}");
    let view = MintedToken { id, token };
    Ok((Extension(ShownOnce), Made { place, view }))
}

/// Makes a token worthless.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "tokens",
    responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.require(Permission::ManageUsers)?;
    app.change(caller.actor(&app), Change::RemoveToken { id })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a token; the console does the same.
pub(crate) async fn make(
    app: &App,
    caller: &Caller,
    wanted: Wanted<'_>,
) -> Result<(String, Zeroizing<String>), Problem> {
    caller.require(Permission::ManageUsers)?;
    let narrowing = Narrowing::of(wanted.role, wanted.scopes, wanted.servers)?;
    let minted = mint_token().map_err(Problem::internal)?;
    let expires = wanted.days.map(|days| end(app.now(), days)).transpose()?;
    let change = Change::AddToken {
        id: minted.id.clone(),
        digest: minted.digest,
        name: wanted.name,
        role: wanted.role,
        expires,
        narrowing,
    };
    app.change(caller.actor(app), change).await?;
    Ok((minted.id, minted.text))
}

fn end(now: Timestamp, days: u16) -> Result<Timestamp, Problem> {
    if days == 0 {
        let words =
            "a token lives for a day at least: leave the days out for one that does not end";
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "days",
            words,
        ));
    }
    let span = SignedDuration::from_hours(24 * i64::from(days));
    now.checked_add(span)
        .map_err(|_| Problem::invalid("too many days"))
}
