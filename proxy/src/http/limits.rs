//! What one HTTP connection may cost us, whatever a sandbox or an origin sends.
//!
//! hyper and h2 enforce these; each number says why. The same hold towards the origin, which is as
//! untrusted as the program. Of HTTP/1 header sections hyper takes 100 fields at most, as Apache does
//! (browsers stay far below): for any other number it would make room on the heap, four times a request.

use hyper::{client, server};

/// An HTTP/1 server for one sandbox connection.
#[must_use]
pub fn http1_server() -> server::conn::http1::Builder {
    let mut builder = server::conn::http1::Builder::new();
    builder
        // hyper would set a clock for each request. Here a connection has one for idleness
        // ([`super::activity`]) and one for a slow header section ([`super::heads`]).
        .header_read_timeout(None)
        .max_buf_size(MAX_HEADER_OCTETS)
        // The origin's own Date passes; RFC 9110 §6.6.1 asks origins, not intermediaries.
        .auto_date_header(false)
        // Whether its program is still there is noticed elsewhere ([`super::listening`]).
        .half_close(true);
    builder
}

/// An HTTP/2 server for one sandbox connection.
#[must_use]
pub fn http2_server() -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST)
        .header_table_size(HEADER_TABLE)
        .max_pending_accept_reset_streams(RAPID_RESETS)
        .max_local_error_reset_streams(Some(LOCAL_RESETS))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buffer_size(SEND_BUFFER)
        .enable_connect_protocol();
    builder
}

/// An HTTP/1 client for one origin connection.
#[must_use]
pub fn http1_client() -> client::conn::http1::Builder {
    let mut builder = client::conn::http1::Builder::new();
    builder.max_buf_size(MAX_HEADER_OCTETS);
    builder
}

/// An HTTP/2 client for one origin connection.
#[must_use]
pub fn http2_client() -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .initial_max_send_streams(STREAMS_BEFORE_SETTINGS)
        .max_header_list_size(MAX_HEADER_LIST)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(LOCAL_RESETS)
        .max_pending_accept_reset_streams(RAPID_RESETS)
        .max_local_error_reset_streams(Some(LOCAL_RESETS));
    builder
}

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
