//! `Idempotency-Key`, as every operation takes it that changes something. Said once, so that no handler's
//! declaration can forget it.

use utoipa::{
    Modify,
    openapi::{
        ObjectBuilder, OpenApi, Required, Type,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
    },
};

use super::operations::operations_of;
use crate::once::may_be_kept;

/// Adds it.
pub(super) struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut OpenApi) {
        for (path, item) in &mut document.paths.paths {
            // Signed by who sends it, who is no caller.
            if path.starts_with("/api/v1/webhooks/") && path.ends_with("/answer") {
                continue;
            }
            for (method, operation) in operations_of(item) {
                if may_be_kept(&method, path) {
                    add(operation);
                }
            }
        }
    }
}

fn add(operation: &mut Operation) {
    let parameters = operation.parameters.get_or_insert_default();
    parameters.push(key().into());
}

fn key() -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(PATTERN));
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "Makes this request once, however often it is sent (draft-ietf-httpapi-idempotency-key-header): a text in \
             quotation marks that nobody guesses, such as a UUID. The same request under the same key is answered \
             the same for a day, with `Idempotent-Replayed: true`; 409 while it runs (`in_progress`), where its answer \
             held a secret (`shown_already`) or its end is not known (`unknown_outcome`, `answer_lost`); 422 for \
             another request (`other_request`). What was refused may be asked again under the same key",
        ))
        .schema(Some(schema))
        .build()
}

/// A string of structured fields (RFC 9651), of 1 to 255 characters.
const PATTERN: &str = r#"^"([ !#-\[\]-~]|\\["\\]){1,255}"$"#;
