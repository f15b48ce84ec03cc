//! Logins made inside, with real clients and a server built on Authlib: the program works with the tokens
//! that it gets and holds none of those that were minted.

use std::time::Duration;

use gig_audit::Event;
use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Subject, fixture,
    http_origin::greet,
    network::{Side, text},
    place,
    service::Service,
};

const AUTH: &str = "auth.example.com";
const API: &str = "api.example.com";
pub(crate) const CLIENT_SECRET: &str = "client-secret-8Xk2mQ";
const REFRESH: &str = "r3al-refresh_token_from_before_4Tz";
const CAPTURE: &str = "LOGIN=https://auth.example.com/oauth2/token@api.example.com";
const POLICY: &str = "
version: 1
name: login
egress:
  - host: auth.example.com
    ports: [443]
    rules: [{methods: [POST], paths: [/oauth2/token, /oauth2/device]}]
    secrets: [CLIENT_SECRET, REFRESH, {name: LOGIN, capture: true}]
  - {host: api.example.com, ports: [443], secrets: [LOGIN]}
  - {host: other.example.com, ports: [443]}
";

/// A world with the server, its API, and somebody else.
struct World {
    lab: Lab,
    server: Service,
    other: gig_tests::lab::http_origin::HttpOrigin,
}

/// The server and its API; `refresh` is a refresh token that it knows from before.
pub(crate) fn oauth_server(lab: &Lab, refresh: &str) -> Service {
    let (auth, api) = (lab.address_for(AUTH), lab.address_for(API));
    let python = text(&place::client("venv").join("bin/python"));
    let mut command = lab.network.command(Side::Internet, &python);
    command.arg(fixture::path("oauth_server.py"));
    command.arg(auth.to_string()).arg(api.to_string());
    for host in [AUTH, API] {
        let leaf = lab.leaf(host);
        command.arg(lab.file("cert.pem", &leaf.certificate));
        command.arg(lab.file("key.pem", &leaf.key));
    }
    command.args([CLIENT_SECRET, refresh]);
    let mut server = Service::start(command, lab.fresh_path("oauth.log"));
    for address in [auth, api] {
        server.wait_for(&lab.network, (address, 443).into());
    }
    server
}

impl World {
    fn new() -> Self {
        let lab = Lab::new();
        let other = lab.https("other.example.com", greet);
        let server = oauth_server(&lab, REFRESH);
        Self { lab, server, other }
    }

    /// A run under the policy, whose client knows its secret by a sentinel.
    fn gig(&self) -> Subject<'_> {
        let run = self.lab.gig().policy(POLICY);
        let run = run.host_env("CLIENT_SECRET", CLIENT_SECRET);
        let run = run.host_env("REFRESH", REFRESH);
        let run = run.option(["--secret", "CLIENT_SECRET", "--secret", "REFRESH"]);
        // Interpreters take their time on a busy machine.
        run.patience(Duration::from_secs(120))
    }

    fn python(&self, script: &str) -> Finished {
        let venv = place::client("venv");
        let python = text(&venv.join("bin/python"));
        let script = format!(
            "import os\n{}\n{script}\nlook()\n",
            fixture::text("held.py")
        );
        let run = self.gig().read_only(&venv);
        self.check(run.run([python.as_str(), "-c", script.as_str()]))
            .says("looked in many places")
    }

    /// No minted token was printed, held, logged or recorded, and the record says what was captured.
    fn check(&self, run: Finished) -> Finished {
        let run = run.success();
        let log = self.server.log();
        let minted = log.lines().filter_map(|line| line.strip_prefix("minted "));
        let minted: Vec<_> = minted.chain([CLIENT_SECRET, REFRESH]).collect();
        assert!(minted.len() > 2, "nothing was minted: {log}");
        let records = format!("{:?}", run.audit);
        for token in minted {
            assert!(!run.text().contains(token), "{run}");
            assert!(!run.error_text().contains(token), "{run}");
            assert!(!records.contains(token), "{records}");
        }
        assert!(!run.text().contains("holds a token"), "{run}");
        let changes: Vec<_> = run.audit.of(Event::SecretChange).collect();
        let named = |names: &[std::sync::Arc<str>]| names.iter().any(|n| &**n == "LOGIN");
        assert!(
            changes.iter().all(|entry| named(&entry.secrets)),
            "{records}"
        );
        assert!(!changes.is_empty(), "{records}");
        run
    }

    /// How often the server was asked with this grant.
    fn asked(&self, grant: &str) -> usize {
        let line = format!("asked {grant}");
        self.server.log().lines().filter(|l| *l == line).count()
    }
}

