//! The program under test, started as a stranger would start it.
//!
//! `GIG_TEST_SUBJECT=open` puts in its place a subject that confines nothing: the same program with
//! plain network and an open proxy. A denial test that passes on that one proves nothing. Promises:
//! every run is bounded in time, and killed with its handle.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    audit_log::AuditLog,
    fixture,
    network::{Side, text},
    open_proxy,
    output::Finished,
    place::{self, User},
    world::Lab,
};

/// How a client leaves the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It honours `HTTPS_PROXY`.
    ByProxy,
    /// It connects to what the name resolves to.
    Straight,
}

impl Way {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::ByProxy, Self::Straight];
}

/// A run that is being put together.
#[derive(Debug)]
pub struct Subject<'lab> {
    lab: &'lab Lab,
    user: User,
    options: Vec<OsString>,
    inside: Vec<(String, String)>,
    outside: Vec<(String, String)>,
    input: Vec<u8>,
    patience: Duration,
    audit: PathBuf,
    under: Vec<String>,
}

impl<'lab> Subject<'lab> {
    pub(super) fn new(lab: &'lab Lab) -> Self {
        Self {
            lab,
            user: lab.user(),
            options: Vec::new(),
            inside: Vec::new(),
            outside: Vec::new(),
            input: Vec::new(),
            patience: Duration::from_secs(60),
            audit: lab.fresh_path("audit"),
            under: Vec::new(),
        }
    }

    /// One option of `gig run`, with its value if it takes one.
    #[must_use]
    pub fn option<I: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = I>) -> Self {
        self.options
            .extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// `--allow`.
    #[must_use]
    pub fn allow(self, rule: &str) -> Self {
        self.option(["--allow", rule])
    }

    /// `--policy`, with the document as text.
    ///
    /// # Panics
    /// When it cannot be written down.
    #[must_use]
    pub fn policy(self, document: &str) -> Self {
        let file = self.lab.file("policy.yaml", document);
        self.option([OsStr::new("--policy"), file.as_os_str()])
    }

    /// `--ro`: a path of the host, at the same path inside.
    #[must_use]
    pub fn read_only(self, path: &Path) -> Self {
        self.option([OsStr::new("--ro"), path.as_os_str()])
    }

    /// A variable of the program inside.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.inside.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A variable of gig itself.
    #[must_use]
    pub fn host_env(mut self, name: &str, value: &str) -> Self {
        self.outside.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Has programs that honour `HTTPS_PROXY` use or ignore it.
    #[must_use]
    pub fn going(self, way: Way) -> Self {
        match way {
            Way::ByProxy => self,
            Way::Straight => self.env("NO_PROXY", "*").env("no_proxy", "*"),
        }
    }

    /// Starts the subject by a command that becomes it, such as `prlimit`.
    #[must_use]
    pub fn under(mut self, words: impl IntoIterator<Item = &'static str>) -> Self {
        self.under = words.into_iter().map(str::to_owned).collect();
        self
    }

    /// What standard input holds.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// How long it may run on an idle machine.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Records to this file instead of a fresh one.
    #[must_use]
    pub fn recording_to(mut self, file: &Path) -> Self {
        file.clone_into(&mut self.audit);
        self
    }

    /// Runs as another user.
    #[must_use]
    pub const fn user(mut self, user: User) -> Self {
        self.user = user;
        self
    }

    /// Runs a program to its end.
    #[must_use]
    pub fn run<I: AsRef<OsStr>>(mut self, program: impl IntoIterator<Item = I>) -> Finished {
        let (input, patience) = (std::mem::take(&mut self.input), self.patience);
        let mut live = self.start(program);
        let mut stdin = live.child.stdin.take().expect("its input");
        let feeder = thread::spawn(move || stdin.write_all(&input));
        let finished = live.finish(patience);
        // A program that does not read its input breaks the pipe: its own business.
        let _broken_pipe = feeder.join().expect("the feeder");
        finished
    }

    /// Runs a shell script to its end.
    #[must_use]
    pub fn sh(self, script: &str) -> Finished {
        self.run(["sh", "-c", script])
    }

    /// Runs a Python script of the system's interpreter to its end.
    #[must_use]
    pub fn python(self, script: &str) -> Finished {
        self.run(["/usr/bin/python3", "-c", script])
    }

    /// Runs a Python script that begins with what `fixtures/wire.py` offers.
    #[must_use]
    pub fn wire(self, script: &str) -> Finished {
        self.python(&(fixture::text("wire.py") + "\n" + script))
    }

    /// Starts a program and returns at once.
    ///
    /// # Panics
    /// When the subject cannot be started.
    #[must_use]
    pub fn start<I: AsRef<OsStr>>(self, program: impl IntoIterator<Item = I>) -> Live<'lab> {
        let mut command = self.command(program);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let packets = self.lab.network.packets_to_internet();
        let started = Instant::now();
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let output = collect(child.stdout.take().expect("its output"));
        let errors = collect(child.stderr.take().expect("its errors"));
        Live {
            lab: self.lab,
            child,
            output,
            errors,
            packets,
            started,
            audit: self.audit,
        }
    }

    /// The whole command line, for tests that wire the streams themselves.
    #[must_use]
    pub fn command<I: AsRef<OsStr>>(&self, program: impl IntoIterator<Item = I>) -> Command {
        let mut command = self.lab.network.command(Side::Host, "setpriv");
        if self.user != User::of_this_process() {
            command.args([
                format!("--reuid={}", self.user.uid),
                format!("--regid={}", self.user.gid),
            ]);
            command.arg("--clear-groups");
        }
        command.args(["env", "-i"]);
        command
            .arg(format!("PATH={PATH}"))
            .arg(format!("HOME={}", text(&self.lab.home())));
        command.arg("LANG=C.UTF-8");
        for (name, value) in &self.outside {
            command.arg(format!("{name}={value}"));
        }
        if is_open() {
            self.open_command(&mut command);
        } else {
            self.gig_command(&mut command);
        }
        command.args(program).current_dir(self.lab.home());
        command
    }

    fn gig_command(&self, command: &mut Command) {
        command.args(&self.under).arg(place::gig()).arg("run");
        command.arg("--audit").arg(&self.audit);
        command.arg("--upstream-ca").arg(self.lab.root_file());
        command.args(&self.options);
        for (name, value) in &self.inside {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        command.arg("--");
    }

    fn open_command(&self, command: &mut Command) {
        let root = text(self.lab.root_file());
        for name in open_proxy::TRUST_VARIABLES {
            command.arg(format!("{name}={root}"));
        }
        let proxy = self.lab.open_proxy();
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
            command.arg(format!("{name}=http://{proxy}"));
        }
        // Refusals that never come are not waited for as long.
        command.arg("LAB_PATIENCE=5");
        for (name, value) in &self.inside {
            command.arg(format!("{name}={value}"));
        }
    }
}

