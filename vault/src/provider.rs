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
