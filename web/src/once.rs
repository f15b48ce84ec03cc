//! `Idempotency-Key`: a request to the API that is made once, however often it is sent
//! (draft-ietf-httpapi-idempotency-key-header).
//!
//! Who sends the same again under the same key gets the same answer again; whoever asks for something else
//! under it, or while it runs, is refused. Whether it was made is the store's to say, in the transaction of the
//! change; an answer that holds a secret is never kept, nor a refusal, which may quote one. Who the caller is
//! and what they may is asked anew each time, before any of this.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use zeroize::Zeroizing;

use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    credential::Digest,
    document, openapi,
    places::{Place, asked_by, on_behalf},
    profile,
    role::Permission,
    router::LONGEST_BODY,
    store::{Asked, Begun, Finish, KeptAnswer, Once},
};

/// An answer that is shown one time: it holds a secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownOnce;

/// Makes a request once, where its sender asks for that.
pub(crate) async fn once(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if !may_be_kept(request.method(), request.uri().path()) || !is_there(&request) {
        return next.run(request).await;
    }
    let key = match key_of(&request) {
        None => return next.run(request).await,
        Some(Ok(key)) => key,
        Some(Err(problem)) => return problem.into_response(),
    };
    make(app, request, (key, next))
        .await
        .unwrap_or_else(Problem::into_response)
}

async fn make(
    app: Arc<App>,
    request: Request,
    (text, next): (Zeroizing<String>, Next),
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned();
    let caller = caller.ok_or_else(Problem::unauthenticated)?;
    // As long as the handler would take it: what it says no to is not taken first.
    let route = parts.extensions.get::<MatchedPath>();
    let takes_documents = route.is_some_and(|route| OF_DOCUMENTS.contains(&route.as_str()));
    let most = match takes_documents && caller.may(Permission::EditPolicies) {
        true => 2 * document::LONGEST,
        false => LONGEST_BODY,
    };
    let body = to_bytes(body, most).await.map_err(|_| {
        let words = "the body is longer than this takes, or ended early";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", words)
    })?;
    let once = Once {
        caller: caller.known_as(),
        key: Digest::of(&text),
        attempt: uuid::Uuid::now_v7().to_string(),
    };
    let asked = Asked {
        once: once.clone(),
        fingerprint: fingerprint(&text, &parts, &body),
        may: caller.terms(),
        acts: acts(parts.uri.path()),
    };
    let now = app.now();
    let begun = app.ask(move |store| store.begin_once(&asked, now)).await?;
    if begun != Begun::Now {
        return repeated(begun);
    }
    parts.extensions.insert(caller.with(once.clone()));
    let place = parts.extensions.remove::<Arc<Place>>();
    let request = Request::from_parts(parts, Body::from(body));
    // To its end, also when who asked has gone: what was done is taken down. It is their turn all that while, and the
    // place of what is long.
    let asks = asked_by();
    let task = {
        let app = Arc::clone(&app);
        app.clone().attachments.spawn(async move {
            let _place = place;
            let made = async {
                let ran = tokio::time::timeout(WITHIN, next.run(request)).await;
                let late = |_| Problem::unavailable("it took too long; try again").into_response();
                taken_down(&app, once, ran.unwrap_or_else(late)).await
            };
            match asks {
                Some(asks) => on_behalf(asks, made).await,
                None => made.await,
            }
        })
    };
    task.await.map_err(Problem::internal)
}

/// What is answered to who asks again.
fn repeated(begun: Begun) -> Result<Response, Problem> {
    let conflict = |word: &str, words: &str| Problem::new(StatusCode::CONFLICT, word, words);
    Err(match begun {
        Begun::Before(answer) => return replayed(answer),
        Begun::Now | Begun::Running => conflict(
            "in_progress",
            "the same is being done for this key at this moment: ask again in a second",
        )
        .retried_after(1),
        Begun::Shown => conflict(
            "shown_already",
            "it was done for this key, and its answer held a secret, which is shown once: where that was lost, \
             remove what was made and make another",
        ),
        Begun::Lost { made: true } => conflict(
            "answer_lost",
            "it was done for this key, and the answer was lost: look at what is there",
        ),
        Begun::Lost { made: false } => conflict(
            "unknown_outcome",
            "it was begun for this key, and nobody knows how it ended: look at what is there, then ask with \
             another key",
        ),
        Begun::Other => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "other_request",
            "this key was used for another request: each has a key of its own",
        ),
        Begun::Lapsed => Problem::forbidden(
            "what you may do here has changed since this was asked: ask with another key",
        ),
        Begun::Full => Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_keys",
            "you have used as many keys as are kept for a day",
        )
        .retried_after(3600),
    })
}

