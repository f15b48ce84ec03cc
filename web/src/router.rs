//! The table of contents: every path, and what stands before it.
//!
//! Public are health, the sign-in and set-up pages the stylesheet and the script. All else is behind
//! [`auth::require`], added to the whole table and not to single rows.

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware,
    response::IntoResponse as _,
    routing::{delete, get, patch, post, put},
};

use crate::{
    api::{
        allowing, assignments, attach, audit, audit_chain, audit_export, audit_proof, doctor,
        events, factors, floors, health, held, nodes, policies, precondition, proposals, reading,
        recorded, register, sandboxes, searches, secrets, server_log, servers, sessions, teams,
        tokens, users,
        webhooks::{self, answer},
    },
    api_error::Problem,
    app::App,
    auth::{self, doors, oidc::CALLBACK},
    document, guard, mcp, metrics, once, openapi,
    pages::{self, confirm},
};

/// Everything that is served.
pub(crate) fn router(app: Arc<App>) -> Router {
    let known = middleware::from_fn_with_state(Arc::clone(&app), auth::require);
    let once = middleware::from_fn_with_state(Arc::clone(&app), once::once);
    let guarded = middleware::from_fn_with_state(Arc::clone(&app), guard::guard);
    Router::new()
        .merge(api())
        .merge(console())
        .route("/metrics", get(metrics::show))
        .route(
            "/sandbox/{server}/mcp",
            get(mcp::listen).post(mcp::send).delete(mcp::leave),
        )
        .fallback(missing)
        .layer(once)
        .layer(middleware::from_fn(precondition::kept))
        .layer(middleware::from_fn(reading::queried))
        .layer(middleware::from_fn(pages::framed))
        .layer(known)
        .merge(public())
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(guarded)
        .with_state(app)
}

fn public() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", get(health::alive))
        // Signed by who sends it, not by somebody who signed in.
        .route("/api/v1/webhooks/{name}/answer", post(answer::answer))
        .route("/readyz", get(health::ready))
        .route("/style.css", get(pages::stylesheet))
        .route("/icon.svg", get(pages::icon))
        .route("/live.js", get(pages::live::script))
        .route("/edit.js", get(pages::editor_script))
        .route("/copy.js", get(pages::copying_script))
        .route("/waiting.js", get(pages::waiting_script))
        .route(
            "/sign-in",
            get(pages::sign_in::form).post(pages::sign_in::submit),
        )
        .route("/sign-in/oidc", get(pages::sign_in::sign_on))
        .route(CALLBACK, get(pages::sign_in::signed_on))
        .route(
            "/setup/{link}",
            get(pages::setup::form).post(pages::setup::submit),
        )
}

fn api() -> Router<Arc<App>> {
    // A document in JSON takes more room than by itself.
    let documents = DefaultBodyLimit::max(2 * document::LONGEST);
    let writers = middleware::from_fn(auth::documents::writers);
    Router::new()
        .route(
            "/api/v1/policies/{name}",
            get(policies::one)
                .put(policies::save)
                .delete(policies::remove),
        )
        .route("/api/v1/policies/check", post(policies::check))
        .route(
            "/api/v1/policies/import",
            post(policies::importing::import_document),
        )
        .route("/api/v1/policies/{name}/simulate", post(recorded::simulate))
        .layer(documents)
        .layer(writers)
        .route("/api/v1/openapi.json", get(openapi::show))
        .route("/api/v1/health", get(health::layers))
        .route("/api/v1/doctor", post(doctor::examine))
        .route("/api/v1/nodes", get(nodes::list))
        .route("/api/v1/me", get(sessions::me))
        .route("/api/v1/sessions", get(sessions::list))
        .route("/api/v1/sessions/{id}", delete(sessions::end))
        .route("/api/v1/users", get(users::list).post(users::add))
        .route(
            "/api/v1/users/{name}",
            patch(users::change).delete(users::remove),
        )
        .route(
            "/api/v1/users/{name}/second-factor",
            delete(factors::remove),
        )
        .route(
            "/api/v1/second-factor-rule",
            get(factors::rule).put(factors::set_rule),
        )
        .route("/api/v1/tokens", get(tokens::list).post(tokens::add))
        .route("/api/v1/tokens/{id}", delete(tokens::remove))
        .route("/api/v1/policies", get(policies::list))
        .route("/api/v1/policies/{name}/versions", get(policies::versions))
        .route(
            "/api/v1/policies/{name}/versions/{version}",
            get(policies::version),
        )
        .route(
            "/api/v1/policies/{name}/rollback",
            post(policies::roll_back),
        )
        .route(
            "/api/v1/assignments",
            get(assignments::list).put(assignments::assign),
        )
        .route("/api/v1/policies/{name}/suggest", post(recorded::suggest))
        .route("/api/v1/servers", get(servers::list))
        .route(
            "/api/v1/servers/{name}",
            get(servers::one).put(servers::save).delete(servers::remove),
        )
        .route("/api/v1/servers/{name}/start", post(sandboxes::start))
        .route("/api/v1/servers/{name}/register", post(register::register))
        .route("/api/v1/servers/{name}/attach", get(attach::attach))
        .route("/api/v1/servers/{name}/log", get(server_log::search))
        .route("/api/v1/secrets", get(secrets::list))
        .route(
            "/api/v1/secrets/{name}",
            get(secrets::one).put(secrets::add).delete(secrets::remove),
        )
        .route("/api/v1/secrets/{name}/rotate", post(secrets::rotate))
        .route("/api/v1/sandboxes", get(sandboxes::list))
        .route(
            "/api/v1/sandboxes/{id}",
            get(sandboxes::one).delete(sandboxes::stop),
        )
        .route("/api/v1/sandboxes/{id}/log", get(sandboxes::log))
        .merge(record())
        .merge(decisions())
}

