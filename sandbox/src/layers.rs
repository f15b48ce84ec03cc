//! The layers of confinement, one a file: each turns a wish into what the
//! engine or the bootstrap is told, and says how much of it will hold.

pub(crate) mod base;
pub(crate) mod binds;
pub(crate) mod capabilities;
pub(crate) mod cgroup;
pub(crate) mod env;
pub(crate) mod etc;
pub(crate) mod fds;
pub(crate) mod frames;
pub(crate) mod landlock;
pub(crate) mod mounts;
pub(crate) mod pins;
pub(crate) mod rlimits;
pub(crate) mod seccomp;
pub(crate) mod streams;
pub(crate) mod user;
