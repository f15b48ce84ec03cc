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
    use std::os::{fd::AsRawFd as _, unix::fs::PermissionsExt};
    use std::process::Command;

    use proptest::prelude::*;
    use rustix::io::{FdFlags, fcntl_setfd};

    use super::orders::{GO, Limit, Masked, NetworkCheck, Orders, Shown};
    use crate::handshake;
    use crate::layers::seccomp;
    use crate::spec::SeccompProfile;

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
                file_mask: 0o027,
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

    /// The bootstrap by itself, in namespaces of its own: its exit code, and what the program printed.
    #[expect(clippy::disallowed_methods, reason = "the bootstrap without an engine")]
    fn bootstrapped(filters: Vec<Vec<u8>>) -> (Option<i32>, String) {
        let folder = tempfile::tempdir().unwrap();
        let [bootstrap, orders, output] =
            ["bootstrap", "orders", "output"].map(|name| folder.path().join(name));
        std::fs::write(&bootstrap, super::PROGRAM).unwrap();
        std::fs::set_permissions(&bootstrap, PermissionsExt::from_mode(0o755)).unwrap();
        let told = Orders {
            workdir: b"/".to_vec(),
            program: b"/bin/echo".to_vec(),
            args: vec![b"echo".to_vec(), b"it ran".to_vec()],
            filters,
            ..Orders::default()
        };
        std::fs::write(&orders, told.encode()).unwrap();
        let ((control, theirs), (ours, programs)) =
            (handshake::pair().unwrap(), handshake::pair().unwrap());
        // It waits there until it is read.
        handshake::tell(&ours, &[GO]).unwrap();
        let numbers = [&theirs, &programs].map(|fd| {
            fcntl_setfd(fd, FdFlags::empty()).unwrap();
            fd.as_raw_fd().to_string()
        });
        let places = "exec \"$1\" 3<&$4 4<&$5 5<\"$2\" 6</dev/null 7>\"$3\" 8>/dev/null";
        let ended = Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--net",
                "--pid",
                "--fork",
                "bash",
                "-c",
            ])
            .args([places, "bash"])
            .args([&bootstrap, &orders, &output])
            .args(numbers)
            .status()
            .unwrap();
        drop((control, ours));
        let printed = std::fs::read_to_string(&output).unwrap_or_default();
        (ended.code(), printed)
    }

    #[test]
    fn without_a_system_call_filter_no_program_starts() {
        let usual = seccomp::compile(SeccompProfile::Default).unwrap();
        assert_eq!(
            bootstrapped(usual.clone()),
            (Some(0), "it ran\n".to_owned())
        );
        let (empty, odd) = (Vec::new(), usual.iter().map(|all| all[1..].to_vec()));
        let beside = usual.iter().cloned().chain([Vec::new()]);
        for filters in [empty, vec![Vec::new()], odd.collect(), beside.collect()] {
            let (code, printed) = bootstrapped(filters);
            assert_eq!((code, printed.as_str()), (Some(125), ""));
        }
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