/// What was done.
fn record() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/audit", get(audit::search))
        .route("/api/v1/audit/{id}", get(audit::one))
        .route("/api/v1/audit/{id}/chain", get(audit_chain::show))
        .route("/api/v1/audit/export/{format}", get(audit_export::export))
        .route("/api/v1/audit/proof", get(audit_proof::proof))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/searches", get(searches::list).post(searches::add))
        .route("/api/v1/searches/{id}", delete(searches::remove))
}

/// What people decide on, and what bounds them.
fn decisions() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/floors", get(floors::list).put(floors::set))
        .route("/api/v1/floors/simulate", post(recorded::of_floor))
        .route(
            "/api/v1/assignments/simulate",
            post(recorded::of_assignment),
        )
        .route("/api/v1/teams/{name}/simulate", post(recorded::of_team))
        .route("/api/v1/teams", get(teams::list))
        .route(
            "/api/v1/teams/{name}",
            get(teams::one).put(teams::save).delete(teams::remove),
        )
        .route("/api/v1/webhooks", get(webhooks::list))
        .route(
            "/api/v1/webhooks/{name}",
            put(webhooks::save).delete(webhooks::remove),
        )
        .route("/api/v1/webhooks/{name}/test", post(webhooks::test))
        .route("/api/v1/held", get(held::list))
        .route("/api/v1/audit/{id}/allow", post(allowing::allow))
        .route("/api/v1/held/{id}/allow", post(held::allow))
        .route("/api/v1/held/{id}/deny", post(held::deny))
        .route(
            "/api/v1/proposals/{id}/simulation",
            get(recorded::of_proposal),
        )
        .route("/api/v1/proposals", get(proposals::list))
        .route("/api/v1/proposals/{id}", get(proposals::one))
        .route("/api/v1/proposals/{id}/approve", post(proposals::approve))
        .route("/api/v1/proposals/{id}/reject", post(proposals::reject))
        .route("/api/v1/proposals/{id}/withdraw", post(proposals::withdraw))
        .route(
            "/api/v1/two-person-rule",
            get(proposals::rule).put(proposals::set_rule),
        )
}

