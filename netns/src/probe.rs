//! What this host gives a hub, tried for real, for `gig doctor`.
//!
//! Starts a hub, leases a slot and runs a child in it; where something is
//! refused, says what is missing, what that costs and the command that cures
//! it. Promises to leave nothing behind and never to report a mechanism as
//! working that was not tried.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::cure::POWERLESS_ROOT;
use crate::hub::{Hub, HubConfig, Lease, LeaseError, Spawn, SpawnNetwork, StartHubError};
use crate::hub_protocol::Step;
use crate::id_map::{HostIds, MapWriter, helper, is_powerless_root, lets_helpers, to_give};
use crate::listener::Listeners;
use crate::{HUB_ARGUMENT, Ipv4Net, sys};

mod capable;
mod lacking;

pub use capable::try_user_namespace;
pub(crate) use capable::{CAPABLE_ARGUMENT, child_main as capable_main};

/// `argv[2]` of the child that tries things from inside a slot.
pub(crate) const PROBE_ARGUMENT: &str = "probe";

/// Where the child connects to: a documentation address (RFC 5737) that no
/// host has, so that only a redirect can answer.
const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443);
/// How long the child's connection may take to arrive.
const ARRIVES_WITHIN: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// One mechanism and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The mechanism, in a few words.
    pub name: &'static str,
    /// What was found.
    pub finding: Finding,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It was tried and works.
    Works {
        /// How, where there are several ways.
        detail: String,
    },
    /// It works less well than it could.
    Limited {
        /// What is missing.
        what: String,
        /// What that costs.
        cost: String,
        /// A command or setting that cures it.
        cure: String,
    },
    /// It was tried and does not work: sandboxes do not start.
    Missing {
        /// What was refused.
        what: String,
        /// What that costs.
        cost: String,
        /// A command or setting that cures it.
        cure: String,
    },
    /// It could not be tried.
    NotTried {
        /// The mechanism that it needs.
        needs: &'static str,
    },
}

/// What is needed for a hub, in the order in which it is built.
const BUILT: &[(&str, &[Step])] = &[
    ("user namespaces", &[Step::Unshare]),
    ("id map", &[Step::Identity]),
    ("private /proc", &[Step::Proc, Step::Sysctl]),
    ("netlink", &[Step::Netlink]),
    ("listening sockets in the hub", &[Step::Listen]),
    ("network namespaces", &[Step::Namespace]),
    ("veth links", &[Step::Link]),
    ("nftables ruleset", &[Step::Firewall]),
];

const NESTED: &str = "nested user namespaces";
const REDIRECT: &str = "redirect with original destination";

/// Tries everything. Call it from a thread that outlives the call.
#[must_use]
pub fn probe_all() -> Vec<Probe> {
    let ids = HostIds::detect();
    let mut probes = vec![Probe {
        name: "ids of sandboxes",
        finding: ids_found(ids),
    }];
    let config = HubConfig {
        slots: 1,
        subnet: Ipv4Net::new_assert(Ipv4Addr::new(10, 200, 0, 0), 24),
        explicit_port: 8081,
        ids,
    };
    match Hub::start(&config) {
        Ok((hub, listeners)) => {
            probes.extend(BUILT.iter().map(|(name, _)| works(name, "")));
            probes.extend(from_inside(&hub, &listeners));
        }
        Err(error) => probes.extend(not_built(&error)),
    }
    probes.push(Probe {
        name: "namespace limits",
        finding: lacking::limits(),
    });
    probes
}

/// `main` of the child inside the slot: one line for each thing it tries.
pub(crate) fn child_main() -> ! {
    let mut output = io::stdout();
    let connected = open_connection();
    let nested = sys::unshare_user();
    let line = |name: &str, outcome: &io::Result<()>| match outcome {
        Ok(()) => format!("{name} 0\n"),
        Err(error) => format!("{name} {}\n", error.raw_os_error().unwrap_or(libc::EIO)),
    };
    let text = line("redirect", &connected) + &line("nested", &nested);
    let written = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    sys::exit_now(i32::from(written.is_err()))
}

fn open_connection() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(connect(&socket, &NOWHERE)?)
}

fn works(name: &'static str, detail: impl Into<String>) -> Probe {
    Probe {
        name,
        finding: Finding::Works {
            detail: detail.into(),
        },
    }
}

