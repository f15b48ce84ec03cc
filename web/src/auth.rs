//! Who asks: a person with a session cookie, a program with a token, or this machine's own user.
//!
//! Every route but the few public ones is behind [`require`], which answers 401 (or sends a browser to
//! the sign-in page) before a handler is reached. What the caller may is each handler's first line.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Redirect, Response},
};
use jiff::SignedDuration;

mod acting;
mod by_webhook;
pub(crate) mod cookie;
pub(crate) mod documents;
pub(crate) mod doors;
pub(crate) mod known;
pub(crate) mod lapse;
pub(crate) mod limits;
pub(crate) mod oidc;
pub(crate) mod origin;
pub(crate) mod pace;
pub(crate) mod refusals;
pub(crate) mod sign_in;

use self::{pace::Pace, refusals::Refused};
use crate::{
    api::precondition,
    api_error::{FromElsewhere, Problem},
    app::App,
    connections::Peer,
    credential::{Presented, read_session, read_token},
    narrowing::{Narrowing, Scope},
    pages::{self, Beside},
    places::{Place, Turn, on_behalf},
    role::{Permission, Role},
    router::LONGEST_BODY,
    spans::AskedBy,
    store::{Actor, ChangeError, Once, Standing},
};

/// Who asks, known.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// As the record names them.
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    /// The session, where there is one.
    pub(crate) session: Option<Arc<str>>,
    /// Of a token: what of the role it may.
    narrowing: Narrowing,
    /// Who this is, or who made the token; `None` where nobody knows.
    person: Option<Arc<str>>,
    /// Nothing is shown to them but the page on which they set a second factor up.
    needs_factor: bool,
    owner: bool,
    standing: Standing,
    /// Of a token: another one made it.
    by_token: bool,
    /// The request, where it is to be made once.
    once: Option<Arc<Once>>,
    /// What a program asked for that they answer.
    request: Option<Arc<str>>,
    address: Option<SocketAddr>,
    /// What a page tells them beside what they asked for.
    pub(crate) beside: Beside,
    /// The condition on which they ask, and which nothing there can be held against.
    pub(crate) unkept: Option<&'static str>,
}

impl Caller {
    /// An admin whom nobody can end.
    #[cfg(test)]
    pub(crate) fn itself(name: &str) -> Self {
        Self {
            name: name.into(),
            role: Role::Admin,
            session: None,
            narrowing: Narrowing::default(),
            person: None,
            needs_factor: false,
            owner: false,
            standing: Standing::Itself,
            by_token: false,
            once: None,
            request: None,
            address: None,
            beside: Beside::default(),
            unkept: None,
        }
    }

    /// Refuses what the role may not, and then what is asked for on a condition that is not held.
    pub(crate) fn require(&self, permission: Permission) -> Result<(), Problem> {
        if self.may(permission) {
            return precondition::unless(self.unkept);
        }
        if self.role.may(permission) {
            let scope = Scope::of(permission)
                .map(|scope| format!(", whose scopes name {}", scope.as_str()));
            return Err(Problem::forbidden(format!(
                "this token is narrowed to less: make another one for this{}",
                scope.unwrap_or_default()
            )));
        }
        Err(Problem::beyond(self.role, permission))
    }

