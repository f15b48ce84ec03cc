//! Secrets at the border: sentinels become values on the way out, values become sentinels on the way
//! back.
//!
//! A request carries a value only if its permit names the secret. Everything here works on octets as
//! they stream; what may go where is policy's to say, and what a secret is made of is the vault's.
//!
//! ```text
//! wallet     who holds which sentinels                       sentinel
//! capture    tokens of logins made inside, kept out          capture::{answer, overlay}
//! watch      everything that must not go astray              forms, wide, writings, needles, unescape
//! spelling   texts in every spelling                         heads, lanes
//! misuse     what is on its way to where it is not bound     watched, bare, letters, naming
//! inject     values in header section and target             place, inject::{fields, target}
//! body       values in bodies, while they stream             swap, exact, parts, around
//! treat      what completes a request before it is sent     sign
//! coding     content codings undone, so that bodies can be looked into
//! memory     what bodies hold meanwhile, bounded for each sandbox
//! scrub      values in answers to sentinels                  scrub::{pattern, stream, answer}
//! ranges     no pieces of answers
//! digested   fields that say what a body hashes to            sums
//! digits     octets in hexadecimal digits
//! media      what a header section says that a body is
//! ```

mod armour;
mod around;
mod bare;
pub mod body;
mod bygone;
pub mod capture;
pub mod coding;
mod comments;
pub(crate) mod digested;
mod digits;
mod exact;
pub mod forms;
mod heads;
pub mod inject;
mod lanes;
mod letters;
mod markup;
mod media;
pub mod memory;
pub mod misuse;
mod naming;
pub mod needles;
mod nested;
mod parts;
pub mod place;
mod quoted;
mod ranges;
pub mod rehearsal;
pub mod rewrite;
pub(crate) mod room;
pub mod scrub;
pub mod sentinel;
pub mod sign;
mod spelling;
mod strings;
pub mod sums;
pub mod swap;
mod tags;
pub mod tally;
pub mod treat;
pub mod unescape;
pub mod wallet;
pub mod watch;
pub mod watched;
pub mod websocket;
mod wide;
mod writings;
pub(crate) mod written;

pub use wallet::{Border, Held, Readying, Wallet};
