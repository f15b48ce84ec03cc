//! What one HTTP connection may cost us, whatever a sandbox or an origin sends.
//!
//! hyper and h2 enforce these; each number says why. The same hold towards the origin, which is as
//! untrusted as the program.

use std::time::Duration;

use hyper::{client, server};
use hyper_util::rt::TokioTimer;
use tokio_util::task::TaskTracker;

/// An HTTP/1 server for one sandbox connection.
#[must_use]
pub fn http1_server() -> server::conn::http1::Builder {
    let mut builder = server::conn::http1::Builder::new();
    builder
        // hyper would set a clock for each request. Here a connection has one for idleness
        // ([`super::activity`]) and one for a slow header section ([`super::heads`]).
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_OCTETS)
        // The origin's own Date passes; RFC 9110 §6.6.1 asks origins, not intermediaries.
        .auto_date_header(false)
        .half_close(false);
    builder
}

/// An HTTP/2 server for one sandbox connection.
#[must_use]
pub fn http2_server(tasks: &TaskTracker) -> server::conn::http2::Builder<Owner> {
    let mut builder = server::conn::http2::Builder::new(Owner(tasks.clone()));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST)
        .header_table_size(HEADER_TABLE)
        .max_pending_accept_reset_streams(RAPID_RESETS)
        .max_local_error_reset_streams(LOCAL_RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buf_size(SEND_BUFFER)
        .auto_date_header(false)
        .enable_connect_protocol();
    builder
}

/// An HTTP/1 client for one origin connection.
#[must_use]
pub fn http1_client() -> client::conn::http1::Builder {
    let mut builder = client::conn::http1::Builder::new();
    builder
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_OCTETS);
    builder
}

/// An HTTP/2 client for one origin connection.
#[must_use]
pub fn http2_client(tasks: &TaskTracker) -> client::conn::http2::Builder<Owner> {
    let mut builder = client::conn::http2::Builder::new(Owner(tasks.clone()));
    builder
        .timer(TokioTimer::new())
        .initial_max_send_streams(STREAMS_BEFORE_SETTINGS)
        .max_header_list_size(MAX_HEADER_LIST)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buf_size(SEND_BUFFER)
        .max_concurrent_reset_streams(LOCAL_RESETS)
        .max_pending_accept_reset_streams(RAPID_RESETS)
        .max_local_error_reset_streams(LOCAL_RESETS)
        // Finds an origin that went away behind a silent NAT before a request waits on it.
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER);
    builder
}

/// Spawns hyper's own tasks where somebody waits for them.
#[derive(Debug, Clone)]
pub struct Owner(TaskTracker);

impl<F> hyper::rt::Executor<F> for Owner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.0.spawn(future));
    }
}

/// nginx refuses at 32 KiB of headers, Apache at 100 fields; browsers stay far below.
const MAX_HEADERS: usize = 128;
/// The most that a header section may take; hyper asks for 8 KiB at least.
const MAX_HEADER_OCTETS: usize = 64 * 1024;
/// RFC 9113 §6.5.2, decoded size: what stops an HPACK bomb and a CONTINUATION flood (h2 derives the
/// number of CONTINUATION frames it takes from it).
const MAX_HEADER_LIST: u32 = 64 * 1024;
/// RFC 7541's default; a larger table would only help who fills it.
const HEADER_TABLE: u32 = 4096;
/// RFC 9113 §6.5.2 recommends at least 100.
const MAX_STREAMS: u32 = 128;
/// How many streams are opened before an origin's SETTINGS are here: about as many as hyper would, and
/// a number that no server announces, so that it tells whether they are.
pub const STREAMS_BEFORE_SETTINGS: usize = 97;
/// CVE-2023-44487 (rapid reset): h2's own default, then the connection is closed.
const RAPID_RESETS: usize = 20;
/// Streams that we reset for the peer's errors, and those it reset that we remember; h2's default.
const LOCAL_RESETS: usize = 1024;
/// 1 MiB: bulk transfer over a long path is not window-bound, and a stream that nobody reads holds
/// no more.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// Four full streams.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Twice RFC 9113 §6.5.2's least: fewer frames in bulk, no long delay for other streams.
const FRAME: u32 = 32 * 1024;
/// What one stream may have waiting towards a slow reader.
const SEND_BUFFER: usize = 256 * 1024;
/// Half of the minute after which common NATs forget.
const PING_EVERY: Duration = Duration::from_secs(30);
/// hyper's default.
const PING_ANSWER: Duration = Duration::from_secs(20);