fn replayed(answer: KeptAnswer) -> Result<Response, Problem> {
    let status = StatusCode::from_u16(answer.status).map_err(Problem::internal)?;
    let kept: Vec<(String, String)> =
        serde_json::from_str(&answer.headers).map_err(Problem::internal)?;
    let mut response = (status, answer.body).into_response();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    for (name, value) in kept {
        let name = HeaderName::try_from(name).map_err(Problem::internal)?;
        let value = HeaderValue::try_from(value).map_err(Problem::internal)?;
        headers.insert(name, value);
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// Keeps the answer and gives it on. Where it cannot be kept, who asks again is told that it was lost.
async fn taken_down(app: &App, once: Once, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, LONGEST_ANSWER).await else {
        let words = "the answer is too long to be kept for its key; what was asked was done";
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "answer_lost", words)
            .into_response();
    };
    let status = parts.status;
    let finish = match parts.extensions.get::<ShownOnce>() {
        Some(ShownOnce) => Finish::Shown(status.as_u16()),
        None => {
            let headers: Vec<(&str, &str)> = KEPT
                .iter()
                .filter_map(|name| Some((name.as_str(), parts.headers.get(name)?.to_str().ok()?)))
                .collect();
            let answer = KeptAnswer {
                status: status.as_u16(),
                // Pairs of texts can be written.
                headers: serde_json::to_string(&headers).unwrap_or_default(),
                body: body.to_vec(),
            };
            match status.is_success() {
                true => Finish::Kept(answer),
                false => Finish::Refused(answer),
            }
        }
    };
    let kept = app
        .ask(move |store| store.finish_once(&once, &finish))
        .await;
    if kept.is_err() {
        tracing::warn!("an answer could not be kept for its key");
    }
    Response::from_parts(parts, Body::from(body))
}

/// Whether there is such an operation: what is not there, or not by this method, is told so whatever key it brings.
fn is_there(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    route.is_some_and(|route| openapi::heeded(request.method(), route.as_str()).is_some())
}

/// What changes something. All else may be asked as often as anybody likes: the field is ignored there.
pub(crate) fn may_be_kept(method: &Method, path: &str) -> bool {
    let changes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method);
    let asks = ["/check", "/simulate", "/suggest"];
    let only_asks = *method == Method::POST && asks.iter().any(|end| path.ends_with(end));
    changes && path.starts_with("/api/v1/") && !only_asks
}

/// What does something that is no change of the store.
fn acts(path: &str) -> bool {
    let below = ["/api/v1/secrets/", "/api/v1/sandboxes/"];
    below.iter().any(|place| path.starts_with(place))
        || path.ends_with("/start")
        || path.ends_with("/register")
        || path.ends_with("/test")
}

/// The key, if there is one.
fn key_of(request: &Request) -> Option<Result<Zeroizing<String>, Problem>> {
    let mut fields = request.headers().get_all(KEY).iter();
    let first = fields.next()?;
    let text = first.to_str().ok().filter(|_| fields.next().is_none());
    let key = text.and_then(string);
    Some(key.map(Zeroizing::new).ok_or_else(|| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "idempotency_key",
            "Idempotency-Key is one text in quotation marks, of 1 to 255 characters: \
             \"8e03978e-40d5-43e8-bc93-6894a57f9324\"",
        )
    }))
}

/// A string of structured fields (RFC 9651, 3.3.3), without parameters.
fn string(field: &str) -> Option<String> {
    let inner = field
        .trim_matches(' ')
        .strip_prefix('"')?
        .strip_suffix('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => letters.next().filter(|next| matches!(next, '"' | '\\'))?,
            '"' => return None,
            ' '..='~' => letter,
            _ => return None,
        });
    }
    (1..=LONGEST_KEY).contains(&text.len()).then_some(text)
}

/// Of all that says what is asked for. The key is in it, which is kept nowhere: a password in a body is not
/// found by trying what fits the digest.
fn fingerprint(key: &str, parts: &Parts, body: &Bytes) -> Digest {
    let mut all = Zeroizing::new(Vec::with_capacity(body.len() + 4096));
    let mut add = |part: &[u8]| {
        // With its length: no two requests are written alike.
        all.extend_from_slice(&(part.len() as u64).to_be_bytes());
        all.extend_from_slice(part);
    };
    add(key.as_bytes());
    add(parts.method.as_str().as_bytes());
    let target = parts.uri.path_and_query();
    add(target.map_or("", |target| target.as_str()).as_bytes());
    for name in [
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::CONTENT_TYPE,
        HeaderName::from_static(profile::HEADER),
    ] {
        let values = parts.headers.get_all(&name).iter();
        let values: Vec<&[u8]> = values.map(HeaderValue::as_bytes).collect();
        add(&values.join(&b","[..]));
    }
    add(body);
    Digest::of_octets(&all)
}

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// What belongs to an answer, and not to the connection or to every answer.
const KEPT: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::LOCATION,
    header::ETAG,
    header::RETRY_AFTER,
];
/// As the draft's examples have it, with room.
const LONGEST_KEY: usize = 255;
/// What is changed is answered with what it is, not with a list.
const LONGEST_ANSWER: usize = 2 * 1024 * 1024;
/// As for every request.
const WITHIN: Duration = Duration::from_secs(60);

/// Routes that take long bodies.
const OF_DOCUMENTS: [&str; 5] = [
    "/api/v1/policies/{name}",
    "/api/v1/policies/check",
    "/api/v1/policies/import",
    "/api/v1/policies/{name}/simulate",
    "/policies/{name}/edit",
];

#[cfg(test)]
mod tests;
