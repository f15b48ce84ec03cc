//! Answers that come by a webhook: who pressed a button in Slack, or a program of one's own.
//!
//! Nobody signs in here. What is heard is signed with the webhook's secret, of now, and new; who answers is
//! on the webhook's list; what they answer is what this webhook was told within the last day and nobody has answered
//! from there. Anything else is refused and recorded. They allow one request that waits, or deny it, or all like it, or like what was denied, for
//! an hour. A rule for ever, or for all of a host, takes a webhook that is set up so and a user here who writes
//! policies; who is said to be a user here answers while that user is here. Under the two-person rule nothing is allowed from here. The record names the webhook and the user.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Extension, State},
    http::{HeaderMap, StatusCode, Uri},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Path, find};
use crate::{
    allow::{Lasting, Width},
    api::{
        allowing::{Wanted, allow_record},
        held::{Allowed, Breadth, For, ONCE_HAS_NO_WIDTH, allow_held, answer as answer_held},
    },
    api_error::Problem,
    app::App,
    auth::{Caller, refusals::Refused},
    connections::Peer,
    outbound::OutboundRequest,
    profile::Sight,
    store::{Answerable, Hearing, Name, Webhook, WebhookKind, shortened},
    visible::visible,
    webhooks::{
        key,
        message::{Button, OF_RECORD, answered, not_done},
        place,
        signature::noted,
    },
};

