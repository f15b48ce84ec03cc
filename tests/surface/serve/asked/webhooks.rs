//! Webhooks: a receiver of its own is told what waits, checks who signed it, and answers as Slack and as a
//! program do.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    super::{Appliance, Ask, Reply},
    Origin, curl, holding,
};

/// Takes messages, and keeps them.
pub(super) struct Receiver {
    port: u16,
    taken: Arc<Mutex<Vec<Taken>>>,
}

#[derive(Debug, Clone)]
pub(super) struct Taken {
    path: String,
    fields: Vec<(String, String)>,
    pub(super) body: String,
}

impl Receiver {
    /// Answers with these, and then with the last.
    pub(super) fn start(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("its address").port();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&taken);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let Some(message) = read(&mut BufReader::new(&stream)) else {
                    continue;
                };
                let mut taken = theirs.lock().expect("what was taken");
                let status = statuses.get(taken.len()).or_else(|| statuses.last());
                taken.push(message);
                let status = status.expect("a status");
                let answer = format!(
                    "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
                let _gone = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, taken }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(super) fn taken(&self) -> Vec<Taken> {
        self.taken.lock().expect("what was taken").clone()
    }
}

fn read(from: &mut impl std::io::BufRead) -> Option<Taken> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let lines = from.by_ref().lines().map_while(Result::ok);
    let fields = lines.take_while(|line| !line.is_empty()).map(|line| {
        let (name, value) = line.split_once(": ").expect("a field");
        (name.to_ascii_lowercase(), value.to_owned())
    });
    let fields: Vec<(String, String)> = fields.collect();
    let length = fields.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok())?;
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    Some(Taken { path, fields, body })
}

impl Taken {
    pub(super) fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(known, _)| known == name);
        &found.expect(name).1
    }

    /// As Standard Webhooks says to check it; the document.
    pub(super) fn checked(&self, secret: &[u8]) -> Value {
        let (id, at) = (self.field("webhook-id"), self.field("webhook-timestamp"));
        let sent: u64 = at.parse().expect("a time");
        assert!(now().abs_diff(sent) < 60, "{self:?}");
        let tag = tag(secret, &format!("{id}.{at}.{}", self.body));
        let expected = format!("v1,{}", BASE64_STANDARD.encode(tag));
        assert_eq!(self.field("webhook-signature"), expected);
        serde_json::from_str(&self.body).expect("JSON")
    }
}

fn tag(secret: &[u8], message: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

impl Appliance {
    /// What a webhook's messages are signed with.
    pub(super) fn sign_with(&self, webhook: &str, secret: &[u8]) {
        let secret = format!("whsec_{}\n", BASE64_STANDARD.encode(secret));
        self.keep(webhook, "secret", &secret);
    }

    fn keep(&self, webhook: &str, file: &str, text: &str) {
        let folder = self.path("webhooks").join(webhook);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(file);
        std::fs::write(&path, text).expect("written");
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, own).expect("nobody else's");
    }

    pub(super) fn webhook(&self, token: &str, name: &str, body: &Value) -> u16 {
        let path = format!("/api/v1/webhooks/{name}");
        let put = Ask::new("PUT", &path).token(token).json(body);
        put.send(self).status
    }

    fn try_out(&self, token: &str, name: &str) -> Reply {
        let path = format!("/api/v1/webhooks/{name}/test");
        Ask::new("POST", &path).token(token).send(self)
    }

    /// An answer of a program's own.
    pub(super) fn say(&self, (id, secret): (&str, &[u8]), body: &Value) -> Reply {
        let (at, body) = (now(), body.to_string());
        let tag = tag(secret, &format!("{id}.{at}.{body}"));
        let ask = Ask::new("POST", "/api/v1/webhooks/ops/answer").body(&body);
        let ask = ask.header("Content-Type", "application/json");
        let ask = ask.header("webhook-id", id);
        let ask = ask.header("webhook-timestamp", &at.to_string());
        let signature = format!("v1,{}", BASE64_STANDARD.encode(tag));
        ask.header("webhook-signature", &signature).send(self)
    }

    /// A button, as Slack says that it was pressed.
    fn press(&self, button: &Value, user: &str, back: &str) -> Reply {
        let payload = json!({
            "type": "block_actions",
            "user": {"id": user, "username": "somebody"},
            "response_url": back,
            "actions": [button],
        });
        let payload = payload.to_string();
        let octets = payload.bytes().map(|octet| format!("%{octet:02X}"));
        let body = format!("payload={}", octets.collect::<String>());
        let at = now();
        let tag = tag(SLACK.as_bytes(), &format!("v0:{at}:{body}"));
        let hex: String = tag.iter().map(|octet| format!("{octet:02x}")).collect();
        let ask = Ask::new("POST", "/api/v1/webhooks/chat/answer").body(&body);
        let ask = ask.header("Content-Type", "application/x-www-form-urlencoded");
        let ask = ask.header("X-Slack-Request-Timestamp", &at.to_string());
        let ask = ask.header("X-Slack-Signature", &format!("v0={hex}"));
        ask.send(self)
    }
}

