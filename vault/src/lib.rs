//! Secrets: where they are kept, how they are read, what the border may do with them.
//!
//! A [`Secret`] is one version of one secret, ready for use; its values live in [`SecretBytes`],
//! which never show themselves. The border asks a [`Keeper`] for what is current and for what must
//! not leave. Which request may carry a secret is policy's to say, and placing it is the proxy's.

pub mod keeper;
pub mod secret;
pub mod secret_bytes;

pub use keeper::{Guarded, GuardedValue, Keeper, SecretFuture, SecretUnavailable};
pub use secret::{Part, Secret, Shape, Treatment};
pub use secret_bytes::SecretBytes;