    /// Whether they set a second factor up before anything else.
    pub(crate) const fn needs_factor(&self) -> bool {
        self.needs_factor
    }

    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.role.may(permission) && (self.owner || self.narrowing.lets(permission))
    }

    /// Whose sandboxes they start: the person that this is, or who made the token; where nobody knows, the
    /// token's own.
    pub(crate) fn profile(&self) -> Arc<str> {
        Arc::clone(self.person.as_ref().unwrap_or(&self.name))
    }

    /// Whether they decide on what waits for others: whoever decides on policies decides for all, and so do those
    /// for whom a webhook vouches; a narrowed token that runs sandboxes decides for whom it runs them.
    pub(crate) fn decides_for_all(&self) -> bool {
        let runs = self.may(Permission::RunSandboxes);
        self.is_vouched_for() || !self.narrowing.is_any() || !runs
    }

    /// Whether only some servers are there for the caller.
    pub(crate) fn is_narrow(&self) -> bool {
        self.narrowing.names_servers()
    }

    /// Whether a server is there for the caller: to a token of others it is not.
    pub(crate) fn reaches(&self, server: &str) -> bool {
        self.narrowing.reaches(server)
    }

    /// Whether this is that person, by themselves or by a token that they made.
    pub(crate) fn is(&self, person: &str) -> bool {
        let own = self.person.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(person))
    }

    /// Refuses who may no more what they might when they began to ask: the body of a request may come
    /// long after its head. What the store changes, the store asks this of itself.
    pub(crate) async fn still(&self, app: &App) -> Result<(), Problem> {
        let (standing, now) = (self.standing.clone(), app.now());
        let kept = app.ask(move |store| match standing {
            Standing::Itself => Ok(true),
            Standing::Webhook { name, user, rules } => {
                let kept = store.webhooks()?;
                let kept = kept.iter().find(|one| one.name == *name);
                let Some(asked) = kept.map(|one| one.asks_of(&user, rules)) else {
                    return Ok(false);
                };
                let Some(here) = asked.user() else {
                    return Ok(asked.holds(None, &[]));
                };
                Ok(asked.holds(store.user(here)?.as_ref(), &store.factor_rule()?))
            }
            Standing::Session { id, role } => {
                let session = store.session(&id, now)?;
                Ok(session.is_some_and(|session| session.role == role && !session.lacks_factor))
            }
            Standing::Token { id, role } => {
                let token = store.token(&id, now)?;
                Ok(token.is_some_and(|token| token.role == role))
            }
        });
        match kept.await? {
            true => Ok(()),
            false => Err(ChangeError::Lapsed.into()),
        }
    }

    /// Whose keys of requests these are.
    pub(crate) fn known_as(&self) -> String {
        match &self.standing {
            Standing::Token { id, .. } => format!("token {id}"),
            Standing::Itself | Standing::Session { .. } | Standing::Webhook { .. } => {
                format!("user {}", self.name.to_ascii_lowercase())
            }
        }
    }

    /// Whose turn it is: a person's, by whichever of their sessions, or that of a token. Those that tokens made have one
    /// together: a token buys no turns by making others.
    pub(crate) fn turn(&self) -> Turn {
        let person = match (&self.person, &self.standing) {
            (Some(person), _) => format!("person {}", person.to_ascii_lowercase()),
            // Those of which nobody knows whose they are make others of nobody.
            (None, Standing::Token { .. }) => "nobody".to_owned(),
            (None, _) => self.known_as(),
        };
        let own = match (&self.standing, self.by_token) {
            (Standing::Token { .. }, true) => format!("tokens made by tokens of {person}"),
            (Standing::Token { .. }, false) => self.known_as(),
            (Standing::Itself | Standing::Session { .. } | Standing::Webhook { .. }, _) => {
                person.clone()
            }
        };
        Turn {
            own: own.into(),
            person: person.into(),
        }
    }

    /// What they may, in words: the same words, the same rights.
    pub(crate) fn terms(&self) -> String {
        format!("{}{}", self.role, self.narrowing.words())
    }
}

