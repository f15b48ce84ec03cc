//! Second factors, as those see them who manage people: removed where a device is lost, and asked for by role.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Body, Path};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::{Permission, Role},
    store::Change,
};

/// Whose role asks for a second factor.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactorRule {
    /// Who has one of these roles, signs in by password and has no second factor sets one up before anything
    /// else; empty: nobody has to.
    pub(crate) roles: Vec<Role>,
}

/// Whose role asks for a second factor.
#[utoipa::path(get, path = "/api/v1/second-factor-rule", tag = "users",
    responses((status = 200, body = FactorRule)))]
pub(crate) async fn rule(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<FactorRule>, Problem> {
    caller.require(Permission::ManageUsers)?;
    let roles = app.ask(|store| store.factor_rule()).await?;
    Ok(Json(FactorRule { roles }))
}

/// Says whose role asks for one, from the next request of each on.
#[utoipa::path(put, path = "/api/v1/second-factor-rule", tag = "users", request_body = FactorRule,
    responses((status = 200, body = FactorRule)))]
pub(crate) async fn set_rule(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(rule): Body<FactorRule>,
) -> Result<Json<FactorRule>, Problem> {
    let roles = ask_for(&app, &caller, &rule.roles).await?;
    Ok(Json(FactorRule { roles }))
}

/// Removes the second factor of somebody whose device is lost. Where policies are changed by two people only
/// this machine's owner does so for who takes part in that.
#[utoipa::path(delete, path = "/api/v1/users/{name}/second-factor", tag = "users",
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    remove_of(&app, &caller, name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The same for the console.
pub(crate) async fn remove_of(app: &App, caller: &Caller, name: String) -> Result<(), Problem> {
    caller.require(Permission::ManageUsers)?;
    // Who finds a session open, or a token, must not take the account over.
    if caller.is(&name) {
        return Err(Problem::forbidden(
            "your own second factor is removed on its page (/people/second-factor), which asks for password and \
             code",
        ));
    }
    let change = Change::RemoveFactor { name, code: None };
    app.change(caller.actor(app), change).await.map(drop)
}

/// Each role once, in their order.
pub(crate) async fn ask_for(
    app: &App,
    caller: &Caller,
    roles: &[Role],
) -> Result<Vec<Role>, Problem> {
    caller.require(Permission::RuleChanges)?;
    let asked = Role::ALL.into_iter().filter(|role| roles.contains(role));
    let roles: Vec<Role> = asked.collect();
    let change = Change::FactorRule {
        roles: roles.clone(),
    };
    app.change(caller.actor(app), change).await?;
    Ok(roles)
}
