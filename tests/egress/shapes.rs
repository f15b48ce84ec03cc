//! Sentinels that clients take for the real thing, and secrets that are handed in as they are.

use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
    process::Command,
};

use gig_audit::Event;
use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Way,
    http_origin::{HttpOrigin, greet},
    network::text,
    place,
};

use super::vault::{data, secret};

/// Runs Python's clients with a secret of gig's own environment, and gives what the origin got.
fn python(host: &str, value: &str, script: &str) -> (Finished, HttpOrigin) {
    let lab = Lab::new();
    let origin = lab.https(host, greet);
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let run = lab.gig().allow(host).host_env("TOKEN", value);
    let run = run.option(["--secret", &format!("TOKEN@{host}")]);
    let script = format!("import os\nt = os.environ['TOKEN']\n{script}");
    let run = run
        .read_only(&venv)
        .run([python.as_str(), "-c", script.as_str()]);
    let run = run.success();
    assert!(!run.text().contains(value), "{run}");
    (run, origin)
}

#[test]
fn pyjwt_reads_a_sentinel_as_a_token() {
    // {"alg":"HS256","typ":"JWT"}.{"iss":"https://auth.example.com","sub":"me","aud":"notes",
    // "exp":4102444800,"email":"ana@example.com"}
    let value = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
                 eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZS5jb20iLCJzdWIiOiJtZSIsImF1ZCI6Im5vdGVzIiwi\
                 ZXhwIjo0MTAyNDQ0ODAwLCJlbWFpbCI6ImFuYUBleGFtcGxlLmNvbSJ9.\
                 wBt7Qx2mZ0pLr5nE8vK3sJ6hG9fD1aC4yT2uI7oP0qM";
    let (run, origin) = python(
        "api.example.com",
        value,
        "import jwt, requests\n\
         checked = {'verify_signature': False, 'verify_exp': True, 'verify_aud': True, \
         'verify_iss': True, 'require': ['exp', 'iss', 'sub']}\n\
         claims = jwt.decode(t, options=checked, audience='notes', issuer='https://auth.example.com')\n\
         print(jwt.get_unverified_header(t)['typ'], claims['sub'], 'email' in claims)\n\
         h = {'authorization': 'Bearer ' + t}\n\
         print(requests.get('https://api.example.com/', headers=h).text)",
    );
    let _run = run.says("JWT me False");
    let bearer = format!("Bearer {value}");
    assert_eq!(
        origin.requests()[0].field("authorization"),
        Some(bearer.as_str())
    );
}

#[test]
fn slack_sdk_sends_a_bot_token_that_it_never_had() {
    let value = "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx";
    let (_run, origin) = python(
        "slack.com",
        value,
        "import re\n\
         assert re.fullmatch(r'xoxb-[A-Za-z0-9_-]{51}', t), t\n\
         from slack_sdk import WebClient\n\
         from slack_sdk.errors import SlackClientError\n\
         try: WebClient(token=t).auth_test()\n\
         except (SlackClientError, ValueError): print('asked')",
    );
    let bearer = format!("Bearer {value}");
    assert_eq!(
        origin.requests()[0].field("authorization"),
        Some(bearer.as_str())
    );
}

#[test]
fn keys_with_a_known_beginning_keep_length_and_alphabet() {
    let value = "sk-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl";
    let (_run, origin) = python(
        "api.example.com",
        value,
        "import re, requests\n\
         assert re.fullmatch(r'sk-[A-Za-z0-9]{48}', t), t\n\
         requests.get('https://api.example.com/', auth=(t, ''))",
    );
    let basic = "Basic c2stQWJDZEVmR2hJaktsTW5PcFFyU3RVdld4WXowMTIzNDU2Nzg5QWJDZEVmR2hJaktsOg==";
    assert_eq!(origin.requests()[0].field("authorization"), Some(basic));
}

#[test]
fn octokit_tells_an_installation_token_by_its_sentinel() {
    let value = "ghs_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";
    let lab = Lab::new();
    let origin = lab.https("api.github.com", greet);
    let modules = place::client("node");
    let run = lab
        .gig()
        .allow("api.github.com")
        .host_env("GITHUB_TOKEN", value);
    let run = run.option(["--secret", "GITHUB_TOKEN@api.github.com"]);
    let run = run
        .read_only(&modules)
        .env("NODE_PATH", &text(&modules.join("node_modules")));
    let script = "const {createTokenAuth} = require('@octokit/auth-token');\n\
        (async () => {\n\
         const auth = await createTokenAuth(process.env.GITHUB_TOKEN)();\n\
         console.log('type', auth.tokenType, auth.token.length);\n\
         await fetch('https://api.github.com/', {headers: {authorization: 'token ' + auth.token}});\n\
        })().catch(e => { console.error(e); process.exit(1) })";
    let run = run
        .run(["node", "-e", script])
        .success()
        .says("type installation 40");
    assert!(!run.text().contains(value), "{run}");
    let token = format!("token {value}");
    assert_eq!(
        origin.requests()[0].field("authorization"),
        Some(token.as_str())
    );
}

