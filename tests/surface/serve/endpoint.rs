//! The MCP endpoint, `/sandbox/NAME/mcp`: real clients of two languages by HTTP, a server that does what it should not,
//! and who is let in to nothing.

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use gig_tests::lab::{place, postgres::Postgres};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Appliance, Ask, Reply, nodes::node};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",
    "capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

/// Which client asks.
#[derive(Debug, Clone, Copy)]
enum Client {
    Python,
    Node,
}

impl Appliance {
    /// Registers the server that does as it is told.
    fn trickster(&self, options: &[&str]) {
        let folder = self.folder.path().join("trick");
        fs::create_dir_all(&folder).expect("a folder");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mcp_server.py");
        fs::copy(source, folder.join("mcp_server.py")).expect("the server");
        let shown = format!("{}:/opt/trick", folder.display());
        let options = [&["--ro", shown.as_str()], options].concat();
        let program = ["/usr/bin/python3", "/opt/trick/mcp_server.py"];
        self.register("trick", &options, &program);
    }

    fn endpoint(&self, server: &str) -> String {
        format!("http://{}/sandbox/{server}/mcp", self.address)
    }

    /// Has a client call these tools.
    fn called(&self, client: Client, (server, token): (&str, &str), calls: &Value) -> Value {
        let lab = place::client("mcp");
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let mut command = match client {
            Client::Python => {
                let mut command = Command::new(lab.join("venv/bin/python"));
                command.arg(fixtures.join("mcp_http_client.py"));
                command
            }
            Client::Node => {
                let mut command = Command::new("node");
                command.arg(fixtures.join("mcp_http_client.mjs")).arg(&lab);
                command
            }
        };
        let output = command
            .args([self.endpoint(server), calls.to_string()])
            .env("GIG_TOKEN", token)
            .env("NO_PROXY", "127.0.0.1")
            .output()
            .expect("run the client");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{client:?} {server}: {said}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Opens a session; its id.
    fn opened(&self, server: &str, token: &str) -> String {
        let reply = posted(server, INITIALIZE).token(token).send(self);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.body.contains("trickster"), "{reply:?}");
        session(&reply)
    }
}

fn posted<'a>(server: &str, body: &str) -> Ask<'a> {
    let path: &'static str = match server {
        "trick" => "/sandbox/trick/mcp",
        "nobody" => "/sandbox/nobody/mcp",
        other => panic!("{other}"),
    };
    Ask::new("POST", path)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(body)
}

fn session(reply: &Reply) -> String {
    let mut lines = reply.head.lines();
    let id = lines.find_map(|line| line.strip_prefix("mcp-session-id: "));
    id.expect("a session").to_owned()
}

