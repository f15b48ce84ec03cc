//! An appliance on the lab's host, and network namespaces that it did not make.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{
    Lab,
    network::{Side, text},
    place,
    service::Service,
};
use serde_json::Value;

/// `gig serve` with one foreign server, `box`, under the policy `web`.
pub(crate) struct Appliance<'lab> {
    pub(crate) lab: &'lab Lab,
    data: PathBuf,
    serving: Mutex<Child>,
    log: PathBuf,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) works: bool,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// A process in user and network namespaces of its own, as a rootless container is; ends with its handle.
pub(crate) struct Stranger<'lab> {
    appliance: &'lab Appliance<'lab>,
    holder: Option<Service>,
    pub(crate) pid: u32,
    environment: PathBuf,
}

impl<'lab> Appliance<'lab> {
    pub(crate) fn start(lab: &'lab Lab, policy: &str) -> Self {
        let data = lab.folder("data").join("gig");
        let log = lab.fresh_path("serve.log");
        let said = fs::File::create(&log).expect("a log");
        let mut serving = of(lab, &data);
        serving
            .arg(place::gig())
            .args(["serve", "--listen", "127.0.0.1:0", "--upstream-ca"])
            .arg(lab.root_file())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        let appliance = Self {
            lab,
            data,
            serving: serving.spawn().expect("start gig").into(),
            log,
        };
        appliance.until("it serves", || {
            appliance.said().contains("/setup/").then_some(())
        });
        let document = lab.file("web.yaml", policy);
        appliance.does(&["policy", "apply", "web", &text(&document)]);
        appliance.does(&[
            "server",
            "add",
            "box",
            "--foreign",
            "--policy",
            "web",
            "--secret",
            "TOKEN",
        ]);
        appliance
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A command beside it.
    pub(crate) fn gig(&self, words: &[&str]) -> Said {
        let mut command = of(self.lab, &self.data);
        command.arg(place::gig()).args(words);
        said(command)
    }

    pub(crate) fn does(&self, words: &[&str]) -> String {
        let said = self.gig(words);
        assert!(said.works, "{words:?}: {said:?}; {}", self.said());
        said.output
    }

    /// Sets TOKEN.
    pub(crate) fn secret(&self, value: &str) {
        let file = self.lab.file("value", value);
        let mut command = of(self.lab, &self.data);
        let script = format!("{} secret set TOKEN < {}", text(&place::gig()), text(&file));
        command.args(["sh", "-c", &script]);
        let set = said(command);
        assert!(set.works, "{set:?}");
    }

    /// Registered namespaces, as the command lists them.
    pub(crate) fn registered(&self) -> Vec<Value> {
        let listed = self.does(&["netns", "ls", "--json"]);
        let document: Value = serde_json::from_str(&listed).expect("JSON");
        document["items"].as_array().expect("items").clone()
    }

    /// Records, asked at the owner's socket.
    pub(crate) fn records(&self, query: &str) -> Vec<Value> {
        let mut command = of(self.lab, &self.data);
        command.args(["curl", "-s", "--unix-socket"]);
        command.arg(self.data.join("control.sock"));
        command.arg(format!("http://gig/api/v1/audit?{query}"));
        let said = said(command);
        let found: Value = serde_json::from_str(&said.output).expect("JSON");
        found["records"].as_array().expect("records").clone()
    }

    pub(crate) fn until<T>(&self, what: &str, is: impl Fn() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = is() {
                return found;
            }
            let waited = begun.elapsed();
            assert!(
                waited < PATIENCE,
                "never: {what}; gig said: {}",
                self.said()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&self) {
        let mut serving = self.serving.lock().expect("it");
        serving.kill().expect("kill it");
        serving.wait().expect("its end");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.serving.lock().expect("it").id()
    }

    pub(crate) fn stranger(&'lab self) -> Stranger<'lab> {
        let mut command = of(self.lab, &self.data);
        let tell = "echo $$; exec sleep 1000";
        command.args(["unshare", "-rn", "sh", "-c", tell]);
        let holder = Service::start(command, self.lab.fresh_path("holder.log"));
        let pid = self.until("a namespace", || holder.log().trim().parse().ok());
        Stranger {
            appliance: self,
            holder: Some(holder),
            pid,
            environment: self.lab.fresh_path("environment"),
        }
    }
}

/// A file that names the network namespace of a stranger; no more once this is dropped.
pub(crate) struct Name<'lab> {
    lab: &'lab Lab,
    pub(crate) file: PathBuf,
}

impl<'lab> Name<'lab> {
    pub(crate) fn of(stranger: &Stranger<'lab>) -> Self {
        let lab = stranger.appliance.lab;
        let file = lab.file("name", "");
        let namespace = format!("/proc/{}/ns/net", stranger.pid);
        let name = Self { lab, file };
        name.does("mount", &["--bind", &namespace, &text(&name.file)]);
        name
    }

    fn does(&self, program: &str, words: &[&str]) {
        let mut command = self.lab.network.command(Side::Host, program);
        command.args(words);
        let said = said(command);
        assert!(said.works || thread::panicking(), "{words:?}: {said:?}");
    }
}

impl Drop for Name<'_> {
    fn drop(&mut self) {
        self.does("umount", &[&text(&self.file)]);
    }
}

impl Drop for Appliance<'_> {
    fn drop(&mut self) {
        let Ok(serving) = self.serving.get_mut() else {
            return;
        };
        let _gone = serving.kill();
        let _gone = serving.wait();
    }
}

