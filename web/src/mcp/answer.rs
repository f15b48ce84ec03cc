//! The answers of the endpoint: a stream of events, one body, or none.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;

use super::{asked, message::NoMessage, session::Listener};
use crate::{api_error::Problem, guard::InOwnWords};

/// What comes along a stream, until it ends: an event of one line for each message (WHATWG HTML §9.2.6), which has no
/// line break that would make it two.
pub(super) fn events(listener: Listener) -> Response {
    let marks = asked::takes_marks(listener.session());
    let first = marks.then(|| format!("id: {}\ndata: \n\n", listener.at()));
    let events = stream::unfold((first, listener), |(first, mut listener)| async move {
        if let Some(first) = first {
            return Some((Ok::<_, Infallible>(first), (None, listener)));
        }
        let event = match tokio::time::timeout(ALIVE, listener.next()).await {
            Ok(next) => next.map(|(mark, text)| format!("id: {mark}\ndata: {text}\n\n"))?,
            Err(_) => ":\n\n".to_owned(),
        };
        Some((Ok(event), (None, listener)))
    });
    let fields = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // Some servers in front keep an answer back until it is whole.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (fields, Body::from_stream(events)).into_response()
}

/// All answers at once, as soon as all are there.
///
/// # Errors
/// 503 where they take longer than anybody waits for a body, or are more than one holds.
pub(super) async fn whole(mut listener: Listener, batch: bool) -> Result<Response, Problem> {
    let collected = async {
        let (mut all, mut octets) = (Vec::new(), 0);
        while let Some((_, text)) = listener.next().await {
            octets += text.len();
            if octets > MOST_OCTETS {
                return Err(Problem::unavailable(
                    "the answers are more than one body holds: Accept text/event-stream, and they come one by one",
                ));
            }
            all.push(text);
        }
        Ok(all)
    };
    let all = tokio::time::timeout(WITHIN, collected).await;
    let all = all.map_err(|_| {
        Problem::unavailable(
            "the server took too long: Accept text/event-stream, and it may take as long as it does",
        )
    })??;
    let text = match (batch, all.first()) {
        (false, Some(only)) => only.to_string(),
        (false, None) => return Err(Problem::unavailable("the request was cancelled")),
        (true, _) => format!("[{}]", all.join(",")),
    };
    Ok(json(StatusCode::OK, text))
}

/// Nothing was asked.
pub(super) fn taken() -> Response {
    StatusCode::ACCEPTED.into_response()
}

/// It is no message.
pub(super) fn no_message(why: NoMessage) -> Response {
    let mut answer = json(StatusCode::BAD_REQUEST, why.line());
    answer.extensions_mut().insert(InOwnWords);
    answer
}

fn json(status: StatusCode, text: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Of one body: two of the longest messages.
const MOST_OCTETS: usize = 8 * 1024 * 1024;
/// Less than what stands in front waits for.
const ALIVE: Duration = Duration::from_secs(15);
/// Less than any request may take that is answered at once.
const WITHIN: Duration = Duration::from_secs(50);