#[test]
fn real_clients_speak_with_real_servers_by_http_and_leave_nothing_behind() {
    let appliance = Appliance::start();
    let token = appliance.token("editor");
    let lab = place::client("mcp");
    let text = |path: &str| lab.join(path).display().to_string();
    let modules = text("node_modules");
    let everything = text("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let modules = ["--ro", modules.as_str()];
    appliance.register("everything", &modules, &["node", &everything, "stdio"]);
    for client in [Client::Python, Client::Node] {
        let calls = json!([["echo", {"message": "häl\u{2028}lo"}]]);
        let seen = appliance.called(client, ("everything", &token), &calls);
        let answer = seen["answers"][0]["text"].as_str().expect("an answer");
        assert!(answer.contains("häl\u{2028}lo"), "{client:?}: {seen}");
    }
    appliance.until("nothing runs", |one| one.sandboxes().is_empty());
    let told = appliance.told(&appliance.token("auditor"), "server=everything&event=admin");
    let ended = "detached: the client ended its session";
    let expected = ["attach asked for", ended, "attach asked for", ended];
    assert_eq!(told[1..], expected, "{told:?}");
}

#[test]
fn what_a_server_does_reaches_its_client_and_what_is_no_message_reaches_nobody() {
    let appliance = Appliance::start();
    let token = appliance.token("editor");
    appliance.trickster(&[]);
    for client in [Client::Python, Client::Node] {
        let calls = json!([
            ["echo", {"message": "a\nb"}], ["steps", {}], ["ask", {}], ["news", {}], ["garbage", {}], ["seen", {}],
            ["die", {}]
        ]);
        let seen = appliance.called(client, ("trick", &token), &calls);
        assert_eq!(seen["name"], "trickster");
        let answer = |place: usize| seen["answers"][place]["text"].as_str().expect("an answer");
        assert_eq!(answer(0), "a\nb");
        assert_eq!(
            seen["progress"],
            json!(["step 1", "step 2", "step 3"]),
            "{seen}"
        );
        assert_eq!(answer(2), "the client says nobody", "{client:?}");
        assert_eq!(seen["news"], json!(["news"]), "{client:?}");
        assert_eq!(seen["answers"][4]["failed"], false, "{seen}");
        // The token, and all else of a request but the message, is nothing that it sees.
        let inside = answer(5);
        assert!(
            !inside.contains(&token) && !inside.contains("GIG_TOKEN"),
            "{inside}"
        );
        assert_eq!(seen["answers"][6]["failed"], true, "{seen}");
        assert!(
            answer(6).contains("its program ended, status 7"),
            "{client:?}: {seen}"
        );
    }
    let log = appliance.said();
    assert_eq!(log.matches("is no message: dropped").count(), 8, "{log}");
    assert!(!log.contains("this is no message"), "{log}");
}

#[test]
fn a_denial_is_told_to_the_client_reaches_no_origin_and_is_in_the_record_once() {
    let appliance = Appliance::start();
    let admin = appliance.token("admin");
    let origin = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = origin.local_addr().expect("an address").port();
    let document = format!(
        "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{port}], protocol: http, allow_private: [127.0.0.1/32], \
         rules: [{{methods: [GET], paths: [/open]}}]}}\n"
    );
    appliance.policy(&admin, &document);
    appliance.trickster(&["--policy", "web"]);
    let fetch = |path: &str| {
        let calls = json!([["fetch", {"url": format!("http://127.0.0.1:{port}/{path}")}]]);
        let seen = appliance.called(Client::Python, ("trick", &admin), &calls);
        seen["answers"][0]["text"]
            .as_str()
            .expect("an answer")
            .to_owned()
    };
    let denied = fetch("shut");
    assert!(
        denied.starts_with("403 ") && denied.contains("egress_denied"),
        "{denied}"
    );
    origin.set_nonblocking(true).expect("ask it");
    let nobody = origin.accept().map_err(|error| error.kind());
    assert_eq!(nobody.err(), Some(ErrorKind::WouldBlock), "it was reached");
    let records = appliance.records(&admin, "server=trick&verdict=deny");
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["path"], "/shut", "{records:?}");
    // What is allowed is reached: the origin is one.
    origin.set_nonblocking(false).expect("wait for it");
    let answering = thread::spawn(move || {
        let (mut stream, _) = origin.accept().expect("somebody");
        let mut head = [0; 1024];
        let _read = stream.read(&mut head).expect("a request");
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhere";
        stream.write_all(answer).expect("it listens");
    });
    assert_eq!(fetch("open"), "200 here");
    answering.join().expect("the origin");
}

