//! What destroys something, or is at once in force for many, is asked about before: a page that says what goes, with the form that does it.
//!
//! It is reached by a link and changes nothing itself, so that neither a slip nor a reload does; it works by keyboard
//! and without a script. Who may not do it, or names what is not there, is told so here already.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde::Deserialize;

use super::{Answer, Frame, InAddress, Path, clock, in_query, policies::DiffLine, shown};
use crate::{
    api::{
        sandboxes::{self, SandboxView, Stoppable},
        searches,
        secrets::view,
        sessions,
    },
    api_error::Problem,
    app::App,
    auth::Caller,
    one_sandbox::ENDED,
    profile::Sight,
    role::Permission,
    store::{ServerKind, User, folded},
};

pub(crate) mod held;
pub(crate) mod policies;

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    frame: Frame,
    /// What is asked, and what the button says.
    title: String,
    /// What goes with it.
    says: Vec<String>,
    /// What changes in a document: in words, and line by line.
    meaning: String,
    lines: Vec<DiffLine>,
    /// Where the form goes.
    action: String,
    /// What it says there.
    fields: Vec<(&'static str, String)>,
    /// For who thinks better of it.
    back: String,
    /// What stands in the history where nobody says why; empty: nothing is asked.
    why: String,
    /// Whether it takes nothing away.
    opens: bool,
}

impl ConfirmPage {
    fn new(caller: &Caller, section: &'static str, title: String) -> Self {
        Self {
            frame: Frame::new(caller, section),
            title,
            says: Vec::new(),
            meaning: String::new(),
            lines: Vec::new(),
            action: String::new(),
            fields: Vec::new(),
            back: section.to_owned(),
            why: String::new(),
            opens: false,
        }
    }

    fn says(mut self, words: impl Into<String>) -> Self {
        self.says.push(words.into());
        self
    }