/// Lets a request pass whose caller is known; the handler finds a [`Caller`].
pub(crate) async fn require(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let api = doors::is_for_programs(request.uri().path());
    let (mut parts, body) = request.into_parts();
    let route = refusals::route(&parts);
    let found = identify(&app, &parts).await;
    if let Err(problem) = &found
        && (problem.status() == StatusCode::FORBIDDEN || refusals::presents(&app, &parts))
    {
        refusals::tell(
            &app,
            (None, address(&parts), &route),
            problem.is_from_elsewhere(),
        );
    }
    match found {
        Ok(caller) if !caller.narrowing.opens(parts.uri.path()) => {
            app.tell_refusal(Some(&Refused::of(&caller)), caller.address, &route);
            let narrowed = "this token is narrowed to less: make another one for this";
            Problem::forbidden(narrowed).into_response()
        }
        Ok(caller) if caller.needs_factor && !is_of_factor(parts.uri.path()) => {
            if api {
                let words =
                    "your role needs a second factor: set one up in the console, under People";
                let problem = Problem::new(StatusCode::FORBIDDEN, "second_factor", words);
                return problem.into_response();
            }
            Redirect::to(FACTOR).into_response()
        }
        Ok(caller) => {
            let pace = Pace::of(&parts.method, &route).filter(|_| !caller.owner);
            if let Some(pace) = pace
                && let Err(problem) = app.paces.take(pace, &caller.turn())
            {
                return match api {
                    true => problem.into_response(),
                    false => pages::problem(&problem),
                };
            }
            let (refused, address) = (Refused::of(&caller), caller.address);
            let asks = caller.turn();
            // Some take their place themselves, for as long as they read.
            let here = !doors::reads_long_bodies_itself(parts.uri.path());
            let is_long = here && !is_safe(&parts.method) && is_long(&parts.headers);
            parts.extensions.insert(caller);
            let answered = async {
                // What is long is in memory, whole: of few at once, and of each caller one after the other.
                if is_long {
                    // Whoever goes on with it after its sender has gone takes the place along.
                    parts.extensions.insert(Arc::new(app.bodies.take().await?));
                }
                let _place = parts.extensions.get::<Arc<Place>>().cloned();
                Ok::<_, Problem>(next.run(Request::from_parts(parts, body)).await)
            };
            let answer = on_behalf(asks, answered).await;
            let mut answer = answer.unwrap_or_else(|problem| match api {
                true => problem.into_response(),
                false => pages::problem(&problem),
            });
            answer.extensions_mut().insert(AskedBy(refused.name()));
            if answer.status() == StatusCode::FORBIDDEN {
                let forged = answer.extensions().get::<FromElsewhere>().is_some();
                refusals::tell(&app, (Some(&refused), address, &route), forged);
            }
            answer
        }
        Err(problem) if api || problem.status() != StatusCode::UNAUTHORIZED => {
            if api {
                return problem.into_response();
            }
            pages::problem(&problem)
        }
        Err(_) if parts.method == Method::GET => {
            let to = parts.uri.path_and_query().map_or("/", |to| to.as_str());
            let to = format!("/sign-in?next={}", pages::in_query(to));
            Redirect::to(&to).into_response()
        }
        Err(_) => pages::sign_in::instead(&app, parts, body).await,
    }
}

/// Whether a body is longer than all but documents are, or may be.
pub(crate) fn is_long(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    match length {
        Some(length) => length > LONGEST_BODY,
        None => headers.contains_key(header::TRANSFER_ENCODING),
    }
}

fn address(request: &Parts) -> Option<SocketAddr> {
    request.extensions.get().and_then(Peer::address)
}

async fn identify(app: &App, request: &Parts) -> Result<Caller, Problem> {
    let (headers, extensions) = (&request.headers, &request.extensions);
    let peer = extensions.get::<Peer>().cloned().unwrap_or(Peer::Unknown);
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().ok().and_then(|v| v.strip_prefix("Bearer "));
        let presented = text.and_then(read_token);
        let presented = presented.ok_or_else(Problem::unauthenticated)?;
        return by_token(app, presented, &peer).await;
    }
    if let Peer::Owner(name) = peer {
        // The socket is its owner's alone, and the kernel says who is at the other end.
        return Ok(Caller {
            name,
            role: Role::Admin,
            session: None,
            narrowing: Narrowing::default(),
            person: Some(Actor::OWNER.into()),
            needs_factor: false,
            owner: true,
            standing: Standing::Itself,
            by_token: false,
            once: None,
            request: None,
            address: None,
            beside: Beside::default(),
            unkept: None,
        });
    }
    if doors::takes_no_cookie(request.uri.path()) {
        return Err(Problem::unauthenticated());
    }
    let Some(presented) = cookie::read(app, headers).as_deref().and_then(read_session) else {
        return Err(Problem::unauthenticated());
    };
    let mut caller = by_session(app, (presented, headers), &peer).await?;
    caller.beside = pages::beside(app, &caller, request).await;
    if !is_safe(&request.method) {
        origin::check(app, headers)?;
    }
    Ok(caller)
}