#[test]
fn what_stands_beside_a_token_under_another_name_is_kept_out_too() {
    let world = World::new();
    let run = world.python(
        "import requests\n\
         url = 'https://auth.example.com/oauth2/token?provider=1'\n\
         login = {'grant_type': 'password', 'username': 'me', 'password': 'open sesame'}\n\
         r = requests.post(url, data=login, auth=('notes', os.environ['CLIENT_SECRET'])).json()\n\
         print('kept', r['provider_token'][:6], r['access_token'][:6])\n",
    );
    let _run = run.says("kept gigph- gigph-");
}

#[test]
fn requests_oauthlib_logs_in_refreshes_and_calls_the_api() {
    let world = World::new();
    let run = world.python(
        "from oauthlib.oauth2 import LegacyApplicationClient\n\
         from requests_oauthlib import OAuth2Session\n\
         from requests.auth import HTTPBasicAuth\n\
         url = 'https://auth.example.com/oauth2/token'\n\
         basic = HTTPBasicAuth('notes', os.environ['CLIENT_SECRET'])\n\
         s = OAuth2Session(client=LegacyApplicationClient('notes'))\n\
         first = s.fetch_token(url, username='me', password='open sesame', auth=basic)\n\
         print('first', s.get('https://api.example.com/me').json()['name'])\n\
         second = s.refresh_token(url, auth=basic)\n\
         assert second['access_token'] != first['access_token']\n\
         assert second['refresh_token'] != first['refresh_token']\n\
         third = s.refresh_token(url, auth=basic)\n\
         answer = s.get('https://api.example.com/me').json()\n\
         print('third', answer['name'], answer['shown'] == 'Bearer ' + third['access_token'])\n\
         r = s.get('https://other.example.com/')\n\
         print(r.status_code, r.json()['reason'])",
    );
    let run = run.says("first somebody").says("third somebody True");
    let run = run.says("403 secret_misuse");
    assert_eq!(
        (world.asked("password"), world.asked("refresh_token")),
        (1, 2)
    );
    assert_eq!(world.other.raw().wire_octets(), 0, "{run}");
    assert!(
        run.audit.denials(DenyReason::SecretMisuse).count() > 0,
        "{run}"
    );
}

#[test]
fn authlib_logs_in_by_its_own_credentials_and_in_a_form() {
    let world = World::new();
    let _run = world
        .python(
            "from authlib.integrations.requests_client import OAuth2Session\n\
             for url in ['https://auth.example.com/oauth2/token']:\n \
              s = OAuth2Session('notes', os.environ['CLIENT_SECRET'])\n \
              s.fetch_token(url, grant_type='client_credentials')\n \
              print('json', s.get('https://api.example.com/me').json()['name'])\n\
             import requests, urllib.parse\n\
             r = requests.post(url + '?form=1', data={'grant_type': 'client_credentials', \
             'client_id': 'notes', 'client_secret': os.environ['CLIENT_SECRET']})\n\
             token = dict(urllib.parse.parse_qsl(r.text))['access_token']\n\
             h = {'authorization': 'Bearer ' + token}\n\
             print('form', requests.get('https://api.example.com/me', headers=h).json()['name'])",
        )
        .says("json somebody")
        .says("form somebody");
    assert_eq!(world.asked("client_credentials"), 2);
}

#[test]
fn google_auth_refreshes_user_credentials() {
    let world = World::new();
    let _run = world
        .python(
            "from google.oauth2.credentials import Credentials\n\
             from google.auth.transport.requests import AuthorizedSession\n\
             c = Credentials(None, refresh_token=os.environ['REFRESH'], client_id='notes',\n  \
             client_secret=os.environ['CLIENT_SECRET'],\n  \
             token_uri='https://auth.example.com/oauth2/token')\n\
             s = AuthorizedSession(c)\n\
             print('first', s.get('https://api.example.com/me').json()['name'])\n\
             import google.auth.transport.requests as t\n\
             first = c.token\n\
             c.refresh(t.Request())\n\
             assert c.token != first\n\
             print('second', s.get('https://api.example.com/me').json()['name'])",
        )
        .says("first somebody")
        .says("second somebody");
    assert_eq!(world.asked("refresh_token"), 2);
}

