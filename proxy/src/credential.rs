//! Secrets at the border: sentinels become values on the way out, values become sentinels on the way
//! back.
//!
//! A request carries a value only if its permit names the secret. Everything here works on octets as
//! they stream; what may go where is policy's to say, and what a secret is made of is the vault's.

pub mod rewrite;
