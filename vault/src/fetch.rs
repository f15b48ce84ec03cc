//! Asking another service over HTTP: what providers and kinds need of the network, and nothing more.
//!
//! The program implements [`Fetch`] once. An implementation verifies certificates, follows no
//! redirect (a credential must not travel on to where an answer says), keeps no cookies, and holds to
//! the deadline and the size given. What is asked for is the operator's choice, so that private
//! addresses are reached; nothing that a sandbox says gets here.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::secret_bytes::SecretBytes;

/// An answer to come. Dropping it abandons the exchange.
pub type FetchFuture<'a> =
    Pin<Box<dyn Future<Output = Result<FetchAnswer, FetchError>> + Send + 'a>>;

/// Does one exchange.
pub trait Fetch: Send + Sync + fmt::Debug {
    /// Sends `request` and reads the whole answer, whatever its status.
    ///
    /// # Errors
    /// When there is no answer, or not within the bounds.
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_>;
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchMethod {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
}

impl FetchMethod {
    /// As it stands in a request line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

/// What to send. `Debug` shows no header's value and no body.
#[derive(Debug)]
pub struct FetchRequest {
    /// The method.
    pub method: FetchMethod,
    /// `https://host[:port]/path`, or `http://` where the operator wrote so. No credentials in it.
    pub url: String,
    /// Fields beside `Host`, `User-Agent` and `Content-Length`, which the implementation adds.
    pub headers: Vec<(&'static str, SecretBytes)>,
    /// The body; empty for none.
    pub body: SecretBytes,
    /// PEM roots to trust for this exchange alone; without any, the program's.
    pub roots: Option<Arc<[u8]>>,
    /// For the whole exchange.
    pub deadline: Duration,
    /// Octets of the answer's body; a longer one is an error.
    pub largest: usize,
}

impl FetchRequest {
    /// A request with the usual bounds and nothing else.
    #[must_use]
    pub fn new(method: FetchMethod, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: SecretBytes::default(),
            roots: None,
            deadline: DEADLINE,
            largest: LARGEST,
        }
    }

    /// Adds a field.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<SecretBytes>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the body and says what it is.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<SecretBytes>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }
}

/// What came back. `Debug` shows no body.
#[derive(Debug)]
pub struct FetchAnswer {
    /// Of the answer; redirects arrive here as they are.
    pub status: u16,
    /// Fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, decoded from chunks.
    pub body: SecretBytes,
}

impl FetchAnswer {
    /// The first field of this name (in lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        fields
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }
}

/// No answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The URL or a header cannot be sent.
    #[error("the request to {host} cannot be sent: {why}")]
    Request {
        /// Where to; empty when the URL names none.
        host: String,
        /// What is wrong; holds no value.
        why: String,
    },
    /// The host was not reached.
    #[error("{host} cannot be reached: {why}")]
    Connect {
        /// Where to.
        host: String,
        /// What went wrong.
        why: String,
    },
    /// It broke in the middle.
    #[error("the exchange with {host} broke: {why}")]
    Exchange {
        /// Where to.
        host: String,
        /// What went wrong.
        why: String,
    },
    /// It took too long.
    #[error("{host} did not answer within {deadline:?}")]
    Slow {
        /// Where to.
        host: String,
        /// What was allowed.
        deadline: Duration,
    },
    /// The answer is too large.
    #[error("{host} answered with more than {largest} octets")]
    Large {
        /// Where to.
        host: String,
        /// What was allowed.
        largest: usize,
    },
}

/// A request inside waits for it.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Far above any token or secret, far below what would hurt.
pub const LARGEST: usize = 1 << 20;
