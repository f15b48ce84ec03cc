//! A message on the hub's socket: refused, or sent on it means the same.

/// The octets of one end, which then closes.
pub fn run(data: &[u8]) {
    gig_netns::fuzzing::requests_and_replies(data);
}
