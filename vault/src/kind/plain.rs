//! `static`: one value, used as it is.

use super::{Kind, MintFuture, MintRequest, Minted, UnusableValueError};
use crate::{secret::Part, secret_bytes::SecretBytes};

/// The kind `static`.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Kind for Plain {
    fn name(&self) -> &'static str {
        "static"
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        if value.is_empty() {
            return Err(UnusableValueError {
                kind: self.name(),
                expected: "it is empty".to_owned(),
            });
        }
        Ok(())
    }

    fn stored_parts(&self, value: &SecretBytes) -> Option<Vec<SecretBytes>> {
        Some(vec![value.duplicate()])
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            self.check(request.value)?;
            Ok(Minted::replaced(vec![Part {
                variable: request.name.shared().clone(),
                value: request.value.duplicate(),
                shape: request.shape.cloned().unwrap_or_default(),
            }]))
        })
    }
}
