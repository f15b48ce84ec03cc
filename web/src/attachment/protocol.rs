//! What goes over a WebSocket that is attached to a program's standard streams.
//!
//! A binary message is one octet that names a stream, and what goes along it; with nothing after it, the
//! stream has ended. At the end the server says the program's exit status in a text message,
//! `{"exit": 0}`, and closes with a code that says why.

use bytes::{BufMut as _, BytesMut};
use tokio_tungstenite::tungstenite::protocol::{WebSocketConfig, frame::coding::CloseCode};

/// The name of all this, for `Sec-WebSocket-Protocol`.
pub const PROTOCOL: &str = "gig.attach.v1";
/// To the program.
pub const STDIN: u8 = 0;
/// From the program.
pub const STDOUT: u8 = 1;
/// From the program, for people.
pub const STDERR: u8 = 2;

/// The program ended by itself.
pub const ENDED: u16 = 1000;
/// gig goes down.
pub const SHUTDOWN: u16 = 1001;
/// A message was none of these.
pub const NOT_UNDERSTOOD: u16 = 1002;
/// A message was longer than [`LONGEST`].
pub const TOO_LONG: u16 = 1009;
/// gig could not go on.
pub const FAILED: u16 = 1011;
/// Somebody stopped the sandbox.
pub const STOPPED: u16 = 4000;
/// Whoever was attached may do so no more.
pub const LAPSED: u16 = 4003;
/// The program wanted more memory than its server allows, and was killed.
pub const STARVED: u16 = 4007;
/// Nothing was heard of whoever was attached, or they did not read the rest in time.
pub const SILENT: u16 = 4008;

/// Octets in a message, the one that names the stream among them.
pub const LONGEST: usize = 256 * 1024;
/// Octets that are read of a stream at once.
pub const AT_ONCE: usize = 32 * 1024;

/// The limits of both sides.
#[must_use]
pub fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST))
        // A message goes at once, and no reader makes us keep more than one or two.
        .write_buffer_size(0)
        .max_write_buffer_size(4 * LONGEST)
}

/// Room for one message of a stream; what is read is put behind.
#[must_use]
pub fn message(stream: u8) -> BytesMut {
    let mut room = BytesMut::with_capacity(AT_ONCE + 1);
    room.put_u8(stream);
    room
}

/// As the library has it.
pub(super) fn close_code(code: u16) -> CloseCode {
    CloseCode::from(code)
}
