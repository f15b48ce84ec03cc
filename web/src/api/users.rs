//! Users: listed, added, changed, removed. A password goes in and never comes out.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::{
    Asked, Body, Items, Made, Order, Paging, Path,
    proposals::{self, ProposalView},
    time,
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::{Permission, Role},
    store::{Change, Name, User},
};

/// A user, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserView {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) created: String,
    /// They chose their password, and nobody else has set it since: who does not, neither proposes nor
    /// approves under the two-person rule.
    pub(crate) own_password: bool,
    /// A code is asked for beside their password.
    pub(crate) second_factor: bool,
    /// What a sign-on provider calls them, which vouches for them; absent for who has a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) single_sign_on: Option<AccountView>,
}

/// An account at a sign-on provider.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AccountView {
    pub(crate) issuer: String,
    pub(crate) subject: String,
}

/// A user to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUser {
    #[schema(value_type = String)]
    name: Name,
    role: Role,
    password: String,
}

/// What to change of a user.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserChange {
    #[serde(default)]
    role: Option<Role>,
    #[serde(default)]
    password: Option<String>,
    /// With a password: the tokens that they made end, too.
    #[serde(default)]
    end_tokens: bool,
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        Self {
            name: user.name,
            role: user.role,
            created: time(user.created),
            own_password: user.own_password,
            second_factor: user.second_factor,
            single_sign_on: user.account.map(|account| AccountView {
                issuer: account.issuer,
                subject: account.subject,
            }),
        }
    }
}

/// Everybody who may sign in.
#[utoipa::path(get, path = "/api/v1/users", tag = "users",
    params(Paging), responses((status = 200, body = Items<UserView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<UserView>>, Problem> {
    caller.require(Permission::ManageUsers)?;
    let users = app.ask(|store| store.users()).await?;
    let items: Vec<UserView> = users.into_iter().map(Into::into).collect();
    let page = paging.page(items, Order::Rising, |one| one.name.to_lowercase())?;
    Ok(Json(page))
}

/// Lets somebody sign in.
#[utoipa::path(post, path = "/api/v1/users", tag = "users", request_body = NewUser,
    responses((status = 201, body = UserView), (status = 409, body = Problem)))]
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(new): Body<NewUser>,
) -> Result<Made<UserView>, Problem> {
    let name = new.name.to_string();
    add_user(
        &app,
        &caller,
        new.name,
        new.role,
        Zeroizing::new(new.password),
    )
    .await?;
    let user = app
        .ask({
            let name = name.clone();
            move |store| store.user(&name)
        })
        .await?;
    let user = user.ok_or_else(|| Problem::missing("user", &name))?;
    let view = UserView::from(user);
    let place = format!("/api/v1/users/{}", view.name);
    Ok(Made { place, view })
}

/// Changes a role or a password.
#[utoipa::path(patch, path = "/api/v1/users/{name}", tag = "users", request_body = UserChange,
    responses((status = 204), (status = 202, body = ProposalView), (status = 404, body = Problem),
              (status = 409, body = Problem)))]
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(change): Body<UserChange>,
) -> Result<Response, Problem> {
    caller.require(Permission::ManageUsers)?;
    if change.role.is_none() && change.password.is_none() {
        return Err(Problem::invalid("nothing to change: give role or password"));
    }
    if change.end_tokens && change.password.is_none() {
        return Err(Problem::invalid("tokens end with a new password: give one"));
    }
    // One could be made and the other refused, or wait for somebody.
    if change.role.is_some() && change.password.is_some() {
        return Err(Problem::invalid(
            "one change at a time: give role or password; nothing was changed",
        ));
    }
    if let Some(password) = change.password {
        let password = Zeroizing::new(password);
        set_password(&app, &caller, name.clone(), (password, change.end_tokens)).await?;
    }
    let Some(role) = change.role else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let change = Change::SetRole { name, role };
    let applied = app.change(caller.actor(&app), change).await?;
    Ok(proposals::done(applied))
}

/// Lets somebody sign in no more.
#[utoipa::path(delete, path = "/api/v1/users/{name}", tag = "users",
    responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.require(Permission::ManageUsers)?;
    app.change(caller.actor(&app), Change::RemoveUser { name })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Adds a user; the console does the same.
pub(crate) async fn add_user(
    app: &App,
    caller: &Caller,
    name: Name,
    role: Role,
    password: Zeroizing<String>,
) -> Result<(), Problem> {
    caller.require(Permission::ManageUsers)?;
    let password = app.hasher.hash_aside(name.as_str(), password).await?;
    let change = Change::AddUser {
        name,
        role,
        password,
    };
    app.change(caller.actor(app), change).await.map(drop)
}

/// Sets a password; all sessions of the user end.
pub(crate) async fn set_password(
    app: &App,
    caller: &Caller,
    name: String,
    (password, end_tokens): (Zeroizing<String>, bool),
) -> Result<(), Problem> {
    caller.require(Permission::ManageUsers)?;
    // Who finds a session open must not take the account over.
    if caller.is(&name) {
        return Err(Problem::forbidden(
            "your own password is changed on the page People (/people), which asks for the one you have",
        ));
    }
    let password = app.hasher.hash_aside(&name, password).await?;
    let change = Change::SetPassword {
        code: None,
        name,
        password,
        end_tokens,
    };
    app.change(caller.actor(app), change).await.map(drop)
}