/// The hub was not built: what came before the failure works, what comes after was not tried.
fn not_built(error: &StartHubError) -> Vec<Probe> {
    let errno = match error {
        StartHubError::Refused { source, .. } | StartHubError::Covered { source, .. } => {
            source.errno
        }
        StartHubError::IdMap(_)
        | StartHubError::Subnet(_)
        | StartHubError::Start(_)
        | StartHubError::Lost(_) => None,
    };
    let (failed, what) = match error {
        StartHubError::Refused { source, .. } => (Some(source.step), source.to_string()),
        StartHubError::Covered { covers, source } => (
            Some(source.step),
            format!("{source}; /proc is covered at {covers}"),
        ),
        StartHubError::IdMap(cause) => (Some(Step::Identity), chain(cause)),
        StartHubError::Subnet(_) | StartHubError::Start(_) | StartHubError::Lost(_) => {
            (Some(Step::Unshare), chain(error))
        }
    };
    let at = BUILT
        .iter()
        .position(|(_, steps)| failed.is_some_and(|step| steps.contains(&step)))
        .unwrap_or_default();
    let mut probes = Vec::new();
    let needs = BUILT.get(at).map_or("a hub", |(name, _)| *name);
    for (index, (name, _)) in BUILT.iter().enumerate() {
        probes.push(match index.cmp(&at) {
            std::cmp::Ordering::Less => works(name, ""),
            std::cmp::Ordering::Equal => Probe {
                name,
                finding: lacking::missing(failed, errno, what.clone()),
            },
            std::cmp::Ordering::Greater => Probe {
                name,
                finding: Finding::NotTried { needs },
            },
        });
    }
    for name in [NESTED, REDIRECT] {
        probes.push(Probe {
            name,
            finding: Finding::NotTried { needs },
        });
    }
    probes
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Runs the child in a slot and looks at both ends.
fn from_inside(hub: &Hub, listeners: &Listeners) -> Vec<Probe> {
    let lease = match hub.lease() {
        Ok(lease) => lease,
        Err(error) => {
            let errno = match &error {
                LeaseError::Refused(source) => source.errno,
                LeaseError::Lost(_) => None,
            };
            let finding = lacking::missing(Some(Step::Slot), errno, chain(&error));
            return vec![Probe {
                name: REDIRECT,
                finding,
            }];
        }
    };
    let said = run_child(hub, &lease, &listeners.redirect);
    let mut probes = Vec::new();
    let outcome = |name: &str| -> Result<(), String> {
        let said = said.as_ref().map_err(Clone::clone)?;
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        match line.and_then(|errno| errno.trim().parse().ok()) {
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno).to_string()),
            None => Err("the probe inside said nothing".to_owned()),
        }
    };
    probes.push(match outcome("nested") {
        Ok(()) => works(NESTED, ""),
        Err(what) => Probe {
            name: NESTED,
            finding: lacking::nested(what),
        },
    });
    probes.push(match outcome("redirect") {
        Ok(()) => works(REDIRECT, ""),
        Err(what) => Probe {
            name: REDIRECT,
            finding: lacking::missing(Some(Step::Firewall), None, what),
        },
    });
    // The hub ends with this function's caller, and the slot with it.
    drop(hub.release(lease));
    probes
}

fn run_child(hub: &Hub, lease: &Lease, redirect: &TcpListener) -> Result<String, String> {
    let said = |error: &dyn std::error::Error| chain(error);
    let (mut output, write) = io::pipe().map_err(|error| said(&error))?;
    let null = || {
        File::open("/dev/null")
            .map(OwnedFd::from)
            .map_err(|error| said(&error))
    };
    let child = hub
        .spawn(Spawn {
            program: "/proc/self/exe".into(),
            args: vec![HUB_ARGUMENT.into(), PROBE_ARGUMENT.into()],
            env: Vec::new(),
            fds: vec![(null()?, 0), (write.into(), 1), (null()?, 2)],
            network: SpawnNetwork::Leased(lease.slot()),
            id_map: None,
        })
        .map_err(|error| said(&error))?;
    let mut wait = [
        PollFd::new(redirect, PollFlags::IN),
        PollFd::new(&child.pidfd, PollFlags::IN),
    ];
    poll(&mut wait, Some(&ARRIVES_WITHIN)).map_err(|error| said(&error))?;
    let arrived = redirect.accept().map_err(|error| said(&error))?;
    let meant = sockopt::ip_original_dst(&arrived.0).map_err(|error| said(&error))?;
    if meant != NOWHERE || arrived.1.ip() != lease.address() {
        return Err(format!(
            "a connection to {NOWHERE} arrived as one to {meant}"
        ));
    }
    let mut text = String::new();
    output
        .read_to_string(&mut text)
        .map_err(|error| said(&error))?;
    Ok(text)
}

fn ids_found(ids: HostIds) -> Finding {
    match ids {
        HostIds::Range {
            base,
            per_sandbox,
            via,
        } => Finding::Works {
            detail: match via {
                MapWriter::Root => format!("{per_sandbox} host ids a sandbox, from {base} on"),
                MapWriter::NewuidmapHelpers => {
                    format!("{per_sandbox} host ids a sandbox, from /etc/subuid's {base} on")
                }
            },
        },
        HostIds::Single => {
            let (what, cure) = if is_powerless_root() {
                ("root has no capabilities here", POWERLESS_ROOT.to_owned())
            } else if helper("newuidmap").is_none() {
                (
                    "newuidmap is not installed",
                    "apt-get install uidmap".to_owned(),
                )
            } else if !lets_helpers() {
                (
                    "newuidmap is let nothing here: no process may gain a right (NoNewPrivileges, or a capability \
                     bounding set without CAP_SETUID and CAP_SETGID)",
                    "leave NoNewPrivileges= and CapabilityBoundingSet= out of its unit; in a container, --cap-add \
                     SETUID --cap-add SETGID"
                        .to_owned(),
                )
            } else {
                (
                    "/etc/subuid and /etc/subgid give this user no 65,536 ids in common",
                    to_give().map_or_else(
                        || "make room for 65,536 ids in /etc/subuid and /etc/subgid".to_owned(),
                        |(first, last)| {
                            format!("usermod --add-subuids {first}-{last} --add-subgids {first}-{last} $USER")
                        },
                    ),
                )
            };
            Finding::Limited {
                what: what.to_owned(),
                cost: "every sandbox runs under the caller's own host id".to_owned(),
                cure,
            }
        }
    }
}
