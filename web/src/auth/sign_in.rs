//! Signing in: password and code checked, the failure counted, both recorded.
//!
//! Both are typed at once, and who is refused is not told which was wrong: a password cannot be tried without
//! its code.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use gig_audit::{Deed, Entry, Event, VerdictWord};
use jiff::SignedDuration;
use zeroize::Zeroizing;

use crate::{
    api_error::Problem,
    app::App,
    auth::{
        Caller,
        limits::{Tried, counters},
    },
    credential::mint_session,
    store::{Actor, Change, Standing, UsedCode, User},
};

/// What somebody typed to prove who they are.
pub(crate) struct Typed {
    pub(crate) name: String,
    pub(crate) password: Zeroizing<String>,
    /// Of a second factor; empty for who has none.
    pub(crate) code: Zeroizing<String>,
    /// The id of a browser that was here before.
    pub(crate) known: Option<String>,
    pub(crate) address: Option<SocketAddr>,
}

/// Somebody who has proved who they are, but for the code: the store says whether it is new.
pub(crate) struct Proven {
    pub(crate) user: User,
    pub(crate) code: Option<UsedCode>,
    known: Option<String>,
    from: Option<IpAddr>,
}

impl Typed {
    /// Of somebody who is signed in: who finds a session open must not guess here what the sign-in page would
    /// not let them guess. It counts as that session's, so that no stranger who guesses at their name keeps them from it.
    pub(crate) fn again(
        app: &App,
        caller: &Caller,
        (password, code): (Zeroizing<String>, Zeroizing<String>),
    ) -> Self {
        Self {
            name: caller.name.to_string(),
            password,
            code,
            known: caller.session.as_ref().map(|id| format!("session {id}")),
            address: caller.actor(app).address,
        }
    }
}

impl Proven {
    /// Makes a change that uses the code; `wrong` is said of a code that is none as of a password.
    pub(crate) async fn change(
        self,
        app: &App,
        caller: &Caller,
        change: Change,
        wrong: impl FnOnce() -> Problem,
    ) -> Result<(), Problem> {
        let changed = app.change(caller.actor(app), change).await;
        changed.map_err(|problem| match problem.is_of_code() {
            true => wrong(),
            false => problem,
        })?;
        self.done(app).await;
        Ok(())
    }

    /// What it was for is done: their failures are forgotten.
    pub(crate) async fn done(&self, app: &App) {
        let tried = tried(self.known.as_deref(), &self.user.name);
        app.limits.succeeded(tried, self.from);
        let counted = counters(tried, self.from, app.tries_key().await);
        // What could not be taken back is in the log, and over in a quarter of an hour.
        let _counted = app.ask(move |store| store.give_try_back(&counted)).await;
    }
}

/// As whom somebody's failures count.
fn tried<'a>(known: Option<&'a str>, name: &'a str) -> Tried<'a> {
    known.map_or(Tried::Name(name), Tried::Known)
}

/// Compares what was typed with what is kept; `None` where any of it is wrong. Counts as failed until it is
/// [`Proven::done`].
///
/// # Errors
/// 429 for who failed too often, 503 where a factor cannot be opened.
pub(crate) async fn prove(app: &App, typed: Typed) -> Result<Option<Proven>, Problem> {
    Ok(compared(app, typed).await?.ok())
}

/// What was wrong; for the record alone.
enum Wrong {
    /// Or there is nobody of that name who has one.
    Password,
    /// Of a password that was right.
    Code,
}

