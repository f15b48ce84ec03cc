//! Whether gig lives and whether it can do its work; for whoever restarts it. Tells no more than that.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::app::App;

/// `GET /healthz`: the process answers.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "alive")), security(()))]
pub(crate) async fn alive() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// `GET /readyz`: store, record and hub work.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "ready"), (status = 503, description = "a part does not work")),
    security(()))]
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let store = app.ask(|store| store.assignments()).await.is_ok();
    let parts = app.control.health();
    let mut parts: Vec<_> = parts.iter().map(|part| (&*part.part, part.works)).collect();
    parts.push(("store", store));
    let ready = parts.iter().all(|(_, works)| *works);
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let words = if ready { "ready" } else { "not ready" };
    let parts: serde_json::Map<String, serde_json::Value> = parts
        .into_iter()
        .map(|(part, works)| (part.to_owned(), works.into()))
        .collect();
    (status, Json(json!({"status": words, "parts": parts}))).into_response()
}
