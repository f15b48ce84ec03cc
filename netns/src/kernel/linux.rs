//! The real kernel: namespaces by `unshare`, the rest by netlink.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use crate::hub_protocol::{Failure, Step};
use crate::kernel::Kernel;
use crate::namespace::{self, MakeNamespaceError, Namespace};
use crate::netlink::{Message, Netlink, NetlinkError};
use crate::plan::SlotPlan;
use crate::{address, link, route};

/// How often a new link is looked at before giving up: two seconds, the
/// kernel's longest delay of this work being one.
const LOOKS: u32 = 10_000;
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

/// Acts in the hub's own network namespace.
#[derive(Debug)]
pub(crate) struct Linux {
    hub: Netlink,
    /// Slots whose pair was cut and may not be gone yet.
    cut: HashSet<u16>,
}

impl Linux {
    /// Opens netlink in the calling thread's namespace and brings `lo` up.
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut hub = Netlink::route().map_err(|source| Failure::io(Step::Netlink, &source))?;
        hub.request(&mut [link::loopback_up()])
            .map_err(|error| failure(Step::Netlink, &error))?;
        Ok(Self {
            hub,
            cut: HashSet::new(),
        })
    }
}

impl Kernel for Linux {
    type Namespace = OwnedFd;

    fn attach(&mut self, slot: &SlotPlan) -> Result<OwnedFd, Failure> {
        if self.cut.contains(&slot.slot) {
            self.remove(slot)?;
        }
        let mut namespace = new_namespace()?;
        self.hub
            .request(&mut [
                link::new_veth(slot, namespace.fd.as_fd()),
                address::on_hub(slot),
                address::sandbox_as_neighbour(slot),
            ])
            .map_err(|error| failure(Step::Link, &error))?;
        namespace
            .netlink
            .request(&mut [
                link::sandbox_up(),
                address::on_sandbox(slot),
                address::gateway_as_neighbour(slot),
                route::default_via_gateway(slot),
            ])
            .map_err(|error| failure(Step::Link, &error))?;
        transmitting(&mut namespace.netlink, link::get_sandbox_end)?;
        transmitting(&mut self.hub, || link::get_hub_end(slot))?;
        Ok(namespace.fd)
    }

    fn detach(&mut self, slot: &SlotPlan, _namespace: &OwnedFd) -> Result<(), Failure> {
        unless_gone(self.hub.request(&mut [link::hub_down(slot)]))?;
        self.cut.insert(slot.slot);
        Ok(())
    }

    /// A processor that is late may have packets of a link that is down on its list still, and hands them
    /// up. Whoever removes a link waits until the kernel has taken them from all lists
    /// (`unregister_netdevice_many`). Not so when a namespace's end removes it, since Linux 6.15: then it
    /// cannot be found any more before that.
    fn remove(&mut self, slot: &SlotPlan) -> Result<(), Failure> {
        unless_gone(self.hub.request(&mut [link::delete_veth(slot)]))?;
        self.cut.remove(&slot.slot);
        Ok(())
    }

    fn disconnected(&mut self) -> Result<OwnedFd, Failure> {
        new_namespace().map(|namespace| namespace.fd)
    }

    fn handle<'a>(&self, namespace: &'a OwnedFd) -> Option<BorrowedFd<'a>> {
        Some(namespace.as_fd())
    }
}

fn unless_gone(outcome: Result<(), NetlinkError>) -> Result<(), Failure> {
    match outcome {
        Err(error) if error.source.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        other => other.map_err(|error| failure(Step::Link, &error)),
    }
}

fn new_namespace() -> Result<Namespace, Failure> {
    namespace::new().map_err(|error| match error {
        MakeNamespaceError::Io { step, source } => {
            Failure::new(Step::Namespace, source.raw_os_error(), step)
        }
        MakeNamespaceError::Netlink(error) => failure(Step::Namespace, &error),
    })
}

/// Waits until a link transmits. The kernel puts a new link's queue in place
/// some time after its carrier came on; what is sent before is lost, which a
/// sandbox would feel as a second's delay of its first connection. Asking for
/// the link puts the queue in place at once since Linux 6.9.
fn transmitting(netlink: &mut Netlink, get: impl Fn() -> Message) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        let told = netlink
            .exchange(&mut [get()])
            .map_err(|error| failure(Step::Link, &error))?;
        if told.iter().any(|answer| link::transmits(answer)) {
            return Ok(());
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    Err(Failure::new(Step::Link, None, "the link does not come up"))
}

fn failure(step: Step, error: &NetlinkError) -> Failure {
    let NetlinkError { what, source } = error;
    Failure::new(step, source.raw_os_error(), *what)
}
