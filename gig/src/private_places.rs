//! What no bind of a sandbox may show: this gig's own files, and those of appliances that serve on this host
//! from other directories, however deep below a shown folder they lie; and the socket of the database that a
//! fleet shares, which may ask nobody for a password either.
//!
//! The owner's socket of an appliance asks nobody who they are beyond their user id, which a sandbox may have:
//! to see it is to own the appliance. What names it to everybody is the kernel's own table of sockets.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::{
    data_dir,
    serve::{LOCK, SOCKET, database},
};

/// All of them; some may not be there.
pub(crate) fn all() -> Vec<PathBuf> {
    let named = FILES.iter().filter_map(env::var_os);
    let named = named.filter(|value| !value.is_empty()).map(PathBuf::from);
    let appliances = fs::read(SOCKETS).unwrap_or_default();
    let appliances = directories(&String::from_utf8_lossy(&appliances));
    let serving = appliances
        .into_iter()
        .filter(|directory| directory.join(LOCK).exists());
    data_dir::path()
        .into_iter()
        .chain(named)
        .chain(serving)
        .chain(database::sockets())
        .collect()
}

/// The directories of sockets that are named as an appliance's is. The path is the last column, and no other
/// one holds a slash (proc_net(5)).
fn directories(table: &str) -> Vec<PathBuf> {
    let paths = table
        .lines()
        .filter_map(|line| line.get(line.find('/')?..).map(Path::new));
    let sockets = paths.filter(|path| path.file_name().is_some_and(|name| name == SOCKET));
    sockets
        .filter_map(Path::parent)
        .map(Path::to_owned)
        .collect()
}

/// Variables that name a file, or a folder of files, with a secret of gig's own.
const FILES: [&str; 5] = [
    "GIG_TLS_KEY",
    "GIG_MASTER_KEY_FILE",
    "GIG_MASTER_KEY_NEW_FILE",
    "GIG_OIDC_CLIENT_SECRET_FILE",
    "GIG_WEBHOOK_SECRETS",
];
const SOCKETS: &str = "/proc/self/net/unix";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_appliances_are_read_from_the_kernels_table() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 100 /srv/gig data/control.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 101\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 102 @gig-listens-127.0.0.1:1\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 103 /run/other.sock";
        assert_eq!(directories(table), [PathBuf::from("/srv/gig data")]);
    }
}
