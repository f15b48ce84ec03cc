//! A door for `proxy/fuzz`, in builds with the feature of that name only.

use std::fmt::Debug;
use std::io::Write as _;
use std::os::unix::net::UnixStream;

use serde::{Serialize, de::DeserializeOwned};

use crate::hub_protocol::{Reply, Request, receive, send};

/// Reads `data` as what either end of the hub's socket could be sent.
///
/// # Panics
/// When a message that was taken is another one after it was sent on.
pub fn requests_and_replies(data: &[u8]) {
    round_trip::<Request>(data);
    round_trip::<Reply>(data);
}

fn round_trip<M: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) {
    let Some(data) = data.get(..data.len().min(ROOM)) else {
        return;
    };
    let (Ok((mut left, right)), Ok((near, far))) = (UnixStream::pair(), UnixStream::pair()) else {
        return;
    };
    if left.write_all(data).is_err() {
        return;
    }
    drop(left);
    while let Ok((message, _)) = receive::<M>(&right) {
        if send(&near, &message, &[]).is_ok() {
            let again = receive::<M>(&far).map(|(again, _)| again);
            assert_eq!(again.ok(), Some(message));
        }
    }
}

/// What a socket's buffer takes without a reader.
const ROOM: usize = 32 * 1024;