pub(super) const OPEN: [&str; 2] = ["--outbound-private", "127.0.0.0/8"];
pub(super) const SECRET: [u8; 32] = [7; 32];
const SLACK: &str = "8f742231b10e8888abcd99yyyzzz85a5";

#[test]
fn a_program_is_told_what_waits_checks_who_says_so_and_answers() {
    let appliance = Appliance::start_in(tempfile::tempdir().expect("a folder"), &OPEN);
    let token = appliance.token("admin");
    let (origin, receiver) = (Origin::start(), Receiver::start(&[200, 503, 200]));
    let wanted =
        json!({"kind": "generic", "url": receiver.url("/T0/hidden"), "answerers": ["ana"]});
    for role in ["editor", "approver"] {
        let other = appliance.token(role);
        assert_eq!(appliance.webhook(&other, "ops", &wanted), 403, "{role}");
    }
    assert_eq!(appliance.webhook(&token, "ops", &wanted), 201);
    let list = Ask::new("GET", "/api/v1/webhooks").token(&token);
    let shown = list.send(&appliance);
    assert!(!shown.body.contains("hidden"), "{shown:?}");
    assert!(
        shown.body.contains("ops/secret"),
        "it says what lacks: {shown:?}"
    );
    let unsigned = appliance.try_out(&token, "ops");
    assert_eq!(unsigned.status, 422, "{unsigned:?}");
    assert!(receiver.taken().is_empty(), "nothing goes out unsigned");
    appliance.sign_with("ops", &SECRET);
    assert_eq!(appliance.try_out(&token, "ops").status, 204);
    assert_eq!(receiver.taken()[0].checked(&SECRET)["type"], "webhook.test");

    appliance.policy(&token, &holding(origin.port, "5m"));
    let script = format!("{}; echo over", curl(origin.port, "/told"));
    appliance.server("asker", &script);
    let sandbox = appliance.run("asker");
    // The first try is answered 503: the same message comes again.
    appliance.until("it is told", |_| receiver.taken().len() == 3);
    let taken = receiver.taken();
    assert_eq!(taken[2].path, "/T0/hidden");
    let told = taken[2].checked(&SECRET);
    assert_eq!(taken[1].checked(&SECRET)["data"], told["data"]);
    assert_eq!(taken[1].field("webhook-id"), taken[2].field("webhook-id"));
    assert_eq!(told["type"], "held.waiting");
    let request = &told["data"]["request"];
    assert_eq!(
        (&request["server"], &request["path"]),
        (&json!("asker"), &json!("/told"))
    );
    let id = request["id"].as_str().expect("an id");
    assert!(origin.seen().is_empty());

    let word = |user: &str| json!({"id": id, "answer": "once", "user": user});
    let other = appliance.say(("m1", &[8; 32]), &word("ana"));
    assert_eq!(other.status, 401, "{other:?}");
    assert_eq!(appliance.say(("m2", &SECRET), &word("ben")).status, 403);
    // What gig itself signed is no answer.
    let own = serde_json::from_str(&taken[2].body).expect("JSON");
    assert_eq!(appliance.say(("m3", &SECRET), &own).status, 400);
    let ever = json!({"id": id, "answer": "ever", "user": "ana"});
    assert_eq!(appliance.say(("m4", &SECRET), &ever).status, 403);
    assert!(origin.seen().is_empty());
    let done = appliance.say(("m5", &SECRET), &word("ana"));
    assert_eq!(
        done.json(),
        json!({"done": "allowed once by ana"}),
        "{done:?}"
    );
    appliance.until_printed(&sandbox, "ok 200\nover");
    assert_eq!(origin.seen(), ["GET /told HTTP/1.1"]);
    let about = format!("sandbox={sandbox}&event=request&verdict=allow");
    let record = &appliance.records(&token, &about)[0];
    assert_eq!(record["rule"], format!("once:{id}"));
    assert_eq!(
        record["findings"],
        json!(["held", "allowed_by:webhook ops (ana)"])
    );
    let acts = appliance.records(&token, "event=admin&text=waiting&verdict=allow");
    assert_eq!(acts[0]["profile"], "webhook ops (ana)");
    a_denial_is_answered(&appliance, &token, (&origin, &receiver));
}

