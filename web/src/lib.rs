//! The appliance: who may do what with gig, an API to do it by and pages to do it on.
//!
//! Everything a person or a program asks of a running gig comes through here: it is authenticated, its
//! right is checked, what it changes is recorded first, and what it is shown is escaped. The crate is
//! handed a [`Control`] that starts and stops sandboxes, and a recorder; it opens no sandbox, dials
//! nobody itself, and a secret goes through it in one direction only.
#![forbid(unsafe_code)]

mod allow;
mod api;
mod api_error;
mod app;
pub mod attachment;
mod auth;
mod clock;
mod connections;
pub mod control;
mod counts;
mod credential;
mod document;
mod drafts;
pub mod factor;
mod feed;
mod follow;
mod guard;
mod health;
pub mod held;
mod in_force;
mod lately;
mod mcp;
mod metrics;
mod narrowing;
mod once;
mod one_sandbox;
mod openapi;
pub mod outbound;
mod pages;
mod password;
mod places;
mod presence;
mod profile;
mod recorded;
mod relay;
mod remedy;
mod role;
mod router;
pub mod secrets;
pub mod spans;
pub mod store;
mod traffic;
mod visible;
mod waiting;
pub mod webhooks;

pub use app::{App, AppSettings};
pub use auth::oidc::{CALLBACK, OidcSettings};
pub use clock::{Clock, SystemClock};
pub use connections::{Door, ServeError, local_user, serve};
pub use control::{Attached, Control, ControlError, Decide, Decided, Ruling, SandboxFacts, Wanted};
pub use credential::{Digest, Minted, NoRandomness, mint_setup, mint_token};
pub use factor::{SealError, Sealer};
pub use follow::Following;
pub use health::Watch;
pub use held::{HeldDesk, HeldPlace, Said};
pub use in_force::effective;
pub use narrowing::{Narrowing, NarrowingRefused, Scope};
pub use outbound::{Outbound, OutboundError};
pub use password::{Hasher, PasswordRefused};
pub use presence::Presence;
pub use profile::HEADER as PROFILE_HEADER;
pub use relay::Relay;
pub use role::{Permission, Role};
pub use secrets::Secrets;
pub use store::{Actor, Change, ChangeError, PostgresStore, SqliteStore, Store};
pub use traffic::Traffic;
pub use webhooks::WebhookFiles;