async fn compared(app: &App, typed: Typed) -> Result<Result<Proven, Wrong>, Problem> {
    let (now, from) = (app.now(), app.whereabouts(typed.address));
    let tried = tried(typed.known.as_deref(), &typed.name);
    if let Err(seconds) = app.limits.attempt(tried, from, now) {
        app.figures.refused();
        return Err(Problem::too_many(seconds));
    }
    let counted = counters(tried, from, app.tries_key().await);
    let wanted = typed.name.clone();
    let taken = app.ask(move |store| match store.take_try(&counted, now)? {
        Some(seconds) => Ok(Err(seconds)),
        None => store.user(&wanted).map(Ok),
    });
    let taken = taken.await;
    // Nobody's password was compared: it is no try of theirs, or of their neighbours'.
    if !matches!(taken, Ok(Ok(_))) {
        app.limits.unmade(tried, from);
    }
    let user = taken?.map_err(|seconds| {
        app.figures.refused();
        Problem::too_many(seconds)
    })?;
    // Who signs in elsewhere has no password: it takes as long as that of nobody.
    let user = user.filter(|user| user.account.is_none());
    // While the password is looked at, which takes longer: the time tells nothing of either.
    let factor = async {
        match &user {
            Some(user) if user.second_factor => app.factor_of(&user.name).await,
            _ => Ok(None),
        }
    };
    let kept = user.as_ref().map(|user| user.password.clone());
    let (factor, right) = tokio::join!(factor, app.hasher.check(kept, typed.password));
    let factor = factor?;
    let code = factor.as_ref().map(|factor| factor.check(&typed.code, now));
    // With a factor, a code that is one.
    Ok(match (user, right, code) {
        (Some(_), true, Some(None)) => Err(Wrong::Code),
        (Some(user), true, code) => Ok(Proven {
            user,
            code: code.flatten(),
            known: typed.known,
            from,
        }),
        (None, ..) | (_, false, _) => Err(Wrong::Password),
    })
}

/// The cookie of a new session.
///
/// # Errors
/// As [`prove`], and 403 without saying what was wrong.
pub(crate) async fn sign_in(
    app: &App,
    typed: Typed,
    agent: String,
) -> Result<Zeroizing<String>, Problem> {
    let (name, address, known) = (typed.name.clone(), typed.address, typed.known.clone());
    let wrong = match compared(app, typed).await? {
        Err(wrong) => wrong,
        Ok(proven) => {
            let user = (proven.user.name.clone(), proven.user.password.clone());
            let code = proven.code.clone();
            match start_session(app, (user, code), address, agent).await {
                // Somebody used it before, or it was none of those that were written down.
                Err(problem) if problem.is_of_code() => Wrong::Code,
                started => {
                    let started = started?;
                    proven.done(app).await;
                    return Ok(started);
                }
            }
        }
    };
    app.figures.refused();
    let (tried, from) = (tried(known.as_deref(), &name), app.whereabouts(address));
    let is_over = app.limits.is_over(tried, from, app.now());
    app.record(refused(&name, address, (&wrong, is_over)))
        .await?;
    Err(Problem::forbidden(
        "the name, the password or the code is not right",
    ))
}

/// A session for somebody who has proved who they are, by a password that has this hash and maybe a code.
pub(crate) async fn start_session(
    app: &App,
    ((user, password), code): ((String, String), Option<UsedCode>),
    address: Option<SocketAddr>,
    agent: String,
) -> Result<Zeroizing<String>, Problem> {
    let minted = mint_session().map_err(Problem::internal)?;
    let now = app.now();
    let expires = now.checked_add(LONGEST).map_err(Problem::internal)?;
    let actor = Actor {
        request: None,
        once: None,
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
        code,
        expires,
        agent,
    };
    app.change(actor, change).await?;
    Ok(minted.text)
}

fn refused(name: &str, address: Option<SocketAddr>, (wrong, is_over): (&Wrong, bool)) -> Entry {
    let mut entry = Entry::new(Event::Auth);
    // What was typed may be a password in the wrong field: only what could be a name is written down.
    let known: Result<crate::store::Name, _> = name.parse();
    entry.profile = known.ok().map(|name| Arc::from(name.as_str()));
    entry.src = address;
    entry.verdict = Some(VerdictWord::Deny);
    entry.deed = Some(Deed::SignInRefused);
    entry.findings = vec!["sign-in refused".into()];
    if matches!(wrong, Wrong::Code) {
        let words = "the password was right, and the code was not, or had been used";
        entry.findings.push(words.into());
    }
    if is_over {
        let words =
            "that was the last try for a while: the next ones are told to wait, and not recorded";
        entry.findings.push(words.into());
    }
    entry
}

/// A working day.
pub(crate) const LONGEST: SignedDuration = SignedDuration::from_hours(12);