/// A run that has begun.
#[derive(Debug)]
pub struct Live<'lab> {
    lab: &'lab Lab,
    child: Child,
    output: Collector,
    errors: Collector,
    packets: u64,
    started: Instant,
    audit: PathBuf,
}

impl Live<'_> {
    /// The subject's process id (gig's own).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input; taking it twice gives nothing.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// What has come out so far.
    ///
    /// # Panics
    /// When the collecting thread has panicked.
    #[must_use]
    pub fn output_so_far(&self) -> String {
        String::from_utf8_lossy(&self.output.bytes.lock().expect("the output")).into_owned()
    }

    /// Waits until the output holds `part`.
    ///
    /// # Panics
    /// When it does not within two minutes.
    pub fn wait_for(&mut self, part: &str) {
        let deadline = Instant::now() + Duration::from_secs(30) * BUSY;
        while !self.output_so_far().contains(part) {
            let ended = self.child.try_wait().expect("its state");
            let late = Instant::now() > deadline;
            let errors = self.errors.bytes.lock().expect("the errors").clone();
            let errors = String::from_utf8_lossy(&errors);
            assert!(
                ended.is_none() && !late || self.output_so_far().contains(part),
                "no {part:?} (ended: {ended:?}): {} {errors}",
                self.output_so_far()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to the subject.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a pid");
        kill_process(pid, signal).expect("signal the subject");
    }

    /// The record so far.
    #[must_use]
    pub fn audit(&self) -> AuditLog {
        AuditLog::read(&self.audit)
    }

    /// Waits for the end, so long as an idle machine may take.
    ///
    /// # Panics
    /// When it does not come, not even in the time that a busy one may take.
    #[must_use]
    pub fn finish(mut self, patience: Duration) -> Finished {
        let status = self.wait(patience);
        let elapsed = self.started.elapsed();
        let output = self.output.take();
        let errors = self.errors.take();
        let finished = Finished {
            status: status.map_or(-1, exit_code),
            output,
            errors,
            audit: AuditLog::read(&self.audit),
            packets: self.lab.network.packets_to_internet() - self.packets,
            elapsed,
            open: is_open(),
        };
        assert!(
            status.is_some(),
            "still running after {patience:?}; {finished}"
        );
        finished
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = self.started + patience * BUSY;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return Some(status);
            }
            if Instant::now() > deadline {
                let _gone = self.child.kill();
                let _reaped = self.child.wait();
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Whether this run of the tests points at the open subject.
#[must_use]
pub fn is_open() -> bool {
    env::var_os("GIG_TEST_SUBJECT").is_some_and(|name| name == "open")
}

impl User {
    /// The user that runs the tests.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        }
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|n| 128 + n))
        .unwrap_or(-1)
}

/// Gathers a stream on a thread of its own.
#[derive(Debug)]
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Everything, once the stream has ended; what there is, if somebody else holds it open.
    fn take(&mut self) -> Vec<u8> {
        let deadline = Instant::now() + Duration::from_secs(5) * BUSY;
        while self
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            if Instant::now() > deadline {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.bytes.lock().expect("the output").clone()
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> Collector {
    let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&bytes);
    let read = move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            kept.lock().expect("the output").extend(&buffer[..length]);
        }
    };
    Collector {
        bytes,
        thread: Some(thread::spawn(read)),
    }
}

/// How much longer a machine may take whose processors others keep busy.
const BUSY: u32 = 4;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
