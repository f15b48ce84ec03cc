//! From a permitted name to addresses that may be dialled: overrides, look-up, vetting.

pub mod announced;
pub mod elsewhere;
pub mod overrides;
mod own;
pub mod resolver;
pub mod vet;

pub use announced::Announced;
pub use elsewhere::{Elsewhere, reached_at};
pub use overrides::{ParseOverrideError, ResolveOverride};
pub use resolver::{ResolveError, Resolver};
pub use vet::{NeverOpen, VetError, VettedAddr, Vetter};
