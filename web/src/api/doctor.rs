//! The host examined: every mechanism that gig needs, tried for real. What `gig doctor` says, for who has no shell there.

use std::sync::Arc;

use axum::{Json, extract::State};

use super::Whole;
use crate::{api_error::Problem, app::App, auth::Caller, control::Examined, role::Permission};

/// Tries every mechanism of this node's host for real, sandboxes included: it takes some seconds. For one who asks at
/// a time.
#[utoipa::path(post, path = "/api/v1/doctor", tag = "health",
    responses((status = 200, body = Whole<Examined>), (status = 503, body = Problem)))]
pub(crate) async fn examine(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Whole<Examined>>, Problem> {
    let items = examined(&app, &caller).await?;
    Ok(Json(Whole { items }))
}

/// The same for the console.
pub(crate) async fn examined(app: &App, caller: &Caller) -> Result<Vec<Examined>, Problem> {
    caller.require(Permission::Examine)?;
    let Ok(place) = Arc::clone(&app.examining).try_acquire_owned() else {
        let busy = "the host is being examined for somebody else: try again in a moment";
        return Err(Problem::unavailable(busy));
    };
    let control = Arc::clone(&app.control);
    let examined = tokio::task::spawn_blocking(move || {
        let examined = control.examine();
        drop(place);
        examined
    });
    Ok(examined.await.map_err(Problem::internal)??)
}
