//! The wall clock: what ends by it (certificates, rules of a policy) asks here and nowhere else.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gig_policy::Moment;

/// Since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "validity is told in wall-clock time; this is its one home in the proxy"
)]
pub(crate) fn unix_now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
}

/// The same as rules of a policy have it. A clock beyond all moments ends them all.
pub(crate) fn moment() -> Moment {
    Moment::from_unix(i64::try_from(unix_now().as_secs()).unwrap_or(i64::MAX))
}
