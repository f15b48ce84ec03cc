//! The console: pages rendered here, read without a script, changed by plain forms.
//!
//! Every page goes through [`shown`]: askama escapes what is HTML, and what no eye sees is spelled out.
//! A form that changed something ends with a redirect, so that reloading repeats nothing.

pub(crate) mod allow_levels;
pub(crate) mod approvals;
pub(crate) mod audit;
mod chart;
pub(crate) mod confirm;
mod done;
pub(crate) mod live;
pub(crate) mod overview;
pub(crate) mod people;
pub(crate) mod policies;
pub(crate) mod policy_edit;
pub(crate) mod policy_version;
mod problem;
mod reading;
pub(crate) mod record;
mod records;
pub(crate) mod sandboxes;
pub(crate) mod second_factor;
pub(crate) mod secrets;
pub(crate) mod server;
mod server_form;
pub(crate) mod server_log;
pub(crate) mod servers;
pub(crate) mod settings;
pub(crate) mod setup;
pub(crate) mod sign_in;
pub(crate) mod teams;
pub(crate) mod webhooks;

use std::{borrow::Cow, sync::Arc};

use askama::Template;
use axum::{
    http::{Method, header, request::Parts},
    response::{Html, IntoResponse, Redirect, Response},
};

use self::done::{proposed, told};
pub(crate) use self::{
    done::Done,
    problem::{PageProblem, back, framed, problem},
    reading::{Form, InAddress, Path},
};
use crate::{
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::{Caller, cookie, doors},
    guard::Scripted,
    places::on_behalf,
    role::{Permission, Role},
    visible::visible,
};

/// What every page tells whoever looks, beside what they asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beside {
    /// What the form before it did: told once.
    pub(crate) done: Option<Done>,
    /// How many requests and proposals wait for somebody, for who may see them.
    pub(crate) waiting: usize,
}

/// What the frame of a page shows, and what its templates ask.
pub(crate) struct Frame {
    name: Arc<str>,
    role: Role,
    /// The path of the section.
    section: &'static str,
    session: bool,
    beside: Beside,
}

impl Frame {
    fn new(caller: &Caller, section: &'static str) -> Self {
        Self {
            name: Arc::clone(&caller.name),
            role: caller.role,
            section,
            session: caller.session.is_some(),
            beside: caller.beside,
        }
    }

    /// How many wait in that section, where any do.
    fn waits_in(&self, path: &str) -> Option<usize> {
        let waiting = self.beside.waiting;
        (path == "/approvals" && waiting > 0).then_some(waiting)
    }

    /// How many wait at all, as pages are compared by it.
    const fn waiting(&self) -> usize {
        self.beside.waiting
    }

    /// What the form before this page did.
    fn done(&self) -> Option<&'static str> {
        self.beside.done.map(Done::words)
    }

    /// A time of the API as people read it on a page.
    fn clock<'a>(&self, time: &'a str) -> Cow<'a, str> {
        clock(time)
    }

    fn may_audit(&self) -> bool {
        self.role.may(Permission::ReadAudit)
    }

    fn may_edit(&self) -> bool {
        self.role.may(Permission::EditPolicies)
    }

    /// Whether they may write what bounds others.
    fn may_floor(&self) -> bool {
        self.role.may(Permission::SetFloors)
    }

    fn may_assign(&self) -> bool {
        self.role.may(Permission::AssignPolicies)
    }

    fn may_run(&self) -> bool {
        self.role.may(Permission::RunSandboxes)
    }

    fn may_servers(&self) -> bool {
        self.role.may(Permission::ManageServers)
    }

    fn may_answer(&self) -> bool {
        self.role.may(Permission::AnswerHeld)
    }

    fn may_floors(&self) -> bool {
        self.role.may(Permission::SetFloors)
    }

    fn may_people(&self) -> bool {
        self.role.may(Permission::ManageUsers)
    }

    fn may_secrets(&self) -> bool {
        self.role.may(Permission::ManageSecrets)
    }

    /// Whether this section is shown.
    fn is_at(&self, path: &str) -> bool {
        self.section == path
    }

    /// The sections that this caller can read.
    fn sections(&self) -> Vec<(&'static str, &'static str)> {
        let all = [
            ("/", "Overview"),
            ("/policies", "Policies"),
            ("/approvals", "Approvals"),
            ("/audit", "Record"),
            ("/live", "Live"),
            ("/sandboxes", "Sandboxes"),
            ("/servers", "Servers"),
            ("/secrets", "Secrets"),
            ("/people", "People"),
            ("/settings", "Settings"),
        ];
        let mine = |(path, _): &(&str, &str)| match *path {
            "/audit" | "/live" | "/approvals" => self.may_audit(),
            "/settings" => self.role.may(Permission::Examine),
            _ => true,
        };
        all.into_iter().filter(mine).collect()
    }
}

/// A time of the API as people read it on a page: `2026-11-21 09:30:00`, whose zone the heading says. What is no time
/// stays as it is.
fn clock(time: &str) -> Cow<'_, str> {
    let told = time.split_once('T').filter(|_| time.ends_with('Z'));
    match told.and_then(|(day, rest)| Some((day, rest.get(..8)?))) {
        Some((day, clock)) => format!("{day} {clock}").into(),
        None => time.into(),
    }
}

/// What a handler of a page answers.
type Answer = Result<Response, PageProblem>;

/// A page as it is sent.
fn shown(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(visible(text)).into_response(),
        Err(error) => Problem::internal(error).into_response(),
    }
}

/// The same as an answer that may refuse something: with its status, and when to try again.
fn shown_as(status: AnswerStatus, page: &impl Template) -> Response {
    status.of(shown(page))
}

/// The same of a page with a script of ours.
fn scripted(mut page: Response) -> Response {
    page.extensions_mut().insert(Scripted);
    page
}

/// What a page tells beside what was asked for. What cannot be counted now is not: a page is shown all the same.
pub(crate) async fn beside(app: &App, caller: &Caller, request: &Parts) -> Beside {
    if request.method != Method::GET || doors::is_for_programs(request.uri.path()) {
        return Beside::default();
    }
    let waiting = approvals::waiting(app, caller);
    Beside {
        done: cookie::done(app, &request.headers),
        waiting: on_behalf(caller.turn(), waiting).await.unwrap_or_default(),
    }
}

/// After a form.
fn to(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// `GET /style.css`.
pub(crate) async fn stylesheet() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=300"),
    ];
    (headers, include_str!("../assets/style.css")).into_response()
}

/// `GET /edit.js`.
pub(crate) async fn editor_script() -> Response {
    script(include_str!("../assets/edit.js"))
}

/// A script of our own.
fn script(text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=300"),
    ];
    (headers, text).into_response()
}

/// `GET /copy.js`.
pub(crate) async fn copying_script() -> Response {
    script(include_str!("../assets/copy.js"))
}

/// `GET /waiting.js`.
pub(crate) async fn waiting_script() -> Response {
    script(include_str!("../assets/waiting.js"))
}

/// `GET /icon.svg`.
pub(crate) async fn icon() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CACHE_CONTROL, "public, max-age=300"),
    ];
    (headers, include_str!("../assets/icon.svg")).into_response()
}

/// `text` as the value of a query.
pub(crate) fn in_query(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(octet));
        } else {
            // Writing to a string does not fail.
            let _infallible = write!(out, "%{octet:02X}");
        }
    }
    out
}
