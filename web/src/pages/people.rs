//! People: users, tokens, sessions. Everybody sees their own sessions; admins all of it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{
    Answer, Done, Form, Frame, Path, approvals::after, scripted, shown_as, teams::TeamRow, to, told,
};
use crate::{
    api::{
        factors,
        sessions::{self, SessionView},
        tokens::{self, TokenView, Wanted},
        users::{UserView, add_user as add},
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::{
        Caller,
        sign_in::{Typed, prove},
    },
    role::{Permission, Role},
    store::{Account, Change},
};

#[derive(Template)]
#[template(path = "people.html")]
struct PeoplePage {
    frame: Frame,
    problem: String,
    kept: Kept,
    token: Zeroizing<String>,
    users: Vec<UserView>,
    tokens: Vec<TokenView>,
    teams: Vec<TeamRow>,
    sessions: Vec<SessionView>,
    roles: [Role; 5],
    /// Whose role asks for a second factor.
    asked: Vec<Role>,
    /// Who signs in elsewhere has none here.
    has_password: bool,
}

#[derive(Deserialize)]
pub(crate) struct NewUser {
    name: String,
    role: Role,
    #[serde(deserialize_with = "crate::password::typed")]
    password: Zeroizing<String>,
}

#[derive(Deserialize)]
pub(crate) struct UserChange {
    act: String,
    role: Option<Role>,
}

#[derive(Deserialize)]
pub(crate) struct NewToken {
    name: String,
    role: Role,
    #[serde(default)]
    days: String,
    #[serde(default)]
    scopes: String,
    #[serde(default)]
    servers: String,
}

/// What was typed into a form that was refused, without passwords: it is there again.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Which form; empty: none.
    pub(super) form: &'static str,
    pub(super) name: String,
    pub(super) role: Option<Role>,
    pub(super) days: String,
    pub(super) scopes: String,
    pub(super) servers: String,
    pub(super) members: String,
    /// Of what was seen.
    pub(super) tag: String,
}

impl PeoplePage {
    /// Whether this form was refused.
    fn kept(&self, form: &str) -> bool {
        self.kept.form == form
    }

    /// Whether the form of this team was refused for what was typed into it.
    fn kept_of(&self, team: &TeamRow) -> bool {
        self.kept("members") && self.kept.name == team.name
    }

    /// Whether it was typed into this form.
    fn chosen(&self, form: &str, role: &Role) -> bool {
        self.kept(form) && self.kept.role.as_ref() == Some(role)
    }

    /// Whether a role asks for a second factor.
    fn asks(&self, role: &Role) -> bool {
        self.asked.contains(role)
    }

    /// Whether an option is the one in force.
    fn is(&self, role: &Role, wanted: &Role) -> bool {
        role == wanted
    }
}

#[derive(Deserialize)]
pub(crate) struct OwnPassword {
    #[serde(deserialize_with = "crate::password::typed")]
    current: Zeroizing<String>,
    #[serde(deserialize_with = "crate::password::typed")]
    password: Zeroizing<String>,
    #[serde(deserialize_with = "crate::password::typed")]
    again: Zeroizing<String>,
    #[serde(default, deserialize_with = "crate::password::typed")]
    code: Zeroizing<String>,
    /// A box that was ticked.
    end_tokens: Option<String>,
}

/// `GET /people`.
pub(crate) async fn show(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    page(&app, &caller, (None, Kept::default()), Zeroizing::default()).await
}

/// `POST /people/users`.
pub(crate) async fn add_user(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(new): Form<NewUser>,
) -> Answer {
    let added = match new.name.trim().parse() {
        Ok(name) => add(&app, &caller, name, new.role, new.password).await,
        Err(error) => Err(Problem::from(error)),
    };
    let kept = Kept {
        form: "user",
        name: new.name,
        role: Some(new.role),
        ..Kept::default()
    };
    done_or(&app, &caller, added, kept).await
}

/// `POST /people/users/{name}`.
pub(crate) async fn change_user(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(change): Form<UserChange>,
) -> Answer {
    caller.require(Permission::ManageUsers)?;
    let change = match (change.act.as_str(), change.role) {
        ("remove", _) => Change::RemoveUser { name },
        ("factor", _) => {
            let removed = factors::remove_of(&app, &caller, name).await;
            return done(&app, &caller, removed).await;
        }
        ("role", Some(role)) => Change::SetRole { name, role },
        _ => return Err(Problem::invalid("nothing to change").into()),
    };
    match app.change(caller.actor(&app), change).await {
        Ok(applied) => Ok(after(&applied, Done::AsAsked, "/people")),
        Err(problem) => done(&app, &caller, Err(problem)).await,
    }
}

/// `POST /people/factor-rule`: a box for each role.
pub(crate) async fn ask_for_factors(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(ticked): Form<Vec<(String, String)>>,
) -> Answer {
    let ticked = ticked.iter().filter(|(name, _)| name == "role");
    let roles = ticked.map(|(_, role)| role.parse::<Role>());
    let roles: Result<Vec<Role>, String> = roles.collect();
    let asked = match roles {
        Ok(roles) => factors::ask_for(&app, &caller, &roles).await.map(drop),
        Err(why) => Err(Problem::invalid(why)),
    };
    done(&app, &caller, asked).await
}

