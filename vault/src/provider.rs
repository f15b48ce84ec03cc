//! Where a secret's value comes from.

use serde::{Deserialize, Serialize};

/// A provider with its options, as a definition spells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderDefinition {
    /// gig's own store.
    #[default]
    Embedded,
}

impl ProviderDefinition {
    /// As listings spell it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
        }
    }
}