/// What is denied at once is told, too, and answered by its record.
fn a_denial_is_answered(
    appliance: &Appliance,
    token: &str,
    (origin, receiver): (&Origin, &Receiver),
) {
    let plain = holding(origin.port, "5m").replace("hold: 5m\n", "");
    let put = Ask::new("PUT", "/api/v1/policies/web").token(token);
    let put = put.header("If-Match", "*");
    let put = put.json(&json!({"document": plain})).send(appliance);
    assert_eq!(put.status, 200, "{put:?}");
    let denied = appliance.run("asker");
    appliance.until_printed(&denied, "403\nover");
    let is_denial = |one: &Taken| one.body.contains("\"denied.waiting\"");
    appliance.until("the denial is told", |_| {
        receiver.taken().iter().any(is_denial)
    });
    let told = receiver.taken().into_iter().find(is_denial);
    let told = told.expect("it was told").checked(&SECRET);
    let record = &told["data"]["denied"]["record"];
    let hour = json!({"record": record, "answer": "hour", "user": "ana"});
    let done = appliance.say(("m6", &SECRET), &hour);
    assert_eq!(
        done.json(),
        json!({"done": "allowed for an hour by ana"}),
        "{done:?}"
    );
    let passes = appliance.run("asker");
    appliance.until_printed(&passes, "ok 200\nover");
}

