//! What the API answers when it does not do as asked: problem documents (RFC 9457).
//!
//! The outside learns what it can do about it; what went wrong inside goes to the log.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    control::ControlError,
    narrowing::NarrowingRefused,
    password::PasswordRefused,
    role::{Permission, Role},
    secrets::SecretError,
    store::{ChangeError, ParseNameError},
};

/// A problem document.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// `urn:gig:problem:` and a stable word.
    #[serde(rename = "type")]
    kind: String,
    /// The word, for people.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What is wrong and what to do.
    pub(crate) detail: String,
    /// A policy's mistakes, each with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub(crate) problems: Vec<gig_policy::Problem>,
    /// The lowest role that may do what was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    needs_role: Option<Role>,
    /// Seconds to wait before the next try.
    #[serde(skip)]
    retry_after: Option<u64>,
    /// The request came from another site: the record says so.
    #[serde(skip)]
    elsewhere: bool,
}

/// The status of an answer, and after how many seconds what it refuses may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerStatus {
    status: StatusCode,
    retry_after: Option<u64>,
}

impl AnswerStatus {
    /// Nothing is refused.
    pub(crate) const OK: Self = Self {
        status: StatusCode::OK,
        retry_after: None,
    };

    /// Of a page that is shown with what was refused, if anything was.
    pub(crate) fn beside(problem: Option<&Problem>) -> Self {
        problem.map_or(Self::OK, Problem::answer_status)
    }

    /// Gives an answer both.
    pub(crate) fn of(self, answer: impl IntoResponse) -> Response {
        let mut answer = (self.status, answer).into_response();
        if let Some(seconds) = self.retry_after {
            let headers = answer.headers_mut();
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        answer
    }
}

/// Of an answer: what was asked came from another site.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromElsewhere;

impl Problem {
    pub(crate) fn new(status: StatusCode, word: &str, detail: impl Into<String>) -> Self {
        let retry_after = (status == StatusCode::TOO_MANY_REQUESTS).then_some(AGAIN);
        Self {
            kind: format!("urn:gig:problem:{word}"),
            title: word.replace('_', " "),
            status: status.as_u16(),
            detail: detail.into(),
            problems: Vec::new(),
            needs_role: None,
            retry_after,
            elsewhere: false,
        }
    }

    /// What somebody was shown before they decided is another by now.
    pub(crate) fn meanwhile(detail: &str) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, "changed_meanwhile", detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Whether a code was none, or was used.
    pub(crate) fn is_of_code(&self) -> bool {
        self.title == "code"
    }

    /// Whether somebody else has the name that was wanted.
    pub(crate) fn is_of_name(&self) -> bool {
        self.title == "exists"
    }

    #[cfg(test)]
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Our own fault: told to the log, not to the outside.
    pub(crate) fn internal(error: impl std::error::Error) -> Self {
        log(&error);
        let detail = "gig could not do this; its own log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The database did not answer, or not as it should: told to the log, and worth another try.
    pub(crate) fn store(error: impl std::error::Error) -> Self {
        log(&error);
        let detail = "gig's database could not do this now; gig's own log says why";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail).retried_after(1)
    }

    /// Nothing is done that cannot be recorded. Where the record is, and why not, is told to the log alone.
    pub(crate) fn not_recorded(why: &dyn std::error::Error) -> Self {
        log(why);
        let detail = "this could not be recorded, so it was not done; gig's own log says why";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_recorded", detail).retried_after(1)
    }

