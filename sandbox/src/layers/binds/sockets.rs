//! The Unix sockets of this network namespace that have a place in the file system.
//!
//! A folder that is shown shows the sockets in it, and whoever connects to one speaks to a program of the
//! host: a container engine, a session bus, an agent that signs. A network namespace of one's own is no
//! wall there. So they are covered like credentials; one that a program shall reach is shown by its own
//! path. Not known here: one that was bound by a relative path or under a name that only another mount
//! namespace has, one of another network namespace, one that is made after the start.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::FileTypeExt as _},
    path::{Path, PathBuf},
};

/// The kernel's list, `proc_pid_net(5)`.
const LIST: &str = "/proc/self/net/unix";
/// What stands before the path: address, references, protocol, flags, type, state, inode.
const COLUMNS: usize = 7;

/// Where there is one at this moment, canonical but for itself.
pub(super) fn bound() -> BTreeSet<PathBuf> {
    let list = fs::read(LIST).unwrap_or_default();
    list.split(|octet| *octet == b'\n')
        .filter_map(path_of)
        .filter_map(place)
        .collect()
}

/// The absolute path at the end of a line; abstract names begin with `@`.
fn path_of(line: &[u8]) -> Option<&Path> {
    let mut rest = line;
    for _ in 0..COLUMNS {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        rest = rest.get(end..)?;
    }
    // One blank; a path may begin with more, but not an absolute one.
    let path = rest.strip_prefix(b" ")?;
    path.starts_with(b"/")
        .then(|| Path::new(OsStr::from_bytes(path)))
}

/// Where it is, if it is there still.
fn place(path: &Path) -> Option<PathBuf> {
    let place = fs::canonicalize(path.parent()?)
        .ok()?
        .join(path.file_name()?);
    let kind = fs::symlink_metadata(&place).ok()?.file_type();
    kind.is_socket().then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_what_follows_seven_columns() {
        for (line, path) in [
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 21544 /run/docker.sock",
                Some("/run/docker.sock"),
            ),
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 21544 /run/a  b",
                Some("/run/a  b"),
            ),
            (
                "0000000000000000: 00000003 00000000 00000000 0001 03 21544",
                None,
            ),
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 4 @/tmp/x",
                None,
            ),
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 4 ./x",
                None,
            ),
            (
                "Num       RefCount Protocol Flags    Type St Inode Path",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(path_of(line.as_bytes()), path.map(Path::new), "{line}");
        }
    }

    #[test]
    fn what_is_bound_is_found_where_it_really_is() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(real.join("folder")).unwrap();
        std::os::unix::fs::symlink("folder", real.join("link")).unwrap();
        let listening = std::os::unix::net::UnixListener::bind(real.join("link/one")).unwrap();
        let datagrams = std::os::unix::net::UnixDatagram::bind(real.join("two")).unwrap();
        let gone = std::os::unix::net::UnixListener::bind(real.join("three")).unwrap();
        fs::remove_file(real.join("three")).unwrap();
        let found: Vec<_> = bound()
            .into_iter()
            .filter(|path| path.starts_with(&real))
            .collect();
        assert_eq!(found, [real.join("folder/one"), real.join("two")]);
        drop((listening, datagrams, gone));
    }
}
