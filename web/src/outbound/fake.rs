//! A network in which every URL that a test names answers as the test says, and all others cannot be
//! reached; it remembers what it was asked.

use std::collections::HashMap;

use futures_util::future::{BoxFuture, FutureExt as _};
use parking_lot::Mutex;

use super::{Answered, Outbound, OutboundAnswer, OutboundError, OutboundRequest};

type Answer = Box<dyn Fn(&OutboundRequest) -> Answered + Send + Sync>;

#[derive(Default)]
pub(crate) struct FakeOutbound {
    answers: Mutex<HashMap<String, Answer>>,
    /// Every request, in order.
    pub(crate) seen: Mutex<Vec<OutboundRequest>>,
}

impl FakeOutbound {
    /// From now on `url` answers so.
    pub(crate) fn answer(
        &self,
        url: &str,
        answer: impl Fn(&OutboundRequest) -> Answered + Send + Sync + 'static,
    ) {
        self.answers.lock().insert(url.to_owned(), Box::new(answer));
    }

    /// From now on `url` answers with this document.
    pub(crate) fn json(&self, url: &str, document: &serde_json::Value) {
        let body = document.to_string();
        self.answer(url, move |_| {
            Ok(OutboundAnswer {
                status: http::StatusCode::OK,
                headers: http::HeaderMap::new(),
                body: body.clone().into(),
            })
        });
    }

    /// How often `url` was asked.
    pub(crate) fn asked(&self, url: &str) -> usize {
        let seen = self.seen.lock();
        seen.iter().filter(|request| request.url == url).count()
    }
}

impl Outbound for FakeOutbound {
    fn send(&self, request: OutboundRequest) -> BoxFuture<'_, Answered> {
        let answered = match self.answers.lock().get(&request.url) {
            Some(answer) => answer(&request),
            None => Err(OutboundError::Unreached {
                host: request.url.clone(),
                word: "name_not_resolved",
            }),
        };
        self.seen.lock().push(request);
        async move { answered }.boxed()
    }

    /// One documentation address (RFC 5737) is refused.
    fn refuses(&self, url: &str) -> Option<OutboundError> {
        let refused = url.contains("://192.0.2.66");
        refused.then(|| OutboundError::NeverOpenable {
            host: "192.0.2.66".to_owned(),
        })
    }
}
