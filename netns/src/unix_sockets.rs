//! The Unix sockets of this network namespace that lie in a file system, by what they are and not by a name.
//!
//! A socket keeps the name that it was bound by, whatever becomes of that; the kernel knows its inode as well
//! (sock_diag(7), `linux/unix_diag.h`, Linux 3.3).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::netlink::dump::Told;
use crate::netlink::{Message, Netlink, find_attribute};

/// A socket that is bound to a place in a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundSocket {
    /// The lower half of its inode's number: the kernel tells no more.
    pub inode: u32,
    /// The name that it was bound by; `None` where the kernel does not tell one.
    pub name: Option<PathBuf>,
}

/// All of them, at this moment.
///
/// # Errors
/// When the kernel does not tell, as one without `CONFIG_UNIX_DIAG`.
pub fn bound_sockets() -> io::Result<Vec<BoundSocket>> {
    let mut message = Message::all("list Unix sockets", SOCK_DIAG_BY_FAMILY);
    // `struct unix_diag_req`: family, protocol, padding, states, inode, what to show, cookie.
    message
        .put(&[AF_UNIX, 0, 0, 0])
        .put(&u32::MAX.to_ne_bytes())
        .put(&[0; 4])
        .put(&(SHOW_NAME | SHOW_VFS).to_ne_bytes())
        .put(&[0; 8]);
    let listed = Netlink::sock_diag()?.dump(message);
    let listed = listed.map_err(|error| error.source)?;
    Ok(listed.iter().filter_map(bound).collect())
}

fn bound(told: &Told) -> Option<BoundSocket> {
    const NAME: u16 = 0;
    const VFS: u16 = 1;
    let place = find_attribute(&told.bytes, ANSWER, VFS)?;
    let inode = u32::from_ne_bytes(place.get(..4)?.try_into().ok()?);
    // The kernel tells it without its end, or with it.
    let name = find_attribute(&told.bytes, ANSWER, NAME);
    let name = name.map(|name| name.strip_suffix(b"\0").unwrap_or(name));
    let name = name.map(|name| PathBuf::from(OsStr::from_bytes(name)));
    Some(BoundSocket { inode, name })
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_UNIX: u8 = 1;
const SHOW_NAME: u32 = 1;
const SHOW_VFS: u32 = 2;
/// `struct unix_diag_msg`.
const ANSWER: usize = 16;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_is_known_by_its_inode_whatever_it_is_called_now() {
        let folder = tempfile::tempdir().unwrap();
        let (before, now) = (folder.path().join("before"), folder.path().join("now"));
        let _listener = UnixListener::bind(&before).unwrap();
        std::fs::rename(&before, &now).unwrap();
        let (_near, _far) = UnixStream::pair().unwrap();
        let inode = std::fs::symlink_metadata(&now).unwrap().ino();
        let all = bound_sockets().unwrap();
        let found = all.iter().find(|one| u64::from(one.inode) == inode);
        assert_eq!(found.unwrap().name.as_deref(), Some(before.as_path()));
        assert!(all.iter().all(|one| one.name.is_some()));
    }
}