#[test]
fn a_button_of_a_message_in_slacks_form_allows_or_denies_and_is_replaced() {
    let appliance = Appliance::start_in(tempfile::tempdir().expect("a folder"), &OPEN);
    let token = appliance.token("admin");
    let (origin, receiver) = (Origin::start(), Receiver::start(&[200]));
    // Its address is a secret, too: it is in no database.
    appliance.keep("chat", "secret", SLACK);
    appliance.keep("chat", "url", &receiver.url("/services/T0/B0/x"));
    let wanted = json!({"kind": "slack", "answerers": ["U1"]});
    assert_eq!(appliance.webhook(&token, "chat", &wanted), 201);
    appliance.policy(&token, &holding(origin.port, "5m"));
    let ask = |path: &str| curl(origin.port, path);
    let script = format!("{}; {}; echo over", ask("/first"), ask("/second"));
    appliance.server("asker", &script);
    let sandbox = appliance.run("asker");
    let buttons = |count: usize| {
        appliance.until("it is told", |_| receiver.taken().len() >= count);
        let taken = receiver.taken();
        let message = taken[count - 1].checked(SLACK.as_bytes());
        assert_eq!(message["mrkdwn"], false);
        let blocks = message["blocks"].as_array().expect("blocks").clone();
        let actions = blocks.into_iter().find(|one| one["type"] == "actions");
        let actions = actions.expect("buttons");
        actions["elements"].as_array().expect("buttons").clone()
    };
    let first = buttons(1);
    let words: Vec<_> = first.iter().map(|one| one["action_id"].clone()).collect();
    assert_eq!(words, ["gig_once", "gig_hour", "gig_deny"]);
    let back = receiver.url("/actions/1");
    assert_eq!(appliance.press(&first[0], "U2", &back).status, 403);
    appliance.until("they are told", |_| receiver.taken().len() == 2);
    assert!(origin.seen().is_empty());
    let once = appliance.press(&first[0], "U1", &back);
    assert_eq!(once.status, 200, "{once:?}");
    appliance.until("the next waits", |_| {
        origin.seen() == ["GET /first HTTP/1.1"]
    });
    appliance.until("all is told", |_| receiver.taken().len() == 4);
    let taken = receiver.taken();
    let replaced = taken[1..]
        .iter()
        .find(|one| one.body.contains("allowed once by U1"));
    let replaced = replaced.expect("what stands in its place");
    assert_eq!(replaced.path, "/actions/1");
    assert!(
        replaced.body.contains(r#""replace_original":true"#),
        "{replaced:?}"
    );
    // Which of both came first is open.
    let second = match taken[3].path.as_str() {
        "/actions/1" => buttons(3),
        _ => buttons(4),
    };
    // It leads back to Slack, and nowhere else.
    let elsewhere = Receiver::start(&[200]);
    let deny = appliance.press(&second[2], "U1", &elsewhere.url("/"));
    assert_eq!(deny.status, 200, "{deny:?}");
    appliance.until_printed(&sandbox, " 403\nover");
    assert_eq!(origin.seen().len(), 1);
    assert!(elsewhere.taken().is_empty());
    let about = format!("sandbox={sandbox}&event=request&verdict=deny");
    let record = &appliance.records(&token, &about)[0];
    assert_eq!(
        record["findings"],
        json!(["held", "denied_by:webhook chat (U1)"])
    );
}

#[test]
fn a_webhook_that_leads_inside_is_not_asked_and_holds_up_nobody() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let (origin, receiver) = (Origin::start(), Receiver::start(&[200]));
    let inside = [
        ("own", format!("http://{}/api/v1/me", appliance.address)),
        ("loop", receiver.url("/")),
        ("meta", "http://169.254.169.254/latest/".to_owned()),
    ];
    for (name, url) in &inside {
        let secret = format!("whsec_{}", BASE64_STANDARD.encode(SECRET));
        appliance.keep(name, "secret", &secret);
        let wanted = json!({"kind": "generic", "url": url});
        assert_eq!(appliance.webhook(&token, name, &wanted), 400, "{name}");
        // What a file of this node says is looked at when it is asked.
        appliance.keep(name, "url", url);
        let wanted = json!({"kind": "generic"});
        assert_eq!(appliance.webhook(&token, name, &wanted), 201);
        let tried = appliance.try_out(&token, name);
        assert_eq!(tried.status, 422, "{name}: {tried:?}");
    }
    for wrong in [
        "file:///etc/passwd",
        "https://a:b@hooks.example/",
        "gopher://x/",
    ] {
        let wanted = json!({"kind": "generic", "url": wrong});
        assert_eq!(appliance.webhook(&token, "wrong", &wanted), 400, "{wrong}");
    }
    assert_eq!(
        appliance.webhook(&token, "..%2Fx", &json!({"kind": "slack"})),
        422
    );
    appliance.policy(&token, &holding(origin.port, "5m"));
    appliance.server("asker", &format!("{}; echo over", curl(origin.port, "/x")));
    let sandbox = appliance.run("asker");
    let id = appliance.waits(&token, "/x");
    let failed = |one: &Appliance| one.records(&token, "event=admin&text=told");
    appliance.until("it is recorded", |one| failed(one).len() == inside.len());
    for record in failed(&appliance) {
        assert_eq!(record["request"], id.as_str());
    }
    assert!(receiver.taken().is_empty());
    assert_eq!(appliance.allow(&token, &id, &json!({})).status, 204);
    appliance.until_printed(&sandbox, "ok 200\nover");
}