#[test]
fn a_telegram_bot_takes_a_sentinel_with_its_own_number() {
    let value = "123456789:AAF0dkq3mZ0pLr5nE8vK3sJ6hG9fD1aC4yT";
    let lab = Lab::new();
    let origin = lab.https("api.telegram.org", greet);
    secret(&lab, &["set", "BOT_TOKEN", "--like", "123456789:"], value);
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let run = lab
        .gig()
        .allow("api.telegram.org")
        .host_env("GIG_DATA_DIR", &data(&lab));
    let run = run.option(["--secret", "BOT_TOKEN@api.telegram.org"]);
    let run = run.read_only(&venv).run([
        python.as_str(),
        "-c",
        "import os, telebot\n\
         t = os.environ['BOT_TOKEN']\n\
         assert t.startswith('123456789:') and len(t) == 45, t\n\
         try: telebot.TeleBot(t).get_me()\n\
         except Exception as error: print('asked', type(error).__name__)",
    ]);
    let run = run.success().says("asked");
    assert!(!run.text().contains(value), "{run}");
    let target = origin.requests()[0].target.replace("%3A", ":");
    assert_eq!(target, format!("/bot{value}/getMe"), "{run}");
}

/// From a record in which a program sent what it was handed to a policy by which it may again, and one by which not.
#[test]
fn what_a_program_was_handed_and_sent_is_suggested_and_simulated() {
    let lab = Lab::new();
    let _bound = lab.https("api.example.com", greet);
    let address = lab.address_for("db.example.com");
    let unopened = lab.tcp(SocketAddr::new(address, 5432), |conversation| {
        let _heard = conversation.read(&mut [0; 256])?;
        conversation.write_all(b"taken")
    });
    secret(&lab, &["set", "TOKEN", "--entrusted"], ENTRUSTED);
    let rule = "host: db.example.com, ports: [5432], protocol: tcp";
    let first = format!(
        "version: 1\negress:\n\
         - {{host: api.example.com, secrets: [{{name: TOKEN, entrusted: true}}]}}\n\
         - {{{rule}, secrets: [{{name: TOKEN, entrusted: true}}]}}\n"
    );
    let record = lab.fresh_path("entrusted.jsonl");
    let script = "curl -sS --fail -H \"X-Token: $TOKEN\" https://api.example.com/a && python3 -c '\n\
        import os, socket\n\
        s = socket.create_connection((\"db.example.com\", 5432), 20)\n\
        s.sendall((\"PASS \" + os.environ[\"TOKEN\"]).encode()); print(s.recv(8).decode())'";
    let run = |policy: &str| {
        let run = lab.gig().host_env("GIG_DATA_DIR", &data(&lab));
        let run = run.option(["--secret", "TOKEN"]);
        run.going(Way::Straight).policy(policy)
    };
    let _run = run(&first)
        .recording_to(&record)
        .sh(script)
        .success()
        .says("taken");
    let sent = format!("PASS {ENTRUSTED}");
    assert_eq!(unopened.text(), sent);
    let told = |words: &[&str]| {
        let output = Command::new(place::gig())
            .arg("policy")
            .args(words)
            .output()
            .expect("gig");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let record = text(&record);
    let suggested = told(&["suggest", "--audit", &record]);
    let entrusts = "secrets: [{name: \"TOKEN\", entrusted: true}]";
    assert_eq!(suggested.matches(entrusts).count(), 2, "{suggested}");
    let _run = run(&suggested).sh(script).success().says("taken");
    assert_eq!(unopened.text(), sent.repeat(2));
    // A draft that takes one of the two away denies that one.
    let less = first.replace(
        &format!("{rule}, secrets: [{{name: TOKEN, entrusted: true}}]"),
        rule,
    );
    let file = lab.file("less.yaml", &less);
    let simulated = told(&["simulate", &text(&file), "--audit", &record]);
    assert!(simulated.contains("newly denied: 1"), "{simulated}");
    let file = lab.file("suggested.yaml", &suggested);
    let simulated = told(&["simulate", &text(&file), "--audit", &record]);
    assert!(simulated.contains("newly denied: 0"), "{simulated}");
}

/// Two say that a program holds a value: where one does not, it is told at the start and, where it went, at the end.
#[test]
fn a_sentinel_that_goes_where_gig_opens_nothing_is_told() {
    let lab = Lab::new();
    let address = lab.address_for("db.example.com");
    let unopened = lab.tcp(SocketAddr::new(address, 5432), |conversation| {
        let _heard = conversation.read(&mut [0; 256])?;
        conversation.write_all(b"taken")
    });
    secret(&lab, &["set", "TOKEN"], ENTRUSTED);
    let policy = "version: 1\negress:\n\
        - {host: db.example.com, ports: [5432], protocol: tcp, secrets: [{name: TOKEN, entrusted: true}]}\n";
    let run = lab.gig().host_env("GIG_DATA_DIR", &data(&lab));
    let run = run
        .option(["--secret", "TOKEN"])
        .policy(policy)
        .going(Way::Straight);
    let run = run.python(
        "import os, socket\n\
         s = socket.create_connection(('db.example.com', 5432), 20)\n\
         s.sendall(('PASS ' + os.environ['TOKEN']).encode()); print(s.recv(8).decode())",
    );
    let run = run.success().says("taken");
    assert!(!unopened.text().contains(ENTRUSTED), "{run}");
    let _run = run
        .complains("a rule entrusts secret TOKEN, and the secret is not marked so")
        .complains("db.example.com:5432  TOKEN in the stream (plain)")
        .complains("gig secret set TOKEN --entrusted");
}

const ENTRUSTED: &str = "entrusted-value-7Qx2mZ0pLr";

#[test]
fn an_entrusted_secret_is_handed_in_where_the_policy_says_so_and_a_warning_everywhere() {
    let lab = Lab::new();
    let bound = lab.https("api.example.com", greet);
    let other = lab.https("other.example.com", greet);
    secret(&lab, &["set", "TOKEN", "--entrusted"], ENTRUSTED);
    let gig = || {
        let run = lab.gig().host_env("GIG_DATA_DIR", &data(&lab));
        run.option(["--secret", "TOKEN"])
    };
    let plain = "version: 1\negress:\n- {host: api.example.com, secrets: [TOKEN]}\n";
    let run = gig().policy(plain).run(["env"]);
    let run = run.exits(125).complains("no rule entrusts it");
    assert!(!run.text().contains(ENTRUSTED), "{run}");
    let entrusting = "version: 1\negress:\n\
        - {host: api.example.com, secrets: [{name: TOKEN, entrusted: true}]}\n\
        - {host: other.example.com}\n";
    let run = gig()
        .policy(entrusting)
        .sh("echo \"held: $TOKEN\"; for host in api other; do \
         curl -sS -H \"X-Token: $TOKEN\" https://$host.example.com/; \
         curl -sS https://$host.example.com/bot$TOKEN/getMe; done");
    let run = run.success().says(&format!("held: {ENTRUSTED}"));
    let run = run.complains("warning: secret TOKEN is entrusted");
    let run = run.complains("warning: secret TOKEN was entrusted");
    let begun = run.audit.of(Event::SandboxStart).next().expect("its start");
    let handed = "entrusted: the program is handed the value of secret TOKEN, version 1";
    assert!(
        begun.findings.iter().any(|one| &**one == handed),
        "{begun:?}"
    );
    let used = run.audit.of(Event::Request).next().expect("its request");
    assert_eq!(
        used.secrets.first().map(AsRef::as_ref),
        Some("TOKEN"),
        "{used:?}"
    );
    assert_eq!(bound.requests()[0].field("x-token"), Some(ENTRUSTED));
    let target = format!("/bot{ENTRUSTED}/getMe");
    assert_eq!(bound.requests()[1].target, target, "{run}");
    // The record says that the secret stood there, and not what it is.
    let told = format!("{:?}", run.audit);
    assert!(told.contains("/[value of TOKEN]/getMe"), "{run}");
    // Handed in, it is still stopped where it is seen to go astray.
    assert_eq!(other.raw().wire_octets(), 0, "{run}");
    assert!(
        run.audit.denials(DenyReason::SecretMisuse).count() > 0,
        "{run}"
    );
    assert!(!format!("{:?}", run.audit).contains(ENTRUSTED), "{run}");
}
