//! Long bodies: of documents, for who may write documents.

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{Caller, is_long};
use crate::role::Permission;

/// Reads the long bodies of documents for who may write documents, and for nobody else: what a handler
/// would say no to is not taken first.
pub(crate) async fn writers(caller: Caller, request: Request, next: Next) -> Response {
    let is_long = is_long(request.headers());
    match caller.require(Permission::EditPolicies) {
        Err(problem) if is_long => problem.into_response(),
        _ => next.run(request).await,
    }
}