#[test]
fn a_device_login_is_polled_for_with_a_sentinel() {
    let world = World::new();
    let _run = world
        .python(
            "import requests\n\
             device = requests.post('https://auth.example.com/oauth2/device', \
             data={'client_id': 'notes'}).json()\n\
             form = {'grant_type': 'urn:ietf:params:oauth:grant-type:device_code', \
             'client_id': 'notes', 'device_code': device['device_code']}\n\
             url = 'https://auth.example.com/oauth2/token'\n\
             first, second = [requests.post(url, data=form) for _ in range(2)]\n\
             print(first.status_code, first.json()['error'])\n\
             h = {'authorization': 'Bearer ' + second.json()['access_token']}\n\
             print('device', requests.get('https://api.example.com/me', headers=h).json()['name'])",
        )
        .says("400 authorization_pending")
        .says("device somebody");
}

/// Runs a script of Node with its OAuth clients.
fn node(world: &World, script: &str) -> Finished {
    let modules = place::client("node");
    let run = world.gig().read_only(&modules);
    let run = run.env("NODE_PATH", &text(&modules.join("node_modules")));
    let script = format!(
        "const me = async t => (await (await fetch('https://api.example.com/me', \
         {{headers: {{authorization: 'Bearer ' + t}}}})).json()).name;\n\
         (async () => {{ {script} }})().catch(e => {{ console.error(e); process.exit(1) }})"
    );
    world.check(run.run(["node", "-e", script.as_str()]))
}

#[test]
fn simple_oauth2_logs_in_and_refreshes() {
    let world = World::new();
    let _run = node(
        &world,
        "const {ResourceOwnerPassword} = require('simple-oauth2');\n\
         const c = new ResourceOwnerPassword({client: {id: 'notes', secret: process.env.CLIENT_SECRET}, \
         auth: {tokenHost: 'https://auth.example.com', tokenPath: '/oauth2/token'}});\n\
         const t = await c.getToken({username: 'me', password: 'open sesame'});\n\
         console.log('first', await me(t.token.access_token));\n\
         const u = await t.refresh();\n\
         console.log('second', await me(u.token.access_token), u.token.access_token !== t.token.access_token);",
    )
    .says("first somebody")
    .says("second somebody true");
}

#[test]
fn openid_client_logs_in_and_refreshes() {
    let world = World::new();
    let _run = node(
        &world,
        "const {Issuer} = require('openid-client');\n\
         const i = new Issuer({issuer: 'https://auth.example.com', \
         token_endpoint: 'https://auth.example.com/oauth2/token'});\n\
         const c = new i.Client({client_id: 'notes', client_secret: process.env.CLIENT_SECRET});\n\
         const t = await c.grant({grant_type: 'password', username: 'me', password: 'open sesame'});\n\
         console.log('first', await me(t.access_token));\n\
         const u = await c.refresh(t.refresh_token);\n\
         console.log('second', await me(u.access_token));",
    )
    .says("first somebody")
    .says("second somebody");
}

#[test]
fn options_alone_capture_a_login() {
    let world = World::new();
    let run = world
        .lab
        .gig()
        .allow(AUTH)
        .allow(API)
        .option(["--capture", CAPTURE]);
    let run = run.sh(
        "t=$(curl -sS --fail https://auth.example.com/oauth2/token -d client_id=notes \
         -d grant_type=password -d username=me -d 'password=open sesame' | \
         sed 's/.*\"access_token\": *\"\\([^\"]*\\)\".*/\\1/'); echo \"$t\"; \
         curl -sS --fail -H \"Authorization: Bearer $t\" https://api.example.com/me",
    );
    let _run = world
        .check(run)
        .says("gigph-")
        .says("\"name\":\"somebody\"");
}

#[test]
fn what_cannot_be_captured_refuses_the_start() {
    let lab = Lab::new();
    let capture = ["--capture", CAPTURE];
    let run = lab.gig().allow("tls:auth.example.com").option(capture);
    let _run = run
        .run(["true"])
        .exits(125)
        .complains("passed through unopened");
    let run = lab
        .gig()
        .allow(AUTH)
        .option(capture)
        .host_env("LOGIN_GRANT", "value-of-it");
    let run = run.option(["--secret", "LOGIN_GRANT@api.example.com"]);
    let _run = run
        .run(["true"])
        .exits(125)
        .complains("call one of the two otherwise");
    let run = lab.gig().allow(AUTH).option(capture);
    let run = run.option([
        "--capture",
        "OTHER=https://auth.example.com/oauth2/token@api.example.com",
    ]);
    let _run = run
        .run(["true"])
        .exits(125)
        .complains("name the same endpoint");
    let run = lab.gig().allow(AUTH).option(capture).run(["true"]);
    let _run = run.success().complains("no rule allows api.example.com");
}