/// `POST /people/tokens`: the only time that the token is shown.
pub(crate) async fn add_token(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(new): Form<NewToken>,
) -> Answer {
    let days = match new.days.trim() {
        "" => Ok(None),
        days => days
            .parse()
            .map(Some)
            .map_err(|_| Problem::invalid("days are a number")),
    };
    let made = match (new.name.trim().parse(), days) {
        (Ok(name), Ok(days)) => {
            let wanted = Wanted {
                name,
                role: new.role,
                days,
                scopes: listed(&new.scopes),
                servers: listed(&new.servers),
            };
            tokens::make(&app, &caller, wanted).await
        }
        (Err(error), _) => Err(Problem::from(error)),
        (_, Err(problem)) => Err(problem),
    };
    match made {
        Ok((_, token)) => page(&app, &caller, (None, Kept::default()), token).await,
        Err(problem) => {
            let kept = Kept {
                form: "token",
                name: new.name,
                role: Some(new.role),
                days: new.days,
                scopes: new.scopes,
                servers: new.servers,
                ..Kept::default()
            };
            done_or(&app, &caller, Err(problem), kept).await
        }
    }
}

/// Words between spaces, commas or ends of lines.
pub(super) fn listed(text: &str) -> Vec<&str> {
    let parts = text.split([' ', ',', '\r', '\n']);
    parts.filter(|part| !part.is_empty()).collect()
}

/// `POST /people/tokens/{id}/remove`.
pub(crate) async fn remove_token(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    caller.require(Permission::ManageUsers)?;
    let change = Change::RemoveToken { id };
    let removed = app.change(caller.actor(&app), change).await.map(drop);
    done(&app, &caller, removed).await
}

/// `POST /people/sessions/{id}/end`.
pub(crate) async fn end_session(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let ended = sessions::end_session(&app, &caller, id).await;
    done(&app, &caller, ended).await
}

/// `POST /people/password`: everybody's own; all their sessions end.
pub(crate) async fn own_password(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(typed): Form<OwnPassword>,
) -> Answer {
    match change_own(&app, &caller, typed).await {
        Ok(()) => Ok(to("/sign-in")),
        Err(problem) => {
            let kept = Kept {
                form: "password",
                ..Kept::default()
            };
            done_or(&app, &caller, Err(problem), kept).await
        }
    }
}

/// What a sign-on provider calls the caller, if it vouches for them.
async fn own_account(app: &App, caller: &Caller) -> Result<Option<Account>, Problem> {
    let name = caller.name.to_string();
    let user = app.ask(move |store| store.user(&name)).await?;
    Ok(user.and_then(|user| user.account))
}

async fn change_own(app: &App, caller: &Caller, typed: OwnPassword) -> Result<(), Problem> {
    if caller.session.is_none() {
        return Err(Problem::invalid("only who is signed in has a password"));
    }
    if own_account(app, caller).await?.is_some() {
        return Err(Problem::invalid(
            "you sign in by single sign-on: your password is changed there",
        ));
    }
    if typed.password != typed.again {
        return Err(Problem::invalid("the two passwords are not the same"));
    }
    if typed.password == typed.current {
        return Err(Problem::invalid("the new password is the current one"));
    }
    let name = caller.name.to_string();
    let proof = Typed::again(app, caller, (typed.current, typed.code));
    let wrong = || Problem::forbidden("the current password or the code is not right");
    let proven = prove(app, proof).await?.ok_or_else(wrong)?;
    let password = app.hasher.hash_aside(&name, typed.password).await?;
    let change = Change::SetPassword {
        name,
        password,
        end_tokens: typed.end_tokens.is_some(),
        code: proven.code.clone(),
    };
    proven.change(app, caller, change, wrong).await
}

pub(super) async fn done(app: &App, caller: &Caller, outcome: Result<(), Problem>) -> Answer {
    done_or(app, caller, outcome, Kept::default()).await
}

/// The same, with what was typed where it was refused.
pub(super) async fn done_or(
    app: &App,
    caller: &Caller,
    outcome: Result<(), Problem>,
    kept: Kept,
) -> Answer {
    match outcome {
        Ok(()) => Ok(told(Done::AsAsked, "/people")),
        Err(problem) if problem.status().is_client_error() => {
            page(app, caller, (Some(problem), kept), Zeroizing::default()).await
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn page(
    app: &App,
    caller: &Caller,
    (problem, kept): (Option<Problem>, Kept),
    token: Zeroizing<String>,
) -> Answer {
    let admin = caller.may(Permission::ManageUsers);
    let (users, tokens) = match admin {
        true => (
            app.ask(|store| store.users()).await?,
            app.ask(|store| store.tokens()).await?,
        ),
        false => (Vec::new(), Vec::new()),
    };
    let teams = match caller.may(Permission::ManageTeams) {
        true => app.ask(|store| store.teams()).await?,
        false => Vec::new(),
    };
    let status = AnswerStatus::beside(problem.as_ref());
    let page = PeoplePage {
        frame: Frame::new(caller, "/people"),
        problem: problem.map(|problem| problem.detail).unwrap_or_default(),
        kept,
        token,
        users: users.into_iter().map(Into::into).collect(),
        tokens: tokens.into_iter().map(Into::into).collect(),
        teams: teams.into_iter().map(Into::into).collect(),
        sessions: sessions::of(app, caller).await?,
        roles: Role::ALL,
        asked: app.ask(|store| store.factor_rule()).await?,
        has_password: own_account(app, caller).await?.is_none(),
    };
    let has_token = !page.token.is_empty();
    let shown = shown_as(status, &page);
    Ok(if has_token { scripted(shown) } else { shown })
}
