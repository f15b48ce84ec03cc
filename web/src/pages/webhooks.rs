//! Webhooks, on the page of settings: set up, tried out, taken away.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;

use super::{
    Answer, Done, Form, Path,
    settings::{Shown, page},
    told,
};
use crate::{
    api::webhooks::{NewWebhook, remove_webhook, save_webhook, try_out},
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
};

/// The form, as it was sent; it stands there again where it was refused.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Typed {
    pub(super) name: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) url: String,
    /// Parted by blanks or commas.
    #[serde(default)]
    pub(super) answerers: String,
    /// `yes` where the box is checked.
    #[serde(default)]
    pub(super) rules: String,
    /// `yes` where the one of this name is to be another.
    #[serde(default)]
    pub(super) replace: String,
}

#[derive(Deserialize)]
pub(crate) struct Act {
    act: String,
}

/// `POST /settings/webhooks`: sets one up, or changes it as a whole.
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(typed): Form<Typed>,
) -> Answer {
    // The page itself is an admin's: to nobody else it says why not.
    caller.require(Permission::ManageWebhooks)?;
    match set_up(&app, &caller, &typed).await {
        Ok(()) => Ok(told(Done::AsAsked, "/settings")),
        Err(problem) => page(&app, &caller, Shown::refused(problem, typed)).await,
    }
}

async fn set_up(app: &App, caller: &Caller, typed: &Typed) -> Result<(), Problem> {
    let name = typed.name.trim();
    let is_new = typed.replace != "yes";
    let kept = app.ask(|store| store.webhooks()).await?;
    if is_new && kept.iter().any(|one| one.name == name) {
        return Err(Problem::invalid(format!(
            "there is a webhook {name} already: tick the last box if this one is to take its place, or name it otherwise"
        )));
    }
    let parted = |c: char| c.is_whitespace() || c == ',';
    let answerers = typed.answerers.split(parted).filter(|one| !one.is_empty());
    let new = NewWebhook {
        kind: typed.kind.parse().map_err(Problem::invalid)?,
        url: typed.url.clone(),
        answerers: answerers.map(str::to_owned).collect(),
        rules: typed.rules == "yes",
    };
    save_webhook(app, caller, name.to_owned(), new, is_new).await
}

/// `POST /settings/webhooks/{name}`: tries it out, or takes it away.
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(act): Form<Act>,
) -> Answer {
    let done = match act.act.as_str() {
        "test" => {
            let words = format!("{name} took the message");
            try_out(&app, &caller, name).await.map(|()| Some(words))
        }
        "remove" => remove_webhook(&app, &caller, name).await.map(|()| None),
        _ => Err(Problem::invalid("test or remove")),
    };
    after(&app, &caller, done).await
}

async fn after(app: &Arc<App>, caller: &Caller, done: Result<Option<String>, Problem>) -> Answer {
    // The page itself is an admin's: to nobody else it says why not.
    caller.require(Permission::ManageWebhooks)?;
    match done {
        Ok(None) => Ok(told(Done::AsAsked, "/settings")),
        Ok(Some(words)) => page(app, caller, Shown::done(words)).await,
        Err(problem) => page(app, caller, Shown::not(problem)).await,
    }
}
