//! Where things of a run are: the program, prepared clients, a test's own folder.
//!
//! `tests/run` names them by environment; without it they are found beside the test program, so that
//! a single test can be started by hand. Promises: a test's own folder can be read by the user the
//! subject runs as, and is removed at the end.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// The user the subject runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

impl User {
    /// `GIG_TEST_UID` and `GIG_TEST_GID`; without them the user that runs the tests.
    ///
    /// # Panics
    /// When a variable is no number.
    #[must_use]
    pub fn of_this_run() -> Self {
        let number = |name: &str, own: u32| {
            env::var(name).map_or(own, |text| text.parse().expect("a numeric id"))
        };
        Self {
            uid: number("GIG_TEST_UID", rustix::process::getuid().as_raw()),
            gid: number("GIG_TEST_GID", rustix::process::getgid().as_raw()),
        }
    }

    /// Whether this is the superuser.
    #[must_use]
    pub const fn is_root(self) -> bool {
        self.uid == 0
    }
}

/// The program under test: `GIG_TEST_PROGRAM`, or the one built beside this test.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn gig() -> PathBuf {
    let path = env::var_os("GIG_TEST_PROGRAM").map_or_else(built_gig, PathBuf::from);
    assert!(path.exists(), "{} is not built", path.display());
    path
}

/// A prepared client file or folder, such as `venv` or `node`: below `GIG_TEST_CLIENTS`, or
/// below `target/lab`.
///
/// # Panics
/// When it was not prepared.
#[must_use]
pub fn client(name: &str) -> PathBuf {
    let clients = env::var_os("GIG_TEST_CLIENTS").map(PathBuf::from);
    let path = clients
        .unwrap_or_else(|| repository().join("target/lab"))
        .join(name);
    assert!(
        path.exists(),
        "{} is missing: run tests/run once",
        path.display()
    );
    path
}

/// The top of the repository.
///
/// # Panics
/// Never: the package lies in it.
#[must_use]
pub fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("the package is inside the repository")
        .to_owned()
}

/// A folder for one test that `user` may read and write.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn scratch(user: User) -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("gig-lab-")
        .tempdir()
        .expect("make a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("open it");
    chown(folder.path(), Some(user.uid), Some(user.gid)).expect("give it to the user");
    folder
}

fn built_gig() -> PathBuf {
    let test = env::current_exe().expect("the path of this program");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("target/<profile>/deps/<test>");
    profile.join("gig")
}
