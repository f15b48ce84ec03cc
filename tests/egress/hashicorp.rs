//! A key store that speaks the API of HashiCorp Vault and OpenBao, over TLS, and gig reading from it.
//!
//! No real server is among the packages that tests may install. In its place stands one that follows the
//! published API, and the API's own client (hvac) has to take every answer of it.

use std::{
    fs,
    net::IpAddr,
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{
    Lab, Subject, fixture,
    http_origin::{HttpOrigin, greet},
    network::{Side, text},
    place,
    service::Service,
};

const HOST: &str = "api.example.com";
const STORE: &str = "kv.example.com";

/// The lab, the key store, an origin.
struct World {
    lab: Lab,
    origin: HttpOrigin,
    address: IpAddr,
    _server: Service,
    /// Commands of the operator go one at a time.
    operating: Mutex<()>,
}

impl World {
    fn new() -> Self {
        let lab = Lab::new();
        let origin = lab.https(HOST, greet);
        let address = lab.address_for(STORE);
        let leaf = lab.leaf(STORE);
        let certificate = lab.file("kv-cert.pem", &leaf.certificate);
        let key = lab.file("kv-key.pem", &leaf.key);
        let mut server = lab.network.command(Side::Internet, "/usr/bin/python3");
        server
            .arg(fixture::path("kv_server.py"))
            .args([address.to_string().as_str(), "8200"])
            .args([certificate, key]);
        let mut server = Service::start(server, lab.fresh_path("kv.log"));
        server.wait_for(&lab.network, (address, 8200).into());
        let world = Self {
            lab,
            origin,
            address,
            _server: server,
            operating: Mutex::new(()),
        };
        world.put("first-value-of-the-store");
        world
    }

    /// Asks the key store as its operator.
    fn operate(&self, method: &str, path: &str, body: &str) -> String {
        let operating = self.operating.lock().expect("one at a time");
        let mut curl = self.lab.network.command(Side::Host, "curl");
        curl.args(["-sS", "--fail", "-m", "90", "-X", method, "--cacert"])
            .arg(self.lab.root_file())
            .arg("--resolve")
            .arg(format!("{STORE}:8200:{}", self.address))
            .args([
                "-H",
                "X-Vault-Token: hvs.root",
                "-H",
                "X-Vault-Namespace: team",
            ])
            .args(["--data", body, &format!("https://{STORE}:8200{path}")]);
        let output = curl.output().expect("curl");
        assert!(output.status.success(), "{path}: {output:?}");
        drop(operating);
        String::from_utf8(output.stdout).expect("text")
    }

    fn put(&self, value: &str) {
        let body = format!("{{\"data\": {{\"password\": \"{value}\"}}}}");
        self.operate("POST", "/v1/kv/data/team/app", &body);
    }

    fn control(&self, word: &str) -> String {
        self.operate("POST", &format!("/control/{word}"), "")
    }

    /// Puts `TOKEN` into the vault, with a provider that reads from the key store.
    fn define(&self, auth: &str, more: &str) {
        let definition = format!(
            "provider:\n  hashicorp:\n    address: https://{STORE}:8200\n    mount: kv\n    path: team/app\n    \
             field: password\n    ca_file: {roots}\n    ttl: 1\n    auth: {auth}\n{more}",
            roots = text(self.lab.root_file()),
        );
        let file = self.lab.file("definition.yaml", &definition);
        let mut command = Command::new(place::gig());
        command
            .args(["secret", "set", "TOKEN", "--definition"])
            .arg(file);
        command.env_clear().env("GIG_DATA_DIR", self.data());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let user = self.lab.user();
        if !user.is_root() && rustix::process::geteuid().is_root() {
            std::os::unix::process::CommandExt::uid(&mut command, user.uid);
            std::os::unix::process::CommandExt::gid(&mut command, user.gid);
        }
        assert!(
            command.status().expect("gig secret set").success(),
            "{definition}"
        );
    }

    fn data(&self) -> String {
        text(&self.lab.home().join("vault"))
    }

    fn subject(&self) -> Subject<'_> {
        let subject = self
            .lab
            .gig()
            .allow(HOST)
            .host_env("GIG_DATA_DIR", &self.data());
        subject.option(["--secret", "TOKEN@api.example.com"])
    }

    fn sent(&self) -> Vec<String> {
        let requests = self.origin.requests();
        let token = |request: &gig_tests::lab::http_origin::Request| {
            request.field("x-token").unwrap_or_default().to_owned()
        };
        requests.iter().map(token).collect()
    }

    fn secret_file(&self, name: &str, content: &str) -> String {
        text(&self.lab.file(name, content))
    }
}

