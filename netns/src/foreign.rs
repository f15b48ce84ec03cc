//! Network namespaces that gig did not make: a container runtime's, or anybody's.
//!
//! No link is moved: that takes rights over two user namespaces that nobody unprivileged has at once.
//! Instead the listening sockets are opened *in there*, on `lo`, with a default route that leads to `lo`
//! and a firewall that redirects every TCP port and all DNS to them and refuses the rest; they are handed
//! out, and belong to that namespace for ever. There is no uplink, as in the hub.
//!
//! Promises: a namespace of gig's own is never taken; one that has another link, route or firewall is
//! refused and left as it was; what comes by the sockets was sent in that namespace; whatever is added to
//! it afterwards is told by [`Watch`]. It is entered by a process of its own, single-threaded, that holds
//! nothing but the namespace's handle and ends when it has answered.
//!
//! Does not promise that there is no other way out: who has `CAP_NET_ADMIN` over the namespace can make
//! one, and a process may have brought a socket of elsewhere along. Leaves to others: whose it is.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::HUB_ARGUMENT;
use crate::hub_protocol::{self, Failure};
use crate::listener::Listeners;
use crate::reexec;
use crate::sys::nsfs;

mod inspect;
pub(crate) mod place;
pub(crate) mod process;
mod ruleset;
pub(crate) mod watch;

use place::{Found, NamespaceId};
use watch::Watch;

/// `argv[2]` of the process that enters.
pub(crate) const FOREIGN_ARGUMENT: &str = "foreign";
/// It makes a dozen calls.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A namespace that was entered, and what was made in it.
#[derive(Debug)]
pub struct Entered {
    /// Its sockets: whoever reaches them is in it.
    pub listeners: Listeners,
    /// The port of the explicit proxy, on 127.0.0.1.
    pub explicit_port: u16,
    /// Tells when somebody adds something to it.
    pub watch: Watch,
    /// Ends with this.
    pub life: Life,
    /// Which one it is; no other has this id while the sockets are there.
    pub id: NamespaceId,
}

/// What a namespace ends with, as far as gig is concerned.
#[derive(Debug)]
pub enum Life {
    /// A process: readable when it has ended.
    Process(OwnedFd),
    /// A name in the file system, for as long as it names this namespace.
    Path(PathBuf),
}

/// Why a namespace was not entered.
#[derive(Debug, thiserror::Error)]
pub enum EnterNamespaceError {
    /// It is gone, or never was.
    #[error("there is no process {0} (any more)")]
    NoProcess(u32),
    /// Nothing has that name.
    #[error(
        "there is no {0}: name a file that `ip netns` or a container runtime made (/run/netns/NAME)"
    )]
    NoPath(String),
    /// The kernel refuses.
    #[error(
        "the network namespace of {of} cannot be opened: gig must run as root, or as the user who made \
         its user namespace"
    )]
    Open {
        /// Whose.
        of: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error(
        "{0} is no network namespace: name a file that `ip netns` or a container runtime made, or a \
         process by its id"
    )]
    NoNetwork(String),
    /// It is not a stranger's.
    #[error("this is the network namespace of {0}, which nobody registers")]
    Own(&'static str),
    /// No process.
    #[error("the process that enters it could not be started")]
    Start(#[source] io::Error),
    /// It ended or answered out of turn.
    #[error("the process that enters it was lost")]
    Lost(#[source] io::Error),
    /// It could not, or would not.
    #[error("the network namespace was not taken")]
    Refused(#[source] Failure),
}

/// To the process that enters; the namespace's handle comes along.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Enter {
    explicit_port: u16,
}

/// From it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum Answer {
    /// Four listeners and two watches come along.
    Entered,
    Failed(Failure),
}

impl Found {
    /// Enters it and makes what is told above. Blocks for as long as a few system calls take.
    ///
    /// # Errors
    /// When it cannot be entered, or is not empty.
    pub fn enter(self, explicit_port: u16) -> Result<Entered, EnterNamespaceError> {
        let (answer, fds) = ask(&self, explicit_port)?;
        match (answer, <[OwnedFd; 6]>::try_from(fds)) {
            (Answer::Entered, Ok(fds)) => self.take(fds),
            (Answer::Failed(failure), _) => Err(EnterNamespaceError::Refused(failure)),
            (Answer::Entered, Err(_)) => Err(EnterNamespaceError::Lost(odd("other sockets came"))),
        }
    }

    /// What came back must be of this one namespace.
    fn take(self, fds: [OwnedFd; 6]) -> Result<Entered, EnterNamespaceError> {
        let lost = EnterNamespaceError::Lost;
        let mut cookies = fds.iter().map(nsfs::cookie);
        let first = cookies.next().transpose().map_err(lost)?;
        for cookie in cookies {
            if Some(cookie.map_err(lost)?) != first {
                return Err(lost(odd("sockets of several namespaces came")));
            }
        }
        let [redirect, explicit, dns_tcp, dns_udp, route, filter] = fds;
        let listeners = Listeners::from_fds([redirect, explicit, dns_tcp, dns_udp]);
        let explicit_port = listeners.explicit.local_addr().map_err(lost)?.port();
        let watch = Watch::of(route, filter);
        // Between the look at the process and here it may have ended; its number may be another's.
        self.still()?;
        Ok(Entered {
            listeners,
            explicit_port,
            watch,
            id: self.id(),
            life: self.into_life(),
        })
    }
}

/// One exchange with a process that ends with it.
fn ask(found: &Found, explicit_port: u16) -> Result<(Answer, Vec<OwnedFd>), EnterNamespaceError> {
    let started = reexec::start(&[HUB_ARGUMENT, FOREIGN_ARGUMENT], ANSWER_WITHIN);
    let (socket, mut process) = started.map_err(EnterNamespaceError::Start)?;
    let asked = hub_protocol::send(&socket, &Enter { explicit_port }, &[found.as_fd()]);
    let answered = asked.and_then(|()| hub_protocol::receive(&socket));
    drop(socket);
    if answered.is_err() {
        // It may hang; already gone is what was wanted.
        drop(process.kill());
    }
    drop(process.wait());
    answered.map_err(EnterNamespaceError::Lost)
}

fn odd(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
