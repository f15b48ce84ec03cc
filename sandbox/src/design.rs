//! A start in three steps: worked out, begun, met.
//!
//! A [`Design`] needs no hub, only the addresses the sandbox will have, so that
//! it can be made while the hub comes up; a [`Starting`] builds itself while
//! its caller does something else. Promises that a design is started in the
//! network it was made for or not at all.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;

use gig_netns::{Child, HostIds, Hub, IdMapFds, Lease, Spawn, SpawnNetwork, Tree};

use crate::attach;
use crate::engine::Engine as _;
use crate::engine::bwrap::Bwrap;
use crate::error::StartSandboxError;
use crate::layer::LayerReport;
use crate::layers::cgroup;
use crate::layers::mounts::VettedBind;
use crate::process::{Network, Prepared, Sockets};
use crate::spec::Spec;
use crate::watch::Watch;

/// Where in the hub's network a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The hub's end: name server and explicit proxy.
    pub gateway: Ipv4Addr,
    /// The sandbox's end.
    pub address: Ipv4Addr,
}

/// A sandbox, worked out: nothing of it runs yet.
#[derive(Debug)]
pub struct Design {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) fds: Vec<(OwnedFd, RawFd)>,
    pub(crate) id_map: Option<IdMapFds>,
    pub(crate) sockets: Sockets,
    pub(crate) layers: Vec<LayerReport>,
    pub(crate) limits: cgroup::Plan,
    /// Mounts that the host attaches while the bootstrap waits.
    pub(crate) attach: Vec<VettedBind>,
    /// Its own, where it is to be given it.
    pub(crate) terminal: Option<OwnedFd>,
    /// Covers that may come away.
    pub(crate) watch: Option<Watch>,
    /// What of a project is covered, and where inside.
    pub(crate) covered: Vec<(PathBuf, PathBuf)>,
    /// A root that the hub is to have built.
    pub(crate) tree: Option<Arc<Tree>>,
    pub(crate) ids: HostIds,
    pub(crate) place: Option<Place>,
}

/// A sandbox that builds itself. Dropping it ends it.
#[derive(Debug)]
pub struct Starting {
    child: Child,
    sockets: Sockets,
    layers: Vec<LayerReport>,
    limits: cgroup::Plan,
    attach: Vec<VettedBind>,
    terminal: Option<OwnedFd>,
    watch: Option<Watch>,
}

impl From<&Lease> for Place {
    fn from(lease: &Lease) -> Self {
        Self {
            gateway: lease.gateway(),
            address: lease.address(),
        }
    }
}

impl Design {
    /// Works a sandbox out for a hub with these ids and for this place, or for
    /// a network with `lo` alone.
    ///
    /// # Errors
    /// If anything that was asked for cannot be had.
    pub fn new(spec: Spec, ids: HostIds, place: Option<Place>) -> Result<Self, StartSandboxError> {
        Bwrap.design(spec, ids, place)
    }

    /// What each layer will do.
    #[must_use]
    pub fn layers(&self) -> &[LayerReport] {
        &self.layers
    }

    /// Paths of the host that lie in what is shown, are no home's, and are covered because programs keep credentials in
    /// such places; and where each would be inside.
    #[must_use]
    pub fn covered(&self) -> &[(PathBuf, PathBuf)] {
        &self.covered
    }

    /// Begins to build it.
    ///
    /// # Errors
    /// If the hub or the network is another than it was made for, or the hub
    /// cannot start it.
    pub fn start(self, hub: &Hub, network: Network<'_>) -> Result<Starting, StartSandboxError> {
        let lease = network.lease();
        if lease.map(Place::from) != self.place || hub.ids() != self.ids {
            return Err(StartSandboxError::OtherPlace);
        }
        if let Some(tree) = &self.tree {
            hub.show(tree)?;
        }
        let child = hub.spawn(Spawn {
            program: self.program,
            args: self.args,
            env: Vec::new(),
            fds: self.fds,
            network: lease.map_or(SpawnNetwork::Disconnected, |lease| {
                SpawnNetwork::Leased(lease.slot())
            }),
            id_map: self.id_map,
        })?;
        Ok(Starting {
            child,
            sockets: self.sockets,
            layers: self.layers,
            limits: self.limits,
            attach: self.attach,
            terminal: self.terminal,
            watch: self.watch,
        })
    }
}

impl Starting {
    /// Waits until the sandbox stands and only its program is missing.
    ///
    /// # Errors
    /// If the host refuses a part of it. Nothing of the sandbox is left then.
    pub fn meet(self) -> Result<Prepared, StartSandboxError> {
        let prepared = Prepared::meet(self.child, self.sockets, self.layers)?;
        attach::attach(self.attach, self.terminal, prepared.program())?;
        prepared.watched(self.watch)?.limit(self.limits)
    }
}