const NAMESPACE: &str = "    namespace: team\n";
const ASK: &str = "curl -sS -m 90 -o /dev/null -w '%{http_code}\\n' -H \"X-Token: $TOKEN\" https://api.example.com/";

#[test]
fn the_key_store_of_the_tests_is_one_for_its_real_client() {
    let world = World::new();
    let python = text(&place::client("venv").join("bin/python"));
    let mut client = world.lab.network.command(Side::Host, &python);
    client
        .arg(fixture::path("kv_client.py"))
        .arg(format!("https://{STORE}:8200"))
        .arg(world.lab.root_file())
        .env("PYTHONPATH", place::client("hvac"));
    let output = client.output().expect("the client");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("agreed"), "{output:?}");
}

#[test]
fn a_value_of_a_key_store_is_read_by_approle_token_and_kubernetes() {
    let world = World::new();
    let secret_id = world.secret_file("secret-id", "sid-1\n");
    let approle = format!("{{approle: {{role_id: role-1, secret_id: {{file: {secret_id}}}}}}}");
    let token = "{token: {env: KV_TOKEN}}".to_owned();
    // {"alg":"RS256"} and {"sub":"system:serviceaccount:apps:gig"}
    let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YXBwczpnaWcifQ.c2ln";
    let jwt = world.secret_file("jwt", jwt);
    let kubernetes = format!("{{kubernetes: {{role: gig, token_file: {jwt}}}}}");
    for (number, auth) in [approle, token, kubernetes].iter().enumerate() {
        world.define(auth, NAMESPACE);
        let run = world.subject().host_env("KV_TOKEN", "hvs.root");
        let run = run.sh(&format!("{ASK}; env")).success();
        let run = run.says("200").says("TOKEN=gigph-");
        assert!(!run.text().contains("first-value"), "{run}");
        assert_eq!(world.sent().len(), number + 1, "{auth}: {run}");
        assert_eq!(
            world.sent()[number],
            "first-value-of-the-store",
            "{auth}: {run}"
        );
    }
}

#[test]
fn a_key_store_that_refuses_refuses_the_start_in_known_words() {
    let world = World::new();
    for (auth, more, said) in [
        ("{token: {env: KV_TOKEN}}", NAMESPACE, "permission denied"),
        (
            "{approle: {role_id: role-1, secret_id: {env: KV_TOKEN}}}",
            NAMESPACE,
            "invalid role or secret ID",
        ),
        (
            "{approle: {role_id: role-1, secret_id: {env: GOOD}}}",
            "    namespace: other\n",
            "permission denied",
        ),
        (
            "{kubernetes: {role: other, token_file: /etc/hostname}}",
            NAMESPACE,
            "invalid role name",
        ),
    ] {
        world.define(auth, more);
        let run = world
            .subject()
            .host_env("KV_TOKEN", "wrong")
            .host_env("GOOD", "sid-1");
        let run = run.sh(ASK).exits(125).complains(said);
        assert!(!run.error_text().contains("sid-1"), "{run}");
    }
    world.control("seal");
    world.define(
        "{approle: {role_id: role-1, secret_id: {env: GOOD}}}",
        NAMESPACE,
    );
    let run = world.subject().host_env("GOOD", "sid-1").sh(ASK);
    let _run = run.exits(125).complains("Vault is sealed");
    assert!(world.sent().is_empty());
}

