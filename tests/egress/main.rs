//! What a sandboxed program can reach, and how: real clients, unmodified, against real origins.
//!
//! Each client runs twice where it can: honouring `HTTPS_PROXY` and ignoring it. Promises: a client
//! here is configured by nothing but what gig sets. Denials are in the escape suite.

mod bulk;
mod chromium;
mod command_line;
mod digests;
mod go;
mod grpc;
mod half_closed;
mod hashicorp;
mod interim;
mod java;
mod kinds;
mod last_written;
mod logins;
mod node;
mod nowhere;
mod opaque;
mod providers;
mod python;
mod reflection;
mod rust;
mod secrets;
mod shapes;
mod streaming;
mod vault;
mod versions;
mod websocket;
