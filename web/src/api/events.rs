//! The record as it is written: server-sent events (WHATWG HTML §9.2) of what a search would find.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{Stream, StreamExt as _};
use gig_audit::search::{Found, Marks};
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::{
    Asked,
    audit::{AuditAsked, with_id},
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    feed::{Told, watch},
    role::Permission,
};

/// Records from now on, or from `cursor` (or `Last-Event-ID`), as they are written.
#[utoipa::path(get, path = "/api/v1/events", tag = "audit",
    params(Followed, ("Last-Event-ID" = Option<String>, Header, description = "where it broke off, in place of `cursor`")),
    responses((status = 200, description = "`record` events with a record each, `left` where some were left out, \
                                            `end` with the reason", content_type = "text/event-stream"),
              (status = 400, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Asked(asked): Asked<AuditAsked>,
) -> Result<Response, Problem> {
    let told = told(&app, &caller, (&headers, &asked)).await?;
    Ok(sent(told, with_id))
}

/// What narrows it: as a search is, but for how much of it makes a page.
pub(crate) struct Followed;

impl utoipa::IntoParams for Followed {
    fn into_params(place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let mut all = <AuditAsked as utoipa::IntoParams>::into_params(place);
        all.retain(|one| one.name != "limit");
        all
    }
}

/// What is to be told of a search, from where it was left.
pub(crate) async fn told(
    app: &Arc<App>,
    caller: &Caller,
    (headers, asked): (&HeaderMap, &AuditAsked),
) -> Result<impl Stream<Item = Told> + Send + use<>, Problem> {
    caller.require(Permission::ReadAudit)?;
    if asked.limit.is_some() {
        return Err(Problem::invalid("events have no limit: leave it out"));
    }
    let query = asked.query(app.now())?;
    // A browser that comes back says where it was.
    let last = headers.get(&LAST_EVENT_ID).map(|value| value.to_str());
    let after = match last {
        None => query.before,
        Some(last) => {
            let last = last.map_err(|_| Problem::invalid("Last-Event-ID is no cursor"))?;
            let marks = last.parse::<Marks>();
            Some(marks.map_err(|error| Problem::invalid(error.to_string()))?)
        }
    };
    watch(app, caller, (query.filter, after)).await
}

/// As a response that goes on; `line` writes a record.
pub(crate) fn sent(
    told: impl Stream<Item = Told> + Send + 'static,
    line: impl Fn(&Found) -> String + Send + 'static,
) -> Response {
    let events = told.map(move |told| {
        let event = match told {
            // Without data nothing is dispatched, and the id is kept (WHATWG HTML §9.2.6).
            Told::Begins(marks) => Event::default().id(marks.to_string()),
            Told::Record(found, marks) => Event::default()
                .event("record")
                .id(marks.to_string())
                .data(line(&found)),
            Told::Left => Event::default().event("left").data("{}"),
            Told::End(why) => Event::default()
                .event("end")
                .data(serde_json::json!({ "why": why }).to_string()),
        };
        Ok::<_, Infallible>(event)
    });
    let alive = KeepAlive::new().interval(ALIVE);
    // Some servers in front keep an answer back until it is whole.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    (unbuffered, Sse::new(events).keep_alive(alive)).into_response()
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Less than what stands in front waits for.
const ALIVE: Duration = Duration::from_secs(15);
