//! What a secret is, beside its value: its kind, where the value comes from, how its sentinel looks.
//!
//! This is the definition file of `gig secret set --definition FILE` (YAML or JSON) and, as JSON, what
//! the store keeps beside a value. It holds nothing secret; unknown fields are errors.
//!
//! ```yaml
//! kind: static                # or basic, or {oauth2_client_credentials: {…}}
//! provider: embedded          # or {environment: {}}, {file: {…}}, {command: {…}}, {hashicorp: {…}}
//! shape: {prefix: ghp_, length: 36, alphabet: alphanumeric}
//! entrusted: false
//! ```

use serde::{Deserialize, Serialize};

use crate::{kind::KindDefinition, provider::ProviderDefinition, shape::ShapeDefinition};

/// All of it; every field may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What is made of the stored value.
    #[serde(default)]
    pub kind: KindDefinition,
    /// Where the value comes from.
    #[serde(default)]
    pub provider: ProviderDefinition,
    /// What its sentinel looks like; the kind's own choice when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeDefinition>,
    /// The real value is handed in, where the policy says so too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub entrusted: bool,
}

/// A definition cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the definition of a secret cannot be read: {why}")]
pub struct ParseDefinitionError {
    why: String,
}

impl Definition {
    /// The URLs that gig itself asks, for the value and for what is minted from it, as they are spelled here.
    #[must_use]
    pub fn services(&self) -> Vec<String> {
        let provider = match &self.provider {
            ProviderDefinition::Hashicorp(options) => Some(options.address.as_str()),
            ProviderDefinition::Embedded
            | ProviderDefinition::Environment(_)
            | ProviderDefinition::File(_)
            | ProviderDefinition::Command(_) => None,
        };
        let asked = provider.into_iter().chain(self.kind.service());
        asked.map(str::to_owned).collect()
    }

    /// Reads YAML or JSON.
    ///
    /// # Errors
    /// When it is neither, or holds a field that no definition has; says line and column.
    pub fn parse(text: &str) -> Result<Self, ParseDefinitionError> {
        serde_saphyr::from_str(text).map_err(|error| ParseDefinitionError {
            // Without the lines themselves: they may hold a value that is in the wrong place.
            why: error.without_snippet().to_string(),
        })
    }

    /// As the store keeps it.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data: strings, numbers and maps with string keys always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`Definition::to_json`] wrote.
    ///
    /// # Errors
    /// When it was written by a later gig, or not by gig.
    pub fn from_json(text: &str) -> Result<Self, ParseDefinitionError> {
        serde_json::from_str(text).map_err(|error| ParseDefinitionError {
            why: error.to_string(),
        })
    }
}
