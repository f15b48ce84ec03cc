//! The hub: a private user and network namespace with no uplink, in which
//! every sandbox's network is made.
//!
//! Promises: a sandbox's traffic reaches the listening sockets made in the hub
//! or nothing at all; its source address and interface are bound together
//! before its first instruction; when the caller dies, the kernel removes
//! everything. Leaves to others: what a connection may do (`proxy`), and what a
//! sandbox is made of beyond its network (`sandbox`).

#[cfg(not(target_os = "linux"))]
compile_error!("gig needs Linux: its walls are namespaces, seccomp and nftables of that kernel");

mod address;
mod covered;
mod cure;
mod firewall;
mod foreign;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hub;
mod hub_protocol;
mod id_claim;
mod id_map;
mod kernel;
mod link;
mod listener;
mod namespace;
mod netlink;
mod nf_tables;
mod plan;
mod pool;
mod probe;
mod reexec;
mod route;
mod ruleset;
mod subnet_pool;
mod sys;
mod tree;
mod unix_sockets;

pub use covered::Covers;
pub use foreign::place::{Found, Home, NamespaceId};
pub use foreign::watch::{Watch, WatchEnded};
pub use foreign::{EnterNamespaceError, Entered, Life};
pub use hub::process::hub_process_main;
pub use hub::{
    Child, Hub, HubConfig, IdMapFds, Lease, LeaseError, Readers, Refusals, RefusedPacket,
    ReleaseError, ShowTreeError, Spawn, SpawnError, SpawnNetwork, StartHubError,
};
pub use hub_protocol::{Failure, Step};
pub use id_map::{HostIds, MapWriter, WriteIdMapError};
pub use ipnet::Ipv4Net;
pub use listener::Listeners;
pub use probe::{Finding, Probe, probe_all, try_user_namespace};
pub use subnet_pool::{SubnetPool, SubnetPoolError};
pub use tree::Tree;
pub use unix_sockets::{BoundSocket, bound_sockets};

/// `argv[1]` of the re-executed hub: `main` calls [`hub_process_main`] when it sees this.
pub const HUB_ARGUMENT: &str = "hub-process";