    fn posts(mut self, action: String, fields: &[(&'static str, &str)]) -> Self {
        self.action = action;
        let fields = fields.iter();
        self.fields = fields
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        self
    }

    fn back(mut self, to: String) -> Self {
        self.back = to;
        self
    }
}

/// `GET /people/users/{name}/remove`.
pub(crate) async fn user(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    caller.require(Permission::ManageUsers)?;
    let user = user_of(&app, name).await?;
    let name = user.name;
    let mut page = ConfirmPage::new(&caller, "/people", format!("Remove {name}"))
        .says("The account, its sessions and the tokens that it made end at once. What it did stays in the record.")
        .says("What it proposed and nobody has approved yet is withdrawn.");
    if user.account.is_some() {
        page = page.says(
            "They sign in elsewhere: the next time that they do, an account is made for them again, with the role of their \
             groups. Who is to stay out loses those groups, or is barred there.",
        );
    }
    let webhooks = app.ask(|store| store.webhooks()).await?.into_iter();
    let theirs = webhooks.filter(|one| one.hears_without(&folded(&name)));
    let theirs: Vec<String> = theirs.map(|one| one.name).collect();
    if !theirs.is_empty() {
        page = page.says(format!(
            "By webhook {} they go on answering what waits, without rules for ever: take them off its list in Settings, too.",
            theirs.join(", ")
        ));
    }
    let page = page.posts(format!("/people/users/{name}"), &[("act", "remove")]);
    Ok(shown(&page))
}

/// `GET /people/users/{name}/factor`.
pub(crate) async fn factor(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    caller.require(Permission::ManageUsers)?;
    let name = user_of(&app, name).await?.name;
    let title = format!("Remove the second factor of {name}");
    let page = ConfirmPage::new(&caller, "/people", title)
        .says("From then on the password alone lets them in, until they set up another.")
        .posts(format!("/people/users/{name}"), &[("act", "factor")]);
    Ok(shown(&page))
}

/// As the store has it.
async fn user_of(app: &App, name: String) -> Result<User, Problem> {
    let wanted = name.clone();
    let user = app.ask(move |store| store.user(&wanted)).await?;
    user.ok_or_else(|| Problem::missing("user", &name))
}

/// `GET /people/tokens/{id}/remove`.
pub(crate) async fn token(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    caller.require(Permission::ManageUsers)?;
    let tokens = app.ask(|store| store.tokens()).await?;
    let token = tokens.into_iter().find(|one| one.id == id);
    let token = token.ok_or_else(|| Problem::missing("token", &id))?;
    let page = ConfirmPage::new(&caller, "/people", format!("Remove the token {}", token.name))
        .says(format!(
            "gig_{}… of role {} is refused from the next request on. It cannot be brought back: make another.",
            token.id, token.role
        ))
        .posts(format!("/people/tokens/{}/remove", token.id), &[]);
    Ok(shown(&page))
}

/// `GET /people/sessions/{id}/end`.
pub(crate) async fn session(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let sessions = sessions::of(&app, &caller).await?.into_iter();
    let session = { sessions }.find(|one| one.id == id);
    let session = session.ok_or_else(|| Problem::missing("session", &id))?;
    let whose = match session.current {
        true => "It is the one that you are signed in by: you sign in again.".to_owned(),
        false => format!("Whoever uses it signs in as {} again.", session.user),
    };
    let title = format!("End a session of {}", session.user);
    let page = ConfirmPage::new(&caller, "/people", title)
        .says(format!(
            "Begun {} UTC by {} from {}; last seen {} UTC.",
            clock(&session.created),
            session.began,
            session.address,
            clock(&session.seen)
        ))
        .says(whose)
        .posts(format!("/people/sessions/{}/end", session.id), &[]);
    Ok(shown(&page))
}

/// `GET /people/teams/{name}/remove`.
pub(crate) async fn team(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    caller.require(Permission::ManageTeams)?;
    let teams = app.ask(|store| store.teams()).await?;
    let team = teams.into_iter().find(|one| one.name == name);
    let team = super::teams::TeamRow::from(team.ok_or_else(|| Problem::missing("team", &name))?);
    let fields = [
        ("name", &*team.name),
        ("tag", &*team.tag),
        ("act", "remove"),
    ];
    let page = ConfirmPage::new(&caller, "/people", format!("Remove the team {}", team.name))
        .says("Who is of it stays; what is in force for the team keeps it from being removed.")
        .posts("/people/teams".to_owned(), &fields)
        .back("/people#teams".to_owned());
    Ok(shown(&page))
}

/// Which version of a secret.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfSecret {
    version: Option<u64>,
}

/// `GET /secrets/{name}/remove`: all of it, or one version.
pub(crate) async fn secret(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    InAddress(asked): InAddress<OfSecret>,
) -> Answer {
    caller.require(Permission::ManageSecrets)?;
    let one = view(&app, &caller, &name).await?;
    if !one.set {
        return Err(Problem::missing("secret", &name).into());
    }
    let place = format!("/secrets/{}", in_query(&one.name));
    let page = match asked.version {
        None => ConfirmPage::new(&caller, "/secrets", format!("Remove {}", one.name))
            .says("Whoever uses it is refused from the next request on. Its value stays known to gig alone, so that it may leave nowhere.")
            .says(match one.servers.is_empty() {
                true => "No server is given it.".to_owned(),
                false => format!("It is given to {}.", one.servers.join(", ")),
            })
            .posts(place.clone(), &[("act", "remove")]),
        Some(version) => {
            if !one.versions.iter().any(|each| each.version == version) {
                return Err(Problem::missing("version", &version.to_string()).into());
            }
            let title = format!("End version {version} of {}", one.name);
            let number = version.to_string();
            ConfirmPage::new(&caller, "/secrets", title)
                .says("Whoever uses this version is refused from the next request on.")
                .posts(place.clone(), &[("act", "remove"), ("version", &number)])
        }
    };
    Ok(shown(&page.back(place)))
}

/// `GET /servers/{name}/remove`.
pub(crate) async fn server(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    caller.require(Permission::ManageServers)?;
    let servers = app.ask(|store| store.servers()).await?;
    let server = servers.into_iter().find(|one| one.name == name);
    let server = server.ok_or_else(|| Problem::missing("server", &name))?;
    let mut here = app.control.sandboxes();
    here.retain(|one| *one.server == *server.name && one.ended.is_none());
    let page = ConfirmPage::new(&caller, "/servers", format!("Remove {}", server.name))
        .says(format!(
            "Its sandboxes end, on every node; {} run on this one now.",
            here.len()
        ))
        .says("What is in force for it, and its records, stay.")
        .posts(format!("/servers/{}/remove", server.name), &[])
        .back(format!("/servers/{}", server.name));
    Ok(shown(&page))
}

/// `GET /settings/webhooks/{name}/remove`.
pub(crate) async fn webhook(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    caller.require(Permission::ManageWebhooks)?;
    let found = crate::api::webhooks::find(&app, &name).await?;
    let webhook = found.ok_or_else(|| Problem::missing("webhook", &name))?;
    let page = ConfirmPage::new(
        &caller,
        "/settings",
        format!("Remove the webhook {}", webhook.name),
    )
    .says("It is told nothing any more, and nobody answers from there.")
    .posts(
        format!("/settings/webhooks/{}", webhook.name),
        &[("act", "remove")],
    );
    Ok(shown(&page))
}

/// `GET /sandboxes/{id}/stop`.
pub(crate) async fn sandbox(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let one = match sandboxes::stoppable(&app, &caller, &id, &Sight::plain(&caller)).await? {
        Stoppable::Here(found) => SandboxView::here(found, &app.node),
        Stoppable::Elsewhere(view) => view,
    };
    if one.state == ENDED {
        return Err(Problem::missing("running sandbox", &id).into());
    }
    let server = one.server.clone();
    let server = app.ask(move |store| store.server(&server)).await?;
    let is_foreign = server.is_some_and(|server| server.spec.kind == ServerKind::Foreign);
    let title = format!("Stop the sandbox of {}", one.server);
    let place = format!("/sandboxes/{}", one.id);
    let page = ConfirmPage::new(&caller, "/sandboxes", title)
        .says(match is_foreign {
            true => format!(
                "It is for {}. Its namespace is registered no more, and nothing leaves it; whoever runs the program \
                 there ends it.",
                one.profile
            ),
            false => format!(
                "It runs for {}. Its program is asked to end, and ends ten seconds later in any case; what it has \
                 not written is lost.",
                one.profile
            ),
        })
        .says("Its record stays.")
        .posts(format!("{place}/stop"), &[])
        .back(place);
    Ok(shown(&page))
}

/// `GET /searches/{id}/remove`.
pub(crate) async fn search(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let found = searches::removable(&app, &caller, &id).await?;
    let title = format!("Remove the search {}", found.title);
    let page = ConfirmPage::new(&caller, "/audit", title)
        .says("It is there for nobody any more. What it finds stays.")
        .posts(format!("/searches/{}/remove", found.id), &[]);
    Ok(shown(&page))
}
