//! Versions as they are written, gone back to and removed: what API, console and commands share.

use std::sync::Arc;

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{PolicyView, binding, tag, version_of};
use crate::{
    api::{
        Begun, floors,
        proposals::{self, brief},
    },
    api_error::Problem,
    app::App,
    auth::Caller,
    document,
    role::Permission,
    secrets::SecretFacts,
    store::{Applied, Change, Name, PolicyVersion, Proposal},
};

/// What became of a version that was written.
pub(crate) enum Saved {
    /// It is in force where the policy is assigned.
    Version(PolicyVersion),
    /// It waits for a second person; in place of what the same one proposed before.
    Proposed(Proposal, Option<u64>),
}

impl Saved {
    /// As the API answers it; what is kept begins as `begun` says.
    pub(crate) fn answer(self, (status, place): Begun) -> Response {
        match self {
            Self::Version(kept) => {
                let tag = [(header::ETAG, tag(kept.head.version))];
                (status, place, tag, Json(PolicyView::from(kept))).into_response()
            }
            Self::Proposed(proposal, before) => proposals::waits_in_place(proposal, before),
        }
    }
}

/// A version that somebody wrote.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) document: String,
    pub(crate) reason: String,
    /// For which it is put in force by the same change.
    pub(crate) server: Option<String>,
}

/// Writes a version.
pub(crate) async fn save_version(
    app: &App,
    caller: &Caller,
    name: String,
    expected: Option<u64>,
    document: String,
    reason: String,
) -> Result<Saved, Problem> {
    let written = Written {
        document,
        reason,
        server: None,
    };
    save_written(app, caller, name, expected, written).await
}

/// Writes a version, and puts it in force where that is said; the console does the same.
pub(crate) async fn save_written(
    app: &App,
    caller: &Caller,
    name: String,
    expected: Option<u64>,
    written: Written,
) -> Result<Saved, Problem> {
    let name = judged(app, caller, &name, &written).await?;
    let secrets = binding::guard(app, caller, (name.as_str(), &written.document)).await?;
    let Written {
        document, reason, ..
    } = written;
    let change = match written.server {
        Some(server) => Change::SaveFor {
            name: name.clone(),
            expected,
            document,
            reason,
            secrets,
            server,
        },
        None => Change::SavePolicy {
            name: name.clone(),
            expected,
            document,
            reason,
            secrets,
        },
    };
    let applied = app.change(caller.actor(app), change).await?;
    if let Some(proposal) = applied.proposal {
        return Ok(Saved::Proposed(proposal, applied.replaced));
    }
    let kept = version_of(app, caller, name.to_string(), applied.version).await;
    kept.map(Saved::Version)
}

/// Whether it could be written, on whatever it is built.
pub(crate) async fn judged(
    app: &App,
    caller: &Caller,
    name: &str,
    written: &Written,
) -> Result<Name, Problem> {
    caller.require(Permission::EditPolicies)?;
    if written.server.is_some() {
        caller.require(Permission::AssignPolicies)?;
    }
    let name = policy_name(name)?;
    floors::guard(app, caller, name.as_str()).await?;
    brief(&written.reason)?;
    let checked = checked(app, Some(name.to_string()), written.document.clone()).await?;
    if !checked.problems.is_empty() {
        return Err(Problem::document(checked.problems));
    }
    no_twin(app, &name).await?;
    Ok(name)
}

/// Writes an old version again, on the one that is named.
pub(crate) async fn roll_back_to(
    app: &App,
    caller: &Caller,
    name: String,
    (version, on): (u64, Option<u64>),
    reason: String,
) -> Result<Saved, Problem> {
    let old = version_of(app, caller, name.clone(), Some(version)).await?;
    let reason = match reason.trim() {
        "" => format!("back to version {version}"),
        reason => format!("back to version {version}: {reason}"),
    };
    save_version(app, caller, name, on, old.document, reason).await
}

/// Refuses a new policy whose name differs from another's in case alone: people take one for the other.
async fn no_twin(app: &App, name: &Name) -> Result<(), Problem> {
    let heads = app.ask(|store| store.policies()).await?;
    if heads.iter().any(|head| head.name == name.as_str()) {
        return Ok(());
    }
    let mut others = heads.into_iter();
    match others.find(|head| head.name.eq_ignore_ascii_case(name.as_str())) {
        None => Ok(()),
        Some(other) => Err(Problem::new(
            StatusCode::CONFLICT,
            "exists",
            format!(
                "there is a policy {} already, and {name} differs from it in case alone: choose another name",
                other.name
            ),
        )),
    }
}

/// Checks a document, by whatever name it calls itself where none is said. Compiling a hundred thousand rules takes its
/// time: beside the runtime.
pub(crate) async fn checked(
    app: &App,
    name: Option<String>,
    text: String,
) -> Result<document::Checked, Problem> {
    let secrets = Arc::clone(&app.secrets);
    let known = move || match secrets.list() {
        Ok(all) => {
            let set = all.into_iter().filter(SecretFacts::is_set);
            Some(set.map(|one| one.name).collect())
        }
        // A node without the vault's key says so where that is needed, and not with each key that somebody types.
        Err(error) => {
            tracing::debug!(%error, "whether the vault has what a policy names is not known");
            None
        }
    };
    app.aside(move || match name {
        Some(name) => document::check(&name, &text, &known),
        None => document::check_unnamed(&text, &known),
    })
    .await
}

/// Removes a policy, if its newest version is the one that is named.
pub(crate) async fn remove_policy(
    app: &App,
    caller: &Caller,
    name: String,
    expected: Option<u64>,
) -> Result<Applied, Problem> {
    caller.require(Permission::EditPolicies)?;
    floors::guard(app, caller, &name).await?;
    let change = Change::RemovePolicy { name, expected };
    app.change(caller.actor(app), change).await
}

/// A policy's name; not one that is a word of the API's own, under which nothing could be read again.
pub(crate) fn policy_name(text: &str) -> Result<Name, Problem> {
    let name: Name = text.parse()?;
    if RESERVED.contains(&name.as_str()) {
        let words = format!("no policy can be called {name}: the API has that word for itself");
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "name",
            words,
        ));
    }
    Ok(name)
}

/// `/api/v1/policies/check` checks documents, and `import` writes them.
const RESERVED: [&str; 2] = ["check", "import"];
