//! Landlock beneath the namespaces: an independent kernel check that holds if
//! a namespace does not.
//!
//! Refused everywhere: making device nodes, and with any file system rule in
//! force also every change of mounts (Linux 5.13). Scoped (ABI 6, Linux 6.12):
//! abstract sockets and signals to processes outside, the sandbox's own first
//! process among them.

use crate::layer::{Layer, LayerReport};
use crate::sys;

const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
/// Handled so that it can be granted: unhandled it is refused by any rule set
/// of ABI 2 and later.
const REFER: u64 = 1 << 13;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1 << 0;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// What the bootstrap is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rights {
    /// File system rights that are refused.
    pub(crate) fs: u64,
    /// Scopes.
    pub(crate) scoped: u64,
}

/// The kernel's Landlock ABI; `None` where it has none or it is turned off.
#[must_use]
pub fn landlock_abi() -> Option<u32> {
    sys::landlock_abi()
}

/// As much as the running kernel has.
pub(crate) fn detect() -> (Rights, LayerReport) {
    for_abi(sys::landlock_abi())
}

fn for_abi(abi: Option<u32>) -> (Rights, LayerReport) {
    let devices = MAKE_CHAR | MAKE_BLOCK;
    match abi {
        // ABI 1 refuses every rename between directories and cannot be told not to.
        None | Some(0 | 1) => (
            Rights::default(),
            LayerReport::off(
                Layer::Landlock,
                "the kernel has no Landlock ABI 2 (Linux 5.19)",
            ),
        ),
        Some(2..=5) => (
            Rights {
                fs: devices | REFER,
                scoped: 0,
            },
            LayerReport::partial(
                Layer::Landlock,
                "scopes of signals and abstract sockets need ABI 6 (Linux 6.12)",
            ),
        ),
        Some(_) => (
            Rights {
                fs: devices | REFER,
                scoped: SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL,
            },
            LayerReport::enforced(Layer::Landlock),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Enforcement;

    /// As `linux/landlock.h` has them, written out once more: 6 and 11 are the device nodes, 13 is REFER.
    const NODES_AND_REFER: u64 = 0b10_1000_0100_0000;
    const BOTH_SCOPES: u64 = 0b11;

    #[test]
    fn each_abi_is_asked_for_what_it_knows_and_nothing_else() {
        let nothing = (0, 0, "off");
        let files = (NODES_AND_REFER, 0, "partial");
        let all = (NODES_AND_REFER, BOTH_SCOPES, "enforced");
        let table = [
            (None, nothing),
            // Never answered by a kernel.
            (Some(0), nothing),
            // Linux 5.13: every rename between directories would be refused.
            (Some(1), nothing),
            // 5.19: REFER. 6.2: TRUNCATE. 6.7: TCP. 6.10: IOCTL_DEV. None of them is asked for.
            (Some(2), files),
            (Some(3), files),
            (Some(4), files),
            (Some(5), files),
            // 6.12: scopes. 6.15: what is logged. And what comes.
            (Some(6), all),
            (Some(7), all),
            (Some(8), all),
            (Some(u32::MAX), all),
        ];
        for (abi, (fs, scoped, enforcement)) in table {
            let (rights, report) = for_abi(abi);
            assert_eq!(rights, Rights { fs, scoped }, "{abi:?}");
            assert_eq!(report.layer, Layer::Landlock, "{abi:?}");
            let reported = match report.enforcement {
                Enforcement::Enforced => "enforced",
                Enforcement::Partial { .. } => "partial",
                Enforcement::Off { .. } => "off",
            };
            assert_eq!(reported, enforcement, "{abi:?}");
        }
    }
}
