//! Everybody's own second factor: set up, with codes to write down, and removed again.
//!
//! Both ask for the password, and removing for a code, too: who finds a session open changes neither.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::StatusCode};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{Answer, Form, Frame, scripted, shown_as, to};
use crate::{
    api::time,
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::{
        Caller,
        sign_in::{Proven, Typed, prove},
    },
    factor::{self, DraftFactor},
    store::Change,
};

#[derive(Template)]
#[template(path = "second_factor.html")]
struct FactorPage {
    frame: Frame,
    problem: String,
    /// Without one this role is shown nothing else.
    needed: bool,
    stage: Stage,
}

impl FactorPage {
    /// Whether there is something to copy.
    const fn copies(&self) -> bool {
        matches!(self.stage, Stage::Begun { .. } | Stage::Made { .. })
    }
}

/// How far somebody is with it.
enum Stage {
    /// A sign-on provider asks for it, or does not.
    Elsewhere,
    /// There is none.
    Bare,
    /// Being set up.
    Begun {
        picture: String,
        address: Zeroizing<String>,
        words: Zeroizing<String>,
        draft: String,
    },
    /// Set up just now; the codes are shown this once.
    Made { codes: Vec<Zeroizing<String>> },
    /// It is there.
    Kept { since: String, codes: u32 },
}

#[derive(Deserialize)]
pub(crate) struct Sent {
    act: String,
    #[serde(default, deserialize_with = "crate::password::typed")]
    password: Zeroizing<String>,
    #[serde(default, deserialize_with = "crate::password::typed")]
    code: Zeroizing<String>,
    #[serde(default)]
    draft: String,
}

/// `GET /people/second-factor`.
pub(crate) async fn show(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    let stage = stage(&app, &caller).await?;
    page(&caller, None, stage)
}

/// `POST /people/second-factor`.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(sent): Form<Sent>,
) -> Answer {
    let Some(session) = caller.session.clone() else {
        let words = "only who is signed in has a second factor";
        return Err(Problem::invalid(words).into());
    };
    let draft = sent.draft.clone();
    let done = match sent.act.as_str() {
        "begin" => begin(&app, &caller, (&session, sent)).await,
        "confirm" => confirm(&app, &caller, (&session, sent)).await,
        "remove" => match remove(&app, &caller, sent).await {
            Ok(()) => return Ok(to("/people/second-factor")),
            Err(problem) => Err(problem),
        },
        _ => Err(Problem::invalid("nothing to change")),
    };
    match done {
        Ok(stage) => page(&caller, None, stage),
        Err(problem) if problem.status().is_client_error() => {
            // Whoever mistyped the first code goes on with what is in their device.
            let again = app.drafted_factor(&caller.name, &session, &draft).await;
            let stage = match again {
                Ok(draft) => begun(&app, &caller, &draft)?,
                Err(_) => stage(&app, &caller).await?,
            };
            page(&caller, Some(problem), stage)
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn begin(
    app: &App,
    caller: &Caller,
    (session, sent): (&str, Sent),
) -> Result<Stage, Problem> {
    // What nothing is done with must not be a place to try codes at.
    let name = caller.name.to_string();
    if app
        .ask(move |store| store.second_factor(&name))
        .await?
        .is_some()
    {
        let words = "you have a second factor: remove it first";
        return Err(Problem::new(StatusCode::CONFLICT, "exists", words));
    }
    proven(app, caller, sent).await?.done(app).await;
    let draft = app.draft_factor(&caller.name, session).await?;
    begun(app, caller, &draft)
}

/// The first code shows that the device has what gig has.
async fn confirm(
    app: &App,
    caller: &Caller,
    (session, sent): (&str, Sent),
) -> Result<Stage, Problem> {
    let (name, now) = (caller.name.to_string(), app.now());
    let drafted = app.drafted_factor(&name, session, &sent.draft).await?;
    let code = sent.code.replace([' ', '-'], "");
    let step = drafted.seed.step_of(&code, now).ok_or_else(|| {
        Problem::invalid("that code is not right: compare the clock of the device with this one")
    })?;
    let wanted = name.clone();
    let user = app.ask(move |store| store.user(&wanted)).await?;
    let user = user.ok_or_else(|| Problem::missing("user", &name))?;
    let codes = factor::written_down().map_err(Problem::internal)?;
    let change = Change::SetFactor {
        sealed: app.seal_factor(&name, &drafted.seed, now).await?,
        name,
        password: user.password,
        since: now,
        step,
        codes: codes.iter().map(|(_, digest)| *digest).collect(),
    };
    app.change(caller.actor(app), change).await?;
    let codes = codes.into_iter().map(|(shown, _)| shown).collect();
    Ok(Stage::Made { codes })
}

async fn remove(app: &App, caller: &Caller, sent: Sent) -> Result<(), Problem> {
    let proven = proven(app, caller, sent).await?;
    let change = Change::RemoveFactor {
        name: caller.name.to_string(),
        code: proven.code.clone(),
    };
    proven.change(app, caller, change, wrong).await
}

fn wrong() -> Problem {
    Problem::forbidden("the password or the code is not right")
}

async fn proven(app: &App, caller: &Caller, sent: Sent) -> Result<Proven, Problem> {
    let typed = Typed::again(app, caller, (sent.password, sent.code));
    let proven = prove(app, typed).await?;
    proven.ok_or_else(wrong)
}

async fn stage(app: &App, caller: &Caller) -> Result<Stage, Problem> {
    let name = caller.name.to_string();
    let asked = app.ask(move |store| Ok((store.user(&name)?, store.second_factor(&name)?)));
    let (user, kept) = asked.await?;
    Ok(match (user, kept) {
        (Some(user), _) if user.account.is_some() => Stage::Elsewhere,
        (_, Some(kept)) => Stage::Kept {
            since: time(kept.since),
            codes: kept.codes,
        },
        (_, None) => Stage::Bare,
    })
}

fn begun(app: &App, caller: &Caller, draft: &DraftFactor) -> Result<Stage, Problem> {
    let url = app.public_url.as_deref().unwrap_or_default();
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    let address = factor::address(&caller.name, place, &draft.seed);
    let picture = factor::picture(&address);
    Ok(Stage::Begun {
        picture: picture.ok_or_else(|| Problem::invalid("the name is too long for a picture"))?,
        words: draft.seed.words(),
        draft: draft.text.clone(),
        address,
    })
}

fn page(caller: &Caller, problem: Option<Problem>, stage: Stage) -> Answer {
    let status = AnswerStatus::beside(problem.as_ref());
    let page = FactorPage {
        frame: Frame::new(caller, "/people"),
        problem: problem.map(|problem| problem.detail).unwrap_or_default(),
        needed: caller.needs_factor() && !matches!(stage, Stage::Made { .. }),
        stage,
    };
    let copies = page.copies();
    let shown = shown_as(status, &page);
    Ok(if copies { scripted(shown) } else { shown })
}