    pub(crate) fn missing(what: &str, name: &str) -> Self {
        let detail = format!("there is no {what} {name}");
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// A record that was there once.
    pub(crate) fn removed(record: &str) -> Self {
        let detail = format!(
            "record {record} is there no more, and its chain goes on behind it: what was removed by its age, or by `gig audit \
             prune`, the chain's signed checkpoints list, and `gig audit verify` tells it from what is missing"
        );
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// Somebody changes what is there without saying what they have seen of it (RFC 6585 §3).
    pub(crate) fn unseen(what: &str) -> Self {
        let detail = format!(
            "say what this is built on: If-Match with the {what}'s ETag, or If-None-Match: * for a new one"
        );
        Self::new(
            StatusCode::PRECONDITION_REQUIRED,
            "precondition_required",
            detail,
        )
    }

    /// The same of a list, and of what goes or is written anew.
    pub(crate) fn unmatched(what: &str) -> Self {
        let detail = format!(
            "say what this is built on: If-Match with the ETag of the {what}, or `*` for whatever is there now"
        );
        Self::new(
            StatusCode::PRECONDITION_REQUIRED,
            "precondition_required",
            detail,
        )
    }

    /// The same, with what else is wrong with the request, so that whoever mends one does not meet the other then.
    pub(crate) fn beside<T>(self, judged: Result<T, Self>) -> Self {
        match judged {
            Err(mut other) => {
                if other.status().is_client_error() {
                    other.detail = format!("{}; and {}", other.detail, self.detail);
                }
                other
            }
            Ok(_) => self,
        }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    pub(crate) fn unavailable(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }

    pub(crate) fn unauthenticated() -> Self {
        let detail = "sign in, or send a token: Authorization: Bearer gig_…";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// A role that may not do this: says which does, of those that may it the one that may least.
    pub(crate) fn beyond(role: Role, permission: Permission) -> Self {
        let least = Role::least(permission);
        let words = format!(
            "you are {role}, which {}: to {} takes the role {least}; ask an admin for it",
            role.meaning(),
            permission.words()
        );
        Self::forbidden(words).taking(least)
    }

    /// The same, with the lowest role that may.
    pub(crate) const fn taking(mut self, role: Role) -> Self {
        self.needs_role = Some(role);
        self
    }

    /// Refused as what another site sent in somebody's name.
    pub(crate) fn from_elsewhere(detail: impl Into<String>) -> Self {
        let mut problem = Self::forbidden(detail);
        problem.elsewhere = true;
        problem
    }

    pub(crate) const fn is_from_elsewhere(&self) -> bool {
        self.elsewhere
    }

    pub(crate) fn too_many(seconds: u64) -> Self {
        let detail = format!("too many failed sign-ins: wait {seconds} seconds");
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", detail);
        problem.retry_after = Some(seconds);
        problem
    }

    /// The same, with the seconds to wait before the next try.
    pub(crate) const fn retried_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// What it answers with, on a page as elsewhere.
    pub(crate) fn answer_status(&self) -> AnswerStatus {
        AnswerStatus {
            status: self.status(),
            retry_after: self.retry_after,
        }
    }

    pub(crate) fn document(problems: Vec<gig_policy::Problem>) -> Self {
        let detail = "the document is not a valid policy";
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_policy", detail);
        problem.problems = problems;
        problem
    }
}

/// With its causes.
fn log(error: &dyn std::error::Error) {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    tracing::error!(error = words, "a request could not be answered");
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        let word = match &error {
            ChangeError::Missing { .. } => (StatusCode::NOT_FOUND, "not_found"),
            ChangeError::NoServer { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "scope"),
            ChangeError::Exists { .. } => (StatusCode::CONFLICT, "exists"),
            ChangeError::Stale { .. } => (StatusCode::PRECONDITION_FAILED, "changed_meanwhile"),
            ChangeError::Meanwhile { .. } => (StatusCode::PRECONDITION_FAILED, "changed_meanwhile"),
            ChangeError::Ambiguous { .. } => (StatusCode::CONFLICT, "ambiguous"),
            ChangeError::InUse { .. } => (StatusCode::CONFLICT, "in_use"),
            ChangeError::Full { .. } => (StatusCode::CONFLICT, "full"),
            ChangeError::TooMuch { left, .. } => {
                let much = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_much", error.to_string());
                return much.retried_after(*left);
            }
            ChangeError::LastAdmin { .. } => (StatusCode::CONFLICT, "last_admin"),
            ChangeError::SignOn { .. } => (StatusCode::CONFLICT, "single_sign_on"),
            ChangeError::Lapsed => (StatusCode::FORBIDDEN, "forbidden"),
            ChangeError::Overtaken => (StatusCode::CONFLICT, "in_progress"),
            ChangeError::Code => (StatusCode::FORBIDDEN, "code"),
            ChangeError::TwoPeople(_) => (StatusCode::CONFLICT, "two_person_rule"),
            ChangeError::Outdated { .. } => (StatusCode::CONFLICT, "stale"),
            ChangeError::Decided { .. } => (StatusCode::CONFLICT, "decided"),
            ChangeError::Unheard { .. } => (StatusCode::GONE, "unheard"),
            ChangeError::Setup => (StatusCode::FORBIDDEN, "set_up_link"),
            ChangeError::NotRecorded(_) => return Self::not_recorded(&error),
            ChangeError::Store(_) => return Self::store(error),
        };
        Self::new(word.0, word.1, error.to_string())
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let word = match &error {
            ControlError::Missing(_) => (StatusCode::NOT_FOUND, "not_found"),
            ControlError::Unable(_) | ControlError::Examine(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "no_sandboxes")
            }
            ControlError::Taken(_) => (StatusCode::CONFLICT, "registered"),
            ControlError::Changed(_) => (StatusCode::CONFLICT, "changed_meanwhile"),
            ControlError::Undecided(_) | ControlError::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
            ControlError::Crowded(_) => (StatusCode::TOO_MANY_REQUESTS, "crowded"),
            ControlError::Log => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            ControlError::Start { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "not_started"),
        };
        Self::new(word.0, word.1, error.to_string())
    }
}

impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Self {
        let word = match &error {
            SecretError::Missing(_) => (StatusCode::NOT_FOUND, "not_found"),
            SecretError::Exists(_) => (StatusCode::CONFLICT, "exists"),
            SecretError::Refused(_) => (StatusCode::UNPROCESSABLE_ENTITY, "secret"),
            SecretError::NotRecorded(_) => return Self::not_recorded(&error),
            SecretError::Unavailable(_) => return Self::internal(error),
        };
        Self::new(word.0, word.1, error.to_string())
    }
}

impl From<PasswordRefused> for Problem {
    fn from(error: PasswordRefused) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "password",
            error.to_string(),
        )
    }
}

impl From<NarrowingRefused> for Problem {
    fn from(error: NarrowingRefused) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "scope", error.to_string())
    }
}

impl From<ParseNameError> for Problem {
    fn from(error: ParseNameError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "name", error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, elsewhere) = (self.status(), self.elsewhere);
        let mut response = self.answer_status().of(Json(self));
        let headers = response.headers_mut();
        let problem = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, problem);
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        if status == StatusCode::UPGRADE_REQUIRED {
            // The one thing to upgrade to (RFC 9110 §15.5.22).
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            let version = HeaderValue::from_static("13");
            headers.insert(header::SEC_WEBSOCKET_VERSION, version);
        }
        if elsewhere {
            response.extensions_mut().insert(FromElsewhere);
        }
        response
    }
}

/// Seconds, where nobody knows when there is room again: no 429 leaves them out.
const AGAIN: u64 = 60;
