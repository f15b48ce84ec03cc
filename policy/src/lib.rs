//! What a sandbox may reach.
//!
//! Pure: no I/O, no clock, no runtime. A [`Policy`] is compiled once from a document and then
//! answers three questions about one sandbox: may it know this *name*, may it open this
//! *connection*, may it send this *request*. The answers are permits that nothing else can make,
//! so that a program which dials or forwards without asking does not compile. Everything that
//! touches a socket, a file or time is left to the other crates.
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod allow_option;
pub mod attempt;
pub mod builder;
pub mod capture;
mod compile;
pub mod compile_error;
pub mod deny_reason;
pub mod difference;
mod document;
pub mod draft;
pub mod explain;
pub mod findings;
pub mod fqdn;
mod hint;
pub mod host;
pub mod host_pattern;
pub mod http_match;
pub mod import;
mod index;
pub mod intent;
pub mod limits;
pub mod listing;
mod lookalike;
mod metadata;
pub mod moment;
pub mod path;
pub mod policy;
pub mod printable;
pub mod replay;
pub mod rule;
pub mod sandbox_id;
pub mod secret_grant;
pub mod secret_name;
pub mod source;
pub mod special_purpose;
mod spelling;
pub mod suggest;
pub mod unasked;
pub mod verdict;

pub use allow_option::{ParseAllowError, own_loopback};
pub use attempt::{Asked, Attempt, Outcome, is_cut};
pub use builder::PolicyBuilder;
pub use capture::ParseEndpointError;
pub use compile_error::{CompilePolicyError, Problem};
pub use deny_reason::DenyReason;
pub use difference::Difference;
pub use draft::{Draft, DraftEntry, DraftRule, DraftSecret, DraftTarget};
pub use explain::{Explanation, GrantConsidered, Level, ParseUrlError};
pub use findings::{Finding, FindingKind};
pub use fqdn::{Fqdn, ParseFqdnError};
pub use hint::{Unnameable, can_be_asked_for, rule_for};
pub use host::{Host, ParseHostError, Port};
pub use import::{Format, Imported, ParseFormatError, Remark, import};
pub use intent::{AppProtocol, RequestIntent};
pub use limits::{ByteCount, Limits};
pub use listing::{Bounded, Leaves, Listed};
pub use lookalike::Lookalike;
pub use metadata::is_metadata_service;
pub use moment::{Moment, ParseMomentError};
pub use policy::{Policy, SecretUse, SecretWay};
pub use replay::{Change, Denier, Replay};
pub use sandbox_id::SandboxId;
pub use secret_grant::{
    Binding, ParseBindingError, ParseSecretPlaceError, ParseTokenPlaceError, SecretGrant,
    SecretPlace,
};
pub use secret_name::{ParseSecretNameError, SecretName};
pub use source::{RuleLines, rule_lines};
pub use spelling::nearest;
pub use suggest::{InPlaceOf, Suggestion, Width, suggest};
pub use verdict::{
    ConnectPermit, DecidedOn, Denial, DenyStyle, Handling, Mode, NamePermit, PolicyRef, Reach,
    RequestPermit, RuleRef, Verdict,
};
