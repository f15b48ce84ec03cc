//! Variables of this process that hold secrets, taken out of its environment before anything else happens.
//!
//! The kernel hands an environment over in ordinary memory of the process, which can be swapped, stays to the end, and is
//! what `/proc/PID/environ` shows and what children are given. [`take`] moves values from there to where secrets are
//! kept, and wipes them; [`var_os`] reads a variable wherever it is. Whoever reads `std::env` finds a taken one empty.

use std::{collections::BTreeMap, ffi::OsString, os::unix::ffi::OsStringExt as _};

use parking_lot::Mutex;

use crate::{SecretBytes, sys};

/// Those of gig's own that are secrets, or hold one.
pub const OWN: [&str; 5] = [
    "GIG_MASTER_KEY",
    "GIG_MASTER_KEY_NEW",
    "GIG_DATABASE_URL",
    "GIG_OIDC_CLIENT_SECRET",
    "GIG_TOKEN",
];

/// Takes [`OWN`] and `more`. To be called while the process has one thread: where it has more, everything stays where
/// it is.
pub fn take(more: &[&str]) {
    let is_secret = |name: &[u8]| {
        let mut names = OWN.iter().chain(more);
        names.any(|known| known.as_bytes() == name)
    };
    sys::wipe_variables(|name, value| {
        let taken = is_secret(name) && !value.is_empty();
        if taken {
            let value = SecretBytes::copy_of(value);
            TAKEN.lock().insert(name.to_vec(), value);
        }
        taken
    });
}

/// The value of a variable, taken or not. What is done with the copy is its reader's to answer for.
#[must_use]
pub fn var_os(name: &str) -> Option<OsString> {
    let taken = TAKEN.lock();
    match taken.get(name.as_bytes()) {
        Some(value) => Some(OsString::from_vec(value.expose().to_vec())),
        None => std::env::var_os(name),
    }
}

static TAKEN: Mutex<BTreeMap<Vec<u8>, SecretBytes>> = Mutex::new(BTreeMap::new());
