//! A real PostgreSQL of a test's own: its files in a folder that goes with it, reached by a Unix socket
//! in that folder or, where a test asks for TLS, by a port of 127.0.0.1 too. And databases of a test's own in
//! one that many share, be it one that was there before.
//!
//! Promises: it is stopped and reaped with its handle; it does not run as root, which it refuses.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// A server, running or stopped.
#[derive(Debug)]
pub struct Postgres {
    folder: tempfile::TempDir,
    child: Option<Child>,
    /// By TLS.
    port: Option<u16>,
}

/// Where a server listens.
#[derive(Debug, Clone, Copy)]
struct Socket<'a> {
    folder: &'a Path,
    port: u16,
}

impl Postgres {
    /// Makes one and starts it; whoever reaches the socket is let in.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("gig-pg-")
            .tempdir_in("/tmp");
        let folder = folder.expect("a folder");
        if let Some((uid, gid)) = somebody() {
            chown(folder.path(), Some(uid), Some(gid)).expect("chown");
        }
        // Users of other tests reach the socket.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).expect("chmod");
        lay_out(&folder.path().join("data"));
        let mut server = Self {
            folder,
            child: None,
            port: None,
        };
        server.start_again();
        server
    }

    /// The URL of one of its databases, by the socket.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.socket().url(database)
    }

    /// The folder of its socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs statements; what they answer, a line a row.
    ///
    /// # Panics
    /// When one fails.
    #[must_use = "what it answered"]
    pub fn ask(&self, database: &str, text: &str) -> String {
        self.socket().ask(database, text)
    }

    /// Runs statements that answer nothing.
    ///
    /// # Panics
    /// When one fails.
    pub fn sql(&self, database: &str, text: &str) {
        drop(self.ask(database, text));
    }

    /// Stops it as a crash does: nobody is told, nothing is tidied.
    ///
    /// # Panics
    /// When it cannot be signalled.
    pub fn crash(&mut self) {
        self.end(Signal::QUIT);
    }

    /// Starts it on the files that are there.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        let begun = Instant::now();
        loop {
            self.spawn();
            while self.child.is_some() {
                if self
                    .socket()
                    .psql("postgres", "")
                    .output()
                    .expect("psql")
                    .status
                    .success()
                {
                    return;
                }
                let child = self.child.as_mut().expect("it runs");
                if child.try_wait().expect("its state").is_some() {
                    self.child = None;
                }
                assert!(
                    begun.elapsed() < PATIENCE,
                    "it never starts: {}",
                    self.said()
                );
                thread::sleep(Duration::from_millis(20));
            }
            // Somebody else has taken the port meanwhile.
            let taken = self.port.is_some() && self.said().contains("could not bind");
            assert!(taken, "it does not start: {}", self.said());
            self.port = Some(free_port());
        }
    }

    /// Lets users in by TLS and password, too; answers the port of 127.0.0.1. It is started anew.
    ///
    /// # Panics
    /// When it does not start.
    pub fn speak_tls(&mut self, certificate: &str, key: &str) -> u16 {
        self.end(Signal::INT);
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.path().join("data").join(name);
            fs::write(&path, text).expect("write");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
            if let Some((uid, gid)) = somebody() {
                chown(&path, Some(uid), Some(gid)).expect("chown");
            }
        }
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(self.path().join("data/pg_hba.conf"), rules).expect("write");
        self.port = Some(free_port());
        self.start_again();
        self.port.expect("a port")
    }

    fn spawn(&mut self) {
        let path = self.path().to_owned();
        let log = fs::File::create(path.join("log")).expect("a log");
        let mut server = program("postgres");
        server.arg("-D").arg(path.join("data")).arg("-k").arg(&path);
        let (address, port, ssl) = match self.port {
            Some(port) => ("127.0.0.1", port, "on"),
            None => ("", PORT, "off"),
        };
        for setting in [
            format!("listen_addresses={address}"),
            format!("ssl={ssl}"),
            "fsync=off".to_owned(),
            "shared_buffers=16MB".to_owned(),
        ] {
            server.args(["-c", &setting]);
        }
        let child = server
            .args(["-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("postgres"));
    }

    fn socket(&self) -> Socket<'_> {
        let port = self.port.unwrap_or(PORT);
        let folder = self.folder.path();
        Socket { folder, port }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    fn end(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _gone = kill_process(pid, signal);
        }
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > PATIENCE {
                let _gone = child.kill();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Socket<'_> {
    fn url(self, database: &str) -> String {
        let folder = self.folder.display();
        format!("postgres://postgres@/{database}?host={folder}")
    }

    fn ask(self, database: &str, text: &str) -> String {
        let done = self.psql(database, text).output().expect("psql");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{text}: {said}");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    fn psql(self, database: &str, text: &str) -> Command {
        let mut psql = Command::new(programs().join("psql"));
        psql.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-U", "postgres"]);
        psql.arg("-h").arg(self.folder);
        psql.args(["-p", &self.port.to_string()]);
        psql.args(["-d", database, "-c", text]);
        for name in ["PGOPTIONS", "PGSERVICE", "PGSSLMODE", "PGHOSTADDR"] {
            psql.env_remove(name);
        }
        psql
    }
}

/// A database that nobody else uses, in a server that tests which run at the same time share: the one whose
/// socket is in the folder that `GIG_TEST_POSTGRES` names, or one of this process.
#[derive(Debug)]
pub struct Database {
    server: Shared,
    name: String,
}

#[derive(Debug, Clone)]
enum Shared {
    Own(Arc<Postgres>),
    Given(PathBuf),
}

impl Database {
    /// Makes one, empty.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    #[must_use]
    pub fn fresh() -> Self {
        if let Some(folder) = std::env::var_os(SHARED_BY) {
            return Self::made(Shared::Given(folder.into()), "");
        }
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let server = shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Postgres::start());
            *shared = Arc::downgrade(&started);
            started
        });
        drop(shared);
        Self::made(Shared::Own(server), "")
    }

    fn made(server: Shared, how: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        let make = format!("CREATE DATABASE {name} {how}");
        drop(server.socket().ask("postgres", &make));
        Self { server, name }
    }

    /// Another one that holds the same. Whoever uses this one is cut off.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn copy(&self) -> Self {
        let cut = format!(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
             WHERE datname = '{}' AND pid <> pg_backend_pid()",
            self.name
        );
        drop(self.server.socket().ask("postgres", &cut));
        Self::made(self.server.clone(), &format!("TEMPLATE {}", self.name))
    }

    /// By which it is reached.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.socket().url(&self.name)
    }

    /// Runs statements in it; what they answer, a line a row.
    ///
    /// # Panics
    /// When one fails.
    pub fn sql(&self, text: &str) -> String {
        self.server.socket().ask(&self.name, text)
    }
}

