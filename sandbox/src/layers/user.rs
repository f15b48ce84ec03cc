//! User and group ids.
//!
//! With one id of the host, bwrap maps it to 65534 directly and nothing else
//! exists inside. With a range, the hub maps 0 to 65535, the bootstrap starts
//! as 0 and the program ends as 65534.

use gig_netns::{HostIds, MapWriter};

use crate::layer::{Layer, LayerReport};
use crate::spec::Bind;

/// Whether the sandbox has one id or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdMode {
    /// The invoking user's own.
    Single,
    /// 65,536 of its own.
    Range,
}

impl IdMode {
    /// What a hub gives.
    pub(crate) fn of(ids: HostIds) -> Self {
        match ids {
            HostIds::Range { .. } => Self::Range,
            HostIds::Single => Self::Single,
        }
    }
}

/// The ids to start a hub with for a sandbox of these binds.
///
/// The widest that the host gives, but for a user with subordinate ids who
/// shows paths of his own: those belong to his own id, so the sandbox gets
/// that one.
#[must_use]
pub fn suitable_ids(binds: &[Bind]) -> HostIds {
    match HostIds::detect() {
        HostIds::Range {
            via: MapWriter::NewuidmapHelpers,
            ..
        } if !binds.is_empty() => HostIds::Single,
        ids => ids,
    }
}

/// The layer's state. In single mode the kernel forbids giving up the
/// supplementary groups of the invoking user.
pub(crate) fn report(ids: IdMode) -> LayerReport {
    let extra = rustix::process::getgroups().is_ok_and(|groups| {
        groups
            .iter()
            .any(|group| *group != rustix::process::getegid())
    });
    if ids == IdMode::Single && extra && !rustix::process::geteuid().is_root() {
        return LayerReport::partial(
            Layer::User,
            "the invoking user's supplementary groups stay (files that they may reach are still \
             only those shown); sub-ids for this user (package uidmap, /etc/subuid) take them away",
        );
    }
    LayerReport::enforced(Layer::User)
}