fn console() -> Router<Arc<App>> {
    let documents = DefaultBodyLimit::max(2 * document::LONGEST);
    let writers = middleware::from_fn(auth::documents::writers);
    Router::new()
        .route(
            "/policies/{name}/edit",
            get(pages::policy_edit::form).post(pages::policy_edit::submit),
        )
        .layer(documents)
        .layer(writers)
        .route("/", get(pages::overview::show))
        .route("/sign-out", post(pages::sign_in::sign_out))
        .route("/approvals", get(pages::approvals::list))
        .route("/approvals/rule", post(pages::approvals::set_rule))
        .route("/approvals/held/{id}", post(pages::approvals::answer))
        .route("/approvals/held/{id}/allow", get(confirm::held::allow))
        .route(
            "/approvals/{id}",
            get(pages::approvals::show).post(pages::approvals::decide),
        )
        .route("/audit", get(pages::audit::search))
        .route("/audit/{id}", get(pages::record::show))
        .route(
            "/audit/{id}/allow",
            get(pages::allow_levels::show).post(pages::allow_levels::save),
        )
        .route("/searches", post(pages::audit::save))
        .route(
            "/searches/{id}/remove",
            get(confirm::search).post(pages::audit::forget),
        )
        .route("/live", get(pages::live::show))
        .route("/live/events", get(pages::live::follow))
        .route("/sandboxes", get(pages::sandboxes::list))
        .route("/sandboxes/{id}", get(pages::sandboxes::show))
        .route(
            "/sandboxes/{id}/stop",
            get(confirm::sandbox).post(pages::sandboxes::stop),
        )
        .route(
            "/servers",
            get(pages::servers::list).post(pages::servers::add),
        )
        .route(
            "/servers/{name}",
            get(pages::server::show).post(pages::server::change),
        )
        .route("/servers/{name}/start", post(pages::servers::start))
        .route("/servers/{name}/log", get(pages::server_log::show))
        .route(
            "/servers/{name}/remove",
            get(confirm::server).post(pages::servers::remove),
        )
        .route(
            "/secrets",
            get(pages::secrets::list).post(pages::secrets::add),
        )
        .route(
            "/secrets/{name}",
            get(pages::secrets::show).post(pages::secrets::submit),
        )
        .route("/secrets/{name}/remove", get(confirm::secret))
        .route(
            "/settings",
            get(pages::settings::show).post(pages::settings::examine),
        )
        .route("/settings/webhooks", post(pages::webhooks::save))
        .route("/settings/webhooks/{name}", post(pages::webhooks::change))
        .route("/settings/webhooks/{name}/remove", get(confirm::webhook))
        .merge(kept_policies())
        .merge(people())
}

/// Policies, where each is in force, and what is asked about before that changes.
fn kept_policies() -> Router<Arc<App>> {
    Router::new()
        .route(
            "/policies",
            get(pages::policies::list).post(pages::policies::new),
        )
        .route("/policies/{name}", get(pages::policies::show))
        .route(
            "/policies/{name}/assign",
            get(confirm::policies::assign).post(pages::policies::assign),
        )
        .route(
            "/policies/{name}/unassign",
            get(confirm::policies::unassign).post(pages::policies::unassign),
        )
        .route(
            "/policies/{name}/remove",
            get(confirm::policies::remove).post(pages::policies::remove),
        )
        .route(
            "/policies/{name}/floor",
            get(confirm::policies::floor).post(pages::policies::set_floor),
        )
        .route(
            "/policies/{name}/versions/{version}",
            get(pages::policy_version::show).post(pages::policy_version::roll_back),
        )
        .route(
            "/policies/{name}/versions/{version}/back",
            get(confirm::policies::back),
        )
}

/// Who is let in, and how.
fn people() -> Router<Arc<App>> {
    Router::new()
        .route("/people", get(pages::people::show))
        .route(
            "/people/second-factor",
            get(pages::second_factor::show).post(pages::second_factor::submit),
        )
        .route("/people/factor-rule", post(pages::people::ask_for_factors))
        .route("/people/teams", post(pages::teams::save))
        .route("/people/users", post(pages::people::add_user))
        .route("/people/password", post(pages::people::own_password))
        .route("/people/users/{name}", post(pages::people::change_user))
        .route("/people/users/{name}/remove", get(confirm::user))
        .route("/people/users/{name}/factor", get(confirm::factor))
        .route("/people/teams/{name}/remove", get(confirm::team))
        .route("/people/tokens", post(pages::people::add_token))
        .route(
            "/people/tokens/{id}/remove",
            get(confirm::token).post(pages::people::remove_token),
        )
        .route(
            "/people/sessions/{id}/end",
            get(confirm::session).post(pages::people::end_session),
        )
}

async fn missing(uri: http::Uri) -> axum::response::Response {
    let problem = Problem::missing("page", uri.path());
    if doors::is_api(uri.path()) {
        return problem.into_response();
    }
    pages::problem(&problem)
}

/// Forms and API bodies but documents.
pub(crate) const LONGEST_BODY: usize = 256 * 1024;

#[cfg(test)]
mod tests;