impl Drop for Database {
    /// Where others go on in the same server, nothing is left to lie about.
    fn drop(&mut self) {
        if let Shared::Given(_) = self.server {
            let gone = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
            let _left = self.server.socket().psql("postgres", &gone).output();
        }
    }
}

impl Shared {
    fn socket(&self) -> Socket<'_> {
        match self {
            Self::Own(server) => server.socket(),
            Self::Given(folder) => Socket { folder, port: PORT },
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}

/// Puts the files of a new server there: whoever comes first makes them and leaves a copy, which all others copy.
fn lay_out(data: &Path) {
    let version = programs();
    let version = version
        .parent()
        .and_then(Path::file_name)
        .expect("a version");
    let (uid, _) = somebody().unwrap_or_else(|| (rustix::process::geteuid().as_raw(), 0));
    let kept = format!("postgres-{}-of-tests-{uid}", version.display());
    let kept = std::env::temp_dir().join(kept);
    // What somebody else put there is nobody's.
    let is_ours = kept
        .symlink_metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == uid);
    if is_ours && copied(&kept, data) {
        return;
    }
    let mut initdb = program("initdb");
    initdb.args(["-N", "-A", "trust", "-U", "postgres", "-E", "UTF8"]);
    let made = initdb.args(["--locale=C", "-D"]).arg(data).output();
    let made = made.expect("initdb");
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "initdb: {said}");
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let fresh = kept.with_extension(format!("{}-{number}", std::process::id()));
    // Whole or not at all; of several that come first one stays.
    if !copied(data, &fresh) || fs::rename(&fresh, &kept).is_err() {
        let _kept_by_another = fs::remove_dir_all(&fresh);
    }
}

/// Servers whose files this process made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Whether all of a folder is there again under another name.
fn copied(from: &Path, to: &Path) -> bool {
    let mut copy = program("/bin/cp");
    let done = copy.arg("-a").arg(from).arg(to).output().expect("cp");
    if !done.status.success() {
        let _part = fs::remove_dir_all(to);
    }
    done.status.success()
}

/// Who runs it where tests run as root; `None` otherwise.
fn somebody() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let account = accounts.lines().find(|line| line.starts_with("postgres:"));
    let fields: Vec<&str> = account.expect("the user postgres").split(':').collect();
    let number = |at: usize| fields[at].parse().expect("a number");
    Some((number(2), number(3)))
}

/// One of PostgreSQL's programs, as somebody who is not root.
fn program(name: &str) -> Command {
    let path = programs().join(name);
    let mut command = match somebody() {
        None => Command::new(path),
        Some((uid, gid)) => {
            let mut command = Command::new("setpriv");
            command.args([&format!("--reuid={uid}"), &format!("--regid={gid}")]);
            command.arg("--clear-groups").arg(path);
            command
        }
    };
    command.current_dir("/");
    command
}

/// Those of the newest version that is installed.
fn programs() -> PathBuf {
    let found = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let mut found: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.join("bin/postgres").exists());
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    found.sort_by_key(number);
    found.pop().expect("an installed version").join("bin")
}

/// One that nobody has at the moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// What its socket is called by.
const PORT: u16 = 5432;
/// The variable that names the folder of a server's socket.
const SHARED_BY: &str = "GIG_TEST_POSTGRES";
/// On a machine ten times slower.
const PATIENCE: Duration = Duration::from_secs(120);
