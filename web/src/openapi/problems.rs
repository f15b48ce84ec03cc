//! What every operation of the API may answer beside what it is for: a problem document (RFC 9457), as its
//! own media type and never as plain JSON. Said once, so that no handler's declaration can forget it.

use utoipa::{
    Modify,
    openapi::{
        Header, Object, OpenApi, Ref, RefOr, Response, Type, content::ContentBuilder,
        path::PathItem, response::ResponseBuilder,
    },
};

use super::operations::operations_of;
use crate::auth::pace::Pace;

/// Completes each operation's answers.
pub(super) struct Problems;

impl Modify for Problems {
    fn modify(&self, document: &mut OpenApi) {
        let api = |path: &str| path.starts_with("/api/");
        let paths = document.paths.paths.iter_mut();
        for (path, item) in paths.filter(|(path, _)| api(path)) {
            complete(path, item);
        }
    }
}

fn complete(path: &str, item: &mut PathItem) {
    for (method, operation) in operations_of(item) {
        let responses = &mut operation.responses.responses;
        if Pace::of(&method, &format!("{method} {path}")).is_some() {
            let too_often = ResponseBuilder::new()
                .description("the caller changes too much in a minute, or wrote too much today")
                .content(TYPE, ContentBuilder::new().schema(Some(problem())).build());
            responses
                .entry("429".to_owned())
                .or_insert_with(|| too_often.build().into());
        }
        for (status, response) in responses.iter_mut() {
            let RefOr::T(response) = response else {
                continue;
            };
            name_problem(response);
            let (field, kind) = match status.as_str() {
                "201" => ("Location", Type::String),
                "429" => ("Retry-After", Type::Integer),
                _ => continue,
            };
            let field = field.to_owned();
            let header = Header::new(Object::with_type(kind));
            response
                .headers
                .entry(field)
                .or_insert_with(|| header.into());
        }
        // Who is not known (401) or may not (403), what cannot be read (400, 413, 415, 422), what is not
        // there, what works at the moment for nobody (503).
        let other = ResponseBuilder::new()
            .description("it was not done, and why")
            .content(TYPE, ContentBuilder::new().schema(Some(problem())).build());
        responses
            .entry("default".to_owned())
            .or_insert_with(|| other.build().into());
    }
}

/// A problem that is declared as a body is sent as what it is.
fn name_problem(response: &mut Response) {
    let plain = response.content.get("application/json");
    let is_problem = plain.is_some_and(|content| match content {
        RefOr::T(content) => content.schema == Some(problem()),
        RefOr::Ref(_) => false,
    });
    if is_problem && let Some(content) = response.content.shift_remove("application/json") {
        response.content.insert(TYPE.to_owned(), content);
    }
}

fn problem() -> RefOr<utoipa::openapi::Schema> {
    Ref::from_schema_name("Problem").into()
}

const TYPE: &str = "application/problem+json";
