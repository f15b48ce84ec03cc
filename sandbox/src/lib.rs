//! A confined program: what it may see, use and become.
//!
//! A [`Spec`] says what is wanted; [`prepare`] (or its steps, from [`Design`] on)
//! builds the namespaces and stops
//! right before the program, so that its network identity can be bound first;
//! [`Prepared::go`] lets it run. Promises that every layer reports what it
//! really enforces, that a requested layer which cannot be enforced refuses the
//! start, and that nothing of the sandbox outlives its [`Running`]. Leaves the
//! network to `netns` and what a connection may do to `proxy`.

mod attach;
mod bootstrap;
mod design;
mod engine;
mod errand;
mod error;
mod facts;
mod handshake;
pub mod image;
mod layer;
mod layers;
mod other_root;
mod plan;
mod process;
mod spec;
mod stamp;
mod sys;
mod trust_bundle;
mod watch;

pub use design::{Design, Place, Starting};
pub use engine::bwrap::bwrap;
pub use error::{StartSandboxError, WaitError};
pub use facts::{is_an_images, is_shown};
pub use layer::{Enforcement, Layer, LayerReport};
pub use layers::binds::{IMAGES, RUNS, RefuseBindError, is_run_file};
pub use layers::cgroup::LimitError;
pub use layers::env::network_variables;
pub use layers::etc::NAME;
pub use layers::landlock::landlock_abi;
pub use layers::seccomp::CompileFilterError;
pub use layers::streams::RefuseStreamError;
pub use layers::user::suitable_ids;
pub use process::{ExitStatus, Network, Prepared, Running, Turn, prepare};
pub use spec::{Bind, BindMode, CpuShare, Kept, ResourceLimits, Root, SeccompProfile, Spec, Stdio};
pub use sys::{MODES_CHANGED, Waking, readable, signal_foreground, tell_of_modes, wake_after};
