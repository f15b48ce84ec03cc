//! The process that enters a namespace: the same program again, single-threaded.
//!
//! It is told what to enter, makes what belongs there, hands the sockets over and ends. While it is in there
//! nobody of there can look into it: it is not dumpable, and its memory belongs to gig's user namespace. What
//! it finds there is text of strangers, and is told in printable letters.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{
    DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space, set_no_new_privs};

use super::inspect::{self, Kinds};
use super::ruleset::{Ports, ruleset};
use super::watch::Watch;
use super::{Answer, Enter};
use crate::firewall;
use crate::hub_protocol::{self, Failure, Step};
use crate::link;
use crate::listener::Listeners;
use crate::namespace;
use crate::netlink::{Netlink, NetlinkError};
use crate::route;
use crate::sys::{self, nsfs};

/// The control socket's number: standard input.
const SOCKET: i32 = 0;

/// Does not return.
pub(crate) fn child_main() -> ! {
    let code = match serve() {
        Ok(()) => 0,
        Err(_) => 1,
    };
    sys::exit_now(code)
}

fn serve() -> io::Result<()> {
    sys::ignore_requests()?;
    let socket = UnixStream::from(sys::inherited(SOCKET)?);
    sys::close_from(3)?;
    set_no_new_privs(true)?;
    keep_apart()?;
    let (Enter { explicit_port }, fds) = hub_protocol::receive(&socket)?;
    let Ok([handle]) = <[OwnedFd; 1]>::try_from(fds) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    match build(&handle, explicit_port) {
        Ok((listeners, watch)) => {
            let [redirect, explicit, dns_tcp, dns_udp] = listeners.as_fds();
            let [route, filter] = watch.as_fds();
            let fds = [redirect, explicit, dns_tcp, dns_udp, route, filter];
            hub_protocol::send(&socket, &Answer::Entered, &fds)
        }
        Err(failure) => hub_protocol::send(&socket, &Answer::Failed(failure), &[]),
    }
}

/// Ends with gig, and is looked into by nobody. A change of credentials clears the one and the other.
fn keep_apart() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn build(handle: &OwnedFd, explicit_port: u16) -> Result<(Listeners, Watch), Failure> {
    enter(handle)?;
    keep_apart().map_err(at(Step::Enter))?;
    let mut links = Netlink::route().map_err(at(Step::Netlink))?;
    let mut filter = Netlink::netfilter().map_err(at(Step::Netlink))?;
    // Read first: whatever else changes the firewall from here on is noticed.
    let before = inspect::generation(&mut filter).map_err(refused)?;
    inspect::look(&mut links, &mut filter, Kinds::Before)?;
    set_parameters().map_err(at(Step::Sysctl))?;
    links
        .request(&mut [link::loopback_up()])
        .and_then(|()| links.request(&mut [route::default_by_loopback()]))
        .map_err(refused)?;
    let listeners = Listeners::on_loopback(explicit_port).map_err(at(Step::Listen))?;
    let ports = Ports::of(&listeners).map_err(at(Step::Listen))?;
    let v6 = Path::new("/proc/sys/net/ipv6").exists();
    firewall::replace(&mut filter, &ruleset(ports, v6))?;
    let watch = Watch::open().map_err(at(Step::Netlink))?;
    // From here on the watch tells of changes; what was changed until here is seen now.
    let after = inspect::generation(&mut filter).map_err(refused)?;
    if after != before.wrapping_add(1) {
        let what = "somebody else changes its firewall at the same time";
        return Err(Failure::new(Step::Inspect, None, what));
    }
    inspect::look(&mut links, &mut filter, Kinds::After)?;
    Ok((listeners, watch))
}

/// As who owns it: at once, or by its user namespace first.
fn enter(handle: &OwnedFd) -> Result<(), Failure> {
    let outside = network_here().map_err(at(Step::Enter))?;
    let network = || {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(handle.as_fd(), kind).map_err(io::Error::from)
    };
    let entered = network().or_else(|_| {
        let owner = nsfs::owner(handle)?;
        move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))?;
        network()
    });
    entered.map_err(|error| {
        let what = "run gig as root, or as the user who made its user namespace";
        Failure::new(Step::Enter, error.raw_os_error(), what)
    })?;
    let inside = network_here().map_err(at(Step::Enter))?;
    if inside == outside {
        let what = "it is the one that gig itself is in";
        return Err(Failure::new(Step::Enter, None, what));
    }
    Ok(())
}

/// What tells the network namespace of this process from all others.
fn network_here() -> io::Result<u64> {
    nsfs::cookie(socket(AddressFamily::INET, SocketType::DGRAM, None)?)
}

/// As in the hub: no IPv6, and refused UDP fails at once, each time.
fn set_parameters() -> io::Result<()> {
    namespace::disable_ipv6()?;
    for (parameter, value) in [("ip_forward", "0"), ("icmp_ratemask", "0")] {
        fs::write(format!("/proc/sys/net/ipv4/{parameter}"), value)?;
    }
    Ok(())
}

fn at(step: Step) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::io(step, &error)
}

pub(super) fn refused(error: NetlinkError) -> Failure {
    Failure::new(Step::Netlink, error.source.raw_os_error(), error.what)
}
