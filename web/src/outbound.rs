//! What the appliance itself asks of the network: one HTTP exchange with a place that a person named.
//!
//! A URL typed into a form must not become a way into the network that gig stands in. Whoever implements
//! [`Outbound`] vets each address as it vets those of a sandbox's traffic, follows no redirect, and bounds
//! answer and time. What an error says may be shown to whoever typed the URL: it holds no address, and
//! nothing of what answered.

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use thiserror::Error;

#[cfg(test)]
pub(crate) mod fake;

/// Goes out from the host, as gig itself.
pub trait Outbound: Send + Sync + 'static {
    /// One exchange over a connection of its own. No redirect is followed. Dropping the future ends it.
    fn send(&self, request: OutboundRequest) -> BoxFuture<'_, Answered>;

    /// Why nothing that is sent there would ever arrive, as far as the URL itself says so: nobody is asked. `None` says
    /// nothing of what it leads to.
    fn refuses(&self, url: &str) -> Option<OutboundError>;
}

/// An answer, or why there is none.
pub type Answered = Result<OutboundAnswer, OutboundError>;

/// What is asked.
pub struct OutboundRequest {
    /// `GET`, `POST` …
    pub method: Method,
    /// `https://host[:port]/path`. `http://` only where the address is private and opened.
    pub url: String,
    /// Beside `Host`, `User-Agent` and `Connection`, which are set.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Empty: none.
    pub body: Bytes,
    /// The most octets that an answer's body may have.
    pub largest: usize,
    /// For all of it: look-up, connection, TLS and answer.
    pub deadline: Duration,
}

/// What was answered, whatever its status.
#[derive(Debug, Clone)]
pub struct OutboundAnswer {
    /// The status code; a redirect is an answer.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body, whole.
    pub body: Bytes,
}

/// No answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutboundError {
    /// The URL is unusable, in words.
    #[error("{0}")]
    Url(&'static str),
    /// The host's address is private, and nothing opens it.
    #[error(
        "{host} has an address that is not public; gig serve --outbound-private CIDR opens private ones"
    )]
    Private {
        /// As the URL has it.
        host: String,
    },
    /// gig itself, a metadata service, multicast.
    #[error("{host} has an address that nothing opens")]
    NeverOpenable {
        /// As the URL has it.
        host: String,
    },
    /// Clear text to a public address, or to one that only a proxy knows.
    #[error("{host} is not asked in clear text: write https://")]
    ClearText {
        /// As the URL has it.
        host: String,
    },
    /// No name, no route, no listener, no valid certificate.
    #[error("{host} cannot be reached ({word})")]
    Unreached {
        /// As the URL has it.
        host: String,
        /// One word of the closed vocabulary of denials.
        word: &'static str,
    },
    /// What came back is no HTTP answer, or none came.
    #[error("{host} gave no usable answer")]
    Exchange {
        /// As the URL has it.
        host: String,
    },
    /// Larger than was asked for.
    #[error("{host} answers with more than {largest} octets")]
    Large {
        /// As the URL has it.
        host: String,
        /// The bound.
        largest: usize,
    },
    /// Not in time.
    #[error("{host} did not answer in time")]
    Slow {
        /// As the URL has it.
        host: String,
    },
}

impl OutboundRequest {
    /// A `GET` without a body, with the usual bounds.
    #[must_use]
    pub const fn get(url: String) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: Vec::new(),
            body: Bytes::new(),
            largest: LARGEST,
            deadline: DEADLINE,
        }
    }

    /// A `POST` of a body of this type, with the usual bounds.
    #[must_use]
    pub fn post(url: String, content_type: &'static str, body: Bytes) -> Self {
        let content_type = HeaderValue::from_static(content_type);
        Self {
            method: Method::POST,
            headers: vec![(http::header::CONTENT_TYPE, content_type)],
            body,
            ..Self::get(url)
        }
    }

    /// Also sends a field.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// Fields and body may hold a secret, and so may a webhook's URL.
impl fmt::Debug for OutboundRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundRequest")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// A document of keys or a chat's answer is far smaller.
const LARGEST: usize = 256 * 1024;
/// As long as a person waits before a page; a look-up that fails takes that long by itself.
const DEADLINE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tests::Lab;

    #[tokio::test]
    async fn what_is_asked_tells_neither_its_url_nor_what_it_carries() {
        let lab = Lab::new();
        let url = "https://hooks.example/T0/secret";
        lab.outbound.json(url, &serde_json::json!({"ok": true}));
        let name = HeaderName::from_static("x-key");
        let request = OutboundRequest::post(url.to_owned(), "text/plain", Bytes::from("body"))
            .header(name, HeaderValue::from_static("hidden"));
        let shown = format!("{request:?}");
        assert_eq!(shown, "OutboundRequest { method: POST, .. }");
        let answer = lab.app.outbound().send(request).await.unwrap();
        assert_eq!(&answer.body[..], br#"{"ok":true}"#);
        assert_eq!(lab.outbound.asked(url), 1);
        let other = OutboundRequest::get("https://else.example/".to_owned());
        assert!(lab.app.outbound().send(other).await.is_err());
    }
}