async fn by_token(app: &App, presented: Presented, peer: &Peer) -> Result<Caller, Problem> {
    let (id, now) = (presented.id.clone(), app.now());
    let found = app.ask(move |store| store.token(&id, now)).await?;
    let found = found.filter(|found| found.digest.is(&presented.digest));
    let Some(token) = found else {
        app.figures.refused();
        return Err(Problem::unauthenticated());
    };
    if token
        .used
        .is_none_or(|used| now.duration_since(used) > MINUTE)
    {
        let id = token.id.clone();
        told_unless_kept(app.ask(move |store| store.touch_token(&id, now)).await);
    }
    let (id, role) = (token.id.as_str().into(), token.role);
    let by_token = token.author.starts_with(BY_TOKEN);
    Ok(Caller {
        name: format!("{BY_TOKEN}{} ({})", token.name, token.id).into(),
        role: token.role,
        session: None,
        narrowing: token.narrowing,
        person: Some(token.person.into()).filter(|person: &Arc<str>| !person.is_empty()),
        needs_factor: false,
        owner: false,
        standing: Standing::Token { id, role },
        by_token,
        once: None,
        request: None,
        address: peer.address(),
        beside: Beside::default(),
        unkept: None,
    })
}

/// When somebody was last here is kept for them: who may come in may do so while it cannot be, to see why.
fn told_unless_kept(touched: Result<(), Problem>) {
    if let Err(problem) = touched {
        tracing::warn!(why = %problem.detail, "when a token or session was last used is not kept");
    }
}

async fn by_session(
    app: &App,
    (presented, headers): (Presented, &HeaderMap),
    peer: &Peer,
) -> Result<Caller, Problem> {
    let (id, now) = (presented.id.clone(), app.now());
    let found = app.ask(move |store| store.session(&id, now)).await?;
    let found = found.filter(|found| found.digest.is(&presented.digest));
    let session = found.ok_or_else(Problem::unauthenticated)?;
    // A page that looks by itself is nobody who is here.
    let attended = !headers.contains_key("gig-unattended");
    if attended && now.duration_since(session.seen) > MINUTE {
        let id = session.id.clone();
        told_unless_kept(app.ask(move |store| store.touch_session(&id, now)).await);
    }
    let id: Arc<str> = session.id.into();
    Ok(Caller {
        name: session.user.as_str().into(),
        role: session.role,
        narrowing: Narrowing::default(),
        person: Some(session.user.into()),
        needs_factor: session.lacks_factor,
        owner: false,
        standing: Standing::Session {
            id: Arc::clone(&id),
            role: session.role,
        },
        session: Some(id),
        by_token: false,
        once: None,
        request: None,
        address: peer.address(),
        beside: Beside::default(),
        unkept: None,
    })
}

/// What is there for who needs a second factor and has none.
fn is_of_factor(path: &str) -> bool {
    path == FACTOR || path == "/sign-out"
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

impl<S: Sync> axum::extract::FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Absent only where a route is outside of `require`: then it is closed.
        let found = parts.extensions.get::<Self>().cloned();
        found.ok_or_else(Problem::unauthenticated)
    }
}

/// The header's text, cut: it is kept and shown.
pub(crate) fn agent(headers: &HeaderMap) -> String {
    let value = headers.get(header::USER_AGENT);
    let text = value.and_then(|value| value.to_str().ok());
    text.unwrap_or_default().chars().take(200).collect()
}

/// As the record names tokens: no user's name has a space.
const BY_TOKEN: &str = "token ";
/// Where somebody sets a second factor up.
const FACTOR: &str = "/people/second-factor";
/// Uses are noted to the minute: a write for each request would be one too many.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);