/// What a program of one's own says. Slack sends a form of its own, with a field `payload`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    /// The request that waits; or
    #[serde(default)]
    id: String,
    /// the record of what was denied.
    #[serde(default)]
    record: String,
    answer: Word,
    /// How much a rule opens; `path` where it is left out. Refused with `once` and `deny`, which write none.
    width: Option<Breadth>,
    /// Who says so: one of the webhook's list.
    user: String,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Word {
    /// This one may go.
    Once,
    /// All like it may, for an hour.
    Hour,
    /// All like it may.
    Ever,
    /// It may not.
    Deny,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Done {
    /// In words.
    done: String,
}

/// Somebody's answer, whoever brought it.
struct Heard {
    about: About,
    word: Word,
    width: Breadth,
    user: String,
    /// Where Slack takes what stands in the message's place.
    back: Option<String>,
}

/// What it answers.
enum About {
    /// A request that waits, by its id.
    Held(String),
    /// What was denied, by its record.
    Denied(String),
}

impl About {
    /// As a webhook was told of it.
    fn words(&self) -> String {
        match self {
            Self::Held(id) => id.clone(),
            Self::Denied(record) => format!("{OF_RECORD}{record}"),
        }
    }
}

impl Heard {
    /// Whether it is a rule that only a user here writes, who may.
    fn takes_a_user(&self) -> bool {
        let wide = self.word == Word::Hour && self.width == Breadth::Host;
        self.word == Word::Ever || wide
    }
}

/// Takes an answer to what waits or was denied, signed with the webhook's secret: of a `slack` webhook by
/// `X-Slack-Signature`, of a `generic` one by `webhook-signature` (Standard Webhooks).
#[utoipa::path(post, path = "/api/v1/webhooks/{name}/answer", tag = "approvals", request_body = Said,
    security(()),
    responses((status = 200, body = Done), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    peer: Option<Extension<Peer>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Done>, Problem> {
    let address = peer.as_ref().and_then(|peer| peer.address());
    let hearing = tokio::time::timeout(PATIENCE, app.webhooks.hearing.acquire()).await;
    let hearing = hearing.map_err(|_| Problem::unavailable("too many answers come: try again"))?;
    let hearing = hearing.map_err(Problem::internal)?;
    let webhook = match signed(&app, &name, (&headers, &body)).await? {
        Ok(webhook) => webhook,
        Err(not) => {
            app.tell_refusal(None, address, "POST /api/v1/webhooks/{name}/answer");
            return Err(not);
        }
    };
    drop(hearing);
    let mut heard = match webhook.kind {
        WebhookKind::Generic => read(&body)?,
        WebhookKind::Slack => read_slack(&body)?,
    };
    // A name that is none is on no list.
    let user = heard.user.parse::<Name>().ok();
    let Some(user) = user.filter(|user| webhook.is_answered_by(user.as_str())) else {
        app.tell_refusal(
            Some(&Refused::named(format!("webhook {name}").into())),
            address,
            "POST /api/v1/webhooks/{name}/answer",
        );
        let words = "you are not among those who may answer from here: an admin says who is";
        let not = Err(Problem::forbidden(words));
        return told(&app, &webhook, heard.back, not).map(|done| Json(Done { done }));
    };
    let (rules, back) = (heard.takes_a_user(), heard.back.take());
    let caller = Caller::of_webhook(&webhook, (user.as_str(), rules), address);
    let done = match caller.still(&app).await {
        Err(not) if not.status().is_server_error() => Err(not),
        Err(_) => {
            let who = Refused::of(&caller);
            app.tell_refusal(Some(&who), address, "POST /api/v1/webhooks/{name}/answer");
            Err(Problem::forbidden(match rules {
                true => TAKES_A_USER,
                false => NOBODY_HERE,
            }))
        }
        Ok(()) => {
            let (theirs, name) = (Arc::clone(&app), webhook.name.clone());
            // Also where who asked goes away meanwhile: it is said how it ended, or nobody could answer again.
            let decided = app
                .attachments
                .spawn(async move { decide_told(&theirs, &caller, (&name, &heard)).await });
            decided.await.map_err(Problem::internal)?
        }
    };
    let done = done.map(|words| format!("{words} by {user}"));
    told(&app, &webhook, back, done).map(|done| Json(Done { done }))
}

const TAKES_A_USER: &str = "a rule for ever, or for all of a host, takes a webhook that is set up for that, and a user here \
     who writes policies";
const NOBODY_HERE: &str =
    "who you are on this webhook's list is no user here: an admin says who answers from here";

/// The webhook, if what came is signed with its secret; what is not known is told as what is not signed.
async fn signed(
    app: &App,
    name: &str,
    (headers, body): (&HeaderMap, &[u8]),
) -> Result<Result<Webhook, Problem>, Problem> {
    let unsigned = || {
        let words = "no webhook of this name signed this, or not within the last five minutes";
        Problem::new(StatusCode::UNAUTHORIZED, "unsigned", words)
    };
    let Some(webhook) = find(app, name).await? else {
        return Ok(Err(unsigned()));
    };
    let Ok(key) = key(app, &webhook).await else {
        return Ok(Err(unsigned()));
    };
    let now = app.now();
    let Ok(tag) = key.check(webhook.kind, (headers, body), now) else {
        return Ok(Err(unsigned()));
    };
    let (digest, until) = noted(name, &tag, now);
    let heard = webhook.name.clone();
    Ok(
        match app
            .ask(move |store| store.hear(&heard, &digest, until, now))
            .await?
        {
            Hearing::First => Ok(webhook),
            Hearing::Again => Err(Problem::new(
                StatusCode::CONFLICT,
                "heard",
                "this was heard before",
            )),
            Hearing::Crowded => Err(Problem::unavailable("too many answers came: try again")),
        },
    )
}

fn read(body: &[u8]) -> Result<Heard, Problem> {
    let said: Result<Said, _> = crate::api::reading::read(body);
    let said = said.map_err(|error| Problem::invalid(format!("this is no answer: {error}")))?;
    let about = match (said.id.is_empty(), said.record.is_empty()) {
        (false, true) => About::Held(said.id),
        (true, false) => About::Denied(said.record),
        _ => {
            let words =
                "name the request that waits by id, or what was denied by record: one of both";
            return Err(Problem::invalid(words));
        }
    };
    if said.width.is_some() && matches!(said.answer, Word::Once | Word::Deny) {
        return Err(Problem::invalid(ONCE_HAS_NO_WIDTH));
    }
    Ok(Heard {
        about,
        word: said.answer,
        width: said.width.unwrap_or_default(),
        user: said.user,
        back: None,
    })
}

/// `application/x-www-form-urlencoded` with one field, which holds JSON.
fn read_slack(body: &[u8]) -> Result<Heard, Problem> {
    #[derive(Deserialize)]
    struct Form {
        payload: String,
    }
    let wrong = || Problem::invalid("this is no button of a message that gig sent");
    let form = std::str::from_utf8(body).map_err(|_| wrong())?;
    let uri: Uri = format!("/?{form}").parse().map_err(|_| wrong())?;
    let form = axum::extract::Query::<Form>::try_from_uri(&uri).map_err(|_| wrong())?;
    let payload: Value = serde_json::from_str(&form.payload).map_err(|_| wrong())?;
    let text = |at: &str| {
        payload
            .pointer(at)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let button = text("/actions/0/action_id").and_then(|id| Button::of(&id));
    let one = payload.pointer("/actions/1").is_none();
    let says = |button: Button| match button {
        Button::Once => (Word::Once, Breadth::Path),
        Button::Hour => (Word::Hour, Breadth::Path),
        Button::Ever => (Word::Ever, Breadth::Path),
        Button::HostHour => (Word::Hour, Breadth::Host),
        Button::HostEver => (Word::Ever, Breadth::Host),
        Button::Deny => (Word::Deny, Breadth::Path),
    };
    match (
        text("/type").as_deref(),
        button.map(says),
        text("/actions/0/value"),
        text("/user/id"),
    ) {
        (Some("block_actions"), Some((word, width)), Some(value), Some(user)) if one => Ok(Heard {
            about: match value.strip_prefix(OF_RECORD) {
                Some(record) => About::Denied(record.to_owned()),
                None => About::Held(value),
            },
            word,
            width,
            user,
            back: text("/response_url"),
        }),
        _ => Err(wrong()),
    }
}

/// Decides on what this webhook was told, once.
async fn decide_told(
    app: &Arc<App>,
    caller: &Caller,
    (webhook, heard): (&str, &Heard),
) -> Result<&'static str, Problem> {
    let now = app.now();
    let about = heard.about.words();
    let taken = (webhook.to_owned(), about.clone());
    let (theirs, asked) = (taken.clone(), taken);
    let may = app.ask(move |store| store.begin_answer(&asked.0, &asked.1, now));
    let (kind, words) = match may.await? {
        Answerable::Yes => {
            let done = decide(app, caller, heard).await;
            let decided = match &done {
                Ok(_) => Some(now),
                Err(refused) if refused.status().is_client_error() => None,
                // It may have been decided all the same.
                Err(_) => return done,
            };
            let noted = app.ask(move |store| store.end_answer(&theirs.0, &theirs.1, decided));
            if noted.await.is_err() {
                tracing::warn!(webhook, "what came of an answer is not noted");
            }
            return done;
        }
        Answerable::Never => (
            "not_told",
            "this webhook was not told of it: who signs in to the console decides",
        ),
        Answerable::Answered => ("answered", "it was answered from here already"),
        Answerable::Late => (
            "late",
            "this webhook was told of it more than a day ago: who signs in to the console decides",
        ),
    };
    let about = visible(shortened(&about, LONGEST_ID));
    app.tell_refused_answer(caller, (&about, words));
    Err(Problem::new(StatusCode::CONFLICT, kind, words))
}

async fn decide(app: &Arc<App>, caller: &Caller, heard: &Heard) -> Result<&'static str, Problem> {
    let conflict = |kind, words| Problem::new(StatusCode::CONFLICT, kind, words);
    let sight = Sight::deciding(caller);
    let (lasting, words) = match heard.word {
        Word::Deny => (None, "denied"),
        Word::Once => (None, "allowed once"),
        Word::Hour => (Some(Lasting::Hour), "allowed for an hour"),
        Word::Ever => (Some(Lasting::Ever), "allowed"),
    };
    if heard.word != Word::Deny && app.ask(|store| store.two_person_rule()).await? {
        let words = "the two-person rule is on: who signs in to the console allows it";
        return Err(conflict("two_person_rule", words));
    }
    match (&heard.about, lasting) {
        (About::Held(id), None) if heard.word == Word::Deny => {
            answer_held(app, caller, (id.clone(), &sight), false).await?;
        }
        (About::Held(id), lasting) => {
            let allowed = Allowed {
                lasting: lasting.map_or(For::Once, For::from),
                width: lasting.map(|_| heard.width),
                reason: String::new(),
                shown: None,
            };
            drop(allow_held(app, caller, (id.clone(), &sight), allowed).await?);
        }
        (About::Denied(_), None) => {
            let words = "it was denied when it was asked for: a rule lets the next one pass";
            return Err(conflict("denied", words));
        }
        (About::Denied(record), Some(lasting)) => {
            let wanted = Wanted {
                width: Width::from(heard.width),
                lasting,
                reason: String::new(),
                shown: None,
            };
            drop(allow_record(app, caller, (record.clone(), &sight), wanted).await?);
        }
    }
    Ok(words)
}

/// Says in the message's place what came of it, and to who pressed the button alone that nothing did: the message stays for
/// who may answer it. Nobody waits for that.
fn told(
    app: &Arc<App>,
    webhook: &Webhook,
    back: Option<String>,
    done: Result<String, Problem>,
) -> Result<String, Problem> {
    let Some(back) = back else { return done };
    let body = match &done {
        Ok(done) => answered(&visible(done.clone())),
        Err(problem) => not_done(&visible(format!("not done: {}", problem.detail))),
    };
    let (theirs, webhook) = (Arc::clone(app), webhook.clone());
    app.attachments.spawn(async move {
        let Ok(place) = place(&theirs, &webhook).await else {
            return;
        };
        // Slack's own, as the webhook is: what a payload names leads nowhere else.
        if !same_place(&place, &back) {
            tracing::info!(webhook = webhook.name, "an answer is to be told to another host: it is not");
            return;
        }
        let request = OutboundRequest::post(back, "application/json", Bytes::from(body));
        if let Err(error) = theirs.outbound().send(request).await {
            tracing::info!(webhook = webhook.name, %error, "what was answered is not in its channel");
        }
    });
    done
}

fn same_place(one: &str, other: &str) -> bool {
    let of = |url: &str| {
        let uri: Uri = url.parse().ok()?;
        Some((
            uri.scheme_str()?.to_owned(),
            uri.authority()?.as_str().to_owned(),
        ))
    };
    of(one).is_some_and(|one| of(other) == Some(one))
}

/// Of what is said to be an id, in a record.
const LONGEST_ID: usize = 80;
/// Slack waits three seconds in all.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

#[cfg(test)]
mod tests;
