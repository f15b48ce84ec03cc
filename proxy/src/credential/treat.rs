//! What is done to a request after its sentinels were replaced, right before it is sent.
//!
//! Most secrets are put where their sentinel stood and that is all. Others sign: their sentinel only says
//! which key is meant, and the request as the origin will see it is signed here, once its header section
//! is final. A treatment that wants to see the body says how much of it at most; one that must change
//! the body as it streams hands back how.

use std::{fmt, sync::Arc};

use gig_policy::{DenyReason, SecretName};
use gig_vault::Secret;
use http::{HeaderMap, HeaderValue, Method, uri::PathAndQuery};

use super::{memory::Memory, rewrite::Rewrite};

/// A header section as the program wrote it, before anything of it was changed.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Path and query, before the path was brought to its one spelling.
    pub target: PathAndQuery,
    /// All fields, `Host` among them where the program's protocol has it.
    pub headers: HeaderMap,
}

/// A request that is complete but for what a treatment adds.
#[derive(Debug)]
pub struct Signable<'a> {
    /// The method.
    pub method: &'a Method,
    /// `https` or `http`.
    pub scheme: &'static str,
    /// The host as the origin will see it, with the port where the program wrote one.
    pub authority: &'a HeaderValue,
    /// Path and query, values placed.
    pub target: &'a mut PathAndQuery,
    /// The header section, values placed, without `Host`.
    pub headers: &'a mut HeaderMap,
    /// The whole body, where [`Treat::wants_body`] asked for it; empty where there is none.
    pub body: Option<&'a [u8]>,
    /// What the program wrote, where [`Treat::wants_sent`] asked for it.
    pub sent: Option<&'a Sent>,
    /// A value went into the body, or its coding was undone: it is not what the program wrote.
    pub changed: bool,
    /// What the body hashed to as the program wrote it (SHA-256, in hexadecimal digits), where that was seen;
    /// a body that was not changed hashes to it still.
    pub written: Option<&'a str>,
    /// What is held of the body while it streams is counted in it.
    pub memory: &'a Arc<Memory>,
}

/// Signs, or otherwise completes, a request.
pub trait Treat: Send + Sync + fmt::Debug {
    /// Which secret this is, for the record.
    fn secret(&self) -> &Arc<Secret>;

    /// How many octets of body must be at hand before [`Treat::treat`]; `None`: it does without. A
    /// longer body is refused.
    fn wants_body(&self, headers: &HeaderMap, target: &PathAndQuery) -> Option<usize>;

    /// How many octets of a body into which values may go must be at hand, because the request says what
    /// the body hashes to; `None`: it does without.
    fn covers_body(&self, _headers: &HeaderMap) -> Option<usize> {
        None
    }

    /// Whether it has to see what the program wrote, because the program signed that.
    fn wants_sent(&self) -> bool {
        false
    }

    /// Completes the request. What is handed back changes the body while it streams, after sentinels in
    /// it were replaced.
    ///
    /// # Errors
    /// [`Untreatable`]: the request is refused.
    fn treat(&self, request: Signable<'_>) -> Result<Option<Box<dyn Rewrite>>, Untreatable>;
}

/// A request that its secret's treatment cannot complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the request cannot be completed with secret {name}: {why}")]
pub struct Untreatable {
    /// The secret's name.
    pub name: SecretName,
    /// The word that it is told by: misuse, or a request that cannot be completed.
    pub reason: DenyReason,
    /// What stands in the way; holds no value.
    pub why: String,
}
