//! Secrets: where they are kept, how they are read, what the border may do with them.
//!
//! A [`Secret`] is one version of one secret, ready for use; its values live in [`SecretBytes`],
//! which never show themselves. The border asks a [`Keeper`] for what is current and for what must
//! not leave. Which request may carry a secret is policy's to say, and placing it is the proxy's.

pub mod cipher;
pub mod clock;
pub mod definition;
mod envelope;
pub mod environment;
pub mod fetch;
pub mod keeper;
pub mod keeping;
pub mod kind;
pub mod master_key;
pub mod memory;
pub mod provider;
pub mod secret;
pub mod secret_bytes;
pub mod shape;
pub mod store;
mod sys;
pub mod vault;

pub use clock::{Clock, StoppedClock, SystemClock};
pub use definition::{Definition, ParseDefinitionError};
pub use fetch::{Fetch, FetchAnswer, FetchError, FetchFuture, FetchMethod, FetchRequest};
pub use keeper::{Guarded, GuardedValue, Keeper, SecretFuture, SecretUnavailable};
pub use keeping::{RunKeeper, RunKeeperBuilder};
pub use kind::{Kind, KindDefinition, MintError, MintFuture, MintRequest, Minted};
pub use provider::ProviderDefinition;
pub use secret::{AwsScope, Part, Secret, Shape, Treatment};
pub use secret_bytes::SecretBytes;
pub use shape::ShapeDefinition;
pub use vault::{UseVaultError, Vault};
