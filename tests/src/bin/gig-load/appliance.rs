//! The appliance that is measured: the real program, on a data directory of its own.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::client::{Figures, Order, SAYS};

/// Serves; is ended with its handle.
pub(crate) struct Appliance {
    child: Child,
    gig: PathBuf,
    address: String,
    cookie: String,
    folder: tempfile::TempDir,
}

impl Appliance {
    /// With a policy that opens the origin to a server named `load`, and room for so many sandboxes.
    pub(crate) fn start(gig: &Path, port: u16, sandboxes: Option<u16>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let room = sandboxes.map(|count| format!("--sandboxes={count}"));
        let mut child = command(gig, folder.path())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(room)
            .stderr(Stdio::piped())
            .spawn()
            .expect("start gig");
        let mut lines = BufReader::new(child.stderr.take().expect("its words")).lines();
        let mut said = String::new();
        while !said.contains("/setup/") {
            let line = lines.next().expect("it serves").expect("its words");
            said += &line;
            said.push('\n');
        }
        // Whoever does not listen stops it.
        std::thread::spawn(move || lines.for_each(drop));
        let address = said.split("listening on http://").nth(1);
        let address = address.and_then(|rest| rest.split_whitespace().next());
        let mut appliance = Self {
            child,
            gig: gig.to_owned(),
            address: address.expect("its address").to_owned(),
            cookie: String::new(),
            folder,
        };
        appliance.sign_in(&said);
        appliance.prepare(port);
        appliance
    }

    fn sign_in(&mut self, said: &str) {
        let link = said.find("/setup/").map(|at| &said[at..]);
        let link = link.and_then(|rest| rest.split_whitespace().next());
        let fields = "name=load&password=correct+horse+battery&again=correct+horse+battery";
        let headers = format!(
            "Origin: http://{}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            self.address
        );
        let answer = self.ask("POST", link.expect("a link"), &headers, fields);
        let set = answer
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "));
        let pair = set.and_then(|set| set.split(';').next());
        self.cookie = pair.expect("a session").to_owned();
    }

    fn prepare(&self, port: u16) {
        let document = format!(
            "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{port}], protocol: http, \
             allow_private: [127.0.0.1/32]}}\n"
        );
        let token = self.gig(&["token", "add", "load", "--role", "admin"]);
        let headers = format!(
            "Authorization: Bearer {}\r\nIf-None-Match: *\r\nContent-Type: application/json\r\n",
            token.trim()
        );
        let body = serde_json::json!({ "document": document }).to_string();
        let answer = self.ask("PUT", "/api/v1/policies/load", &headers, &body);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    /// The sandbox in which the order is carried out.
    pub(crate) fn run(&self, order: &Order) -> String {
        let own = std::env::current_exe().expect("this program");
        let own = own.to_str().expect("a path that is text");
        let order = order.words();
        let mut words = vec![
            "server", "add", "load", "--policy", "load", "--idle", "never", "--", own,
        ];
        words.extend(order.iter().map(String::as_str));
        self.gig(&words);
        self.gig(&["server", "start", "load"]).trim().to_owned()
    }

    /// How it went, once the sandbox has said so.
    pub(crate) fn figures(&self, sandbox: &str) -> Option<Figures> {
        let log = self.gig(&["logs", sandbox]);
        let line = log.lines().find_map(|line| line.split_once(SAYS))?;
        Some(serde_json::from_str(line.1).expect("figures"))
    }

    /// How long a page takes.
    pub(crate) fn takes(&self, path: &str) -> Duration {
        let begun = Instant::now();
        let answer = self.page(path);
        let took = begun.elapsed();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        took
    }

    /// Decisions that let something pass, as the overview counts them.
    pub(crate) fn counted(&self) -> u64 {
        // It is kept for three seconds.
        std::thread::sleep(Duration::from_secs(4));
        let page = self.page("/");
        let words = page.split("Decisions of the last 24 hours: ").nth(1);
        let number = words.and_then(|words| words.split(' ').next());
        number.and_then(|text| text.parse().ok()).expect("a count")
    }

    fn page(&self, path: &str) -> String {
        let headers = format!("Cookie: {}\r\n", self.cookie);
        self.ask("GET", path, &headers, "")
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the appliance");
        let asked = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(asked.as_bytes()).expect("ask");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What a command says that must succeed.
    pub(crate) fn gig(&self, words: &[&str]) -> String {
        let done = command(&self.gig, self.folder.path())
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .expect("gig");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {errors}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        // It may be gone already.
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn command(gig: &Path, folder: &Path) -> Command {
    let mut command = Command::new(gig);
    command
        .env("GIG_DATA_DIR", folder.join("gig"))
        .env_remove("GIG_DATABASE_URL")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}
