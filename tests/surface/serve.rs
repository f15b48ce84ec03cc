//! `gig serve`: who is let in, what is kept, what a sandbox can and cannot reach. Everything is asked
//! over real connections of the real program.

mod approvals;
mod asked;
mod attach;
mod backup;
mod beside;
mod brought;
mod counts;
mod cut;
mod desk;
mod document;
mod doors;
mod endpoint;
mod exported;
mod factors;
mod full;
mod gone;
mod held;
mod killed;
mod known;
mod live;
mod narrowed;
mod nodes;
mod once;
mod one_of_each;
mod over;
mod people;
mod policies;
mod presence;
mod recorded;
mod refused;
mod reused;
mod sandboxes;
mod scan;
mod searches;
mod secrets;
mod server_logs;
mod sign_on;
mod teams;
mod tls;
mod traced;
mod two_clicks;
mod unbound;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{place, postgres::Database};
use serde_json::Value;

use super::{Answer, answer};

const PASSWORD: &str = "correct horse battery";

/// That somebody chose after an admin gave them the first.
const OWN_PASSWORD: &str = "a staple of their own";

/// A running appliance with a data directory of its own; ends with its handle.
struct Appliance {
    child: Child,
    said: Arc<Mutex<String>>,
    folder: tempfile::TempDir,
    /// `GIG_DATABASE_URL`, of it and of the commands beside it.
    database: Option<String>,
    /// Where all run on PostgreSQL: its own.
    own: Option<Database>,
    address: String,
}

/// What was answered to one request.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

/// One request, put together.
struct Ask<'a> {
    method: &'a str,
    path: &'a str,
    headers: Vec<(String, String)>,
    body: String,
}