#[test]
fn who_may_not_speak_with_a_server_starts_nothing_and_that_is_recorded() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let admin = appliance.token("admin");
    appliance.trickster(&[]);
    let own = format!("http://{}", appliance.address);
    let ask = |server: &str| posted(server, INITIALIZE);
    // A cookie is nothing here, whatever page it comes from.
    let by_cookie = ask("trick").cookie(&cookie).header("Origin", &own);
    let stranger = by_cookie.send(&appliance);
    assert_eq!(stranger.status, 401, "{stranger:?}");
    assert!(
        stranger.head.contains("www-authenticate: Bearer"),
        "{stranger:?}"
    );
    assert!(
        stranger.head.contains("application/problem+json"),
        "{stranger:?}"
    );
    assert_eq!(ask("trick").send(&appliance).status, 401);
    for role in ["viewer", "auditor", "approver"] {
        let token = appliance.token(role);
        let refused = ask("trick").token(&token).send(&appliance);
        assert_eq!(refused.status, 403, "{role}: {refused:?}");
        let told = |one: &Appliance| {
            let mut told = one.records(&admin, "event=auth&verdict=deny");
            let who = format!("for-{role}");
            told.retain(|one| one["profile"].to_string().contains(&who));
            told
        };
        appliance.until("it is recorded", |one| !told(one).is_empty());
        let told = told(&appliance);
        assert_eq!(told.len(), 1, "{told:?}");
        let words = told[0]["findings"].to_string();
        assert!(words.contains("POST /sandbox/{server}/mcp"), "{words}");
    }
    // As clients are configured, by where it is.
    let page = Ask::new("GET", "/servers/trick").cookie(&cookie);
    let page = page.send(&appliance).body;
    let place = format!("http://{}/sandbox/trick/mcp", appliance.address);
    assert!(page.contains(&place), "{page}");
    let elsewhere = ask("trick")
        .token(&admin)
        .header("Origin", "https://evil.example");
    assert_eq!(elsewhere.send(&appliance).status, 403);
    assert_eq!(ask("nobody").token(&admin).send(&appliance).status, 404);
    appliance.register("other", &[], &["/bin/true"]);
    let words = [
        "token", "add", "narrow", "--role", "editor", "--server", "other",
    ];
    let narrow = appliance.gig(&words, "").output.trim().to_owned();
    assert_eq!(ask("trick").token(&narrow).send(&appliance).status, 404);
    let lost = Ask::new("GET", "/sandbox/trick")
        .token(&admin)
        .send(&appliance);
    assert_eq!(lost.status, 404, "{lost:?}");
    assert!(lost.head.contains("application/problem+json"), "{lost:?}");
    for name in [
        "..%2f..%2fetc",
        "a%00b",
        "a%0d%0ax-planted:%20yes",
        "%e2%80%ae%ff",
        &"a".repeat(200),
    ] {
        let path = format!("/sandbox/{name}/mcp");
        for method in ["GET", "POST", "DELETE"] {
            let ask = Ask::new(method, &path).token(&admin);
            let refused = ask.body(INITIALIZE).send(&appliance);
            assert!((400..500).contains(&refused.status), "{refused:?}");
            assert!(!refused.head.contains("x-planted"), "{refused:?}");
        }
    }
    let started = appliance.gig(&["ps", "--all", "--json"], "");
    assert_eq!(started.output.matches("\"id\"").count(), 0, "{started:?}");
    assert!(appliance.records(&admin, "event=sandbox.start").is_empty());

    // Of two who may, each has their own.
    let (id, editor) = (appliance.opened("trick", &admin), appliance.token("editor"));
    let end = |token: &str| {
        let ask = Ask::new("DELETE", "/sandbox/trick/mcp").token(token);
        ask.header("Mcp-Session-Id", &id).send(&appliance).status
    };
    assert_eq!((end(&editor), end(&admin), end(&admin)), (404, 204, 404));
}

#[test]
fn the_owners_socket_opens_a_session_and_a_stop_ends_its_streams() {
    let appliance = Appliance::start();
    appliance.trickster(&[]);
    let socket = appliance.path("control.sock");
    let curl = |options: &[&str]| {
        let mut command = Command::new("curl");
        command
            .args(["-sS", "-i", "-N", "--max-time", "60", "--unix-socket"])
            .arg(&socket)
            .args(["-H", "Accept: application/json, text/event-stream"])
            .args(options)
            .arg("http://localhost/sandbox/trick/mcp")
            .stdout(Stdio::piped());
        command
    };
    let json = ["-H", "Content-Type: application/json", "-d", INITIALIZE];
    let opened = curl(&json).output().expect("run curl");
    let said = String::from_utf8_lossy(&opened.stdout).into_owned();
    let id = said
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "));
    let named = format!("Mcp-Session-Id: {}", id.unwrap_or_else(|| panic!("{said}")));
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}"#;
    let head = [
        "-H",
        "Content-Type: application/json",
        "-H",
        &named,
        "-d",
        ask,
    ];
    let waits = curl(&head).spawn().expect("run curl");
    let listens = curl(&["-H", &named]).spawn().expect("run curl");
    // It hears both before it goes down.
    thread::sleep(std::time::Duration::from_millis(500));
    let pid = i32::try_from(appliance.child.id()).expect("a pid");
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::TERM).expect("signal it");
    let [waited, listened] = [waits, listens].map(|one| {
        let output = one.wait_with_output().expect("its end");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    assert!(waited.contains("gig: gig goes down"), "{waited}");
    assert!(listened.starts_with("HTTP/1.1 200 "), "{listened}");
}

#[test]
fn a_session_is_on_the_node_that_opened_it() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    one.trickster(&[]);
    let id = one.opened("trick", &token);
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#;
    let at = |node: &Appliance| {
        let ask = posted("trick", ask).token(&token);
        ask.header("Mcp-Session-Id", &id).send(node).status
    };
    assert_eq!((at(&one), at(&two)), (200, 404));
}
