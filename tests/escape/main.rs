//! What a sandboxed program must not reach, whatever it tries.
//!
//! `network` is about what leaves; pointed at the open subject, every test of it must fail.
//! `foreign` is about network namespaces that gig did not make. `confinement` is about the sandbox itself: kernel interfaces, files, processes, descriptors.

mod beside;
mod borrowed;
mod confinement;
mod downgrade;
mod floods;
mod foreign;
mod naive;
mod network;
