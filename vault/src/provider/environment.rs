//! `environment`: a variable of gig's own environment.

use serde::{Deserialize, Serialize};

use super::{ProvideError, ProvideFuture, ProvideRequest, Provided, Provider};
use crate::secret_bytes::SecretBytes;

/// Options of `environment`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentOptions {
    /// The variable; the secret's name when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

#[derive(Debug)]
pub(super) struct Environment {
    variable: Option<String>,
}

impl Environment {
    pub(super) fn new(options: &EnvironmentOptions) -> Self {
        Self {
            variable: options.variable.clone(),
        }
    }
}

impl Provider for Environment {
    fn name(&self) -> &'static str {
        "environment"
    }

    fn provide<'a>(&'a self, request: ProvideRequest<'a>) -> ProvideFuture<'a> {
        let variable = self.variable.as_deref().unwrap_or(request.name.as_str());
        let value = crate::environment::var_os(variable).filter(|value| !value.is_empty());
        let provided = value.map_or_else(
            || {
                Err(ProvideError::Refused(format!(
                    "gig's own environment has no {variable}"
                )))
            },
            |value| {
                Ok(Provided {
                    value: SecretBytes::new(value.into_encoded_bytes()),
                    version: None,
                    // gig's environment does not change while it runs.
                    lifetime: FOREVER,
                })
            },
        );
        Box::pin(std::future::ready(provided))
    }
}

const FOREVER: std::time::Duration = std::time::Duration::from_secs(u32::MAX as u64);
