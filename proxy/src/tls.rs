//! TLS on both sides: leaves minted for the sandbox, certificates verified at the origin.

pub mod authority_key;
pub mod downstream;
pub mod leaf;
pub mod provider;
pub mod roots;
pub mod upstream;
mod verifier;
pub mod wide;
