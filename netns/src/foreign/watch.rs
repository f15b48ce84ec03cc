//! Being told when somebody adds something to a namespace.
//!
//! The kernel tells of each new link, route and rule on sockets that were opened in there. Whatever was
//! lost, or cannot be read, counts as a change. News of `lo` itself are none.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use super::inspect::{RTM_DELLINK, RTM_NEWLINK, RTM_NEWROUTE, is_loopback, link_name};
use crate::netlink::dump::{Listening, Told};

/// `RTMGRP_LINK`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`.
const LINKS_AND_ROUTES: u32 = 0x1 | 0x40 | 0x400;
/// `NFNLGRP_NFTABLES`, the seventh.
const FIREWALL: u32 = 1 << 6;

/// What tells of changes.
#[derive(Debug)]
pub struct Watch {
    route: Listening,
    filter: Listening,
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEnded {
    /// A link.
    Link(String),
    /// A route.
    Route,
    /// A rule or table of its firewall.
    Firewall,
    /// It cannot be said any more.
    Unknown,
}

impl fmt::Display for WatchEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(name) => write!(f, "a link was added: {name}"),
            Self::Route => f.write_str("a route was added"),
            Self::Firewall => f.write_str("its firewall was changed"),
            Self::Unknown => f.write_str("what was changed was lost"),
        }
    }
}

impl Watch {
    /// In the calling thread's network namespace.
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            route: Listening::open(None, LINKS_AND_ROUTES)?,
            filter: Listening::open(Some(rustix::net::netlink::NETFILTER), FIREWALL)?,
        })
    }

    /// As it came from where it was opened.
    pub(super) fn of(route: OwnedFd, filter: OwnedFd) -> Self {
        Self {
            route: Listening::of(route),
            filter: Listening::of(filter),
        }
    }

    /// Readable when there is something to be told.
    #[must_use]
    pub fn as_fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.route.as_fd(), self.filter.as_fd()]
    }

    /// What was changed, if anything was, since this was asked last. Does not block.
    #[must_use]
    pub fn ended(&self) -> Option<WatchEnded> {
        let Ok(told) = self.route.read() else {
            return Some(WatchEnded::Unknown);
        };
        match self.filter.read() {
            Err(_) => Some(WatchEnded::Unknown),
            Ok(rules) => {
                of_links(&told).or_else(|| (!rules.is_empty()).then_some(WatchEnded::Firewall))
            }
        }
    }
}

fn of_links(told: &[Told]) -> Option<WatchEnded> {
    told.iter().find_map(|one| match one.kind {
        RTM_NEWLINK | RTM_DELLINK if is_loopback(one) => None,
        // Links that were there were down; one that goes was there.
        RTM_NEWLINK | RTM_DELLINK => Some(WatchEnded::Link(link_name(one))),
        RTM_NEWROUTE => Some(WatchEnded::Route),
        _ => None,
    })
}
