//! Teams, as People shows them: each with its members in one field, saved and removed by what was seen.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use serde::Deserialize;

use super::{Answer, Done, Form, approvals::after, people};
use crate::{
    api::teams::{remove_team, save_team},
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{Applied, Name, Team},
};

/// A team, as shown.
pub(super) struct TeamRow {
    pub(super) name: String,
    pub(super) members: String,
    /// Of what is shown.
    pub(super) tag: String,
}

#[derive(Deserialize)]
pub(crate) struct Typed {
    name: String,
    #[serde(default)]
    members: String,
    /// What was seen; empty for a new one.
    #[serde(default)]
    tag: String,
    act: String,
}

impl From<Team> for TeamRow {
    fn from(team: Team) -> Self {
        Self {
            tag: team.tag(),
            members: team.members.join("\n"),
            name: team.name,
        }
    }
}

/// `POST /people/teams`.
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(typed): Form<Typed>,
) -> Answer {
    let form = match typed.tag.is_empty() {
        true => "team",
        false => "members",
    };
    let kept = people::Kept {
        form,
        name: typed.name.clone(),
        members: typed.members.clone(),
        tag: typed.tag.clone(),
        ..people::Kept::default()
    };
    match change(&app, &caller, typed).await {
        Ok(applied) => Ok(after(&applied, Done::AsAsked, "/people")),
        Err(problem) => match problem.status() {
            StatusCode::FORBIDDEN => Err(problem.into()),
            // What another changed meanwhile is shown as it is now; what was not understood as it was typed.
            status if form == "team" || status == StatusCode::BAD_REQUEST => {
                people::done_or(&app, &caller, Err(problem), kept).await
            }
            _ => people::done(&app, &caller, Err(problem)).await,
        },
    }
}

async fn change(app: &App, caller: &Caller, typed: Typed) -> Result<Applied, Problem> {
    let name = typed.name.trim();
    match typed.act.as_str() {
        "save" => {
            let members = people::listed(&typed.members).into_iter();
            let member = |typed: &str| {
                let read = typed.parse::<Name>();
                read.map_err(|error| Problem::invalid(format!("{typed:?} is no name: {error}")))
            };
            let members: Result<Vec<Name>, _> = members.map(member).collect();
            caller.require(Permission::ManageTeams)?;
            let teams = app.ask(|store| store.teams()).await?;
            if typed.tag.is_empty() && teams.iter().any(|team| team.name == name) {
                return Err(Problem::invalid(format!(
                    "there is a team {name} already: change it where it is, or name this one otherwise"
                )));
            }
            save_team(app, caller, name, &members?, Some(typed.tag)).await
        }
        "remove" => remove_team(app, caller, name.to_owned(), Some(typed.tag)).await,
        _ => Err(Problem::invalid("save or remove")),
    }
}
