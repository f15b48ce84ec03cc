//! The record, handed out whole: everything that a search finds, in a form that other programs read.
//!
//! It is sent as it is read, a page at a time and newest first, so that no export takes more memory than
//! one page. Whoever takes records away is recorded before the first of them goes. What cannot be read to
//! its end is cut off, never ended as if it were whole; so is what goes to somebody who may read it no more.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use gig_audit::{
    Deed, Entry, Event, VerdictWord,
    export::{csv, ocsf},
    search::{Found, Query},
};

use utoipa::openapi::path::{Parameter, ParameterIn};

use super::{
    Asked, Path,
    audit::{AuditAsked, MOST},
};
use crate::{
    api_error::Problem,
    app::App,
    auth::{Caller, origin},
    places::{Turn, on_behalf},
    role::Permission,
};

/// How records are written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// As they were written, one JSON object a line.
    Jsonl,
    /// A table with a line of names.
    Csv,
    /// OCSF events, one JSON object a line.
    Ocsf,
}

impl Format {
    fn of(word: &str) -> Option<Self> {
        match word {
            "jsonl" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "ocsf" => Some(Self::Ocsf),
            _ => None,
        }
    }

    /// The type of what is sent, and the name of the file that a browser makes of it.
    const fn headers(self) -> (&'static str, &'static str) {
        match self {
            Self::Jsonl => (
                "application/jsonl",
                "attachment; filename=\"gig-record.jsonl\"",
            ),
            Self::Csv => (
                "text/csv; charset=utf-8",
                "attachment; filename=\"gig-record.csv\"",
            ),
            Self::Ocsf => (
                "application/jsonl",
                "attachment; filename=\"gig-record-ocsf.jsonl\"",
            ),
        }
    }

    fn lines(self, records: &[Found], text: &mut String) {
        for found in records {
            match self {
                Self::Jsonl => {
                    text.push_str(&found.line);
                    text.push('\n');
                }
                Self::Csv => text.push_str(&csv::line(&found.row)),
                Self::Ocsf => {
                    text.push_str(&ocsf::event(&found.row));
                    text.push('\n');
                }
            }
        }
    }
}

/// What narrows an export: as a search is, but for what parts its pages.
pub(crate) struct Narrowed;

impl utoipa::IntoParams for Narrowed {
    fn into_params(place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let mut all = <AuditAsked as utoipa::IntoParams>::into_params(place);
        all.retain(|one| !["limit", "cursor"].contains(&one.name.as_str()));
        all
    }
}

/// For a HEAD, of no length, as what is sent for a GET: an empty one would say that it is 0 (RFC 9110 §8.6).
pub(super) fn unsized_body() -> Body {
    Body::from_stream(stream::empty::<Result<Bytes, Infallible>>())
}

/// Everything that a search finds, newest first: `jsonl`, `csv` or `ocsf`.
#[utoipa::path(get, path = "/api/v1/audit/export/{format}", tag = "audit", params(Narrowed),
    responses((status = 200, description = "the records",
               content((String = "application/jsonl"), (String = "text/csv"))), (status = 400, body = Problem),
              (status = 404, body = Problem)))]
pub(crate) async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(format): Path<String>,
    (method, headers): (Method, HeaderMap),
    Asked(asked): Asked<AuditAsked>,
) -> Result<Response, Problem> {
    caller.require(Permission::ReadAudit)?;
    from_here(&caller, &headers)?;
    let wanted = Format::of(&format).ok_or_else(|| Problem::missing("format", &format))?;
    if asked.limit.is_some() || !asked.cursor.trim().is_empty() {
        return Err(Problem::invalid(
            "an export is everything that is found: it has neither `limit` nor `cursor`; narrow it by time",
        ));
    }
    let mut query = asked.query(app.now())?;
    query.limit = MOST;
    // The first page before the first octet: what cannot be searched is told as a problem.
    let first = app.search(query.clone()).await?;
    let (kind, name) = wanted.headers();
    let told = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_DISPOSITION, name),
    ];
    // Nobody takes anything away by that.
    if method == Method::HEAD {
        return Ok((told, unsized_body()).into_response());
    }
    let what = crate::pages::audit::query(&asked, "");
    app.record(taken(&app, &caller, &format, &what)).await?;
    let mut text = match wanted {
        Format::Csv => csv::header(),
        Format::Jsonl | Format::Ocsf => String::new(),
    };
    wanted.lines(&first.records, &mut text);
    let rest = first.next.map(|next| Query {
        before: Some(next),
        ..query
    });
    let export = Rest {
        app,
        caller,
        wanted,
        ready: Some(text),
        rest,
    };
    let parts = stream::try_unfold(export, Rest::part);
    Ok((told, Body::from_stream(parts)).into_response())
}

