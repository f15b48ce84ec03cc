//! Why the hub did not do what it was asked.

use std::io;
use std::path::PathBuf;

use crate::covered::{self, Covers};
use crate::cure;
use crate::hub_protocol::Failure;
use crate::id_map::WriteIdMapError;
use crate::subnet_pool::SubnetPoolError;

/// Why no hub is running.
#[derive(Debug, thiserror::Error)]
pub enum StartHubError {
    /// The range of addresses does not serve.
    #[error("the range of sandbox addresses cannot be used")]
    Subnet(#[from] SubnetPoolError),
    /// The process could not be started.
    #[error("the hub process could not be started")]
    Start(#[source] io::Error),
    /// Its ids could not be mapped.
    #[error("the hub's ids could not be mapped")]
    IdMap(#[from] WriteIdMapError),
    /// It ended or answered out of turn.
    #[error("the hub process was lost while it started")]
    Lost(#[source] io::Error),
    /// It could not have a /proc, because that of its caller is covered in part.
    #[error(
        "/proc is covered in part ({covers}), as in containers: Linux lets no sandbox have a /proc of its own \
         then; {}",
        covered::CURE
    )]
    Covered {
        /// By what.
        covers: Covers,
        /// What was refused.
        #[source]
        source: Failure,
    },
    /// It could not build itself.
    #[error("the hub could not be built; cure: {cure}")]
    Refused {
        /// What allows it, as far as can be seen.
        cure: String,
        /// What was refused.
        #[source]
        source: Failure,
    },
}

impl StartHubError {
    pub(super) fn refused(source: Failure) -> Self {
        Self::Refused {
            cure: cure::of(Some(source.step), source.errno),
            source,
        }
    }
}

/// Why no slot was handed out.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The hub is gone.
    #[error("the hub was lost before it handed out a network")]
    Lost(#[source] io::Error),
    /// The hub has none.
    #[error("the hub has no network for another sandbox")]
    Refused(#[source] Failure),
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The hub is gone.
    #[error("the hub was lost before it started {program}")]
    Lost {
        /// What was to be started.
        program: PathBuf,
        /// How the hub was lost.
        #[source]
        source: io::Error,
    },
    /// The hub, or the program's own start, refused.
    #[error("{program} could not be started")]
    Refused {
        /// What was to be started.
        program: PathBuf,
        /// Why.
        #[source]
        source: Failure,
    },
}

/// Why a slot was not taken back. It is then never handed out again.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The hub is gone, and the network with it.
    #[error("the hub was lost before it took slot {slot} back")]
    Lost {
        /// Which slot.
        slot: u16,
        /// How the hub was lost.
        #[source]
        source: io::Error,
    },
    /// The hub could not end or remove it.
    #[error("slot {slot} could not be taken back")]
    Refused {
        /// Which slot.
        slot: u16,
        /// Why.
        #[source]
        source: Failure,
    },
}
