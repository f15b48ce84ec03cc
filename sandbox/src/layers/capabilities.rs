//! Capabilities of the bootstrap; the program has none.

use crate::layers::user::IdMode;

/// What bwrap leaves to the bootstrap, which gives it up itself.
///
/// SETPCAP empties the bounding set and locks the secure bits. With a range of
/// ids also: SETUID and SETGID to leave id 0, CHOWN to hand the program its
/// home, DAC_READ_SEARCH to enter the working directory and open the program
/// while still id 0, whatever their permissions say, and SYS_ADMIN to cover
/// what /proc says about the host, which it gives up before it does anything
/// else.
pub(crate) fn of_bootstrap(ids: IdMode) -> &'static [&'static str] {
    match ids {
        IdMode::Single => &["CAP_SETPCAP"],
        IdMode::Range => &[
            "CAP_SETPCAP",
            "CAP_SETUID",
            "CAP_SETGID",
            "CAP_CHOWN",
            "CAP_DAC_READ_SEARCH",
            "CAP_SYS_ADMIN",
        ],
    }
}
