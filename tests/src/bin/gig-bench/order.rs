//! What the bench asks of a load agent, and what the agent answers: one JSON object a line.
//!
//! An agent runs outside any sandbox for most contenders and inside a real one for gig, so it knows
//! nothing but what an order says. After an order it answers `ready` when its connections are open,
//! waits for `go`, and answers with figures; the bench reads the proxy's CPU time at both moments.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// One piece of load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Where to.
    pub(crate) route: Route,
    /// What to do there.
    pub(crate) load: Load,
}

/// How the origin is reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Route {
    /// The name in SNI and `Host`.
    pub(crate) host: String,
    /// The origin's port, as it stands in the URL.
    pub(crate) port: u16,
    /// What is dialled.
    pub(crate) dial: Dial,
}

/// What is dialled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Dial {
    /// The name, as the system resolves it.
    Name,
    /// This address, whatever the name.
    To(SocketAddr),
    /// This proxy, with CONNECT for the name.
    Connect(SocketAddr),
}

/// The kinds of load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Load {
    /// Requests for 1 KiB on kept connections: `lanes` connections of HTTP/1.1, each with one
    /// request at a time, or one HTTP/2 connection with `lanes` streams.
    Requests {
        /// HTTP/2 instead of HTTP/1.1.
        h2: bool,
        /// Requests under way at once.
        lanes: u32,
        /// For how long.
        seconds: f64,
        /// Each carries a credential.
        bearer: bool,
    },
    /// New connections, one request each.
    Connections {
        /// Connections under way at once.
        lanes: u32,
        /// How many in all.
        count: u32,
        /// Number of the first name never seen before; `None` uses the route's host for all.
        fresh_from: Option<u32>,
    },
    /// One response body of this many bytes.
    Down(u64),
    /// One request body of this many bytes.
    Up(u64),
    /// Opens this many connections, sends one request on each, and holds them until `go`.
    Hold(u32),
}

/// What the agent says back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Connections are open; waiting for `go`.
    Ready,
    /// The value of HTTPS_PROXY where the agent runs: the answer to [`PROXY`].
    Proxy(String),
    /// Done.
    Done(Figures),
    /// Not done, and why.
    Failed(String),
}

/// What one order came to.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Requests answered.
    pub(crate) requests: u64,
    /// From `go` to the last answer.
    pub(crate) seconds: f64,
    /// Body octets moved.
    pub(crate) bytes: u64,
    /// Half of the answers came within this time.
    pub(crate) p50_us: f64,
    /// 99 of 100 answers came within this time.
    pub(crate) p99_us: f64,
}

/// The line by which the bench lets a ready agent run.
pub(crate) const GO: &str = "go";

/// The line that asks an agent for the explicit proxy of its surroundings.
pub(crate) const PROXY: &str = "proxy";

/// The host of most orders.
pub(crate) const HOST: &str = "origin.bench.test";

/// The `n`th name that nobody asked for before.
pub(crate) fn fresh_name(n: u32) -> String {
    format!("n{n:06}.names.bench.test")
}