/// Waits for what has to come.
fn until(what: &str, come: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !come() {
        assert!(Instant::now() < deadline, "{what} does not come");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Asks on one connection until something else comes of it.
const UNTIL: &str = "import http.client, os, sys, time\n\
    c = http.client.HTTPSConnection('api.example.com', timeout=90)\n\
    def ask():\n \
     c.request('GET', '/', headers={'X-Token': os.environ['TOKEN']})\n \
     r = c.getresponse(); r.read(); return r.status\n\
    shared = sys.argv[1]\n\
    assert ask() == 200\n\
    open(shared + '/asked', 'w').close()\n\
    while not os.path.exists(shared + '/changed'): time.sleep(0.05)\n\
    while not os.path.exists(shared + '/enough'): print(ask(), flush=True); time.sleep(0.05)\n";

#[test]
fn a_new_version_of_a_key_store_is_used_and_a_lost_token_is_had_again() {
    let world = World::new();
    world.define(
        "{approle: {role_id: role-1, secret_id: {env: SID}}}",
        NAMESPACE,
    );
    let folder = world.lab.folder("shared");
    let shared = text(&folder);
    let run = world
        .subject()
        .host_env("SID", "sid-1")
        .option(["--rw", &shared]);
    let run = run.start(["/usr/bin/python3", "-c", UNTIL, &shared]);
    until("the first request", || folder.join("asked").exists());
    world.control("expire");
    world.put("second-value-of-the-store");
    fs::write(folder.join("changed"), "").expect("tell the program");
    until("the second value", || {
        world.sent().iter().any(|sent| sent.starts_with("second"))
    });
    fs::write(folder.join("enough"), "").expect("tell the program");
    let run = run.finish(Duration::from_secs(60)).success();
    assert!(!run.text().contains("value-of-the-store"), "{run}");
    let sent = world.sent();
    let old = sent
        .iter()
        .take_while(|sent| sent.starts_with("first"))
        .count();
    assert!(
        sent.iter().skip(old).all(|sent| sent.starts_with("second")),
        "{sent:?}"
    );
    // One login for all requests, and one more because the token was lost.
    let state: serde_json::Value = serde_json::from_str(&world.control("unseal")).expect("JSON");
    assert_eq!(state["logins"], 2, "{state}");
}

#[test]
fn a_sealed_key_store_is_borne_for_a_while_and_no_longer() {
    let world = World::new();
    world.define("{token: {env: KV_TOKEN}}", NAMESPACE);
    let folder = world.lab.folder("shared");
    let shared = text(&folder);
    let run = world
        .subject()
        .host_env("KV_TOKEN", "hvs.root")
        .option(["--rw", &shared]);
    let run = run.start(["/usr/bin/python3", "-c", UNTIL, &shared]);
    until("the first request", || folder.join("asked").exists());
    world.control("seal");
    fs::write(folder.join("changed"), "").expect("tell the program");
    // Five times the time that the definition gives it, and then it is refused.
    until("a refusal", || run.output_so_far().contains("502"));
    world.control("unseal");
    let refused = run.output_so_far().lines().count();
    let late = || {
        run.output_so_far()
            .lines()
            .skip(refused)
            .any(|line| line == "200")
    };
    until("an answer", late);
    fs::write(folder.join("enough"), "").expect("tell the program");
    let run = run.finish(Duration::from_secs(60)).success();
    assert!(!run.text().contains("value-of-the-store"), "{run}");
    assert!(
        world
            .sent()
            .iter()
            .all(|sent| sent == "first-value-of-the-store"),
        "{run}"
    );
}

#[test]
fn a_version_that_its_key_store_deleted_is_used_no_more_on_an_open_connection() {
    let world = World::new();
    world.define("{token: {env: KV_TOKEN}}", NAMESPACE);
    let folder = world.lab.folder("shared");
    let shared = text(&folder);
    let run = world.subject().host_env("KV_TOKEN", "hvs.root");
    let run = run.option(["--rw", &shared]);
    let run = run.start(["/usr/bin/python3", "-c", UNTIL, &shared]);
    until("the first request", || folder.join("asked").exists());
    let gone = Instant::now();
    world.operate("DELETE", "/v1/kv/data/team/app", "");
    fs::write(folder.join("changed"), "").expect("tell the program");
    until("a refusal", || run.output_so_far().contains("502"));
    // With its time (a second), and not borne for five times as long as a store that says nothing.
    assert!(
        gone.elapsed() < Duration::from_secs(4),
        "{:?}",
        gone.elapsed()
    );
    let sent = world.sent().len();
    thread::sleep(Duration::from_secs(2));
    assert_eq!(world.sent().len(), sent, "what was deleted went out again");
    world.put("second-value-of-the-store");
    until("an answer", || {
        run.output_so_far().trim_end().ends_with("200")
    });
    fs::write(folder.join("enough"), "").expect("tell the program");
    let run = run.finish(Duration::from_secs(60)).success();
    assert!(!run.text().contains("value-of-the-store"), "{run}");
    assert!(
        world
            .sent()
            .iter()
            .skip(sent)
            .all(|sent| sent.starts_with("second")),
        "{run}"
    );
}
