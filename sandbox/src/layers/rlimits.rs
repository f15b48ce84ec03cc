//! Limits of each process, set by the bootstrap.

use rustix::process::{Resource, getrlimit};

use crate::bootstrap::orders::Limit;
use crate::layer::{Layer, LayerReport};
use crate::spec::ResourceLimits;

/// Processes and threads when none were asked for: ten times what a large
/// build or a Java server uses, and a fork bomb stays a nuisance to itself.
const DEFAULT_PIDS: u64 = 4096;
/// Open files: what servers are tuned for; the host's table has a thousand
/// times that.
const OPEN_FILES: u64 = 65_536;
/// The first process of the sandbox counts too.
const OWN_PROCESSES: u64 = 1;
/// Bytes in POSIX message queues, kernel memory that nothing else counts.
const MESSAGE_QUEUES: u64 = 819_200;
/// Signals queued to one user.
const PENDING_SIGNALS: u64 = 4096;

/// The limits. The kernel counts processes by user namespace and id since
/// Linux 5.14, so that the number is the sandbox's own.
pub(crate) fn limits(wanted: &ResourceLimits) -> Vec<Limit> {
    let pids = wanted
        .pids
        .map_or(DEFAULT_PIDS, u64::from)
        .saturating_add(OWN_PROCESSES);
    vec![
        // A core file holds memory, secrets included, and would land on a bind. Zero forbids the
        // file only: the kernel looks away from any limit but one when the host pipes core files
        // to a program, which would run outside on what the sandbox feeds it.
        Limit {
            resource: libc::RLIMIT_CORE,
            value: 1,
        },
        Limit {
            resource: libc::RLIMIT_NPROC,
            value: pids,
        },
        Limit {
            resource: libc::RLIMIT_NOFILE,
            value: open_files(getrlimit(Resource::Nofile).maximum),
        },
        Limit {
            resource: libc::RLIMIT_MSGQUEUE,
            value: MESSAGE_QUEUES,
        },
        Limit {
            resource: libc::RLIMIT_SIGPENDING,
            value: PENDING_SIGNALS,
        },
    ]
}

/// Half of what gig and its hub may have where that is little: nobody sends descriptors while more of their user's
/// are on their way than they may have open themselves, so that a sandbox with that user's id cannot keep hub and
/// gig from sending theirs.
fn open_files(hosts: Option<u64>) -> u64 {
    hosts.map_or(OPEN_FILES, |most| OPEN_FILES.min(most / 2))
}

/// The layer's state.
pub(crate) fn report() -> LayerReport {
    LayerReport::enforced(Layer::Rlimits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_fewer_open_files_than_the_hub_may_have() {
        let of = [None, Some(1 << 20), Some(65_536), Some(4096), Some(1024)].map(open_files);
        assert_eq!(of, [65_536, 65_536, 32_768, 2048, 512]);
    }
}
