//! `/api/v1`: everything the console does, for programs.
//!
//! Bodies are JSON with unknown fields refused; lists come in pages that end with a cursor; errors are
//! problem documents (RFC 9457). Each handler begins with the permission it needs.

pub(crate) mod allowing;
pub(crate) mod assignments;
pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod audit_chain;
pub(crate) mod audit_export;
pub(crate) mod audit_proof;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod factors;
pub(crate) mod floors;
pub(crate) mod health;
pub(crate) mod held;
pub(crate) mod nodes;
pub(crate) mod paging;
pub(crate) mod policies;
pub(crate) mod precondition;
pub(crate) mod proposals;
pub(crate) mod reading;
pub(crate) mod recorded;
pub(crate) mod register;
pub(crate) mod sandboxes;
pub(crate) mod searches;
pub(crate) mod secrets;
pub(crate) mod server_log;
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod teams;
pub(crate) mod tokens;
pub(crate) mod users;
pub(crate) mod webhooks;

use axum::{
    Json,
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use serde::Serialize;

pub(crate) use self::{
    paging::{Items, Order, Paging, Whole, counted, within},
    reading::{Asked, Body, OptionalBody, Path},
};

/// 201: what was made, and where it is (RFC 9110 §15.3.2).
#[derive(Debug)]
pub(crate) struct Made<T> {
    /// As a client asks for it; names are safe in a path.
    pub(crate) place: String,
    pub(crate) view: T,
}

impl<T: Serialize> IntoResponse for Made<T> {
    fn into_response(self) -> Response {
        let place = [(header::LOCATION, self.place)];
        (StatusCode::CREATED, place, Json(self.view)).into_response()
    }
}

/// How an answer begins.
pub(crate) type Begun = (StatusCode, Option<[(HeaderName, String); 1]>);

/// How a PUT is answered: 201 and where it is, where nothing was there before (RFC 9110 §9.3.4), else as `otherwise` says.
pub(crate) fn put(is_new: bool, place: String, otherwise: StatusCode) -> Begun {
    match is_new {
        true => (StatusCode::CREATED, Some([(header::LOCATION, place)])),
        false => (otherwise, None),
    }
}

/// RFC 3339, UTC, to the millisecond: the one form of a time in the API. Records have the microseconds that they were
/// written with, and are told as they were written.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// The same of a record, where something else is told by it.
pub(crate) fn recorded_time(written: &str) -> String {
    let read = written.parse::<Timestamp>();
    read.map_or_else(|_| written.to_owned(), time)
}