impl Stranger<'_> {
    /// Registers it, and keeps what its programs are to be given.
    pub(crate) fn register(&self) -> Said {
        self.register_by(&["--pid", &self.pid.to_string()])
    }

    /// The same, named as `words` name it.
    pub(crate) fn register_by(&self, words: &[&str]) -> Said {
        let all = [&["netns", "register", "--server", "box"], words].concat();
        let said = self.appliance.gig(&all);
        if said.works {
            fs::write(&self.environment, &said.output).expect("write it down");
        }
        said
    }

    pub(crate) fn registered(self) -> Self {
        let said = self.register();
        assert!(said.works, "{said:?}; gig said: {}", self.appliance.said());
        self
    }

    /// Runs a script in there, as root of its user namespace, with what it was given.
    pub(crate) fn sh(&self, script: &str) -> Said {
        let lab = self.appliance.lab;
        let pem = text(&self.environment) + ".pem";
        let whole = format!(
            "[ ! -e {environment} ] || . {environment}; export CURL_CA_BUNDLE={pem}; \
             printf '%s' \"$GIG_CA_PEM\" > {pem}; {script}",
            environment = text(&self.environment),
        );
        let mut command = of(lab, &self.appliance.data);
        command.args(["nsenter", "--preserve-credentials", "-U", "-n", "-t"]);
        command.args([&self.pid.to_string(), "--", "sh", "-c", &whole]);
        said(command)
    }

    /// The status that curl gets, or its error, without its proxy unless `ask` says so.
    pub(crate) fn curl(&self, ask: &str) -> String {
        let script = format!(
            "NO_PROXY='*' no_proxy='*' curl -s -m 20 -o /dev/null -w '%{{http_code}}' {ask}; echo \" $?\""
        );
        self.sh(&script).output.trim().to_owned()
    }

    /// Its process ends; nothing else is in there.
    pub(crate) fn end(&mut self) {
        drop(self.holder.take());
    }
}

/// A command on the host, as the user who runs gig.
fn of(lab: &Lab, data: &std::path::Path) -> Command {
    let mut command = lab.network.command(Side::Host, "setpriv");
    let user = lab.user();
    if user != place::User::of_this_process() {
        command.arg(format!("--reuid={}", user.uid));
        command.arg(format!("--regid={}", user.gid));
        command.arg("--clear-groups");
    }
    command.args(["env", "-i", "LANG=C.UTF-8"]);
    command.arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.arg(format!("HOME={}", text(&lab.home())));
    command.arg(format!("GIG_DATA_DIR={}", text(data)));
    command
}

fn said(mut command: Command) -> Said {
    let ended = command.stdin(Stdio::null()).output().expect("start it");
    Said {
        works: ended.status.success(),
        output: String::from_utf8_lossy(&ended.stdout).into_owned(),
        errors: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

/// On a machine ten times slower.
const PATIENCE: Duration = Duration::from_secs(60);
