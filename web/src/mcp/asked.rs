//! The head of a request to the endpoint: what it takes and sends, of which session and revision.
//!
//! Promises that a browser's page of anybody else is refused, whatever it has (DNS rebinding), and that what is asked
//! in another form than the protocol's is told apart from what is refused.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use super::session::Session;
use crate::{api_error::Problem, app::App, auth::origin};

/// In which form the answers are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As server-sent events.
    Events,
    /// As one body.
    Whole,
}

impl Form {
    /// The one that a client takes.
    ///
    /// # Errors
    /// 406 where it takes neither.
    pub(super) fn taken(headers: &HeaderMap) -> Result<Self, Problem> {
        if takes(headers, &[EVENTS]) {
            return Ok(Self::Events);
        }
        let says_nothing = !headers.contains_key(header::ACCEPT);
        if says_nothing || takes(headers, &[JSON, "application/*", "*/*"]) {
            return Ok(Self::Whole);
        }
        Err(not_acceptable(
            "answers are application/json or text/event-stream: Accept both",
        ))
    }
}

/// Refuses who does not take a stream.
pub(super) fn takes_events(headers: &HeaderMap) -> Result<(), Problem> {
    match takes(headers, &[EVENTS, "text/*", "*/*"]) {
        true => Ok(()),
        false => Err(not_acceptable("this is a text/event-stream: Accept it")),
    }
}

/// Whether one of these is listed, and not as unwanted.
fn takes(headers: &HeaderMap, kinds: &[&str]) -> bool {
    let values = headers.get_all(header::ACCEPT).iter();
    let mut listed = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    listed.any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let unwanted = |part: &str| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.parse() == Ok(0.0))
        };
        kinds.iter().any(|known| kind.eq_ignore_ascii_case(known)) && !parts.any(unwanted)
    })
}

fn not_acceptable(words: &str) -> Problem {
    Problem::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", words)
}

/// Refuses what does not say that it is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case(JSON) {
        return Ok(());
    }
    let words = "a message is JSON: Content-Type: application/json";
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "media_type",
        words,
    ))
}

/// Refuses a page of another site.
pub(super) fn is_ours(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    // A page of anybody's name that leads here has that name as its origin and as ours.
    match origins.all(|one| {
        let one = one.to_str();
        one.is_ok_and(|one| origin::is_own(app, one, headers))
            && origin::is_by_our_name(app, headers)
    }) {
        true => Ok(()),
        false => Err(Problem::from_elsewhere(
            "this request came from another site's page: programs send no Origin",
        )),
    }
}

/// The session that is named, if any is.
///
/// # Errors
/// 400 for what is none.
pub(super) fn session(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    once(headers, &SESSION)
}

/// From where a stream is to go on.
pub(super) fn last_event(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    once(headers, &LAST_EVENT)
}

fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut said = headers.get_all(name).iter();
    let Some(first) = said.next() else {
        return Ok(None);
    };
    let text = first.to_str().ok().filter(|_| said.next().is_none());
    let words = || Problem::invalid(format!("{name} is said once, in plain letters"));
    text.map(Some).ok_or_else(words)
}

/// Refuses a revision that is not spoken here, or another than the session's. Who says none is believed to mean it.
pub(super) fn revision(headers: &HeaderMap, session: Option<&Session>) -> Result<(), Problem> {
    let Some(said) = once(headers, &REVISION)? else {
        return Ok(());
    };
    let agreed = session.and_then(Session::revision);
    // What the two agreed on is theirs, also where gig knows nothing of it.
    if agreed != Some(said) && !REVISIONS.contains(&said) {
        return Err(Problem::invalid(format!(
            "MCP-Protocol-Version is none that is spoken here: {}",
            REVISIONS.join(", ")
        )));
    }
    match agreed {
        Some(agreed) if agreed != said => Err(Problem::invalid(format!(
            "MCP-Protocol-Version is not the one that this session agreed on, {agreed}"
        ))),
        _ => Ok(()),
    }
}

/// Whether several messages may come as one: they might until they might no more.
pub(super) fn takes_batches(session: &Session) -> bool {
    let agreed = session.revision();
    agreed.is_some_and(|agreed| matches!(agreed, "2024-11-05" | "2025-03-26"))
}

/// Whether an empty event says where a stream begins: readers of before take it for a message.
pub(super) fn takes_marks(session: &Session) -> bool {
    session.revision() == Some("2025-11-25")
}

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// The first knows another transport than this one; its servers on standard streams are many, and are told apart from
/// the next revision's by nothing else.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn with(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        let values = values.iter().map(|value| HeaderValue::from_static(value));
        values.map(|value| (name.clone(), value)).collect()
    }

    #[test]
    fn answers_come_in_the_form_that_is_taken() {
        let form = |values: &[&'static str]| Form::taken(&with(header::ACCEPT, values)).ok();
        for both in [
            &["application/json, text/event-stream"][..],
            &["application/json", "Text/Event-Stream;q=0.5"],
        ] {
            assert_eq!(form(both), Some(Form::Events), "{both:?}");
        }
        for whole in [
            &["application/json"][..],
            &[],
            &["*/*"],
            &["application/json, text/event-stream;q=0"],
        ] {
            assert_eq!(form(whole), Some(Form::Whole), "{whole:?}");
        }
        assert_eq!(form(&["text/html"]), None);
        let streams = |values: &[&'static str]| takes_events(&with(header::ACCEPT, values)).is_ok();
        assert!(streams(&["text/event-stream"]) && streams(&["*/*"]));
        assert!(!streams(&["application/json"]) && !streams(&[]));
    }

    #[test]
    fn a_page_whose_name_leads_here_is_no_page_of_ours() {
        let lab = crate::app::tests::Lab::new();
        let asked = |host: &'static str, page: &'static str| {
            let mut headers = with(header::HOST, &[host]);
            headers.insert(header::ORIGIN, HeaderValue::from_static(page));
            is_ours(&lab.app, &headers).is_ok()
        };
        assert!(asked("127.0.0.1:8080", "http://127.0.0.1:8080"));
        assert!(asked("localhost:8080", "http://localhost:8080"));
        assert!(!asked(
            "rebound.example:8080",
            "http://rebound.example:8080"
        ));
        assert!(!asked("127.0.0.1:8080", "127.0.0.1:8080"));
    }

    #[test]
    fn what_is_said_twice_or_not_spoken_here_is_refused() {
        assert!(session(&with(SESSION, &["a", "b"])).is_err());
        assert_eq!(session(&with(SESSION, &["a"])).unwrap(), Some("a"));
        for (said, good) in [("2025-06-18", true), ("2024-10-07", false), ("x", false)] {
            assert_eq!(
                revision(&with(REVISION, &[said]), None).is_ok(),
                good,
                "{said}"
            );
        }
        assert!(
            is_json(&with(
                header::CONTENT_TYPE,
                &["application/json; charset=utf-8"]
            ))
            .is_ok()
        );
        assert!(is_json(&with(header::CONTENT_TYPE, &["text/plain"])).is_err());
    }
}
