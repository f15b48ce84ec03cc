//! Secrets of the appliance's sandboxes: sentinels inside, values at the border, nothing for anybody else.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use gig_tests::lab::postgres::Postgres;
use serde_json::json;

use super::{Answer, Appliance, Ask, answer, command, nodes::node};

const VALUE: &str = "value-of-the-appliance-7Qm2";
const PASSPHRASE: &str = "correct horse battery staple";

/// Answers everything, and remembers the heads of what it was asked.
struct Neighbour {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Neighbour {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("its address").port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                seen.lock().expect("the heads").push(head.join("\n"));
                let _gone = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("the heads").clone()
    }

    /// A policy that opens it to requests with TOKEN.
    fn policy(&self) -> String {
        format!(
            "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{}], protocol: http, \
             allow_private: [127.0.0.1/32], secrets: [TOKEN]}}\n",
            self.port
        )
    }

    /// Asks it with this token, and says how it was answered.
    fn ask(&self, token: &str) -> String {
        format!(
            "NO_PROXY= no_proxy= curl -s -m 60 -o /dev/null -w 'answer=%{{http_code}}\\n' \
             -x \"$HTTPS_PROXY\" -H \"X-Token: {token}\" http://127.0.0.1:{}/",
            self.port
        )
    }
}

impl Appliance {
    fn with_policy(&self, document: &str) {
        let token = self.token("admin");
        let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
        let body = json!({"document": document});
        let reply = put.header("If-None-Match", "*").json(&body).send(self);
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    fn server_with_token(&self, name: &str, script: &str) {
        let words = [
            "server", "add", name, "--policy", "web", "--secret", "TOKEN", "--", "/bin/sh", "-c",
            script,
        ];
        let added = self.gig(&words, "");
        assert_eq!(added.status, 0, "{added:?}");
    }

    fn starts(&self, name: &str) -> Answer {
        self.gig(&["server", "start", name], "")
    }

    /// Runs a server that is given no secret; its sandbox.
    fn runs_without_secrets(&self, script: &str) -> String {
        let words = [
            "server", "add", "plain", "--policy", "web", "--", "/bin/sh", "-c", script,
        ];
        let added = self.gig(&words, "");
        assert_eq!(added.status, 0, "{added:?}");
        let started = self.starts("plain");
        assert_eq!(started.status, 0, "{started:?}");
        started.output.trim().to_owned()
    }

    /// What a sandbox said behind `word`, once it did.
    fn says(&self, sandbox: &str, word: &str) -> String {
        let said = || {
            let log = self.gig(&["logs", sandbox], "").output;
            let line = log.lines().find_map(|line| line.strip_prefix(word));
            line.map(str::to_owned)
        };
        self.until(word, |_| said().is_some());
        said().expect("what it said")
    }
}

#[test]
fn a_servers_sentinel_becomes_the_value_at_the_border_and_is_nothing_in_another_sandbox() {
    let neighbour = Neighbour::start();
    let appliance = Appliance::start();
    let set = appliance.gig(&["secret", "set", "TOKEN"], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    appliance.with_policy(&neighbour.policy());
    // It stays, so that its sentinel is one that lives.
    let own = neighbour.ask("$TOKEN");
    let script = format!("{own}; echo token=$TOKEN; echo first=$GIG_PLACEHOLDER; exec sleep 1000");
    appliance.server_with_token("owner", &script);
    let started = appliance.starts("owner");
    assert_eq!(started.status, 0, "{started:?}");
    let owner = started.output.trim().to_owned();
    assert_eq!(appliance.says(&owner, "answer="), "200");
    let sentinel = appliance.says(&owner, "token=");
    assert!(sentinel.starts_with("gigph-"), "{sentinel}");
    assert_eq!(appliance.says(&owner, "first="), sentinel);
    let heads = neighbour.heads();
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert!(
        heads[0].contains(VALUE) && !heads[0].contains(&sentinel),
        "{heads:?}"
    );

    appliance.server_with_token("thief", &neighbour.ask(&sentinel));
    let started = appliance.starts("thief");
    assert_eq!(started.status, 0, "{started:?}");
    let thief = started.output.trim().to_owned();
    assert_eq!(appliance.says(&thief, "answer="), "403");
    assert_eq!(neighbour.heads().len(), 1, "it never left");
    let token = appliance.token("auditor");
    let alarms = appliance.records(&token, &format!("event=secret.misuse&sandbox={thief}"));
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!(alarms[0]["secrets"], json!(["TOKEN"]));
}

#[test]
fn a_server_without_secrets_sends_no_value_of_the_vault() {
    let neighbour = Neighbour::start();
    let appliance = Appliance::start();
    let set = appliance.gig(&["secret", "set", "TOKEN"], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    appliance.with_policy(&neighbour.policy().replace(", secrets: [TOKEN]", ""));
    // Put together by its program: with it in its command it does not start.
    let (first, rest) = VALUE.split_at(5);
    let value = format!("{first}\"\"{rest}");
    let second = neighbour.ask(&value).replace("answer=", "second=");
    let script = format!("{}; {second}", neighbour.ask("harmless"));
    let plain = appliance.runs_without_secrets(&script);
    assert_eq!(appliance.says(&plain, "answer="), "200");
    assert_eq!(appliance.says(&plain, "second="), "403");
    let heads = neighbour.heads();
    assert!(
        heads.len() == 1 && heads[0].contains("harmless"),
        "{heads:?}"
    );
    let token = appliance.token("auditor");
    let alarms = appliance.records(&token, &format!("event=secret.misuse&sandbox={plain}"));
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!(alarms[0]["secrets"], json!(["TOKEN"]));
    let all = appliance.records(&token, &format!("sandbox={plain}"));
    assert!(!json!(all).to_string().contains(VALUE), "{all:?}");
}

#[test]
fn a_server_that_runs_when_the_first_secret_is_set_sends_no_value_of_it() {
    let neighbour = Neighbour::start();
    let appliance = Appliance::start();
    appliance.with_policy(&neighbour.policy().replace(", secrets: [TOKEN]", ""));
    let ask = neighbour.ask(VALUE).replace("answer=", "");
    let script = format!(
        "{}; for n in $(seq 100); do [ \"$({ask})\" = 403 ] && echo second=403 && exec sleep 1000; \
         sleep 0.2; done",
        neighbour.ask("harmless")
    );
    let plain = appliance.runs_without_secrets(&script);
    assert_eq!(appliance.says(&plain, "answer="), "200");
    let set = appliance.gig(&["secret", "set", "TOKEN"], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    assert_eq!(appliance.says(&plain, "second="), "403");
    let token = appliance.token("auditor");
    let alarms = appliance.records(&token, &format!("event=secret.misuse&sandbox={plain}"));
    assert_eq!(alarms.len(), 1, "{alarms:?}");
}

#[test]
fn changes_by_command_are_in_the_appliances_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let appliance = Appliance::start_in(folder, &["--audit-durability", "strict"]);
    for (word, input) in [
        ("set", VALUE),
        ("rotate", "value-of-tomorrow-9Kd3"),
        ("rm", ""),
    ] {
        let done = appliance.gig(&["secret", word, "TOKEN"], input);
        assert_eq!(done.status, 0, "{done:?}");
    }
    let token = appliance.token("auditor");
    let told = appliance.records(&token, "event=secret.change");
    assert_eq!(told.len(), 3, "{told:?}");
    for one in &told {
        assert_eq!(one["secrets"], json!(["TOKEN"]), "{one}");
    }
    assert!(!json!(told).to_string().contains(VALUE), "{told:?}");
    assert!(!appliance.path("audit.jsonl").exists());
}

#[test]
fn a_secret_that_warns_does_so_in_the_api_and_the_console() {
    let appliance = Appliance::start();
    let set = appliance.gig(&["secret", "set", "TOKEN", "--entrusted"], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    let definition = tempfile::NamedTempFile::new().expect("a file");
    fs::write(definition.path(), "kind: {aws: {hands_out: true}}\n").expect("write");
    let file = definition.path().to_str().expect("UTF-8");
    let key = "AKIAQ3EGUIDTRPW7BZ5L:vN9wXk2+RqLr/7TbYcE4uHsZ0dGmPfJ1aKoI5xQe";
    let set = appliance.gig(&["secret", "set", "AWS", "--definition", file], key);
    assert_eq!(set.status, 0, "{set:?}");
    let cookie = appliance.first_admin();
    let get = |path: &str| {
        let reply = Ask::new("GET", path).cookie(&cookie).send(&appliance);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply
    };
    for (name, warns) in [("TOKEN", "entrusted"), ("AWS", "hands_out")] {
        let one = get(&format!("/api/v1/secrets/{name}")).json();
        for field in ["entrusted", "hands_out"] {
            assert_eq!(one[field], field == warns, "{one}");
        }
    }
    let listed = get("/secrets").body;
    assert!(
        listed.contains(">entrusted<") && listed.contains(">hands out<"),
        "{listed}"
    );
    assert!(get("/secrets/TOKEN").body.contains("Entrusted."));
    assert!(get("/secrets/AWS").body.contains("Hands out."));
}

#[test]
fn a_server_is_handed_no_real_value() {
    let neighbour = Neighbour::start();
    let appliance = Appliance::start();
    let set = |more: &[&str]| {
        let words = [&["secret", "set", "TOKEN"], more].concat();
        let set = appliance.gig(&words, VALUE);
        assert_eq!(set.status, 0, "{set:?}");
    };
    set(&[]);
    appliance.with_policy(&neighbour.policy());
    appliance.server_with_token("trusting", "echo token=$TOKEN");
    let removed = appliance.gig(&["secret", "rm", "TOKEN"], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    set(&["--entrusted"]);
    // A name of which there is no secret is told at once; it may be set later.
    let absent = ["server", "add", "absent", "--secret", "NOPE", "--", "env"];
    let told = appliance.gig(&absent, "");
    let how =
        "there is no secret NOPE, and the server does not start without it: gig secret set NOPE";
    assert!(told.status == 0 && told.errors.contains(how), "{told:?}");
    // Another one is not even registered.
    let words = ["server", "add", "more", "--secret", "TOKEN", "--", "env"];
    let refused = appliance.gig(&words, "");
    assert_ne!(refused.status, 0, "{refused:?}");
    let told = "secret TOKEN is marked entrusted: a program of `gig run` may hold its value, and no server's";
    assert!(refused.errors.contains(told), "{refused:?}");
    let started = appliance.starts("trusting");
    assert_eq!(started.status, 125, "{started:?}");
    assert!(started.errors.contains("entrusted"), "{started:?}");
    assert!(!started.errors.contains(VALUE), "{started:?}");
}

#[test]
fn a_server_with_places_for_a_secret_that_has_none_does_not_start() {
    let appliance = Appliance::start();
    let folder = tempfile::tempdir().expect("a folder");
    let definition = folder.path().join("hmac.yaml");
    let text = "kind: {hmac: {message: '{path}', header: x-sig}}";
    fs::write(&definition, text).expect("write");
    let file = definition.to_str().expect("UTF-8");
    let set = appliance.gig(&["secret", "set", "TOKEN", "--definition", file], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    appliance.with_policy(
        "version: 1\nname: web\negress: [{host: api.example.com, secrets: [{name: TOKEN, in: [body]}]}]\n",
    );
    appliance.server_with_token("narrow", "echo token=$TOKEN");
    let started = appliance.starts("narrow");
    let told = "secret TOKEN is of a kind that has no places, since the signature stands where its definition says";
    assert!(
        started.status == 125 && started.errors.contains(told),
        "{started:?}"
    );
}

#[test]
fn a_server_has_secrets_in_custody_where_the_appliance_was_given_the_passphrase() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = folder.path().join("words");
    fs::write(&words, PASSPHRASE).expect("write");
    let file = words.to_str().expect("UTF-8").to_owned();
    let mut set = command(&folder, None);
    set.args([
        "secret",
        "set",
        "TOKEN",
        "--custody",
        "--passphrase-file",
        &file,
    ]);
    let set = answer(set, VALUE);
    assert_eq!(set.status, 0, "{set:?}");

    let neighbour = Neighbour::start();
    let locked = Appliance::start_in(folder, &[]);
    locked.with_policy(&neighbour.policy());
    locked.server_with_token("owner", &neighbour.ask("$TOKEN"));
    let started = locked.starts("owner");
    assert_eq!(started.status, 125, "{started:?}");
    assert!(started.errors.contains("--passphrase-file"), "{started:?}");

    let unlocked = locked.end_and_start_again(&["--passphrase-file", &file]);
    let started = unlocked.starts("owner");
    assert_eq!(started.status, 0, "{started:?}");
    assert_eq!(unlocked.says(started.output.trim(), "answer="), "200");
    assert!(neighbour.heads().concat().contains(VALUE));
}

#[test]
fn a_fleet_has_one_vault_and_what_one_node_takes_out_of_use_no_other_uses() {
    const NEWER: &str = "newer-value-of-the-fleet-2Wd8";
    let server = Postgres::start();
    let [one, two] = [(); 2].map(|()| node(&server));
    let set = one.gig(&["secret", "set", "TOKEN"], VALUE);
    assert!(
        set.status == 0 && set.errors.contains("Every node of the fleet needs it"),
        "{set:?}"
    );
    // Without the key a node opens nothing and makes none.
    let listed = two.gig(&["secret", "ls"], "");
    assert!(
        listed.status == 125 && listed.errors.contains("bring it back"),
        "{listed:?}"
    );
    let ready = |node: &Appliance| Ask::new("GET", "/readyz").send(node);
    let unready = ready(&two);
    assert_eq!(unready.status, 503, "{unready:?}");
    assert_eq!(unready.json()["parts"]["vault"], false, "{unready:?}");
    fs::copy(one.path("master.key"), two.path("master.key")).expect("bring the key");
    two.until("it opens the vault", |two| ready(two).status == 200);
    let neighbour = Neighbour::start();
    one.with_policy(&neighbour.policy());
    let own = neighbour.ask("$TOKEN");
    one.server_with_token("owner", &format!("while :; do {own}; sleep 0.05; done"));
    let started = two.starts("owner");
    assert_eq!(started.status, 0, "{started:?}");
    let sandbox = started.output.trim().to_owned();
    assert_eq!(two.says(&sandbox, "answer="), "200");
    let sent = |value: &str| {
        let heads = neighbour.heads();
        heads.iter().filter(|head| head.contains(value)).count()
    };
    assert!(sent(VALUE) > 0);
    // What runs there is used anew, and no more, when it is changed here.
    let rotated = one.gig(&["secret", "rotate", "TOKEN"], NEWER);
    assert_eq!(rotated.status, 0, "{rotated:?}");
    two.until("the newer value is used", |_| sent(NEWER) > 0);
    let removed = one.gig(&["secret", "rm", "TOKEN"], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    thread::sleep(Duration::from_secs(1));
    let before = neighbour.heads().len();
    two.until("it is refused", |two| {
        let log = two.gig(&["logs", &sandbox], "").output;
        log.lines()
            .any(|line| line.starts_with("answer=") && line != "answer=200")
    });
    thread::sleep(Duration::from_secs(1));
    assert_eq!(
        neighbour.heads().len(),
        before,
        "a value left after a second"
    );
    let listed = two.gig(&["secret", "ls"], "");
    assert_eq!(listed.status, 0, "{listed:?}");
    for node in [&one, &two] {
        assert!(!node.path("gig.db").exists());
    }
    // Nothing of a value is in the database.
    let dumped = server.ask(
        "postgres",
        "SELECT encode(value, 'escape') FROM gig.secret_versions",
    );
    assert!(
        !dumped.is_empty() && !dumped.contains(VALUE) && !dumped.contains(NEWER),
        "{dumped}"
    );
}

#[test]
fn a_server_whose_command_or_variables_hold_a_value_does_not_start() {
    let appliance = Appliance::start();
    let set = appliance.gig(&["secret", "set", "TOKEN"], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    let (typed, variable) = (format!("echo {VALUE}"), format!("OTHER=x{VALUE}"));
    let plain: &[&str] = &["--", "/bin/sh", "-c", "sleep 100"];
    let command: &[&str] = &["--", "/bin/sh", "-c", &typed];
    let env = [&["--env", &variable], plain].concat();
    for (name, words, starts) in [
        ("plain", plain, true),
        ("typed", command, false),
        ("variable", &env, false),
    ] {
        let add = [&["server", "add", name, "--secret", "TOKEN"], words].concat();
        let added = appliance.gig(&add, "");
        assert_eq!(added.status, 0, "{added:?}");
        let started = appliance.starts(name);
        assert_eq!(started.status == 0, starts, "{started:?}");
        let told = started.errors.contains("hold the value of secret TOKEN");
        assert!(
            told != starts && !started.errors.contains(VALUE),
            "{started:?}"
        );
    }
}

#[test]
fn a_server_whose_files_show_a_value_starts_with_a_warning_in_its_record() {
    let appliance = Appliance::start();
    let set = appliance.gig(&["secret", "set", "TOKEN"], VALUE);
    assert_eq!(set.status, 0, "{set:?}");
    let token = appliance.token("auditor");
    let shown = tempfile::tempdir().expect("a folder");
    fs::write(shown.path().join(".env"), format!("token={VALUE}\n")).expect("a file");
    let shown = shown.path().display().to_string();
    for (name, how) in [("folder", "--folder"), ("read-only", "--ro")] {
        let add = ["server", "add", name, "--secret", "TOKEN", how, &shown];
        let add = [&add[..], &["--", "/bin/sh", "-c", "sleep 100"]].concat();
        let added = appliance.gig(&add, "");
        assert_eq!(added.status, 0, "{added:?}");
        let started = appliance.starts(name);
        assert_eq!(started.status, 0, "{started:?}");
        let query = format!("event=sandbox.start&server={name}");
        let found = format!("{:?}", appliance.records(&token, &query));
        let words = "/.env is shown to the program and holds the value of secret TOKEN";
        assert!(found.contains(words) && !found.contains(VALUE), "{found}");
    }
}
