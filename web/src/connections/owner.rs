//! Who is at the other end of the socket in the data directory: this machine's owner, or nobody.
//!
//! The owner is root, or whoever runs gig, outside of any sandbox. A sandbox of a gig that is nobody in
//! particular runs under the user's own id, and a folder that somebody shows it may lead to the socket; but
//! each sandbox has process ids of its own, which the kernel tells. Who cannot be looked at is nobody.

use std::fs;

use tokio::net::UnixStream;

use crate::store::Actor;

/// How the record names the owner; `None` for somebody who is not let in.
pub(super) fn owner(stream: &UnixStream) -> Option<String> {
    let peer = stream.peer_cred().ok()?;
    let (uid, own) = (peer.uid(), rustix::process::geteuid().as_raw());
    // Root, as seen by who is not: no sandbox has its id.
    let is_root = uid == 0 && own != 0;
    let is_own = uid == own && peer.pid().is_some_and(is_beside_us);
    (is_root || is_own).then(|| local_user(uid))
}

/// How the record names a user of this machine, at the socket and where a command changes something by itself: as the one
/// person that all of them are, whose sandboxes these are, with the number, which no file of accounts changes.
#[must_use]
pub fn local_user(uid: u32) -> String {
    format!("{} (uid {uid})", Actor::OWNER)
}

/// Whether it numbers processes as gig does.
fn is_beside_us(pid: i32) -> bool {
    // Where `/proc` tells of other numbers than ours, nothing can be said of anybody.
    let ours = fs::read_link("/proc/self")
        .is_ok_and(|own| own.to_str().and_then(|own| own.parse().ok()) == Some(std::process::id()));
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    ours && pid > 0 && status.is_ok_and(|status| has_one_number(&status))
}

/// Whether a process has no other number in a namespace further in.
fn has_one_number(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_ascii_whitespace().count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_process_ids_of_its_own_is_told_from_who_has_ours() {
        assert!(has_one_number("Name:\tcurl\nNSpid:\t77\nThreads:\t1\n"));
        assert!(!has_one_number("Name:\tNSpid: 1\nNSpid:\t77\t2\n"));
        assert!(!has_one_number("Name:\tcurl\n"));
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(is_beside_us(own));
        assert!(!is_beside_us(0) && !is_beside_us(i32::MAX));
    }

    #[tokio::test]
    async fn this_process_is_its_own_owner() {
        let (here, _there) = UnixStream::pair().unwrap();
        let named = owner(&here).unwrap();
        // The person is one, whatever they are called as.
        assert!(named.starts_with(Actor::OWNER), "{named}");
        assert!(named.ends_with(&format!("(uid {})", rustix::process::geteuid().as_raw())));
    }
}
