//! Every wait on a sandbox or an origin has a bound; the defaults are here with their reasons.

use std::time::Duration;

use crate::http::linger::Lingering;

/// How long each thing may take. All are required: nothing waits for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlines {
    /// A new connection's first octet. Clients open spare connections and keep them unused for a while.
    pub first_octet: Duration,
    /// The same at a port that is not of the web: whoever says nothing there waits for the server to speak.
    pub first_octet_elsewhere: Duration,
    /// From the first octet until the protocol is known (a whole ClientHello or request line).
    pub detect: Duration,
    /// How long a side that might wait for the server to speak first is listened to.
    pub server_first_grace: Duration,
    /// A TLS handshake with the sandbox.
    pub downstream_handshake: Duration,
    /// A request's header section over HTTP/1.1, from its first octet.
    pub request_headers: Duration,
    /// An idle connection between two requests.
    pub keep_alive: Duration,
    /// A look-up of one name, all retries included.
    pub resolve: Duration,
    /// One connection attempt to one address.
    pub connect_attempt: Duration,
    /// The wait before the next address is tried in parallel (RFC 8305 §8).
    pub connect_stagger: Duration,
    /// All attempts for one connection together.
    pub connect: Duration,
    /// A TLS handshake with an origin.
    pub upstream_handshake: Duration,
    /// From a request's end to the response's header section.
    pub response_headers: Duration,
    /// No octet in either direction of an exchange.
    pub idle: Duration,
    /// No octet in either direction of an exchange over HTTP/1.1 whose program has no more to send, and may be gone.
    pub half_closed: Duration,
    /// No octet in either direction of a connection that is not looked into, or was upgraded.
    pub opaque_idle: Duration,
    /// A connection with its last answer sent, until the program has closed too (RFC 9112 §9.6).
    pub linger: Lingering,
    /// Open connections may finish for this long when gig goes down.
    pub drain: Duration,
}

impl Deadlines {
    /// The values in force unless configured otherwise.
    pub const DEFAULT: Self = Self {
        // Browsers hold preconnected sockets for tens of seconds.
        first_octet: Duration::from_secs(60),
        // Sooner than the program that waits for a banner gives up (30 s and more), so that it is told.
        first_octet_elsewhere: Duration::from_secs(5),
        // Slower is a slow-loris, not a network: it is a veth.
        detect: Duration::from_secs(10),
        // Long enough for a busy client, short enough for a person who waits for a banner.
        server_first_grace: Duration::from_millis(300),
        downstream_handshake: Duration::from_secs(10),
        // hyper's and nginx's order of magnitude (30 s, 60 s).
        request_headers: Duration::from_secs(30),
        // nginx keeps 75 s.
        keep_alive: Duration::from_secs(75),
        // resolv.conf's default is 5 s and two attempts.
        resolve: Duration::from_secs(10),
        // A SYN is repeated after 1, 3 and 7 s.
        connect_attempt: Duration::from_secs(10),
        // RFC 8305 §8: "Connection Attempt Delay ... 250 milliseconds".
        connect_stagger: Duration::from_millis(250),
        connect: Duration::from_secs(30),
        upstream_handshake: Duration::from_secs(15),
        // Language models and builds think for minutes before they answer.
        response_headers: Duration::from_secs(600),
        idle: Duration::from_secs(600),
        // Long for `nc -N` and who waits at it, short for an origin that works for nobody.
        half_closed: Duration::from_secs(10),
        // Databases and shells sit idle; TCP keepalive finds dead peers.
        opaque_idle: Duration::from_secs(7200),
        // nginx has 30 s and 5 s; a starved program is given more to find its answer.
        linger: Lingering {
            whole: Duration::from_secs(60),
            silence: Duration::from_secs(15),
        },
        drain: Duration::from_secs(10),
    };
}