/// What of an export has not been sent yet.
struct Rest {
    app: Arc<App>,
    caller: Caller,
    wanted: Format,
    /// Written out already.
    ready: Option<String>,
    /// The page that follows.
    rest: Option<Query>,
}

impl Rest {
    /// The next of it; `None` at its end. An export may take an hour: whoever reads on must still be let.
    async fn part(mut self) -> Result<Option<(Bytes, Self)>, String> {
        if let Some(text) = self.ready.take() {
            return Ok(Some((Bytes::from(text), self)));
        }
        let Some(query) = self.rest.take() else {
            return Ok(None);
        };
        let still = self.caller.still(&self.app).await;
        still.map_err(|problem| problem.detail)?;
        let page = on_behalf(turn_of(&self.caller), self.app.search(query.clone())).await;
        let page = page.map_err(|problem| problem.detail)?;
        let mut text = String::new();
        self.wanted.lines(&page.records, &mut text);
        self.rest = page.next.map(|next| Query {
            before: Some(next),
            ..query
        });
        Ok(Some((Bytes::from(text), self)))
    }
}

/// An export is recorded as what somebody did, whom no other site may have led there.
pub(super) fn from_here(caller: &Caller, headers: &HeaderMap) -> Result<(), Problem> {
    if caller.session.is_some() && origin::is_led_here(headers) {
        return Err(Problem::from_elsewhere(
            "another site led here: export from the console's search",
        ));
    }
    Ok(())
}

/// Beside what they look at meanwhile: an export that may take an hour is not cut for that.
pub(super) fn turn_of(caller: &Caller) -> Turn {
    let turn = caller.turn();
    Turn {
        own: format!("export of {}", turn.own).into(),
        ..turn
    }
}

/// Who took what.
pub(super) fn taken(app: &App, caller: &Caller, format: &str, what: &str) -> Entry {
    let actor = caller.actor(app);
    let mut entry = Entry::new(Event::Admin);
    entry.profile = Some(actor.name);
    entry.src = actor.address;
    entry.verdict = Some(VerdictWord::Allow);
    let what = if what.is_empty() { "all of it" } else { what };
    entry.deed = Some(Deed::RecordExport);
    entry.findings = vec![format!("record exported as {format}: {what}").into()];
    entry
}

#[cfg(test)]
mod tests {
    use gig_audit::search::Filter;

    use super::*;
    use crate::{
        app::tests::Lab,
        store::{Change, WebhookKind},
    };

    fn webhook(lab: &Lab, answerer: &str) {
        lab.make(&Change::SaveWebhook {
            name: "bot".parse().unwrap(),
            kind: WebhookKind::Generic,
            url: "https://hooks.example/x".to_owned(),
            answerers: vec![answerer.to_owned()],
            rules: false,
            new: false,
        });
    }

    #[tokio::test]
    async fn who_may_read_the_record_no_more_gets_no_more_of_it() {
        let lab = Lab::new();
        let _record = gig_audit::SqliteStore::open(&lab.record(), "here").unwrap();
        webhook(&lab, "ana");
        let bot = lab.app.store.webhooks().unwrap().remove(0);
        let export = || Rest {
            app: Arc::clone(&lab.app),
            caller: Caller::of_webhook(&bot, ("ana", false), None),
            wanted: Format::Jsonl,
            ready: Some("first".to_owned()),
            rest: Some(Query {
                filter: Filter::default(),
                before: None,
                limit: MOST,
            }),
        };
        let (first, rest) = export().part().await.unwrap().unwrap();
        assert_eq!(&first[..], b"first");
        let (_page, rest) = rest.part().await.unwrap().unwrap();
        assert!(rest.part().await.unwrap().is_none(), "all of it");
        let (_first, rest) = export().part().await.unwrap().unwrap();
        webhook(&lab, "ben");
        assert!(rest.part().await.is_err(), "cut, not ended");
    }
}
