//! Signing in: the password checked, the failure counted, both recorded.

use std::{net::SocketAddr, sync::Arc};

use gig_audit::{Entry, Event, VerdictWord};
use jiff::SignedDuration;
use zeroize::Zeroizing;

use crate::{
    api_error::Problem,
    app::App,
    auth::limits::Tried,
    credential::mint_session,
    store::{Actor, Change, Standing},
};

/// Who wants to sign in.
pub(crate) struct SignIn {
    pub(crate) name: String,
    pub(crate) password: Zeroizing<String>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) agent: String,
}

/// The cookie of a new session.
///
/// # Errors
/// 429 for who failed too often, 403 without saying whether name or password was wrong.
pub(crate) async fn sign_in(app: &App, asked: SignIn) -> Result<Zeroizing<String>, Problem> {
    let (now, from) = (app.now(), app.whereabouts(asked.address));
    if let Err(seconds) = app.limits.attempt(Tried::Name(&asked.name), from, now) {
        app.figures.refused();
        return Err(Problem::too_many(seconds));
    }
    let wanted = asked.name.clone();
    let user = app.ask(move |store| store.user(&wanted)).await?;
    // Who signs in elsewhere has no password: it takes as long as that of nobody.
    let user = user.filter(|user| user.account.is_none());
    let kept = user.as_ref().map(|user| user.password.clone());
    let right = app.hasher.check(kept, asked.password).await;
    let Some(user) = user.filter(|_| right) else {
        app.figures.refused();
        app.record(refused(&asked.name, asked.address)).await?;
        return Err(Problem::forbidden("the name or the password is not right"));
    };
    app.limits.succeeded(Tried::Name(&asked.name), from);
    start_session(app, (user.name, user.password), asked.address, asked.agent).await
}

/// A session for somebody who has proved who they are, by a password that has this hash.
pub(crate) async fn start_session(
    app: &App,
    (user, password): (String, String),
    address: Option<SocketAddr>,
    agent: String,
) -> Result<Zeroizing<String>, Problem> {
    let minted = mint_session().map_err(Problem::internal)?;
    let now = app.now();
    let expires = now.checked_add(LONGEST).map_err(Problem::internal)?;
    let actor = Actor {
        name: user.as_str().into(),
        person: Some(user.as_str().into()),
        owner: false,
        standing: Standing::Itself,
        address,
        at: now,
    };
    let change = Change::StartSession {
        id: minted.id,
        digest: minted.digest,
        user,
        password,
        expires,
        agent,
    };
    app.change(actor, change).await?;
    Ok(minted.text)
}

fn refused(name: &str, address: Option<SocketAddr>) -> Entry {
    let mut entry = Entry::new(Event::Auth);
    // What was typed may be a password in the wrong field: only what could be a name is written down.
    let known: Result<crate::store::Name, _> = name.parse();
    entry.profile = known.ok().map(|name| Arc::from(name.as_str()));
    entry.src = address;
    entry.verdict = Some(VerdictWord::Deny);
    entry.findings = vec!["sign-in refused".into()];
    entry
}

/// A working day.
pub(crate) const LONGEST: SignedDuration = SignedDuration::from_hours(12);
