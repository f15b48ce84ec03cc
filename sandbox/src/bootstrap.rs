//! The bootstrap, carried inside this program, and what it is told.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use crate::layers::fds;

// The one description of the orders: the bootstrap compiles the same file.
#[path = "../bootstrap/src/orders.rs"]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "written here, read in the bootstrap")
)]
pub(crate) mod orders;

static PROGRAM: &[u8] = include_bytes!(env!("GIG_BOOTSTRAP"));

/// The bootstrap as a sealed file in memory: one for all sandboxes, because
/// nobody can change it.
pub(crate) fn program() -> io::Result<OwnedFd> {
    static SEALED: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(sealed) = SEALED.get() {
        return fds::copy(sealed);
    }
    let made = fds::sealed("gig-bootstrap", PROGRAM)?;
    fds::copy(SEALED.get_or_init(|| made))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::orders::{Limit, Masked, NetworkCheck, Orders, Shown};

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..40)
    }

    fn list() -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(bytes(), 0..5)
    }

    fn orders() -> impl Strategy<Value = Orders> {
        let network = prop_oneof![
            Just(NetworkCheck::Disconnected),
            any::<[u8; 4]>().prop_map(NetworkCheck::Gateway)
        ];
        let limits = proptest::collection::vec((any::<u32>(), any::<u64>()), 0..4);
        let texts = (bytes(), bytes(), bytes(), list(), list(), list(), list());
        let shown = proptest::collection::vec((bytes(), any::<[u64; 2]>()), 0..3);
        let masks = proptest::collection::vec((bytes(), any::<bool>()), 0..3);
        (
            network,
            any::<[bool; 2]>(),
            any::<[u64; 2]>(),
            limits,
            texts,
            (shown, masks),
        )
            .prop_map(|(network, flags, landlock, limits, texts, mounts)| Orders {
                network,
                set_ids: flags[0],
                controlling_terminal: flags[1],
                landlock_fs: landlock[0],
                landlock_scoped: landlock[1],
                workdir: texts.0,
                program: texts.1,
                path: texts.2,
                args: texts.3,
                env: texts.4,
                owned: texts.5,
                filters: texts.6,
                masks: mounts
                    .1
                    .into_iter()
                    .map(|(path, directory)| Masked { path, directory })
                    .collect(),
                shown: mounts
                    .0
                    .into_iter()
                    .map(|(path, [device, inode])| Shown {
                        path,
                        device,
                        inode,
                    })
                    .collect(),
                rlimits: limits
                    .into_iter()
                    .map(|(resource, value)| Limit { resource, value })
                    .collect(),
            })
    }

    proptest! {
        #[test]
        fn orders_arrive_as_they_were_given(orders in orders()) {
            prop_assert_eq!(Orders::decode(&orders.encode()), Some(orders));
        }

        #[test]
        fn orders_that_are_cut_or_prolonged_are_none(orders in orders(), cut in any::<usize>()) {
            let mut bytes = orders.encode();
            prop_assert_eq!(Orders::decode(&bytes[..cut % bytes.len()]), None);
            bytes.push(0);
            prop_assert_eq!(Orders::decode(&bytes), None);
        }
    }
}
