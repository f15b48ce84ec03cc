//! Other tools' allowlists as documents of ours: what `gig policy import` does, for API and console. Keeps nothing.

use std::sync::Arc;

use axum::{Json, extract::State};
use gig_policy::{Format, Imported, Remark, import};
use serde::{Deserialize, Serialize};
use utoipa::{
    ToSchema,
    openapi::schema::{Object, ObjectBuilder, Type},
};

use super::policy_name;
use crate::{api::Body, api_error::Problem, app::App, auth::Caller, document, role::Permission};

/// A document of another tool.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToImport {
    /// Whose document it is.
    #[schema(schema_with = formats)]
    format: Format,
    text: String,
    /// What the policy is to be called.
    #[serde(default = "unnamed")]
    name: String,
}

/// What it comes to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportAnswer {
    /// The document; nothing of it is kept.
    pub(crate) document: String,
    /// Where it allows more than what was imported, by line of that.
    #[schema(value_type = Vec<Object>)]
    pub(crate) widened: Vec<Remark>,
    /// Where it allows less.
    #[schema(value_type = Vec<Object>)]
    pub(crate) narrowed: Vec<Remark>,
}

/// Writes another tool's allowlist as a document, and says what was widened or narrowed; keeps nothing.
#[utoipa::path(post, path = "/api/v1/policies/import", tag = "policies", request_body = ToImport,
    responses((status = 200, body = ImportAnswer), (status = 422, body = Problem)))]
pub(crate) async fn import_document(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(asked): Body<ToImport>,
) -> Result<Json<ImportAnswer>, Problem> {
    caller.require(Permission::EditPolicies)?;
    let name = policy_name(&asked.name)?.to_string();
    imported(&app, asked.format, asked.text, name)
        .await
        .map(Json)
}

/// Imports; the console does the same.
pub(crate) async fn imported(
    app: &App,
    format: Format,
    text: String,
    name: String,
) -> Result<ImportAnswer, Problem> {
    if text.len() > document::LONGEST {
        let words = format!("what is imported has at most {} octets", document::LONGEST);
        return Err(Problem::invalid(words));
    }
    let read = app
        .aside(move || import(format, &text, ORIGIN, &name))
        .await?;
    let Imported {
        draft,
        widened,
        narrowed,
    } = read.map_err(|refused| {
        let mut problem = Problem::document(refused.problems);
        "this is no document of that format, or cannot be imported as it is"
            .clone_into(&mut problem.detail);
        problem
    })?;
    Ok(ImportAnswer {
        document: draft.to_string(),
        widened,
        narrowed,
    })
}

fn formats() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(Format::ALL.map(Format::as_str)))
        .build()
}

fn unnamed() -> String {
    "imported".to_owned()
}

/// As the document's first line calls it.
const ORIGIN: &str = "what was sent";
