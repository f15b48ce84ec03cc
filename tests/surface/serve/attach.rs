//! `gig mcp`: a server's program with the client's own standard streams, by the socket of this machine and
//! by the network; and the sandboxes that nobody uses.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    thread,
};

use gig_tests::lab::place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Appliance, Ask, command};

/// A client that stays.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start gig mcp");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        Self {
            child,
            stdin,
            stdout,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its input");
        writeln!(stdin, "{line}").expect("it listens");
    }

    /// Its status and what it complained of.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let mut said = String::new();
        let mut errors = self.child.stderr.take().expect("its complaints");
        errors.read_to_string(&mut said).expect("its complaints");
        (self.child.wait().expect("its end").code(), said)
    }
}

impl Appliance {
    pub(super) fn mcp(&self, words: &[&str]) -> Command {
        let mut command = command(&self.folder, self.database.as_deref());
        command.arg("mcp").args(words);
        command
    }

    /// Runs it to its end with this input.
    fn mcp_with(&self, words: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .mcp(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start gig mcp");
        let mut stdin = child.stdin.take().expect("its input");
        let input = input.to_vec();
        let writing = thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("its end");
        writing.join().expect("the writer");
        output
    }

    pub(super) fn sandboxes(&self) -> Vec<Value> {
        let listed = self.gig(&["ps", "--json"], "");
        let document: Value = serde_json::from_str(&listed.output).expect("JSON");
        document["items"].as_array().expect("items").clone()
    }

    pub(super) fn register(&self, name: &str, options: &[&str], program: &[&str]) {
        let words = [&["server", "add", name], options, &["--"], program].concat();
        let added = self.gig(&words, "");
        assert_eq!(added.status, 0, "{added:?}");
    }

    pub(super) fn told(&self, token: &str, query: &str) -> Vec<String> {
        let records = self.records(token, query);
        let findings = records.iter().rev().map(|one| one["findings"][0].clone());
        findings
            .map(|one| one.as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

#[test]
fn octets_pass_unchanged_and_the_status_is_the_programs() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let script = "cat; echo bye >&2; exit 7";
    appliance.register("echo", &[], &["/bin/sh", "-c", script]);
    // More than any buffer between them, and every octet there is.
    let input: Vec<u8> = (0..3_000_000_u32)
        .map(|number| u8::try_from(number.wrapping_mul(2_654_435_761) >> 24).expect("an octet"))
        .collect();
    let output = appliance.mcp_with(&["echo"], &input);
    assert!(output.stdout == input, "{} octets", output.stdout.len());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "bye\n");
    assert_eq!(output.status.code(), Some(7));
    let told = appliance.told(&token, "server=echo&event=admin");
    assert_eq!(
        told.last().map(String::as_str),
        Some("detached: its program ended, status 7"),
        "{told:?}"
    );
    assert!(told.contains(&"attach asked for".to_owned()), "{told:?}");
    let started = appliance.records(&token, "server=echo&event=sandbox.start");
    let profile = started[0]["profile"].as_str().expect("whose it is");
    assert_eq!(profile, "owner of this machine");
    // Who attached and what it led to have the same sandbox.
    let asked = appliance.records(&token, "server=echo&event=admin");
    let ids: Vec<_> = asked.iter().map(|one| &one["sandbox"]).collect();
    for one in &asked {
        let who = one["profile"].as_str().expect("who asked");
        assert!(who.starts_with(profile), "{who} is not {profile}");
    }
    assert!(ids.contains(&&started[0]["sandbox"]), "{asked:?}");
    // What it complained of is kept; what it answered is not.
    let log = appliance.gig(&["logs", "echo", "--grep", ""], "");
    assert!(log.output.trim_end().ends_with("  bye"), "{log:?}");
    assert_eq!(log.output.lines().count(), 1, "{log:?}");
}

#[test]
fn each_client_has_a_process_of_its_own_that_ends_with_it() {
    let appliance = Appliance::start();
    // One that was told nothing does not end of its own.
    let script = "echo $GIG_SANDBOX_ID; told=; while read line; do told=1; echo heard $line; done; \
        [ $told ] || sleep 100; echo end";
    appliance.register("one", &[], &["/bin/sh", "-c", script]);
    let [mut first, mut second] = [0, 1].map(|_| Client::start(appliance.mcp(&["one"])));
    let ids = [first.line(), second.line()];
    assert_ne!(ids[0], ids[1]);
    let running = appliance.sandboxes();
    assert_eq!(running.len(), 2, "{running:?}");
    for one in &running {
        assert_eq!(one["attached"], true, "{one}");
        let profile = one["profile"].as_str().expect("whose it is");
        assert_eq!(profile, "owner of this machine");
    }
    // As the kernel ends it: nothing is said.
    first.child.kill().expect("kill it");
    appliance.until("its sandbox ends", |one| one.ended(&ids[0]).is_some());
    second.say("hello");
    assert_eq!(second.line(), "heard hello");
    // The end of its input, and then of its output, as a program's own.
    drop(second.stdin.take());
    assert_eq!(second.line(), "end");
    assert_eq!(second.line(), "");
    assert_eq!(second.end(), (Some(0), String::new()));
    let token = appliance.token("admin");
    let gone = format!("sandbox={}&event=admin", ids[0]);
    let told = appliance.told(&token, &gone);
    assert_eq!(told, ["attach asked for", "detached: the client went away"]);
    let exit = appliance.told(&token, &format!("sandbox={}&event=sandbox.exit", ids[0]));
    assert_eq!(exit, ["ended: whoever was attached went away"]);
}

#[test]
fn real_mcp_servers_answer_a_real_client_and_stay_behind_their_policy() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let lab = place::client("mcp");
    let text = |path: &str| lab.join(path).display().to_string();
    let (venv, modules) = (text("venv"), text("node_modules"));
    let python = text("venv/bin/python");
    let ro = ["--ro", venv.as_str()];
    let zone = ["-m", "mcp_server_time", "--local-timezone", "UTC"];
    appliance.register("time", &ro, &[&[python.as_str()][..], &zone].concat());
    appliance.register("fetch", &ro, &[&python, "-m", "mcp_server_fetch"]);
    let everything = text("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let modules = ["--ro", modules.as_str()];
    appliance.register("everything", &modules, &["node", &everything, "stdio"]);
    let ask = |server: &str, calls: Value| -> Value {
        let output = Command::new(&python)
            .arg("tests/fixtures/mcp_client.py")
            .arg(place::gig())
            .args([server, &calls.to_string()])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .env("GIG_DATA_DIR", appliance.path("").display().to_string())
            .output()
            .expect("run the client");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{server}: {said}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let convert =
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let seen = ask("time", json!([["convert_time", convert]]));
    let answer = seen["answers"][0]["text"].as_str().expect("an answer");
    assert!(answer.contains("T21:00:00+09:00"), "{seen}");

    let seen = ask(
        "everything",
        json!([["echo", {"message": "häl\u{2028}lo"}]]),
    );
    let answer = seen["answers"][0]["text"].as_str().expect("an answer");
    assert!(answer.contains("häl\u{2028}lo"), "{seen}");

    let seen = ask("fetch", json!([["fetch", {"url": "http://blocked.test/"}]]));
    assert_eq!(seen["answers"][0]["failed"], true, "{seen}");
    let denied = appliance.records(&token, "server=fetch&host=blocked.test&verdict=deny");
    let profile = denied[0]["profile"].as_str().expect("whose it is");
    assert_eq!(profile, "owner of this machine");
    // Each client is gone, and its program with it.
    appliance.until("nothing runs", |one| one.sandboxes().is_empty());
}

#[test]
fn an_appliance_elsewhere_is_reached_with_a_token_and_says_why_it_refuses() {
    let appliance = Appliance::start();
    appliance.register("echo", &[], &["/bin/sh", "-c", "cat; exit 3"]);
    let url = format!("http://{}", appliance.address);
    let with = |token: Option<&str>, server: &str| {
        let mut child = appliance.mcp(&[server, "--url", &url]);
        child.env_remove("GIG_TOKEN").env("NO_PROXY", "127.0.0.1");
        if let Some(token) = token {
            child.env("GIG_TOKEN", token);
        }
        let mut client = Client::start(child);
        // It may have ended by now.
        let _unheard = writeln!(client.stdin.take().expect("its input"), "by the network");
        let line = client.line();
        let (status, said) = client.end();
        (status, line, said)
    };
    let editor = appliance.token("editor");
    let (status, line, said) = with(Some(&editor), "echo");
    assert_eq!(
        (status, line.as_str()),
        (Some(3), "by the network"),
        "{said}"
    );
    let records = appliance.records(&appliance.token("admin"), "server=echo&event=admin");
    let asked = records
        .iter()
        .find(|one| one["findings"][0] == "attach asked for");
    let asked = asked.expect("it is recorded");
    let profile = asked["profile"].as_str().expect("who");
    assert!(profile.starts_with("token for-editor"), "{profile}");

    for (token, server, why) in [
        (None, "echo", "GIG_TOKEN is not set"),
        (Some("gig_nothing"), "echo", "sign in, or send a token"),
        (Some(editor.as_str()), "nobody", "there is no server nobody"),
    ] {
        let (status, line, said) = with(token, server);
        assert_eq!((status, line.as_str()), (Some(125), ""), "{said}");
        assert!(said.contains(why), "{said}");
    }
    for role in ["viewer", "auditor", "approver"] {
        let token = appliance.token(role);
        let (status, _, said) = with(Some(&token), "echo");
        assert_eq!(status, Some(125), "{said}");
        assert!(said.contains(&format!("you are {role}")), "{said}");
    }
    let clear = appliance.mcp_with(&["echo", "--url", "http://gig.example.com"], b"");
    let said = String::from_utf8_lossy(&clear.stderr).into_owned();
    assert!(
        !clear.status.success() && said.contains("clear text"),
        "{said}"
    );
    let started = appliance.gig(&["ps", "--all", "--json"], "");
    assert_eq!(started.output.matches("\"id\"").count(), 1, "{started:?}");
}

#[test]
fn another_site_attaches_to_nothing_with_a_persons_session() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    // It ends at once, and with it whoever is attached.
    appliance.register("echo", &[], &["/bin/true"]);
    let ask = |origin: Option<&str>| {
        let mut ask = Ask::new("GET", "/api/v1/servers/echo/attach")
            .cookie(&cookie)
            .header("Upgrade", "websocket")
            .header("Connection", "Upgrade")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==");
        if let Some(origin) = origin {
            ask = ask.header("Origin", origin);
        }
        ask.send(&appliance).status
    };
    assert_eq!(ask(Some("https://evil.example")), 403);
    assert_eq!(ask(None), 403);
    assert!(appliance.sandboxes().is_empty());
    // The appliance's own pages do.
    assert_eq!(ask(Some(&format!("http://{}", appliance.address))), 101);
}

#[test]
fn whoever_is_attached_is_told_that_gig_goes_down() {
    let appliance = Appliance::start();
    appliance.register(
        "sleeper",
        &[],
        &["/bin/sh", "-c", "echo here; exec sleep 1000"],
    );
    let mut client = Client::start(appliance.mcp(&["sleeper"]));
    assert_eq!(client.line(), "here");
    let pid = i32::try_from(appliance.child.id()).expect("a pid");
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::TERM).expect("signal it");
    let (status, said) = client.end();
    assert_eq!(status, Some(143), "{said}");
    assert!(said.contains("gig goes down"), "{said}");
    let nobody = appliance.mcp_with(&["sleeper"], b"");
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert_eq!(nobody.status.code(), Some(125), "{said}");
    assert!(said.contains("no appliance answers"), "{said}");
}

#[test]
fn a_sandbox_that_nobody_uses_ends_and_one_that_somebody_uses_stays() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let idle = ["--idle", "1s"];
    appliance.register("sleeper", &idle, &["/bin/sleep", "1000"]);
    let talking = "while :; do echo talk; sleep 0.2; done";
    appliance.register("talker", &idle, &["/bin/sh", "-c", talking]);
    let never = ["--idle", "never"];
    appliance.register("patient", &never, &["/bin/sleep", "1000"]);
    let mut client = Client::start(appliance.mcp(&["sleeper"]));
    let [asleep, talks, waits] = ["sleeper", "talker", "patient"].map(|name| appliance.run(name));
    appliance.until("the sleeper ends", |one| one.ended(&asleep).is_some());
    let exit = appliance.told(&token, &format!("sandbox={asleep}&event=sandbox.exit"));
    assert_eq!(exit, ["ended: it was idle"]);
    // Far longer than it may be idle.
    thread::sleep(std::time::Duration::from_secs(3));
    assert!(appliance.ended(&talks).is_none() && appliance.ended(&waits).is_none());
    let attached = appliance.sandboxes();
    let attached = attached.iter().filter(|one| one["attached"] == true);
    assert_eq!(attached.count(), 1, "who is attached is not idle");
    client.child.kill().expect("kill it");
    client.child.wait().expect("its end");
}