impl Appliance {
    fn start() -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), &[])
    }

    fn start_in(folder: tempfile::TempDir, options: &[&str]) -> Self {
        Self::start_on(folder, options, None)
    }

    fn start_on(folder: tempfile::TempDir, options: &[&str], database: Option<String>) -> Self {
        Self::start_with(folder, options, database, &[])
    }

    /// With more of an environment.
    fn start_with(
        folder: tempfile::TempDir,
        options: &[&str],
        database: Option<String>,
        environment: &[(&str, &str)],
    ) -> Self {
        // What was prepared before it starts is in a database of its own.
        let prepared = database.is_some() || folder.path().join("gig").exists();
        let on_postgres = std::env::var("GIG_TEST_STORE").is_ok_and(|store| store == "postgres");
        let own = (on_postgres && !prepared).then(Database::fresh);
        let database = database.or_else(|| Some(own.as_ref()?.url()));
        let mut command = command(&folder, database.as_deref());
        command
            .envs(environment.iter().copied())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(options);
        let mut appliance = Self::of(command, folder, database);
        appliance.own = own;
        appliance
    }

    /// By this command, on that folder.
    fn of(mut command: Command, folder: tempfile::TempDir, database: Option<String>) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start gig");
        let said = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().expect("its words"));
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            let mut line = String::new();
            while matches!(lines.read_line(&mut line), Ok(1..)) {
                heard.lock().expect("the words").push_str(&line);
                line.clear();
            }
        });
        let mut appliance = Self {
            child,
            said,
            folder,
            database,
            own: None,
            address: String::new(),
        };
        // Its last words before it serves.
        appliance.until("it serves", |one| {
            let said = one.said();
            said.contains("/setup/") || said.contains("gig: console:")
        });
        let said = appliance.said();
        let address = said.split("listening on http").nth(1);
        let address = address.and_then(|rest| rest.lines().next()?.split_once("://"));
        appliance.address = address.expect("its address").1.trim().to_owned();
        appliance
    }

    /// Kills it as `kill -9` does, and starts it again on the same directory.
    fn kill_and_start_again(self) -> Self {
        self.end_and_start_again(&[])
    }

    /// The same, with options.
    fn end_and_start_again(mut self, options: &[&str]) -> Self {
        self.child.kill().expect("kill it");
        self.child.wait().expect("its end");
        let empty = tempfile::tempdir().expect("a folder");
        let folder = std::mem::replace(&mut self.folder, empty);
        let (database, own) = (self.database.take(), self.own.take());
        drop(self);
        let mut appliance = Self::start_on(folder, options, database);
        appliance.own = own;
        appliance
    }

    fn said(&self) -> String {
        self.said.lock().expect("the words").clone()
    }

    fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            let waited = begun.elapsed();
            assert!(waited < PATIENCE, "never: {what}; it said: {}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn setup_link(&self) -> String {
        let said = self.said();
        let at = said.find("/setup/").expect("a link");
        said[at..]
            .split_whitespace()
            .next()
            .expect("a link")
            .to_owned()
    }

    /// A command beside it.
    fn gig(&self, words: &[&str], input: &str) -> Answer {
        let mut command = command(&self.folder, self.database.as_deref());
        command.args(words);
        answer(command, input)
    }

    /// A new token of this role.
    fn token(&self, role: &str) -> String {
        let name = format!("for-{role}");
        let made = self.gig(&["token", "add", &name, "--role", role], "");
        assert_eq!(made.status, 0, "{made:?}");
        made.output.trim().to_owned()
    }

    /// The admin's cookie, made by the set-up link.
    fn first_admin(&self) -> String {
        let form = format!(
            "name=ana&password={0}&again={0}",
            PASSWORD.replace(' ', "+")
        );
        let reply = self.form(&self.setup_link(), &form).send(self);
        assert_eq!(reply.status, 303, "{reply:?}");
        reply.cookie()
    }

    /// Somebody whom an admin adds, and who then chooses a password of their own; their cookie.
    fn member(&self, admin: &str, name: &str, role: &str) -> String {
        let first = PASSWORD.replace(' ', "+");
        let fields = format!("name={name}&role={role}&password={first}");
        let added = self.form("/people/users", &fields).cookie(admin);
        let added = added.send(self);
        assert_eq!(added.status, 303, "{added:?}");
        self.own_password(name)
    }

    /// Somebody chooses a password of their own; their cookie.
    fn own_password(&self, name: &str) -> String {
        let [first, own] = [PASSWORD, OWN_PASSWORD].map(|one| one.replace(' ', "+"));
        let cookie = self.sign_in(name, PASSWORD);
        let change = |own: &str| {
            let fields = format!("current={first}&password={own}&again={own}");
            let form = self.form("/people/password", &fields).cookie(&cookie);
            form.send(self)
        };
        let same = change(&first);
        assert_eq!(same.status, 400, "{same:?}");
        let changed = change(&own);
        assert_eq!(changed.status, 303, "{changed:?}");
        self.sign_in(name, OWN_PASSWORD)
    }

    fn sign_in(&self, name: &str, password: &str) -> String {
        let fields = format!("name={name}&password={}", password.replace(' ', "+"));
        let reply = self.form("/sign-in", &fields).send(self);
        assert_eq!(reply.status, 303, "{reply:?}");
        reply.cookie()
    }

    /// A form as this appliance's own pages send it.
    fn form<'a>(&self, path: &'a str, fields: &str) -> Ask<'a> {
        Ask::new("POST", path)
            .header("Origin", &format!("http://{}", self.address))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(fields)
    }

    /// The newest records, as the API has them.
    fn records(&self, token: &str, query: &str) -> Vec<Value> {
        let path = format!("/api/v1/audit?{query}");
        let reply = Ask::new("GET", &path).token(token).send(self);
        assert_eq!(reply.status, 200, "{reply:?}");
        let found = reply.json();
        found["records"].as_array().expect("records").clone()
    }

    /// Its record, as commands beside it name it.
    fn record(&self) -> String {
        match self.database {
            Some(_) => "postgres:".to_owned(),
            None => self.path("audit/record.db").display().to_string(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("gig").join(name)
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

impl<'a> Ask<'a> {
    fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            method,
            path,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    fn cookie(self, cookie: &str) -> Self {
        self.header("Cookie", cookie)
    }

    fn body(mut self, text: &str) -> Self {
        text.clone_into(&mut self.body);
        self
    }

    fn json(self, value: &Value) -> Self {
        let text = value.to_string();
        self.header("Content-Type", "application/json").body(&text)
    }

    fn send(self, to: &Appliance) -> Reply {
        self.send_to(&to.address)
    }

    fn send_to(self, address: &str) -> Reply {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name == "Host") {
            text += &format!("Host: {address}\r\n");
        }
        text += "Connection: close\r\n";
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body);
        // An answer may come before all of it was taken.
        let _refused = stream.write_all(text.as_bytes());
        let mut octets = Vec::new();
        let _cut = stream.read_to_end(&mut octets);
        let text = String::from_utf8_lossy(&octets).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Reply {
            status: status.unwrap_or_default(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Where a browser is sent on to.
    fn location(&self) -> &str {
        let mut lines = self.head.lines();
        let found = lines.find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("location").then_some(value)
        });
        found.unwrap_or_else(|| panic!("no location: {self:?}"))
    }

    /// As a browser sends it back.
    fn cookie(&self) -> String {
        let set = self
            .head
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "));
        let set = set.expect("a cookie");
        assert!(
            set.contains("HttpOnly") && set.contains("SameSite=Lax"),
            "{set}"
        );
        set.split(';').next().expect("a pair").to_owned()
    }
}

fn command(folder: &tempfile::TempDir, database: Option<&str>) -> Command {
    let mut command = Command::new(place::gig());
    command.env("GIG_DATA_DIR", folder.path().join("gig"));
    for name in [
        "GIG_DATABASE_URL",
        "GIG_NODE",
        "GIG_LISTEN",
        "GIG_PUBLIC_URL",
        "GIG_FRONT",
        "GIG_TLS_CERT",
        "GIG_TLS_KEY",
        "GIG_MASTER_KEY",
        "GIG_MASTER_KEY_FILE",
    ] {
        command.env_remove(name);
    }
    if let Some(url) = database {
        command.env("GIG_DATABASE_URL", url);
        // Nodes of one machine have names of their own.
        let name = folder.path().file_name().unwrap_or_default();
        let name = name
            .to_string_lossy()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "");
        command.env("GIG_NODE", format!("node-{name}"));
    }
    command
}

/// On a machine ten times slower.
const PATIENCE: Duration = Duration::from_secs(60);
