//! `hmac`, `client_certificate` and `basic`: what gig adds to a request or shows on its connection, in
//! ordinary requests and in WebSocket handshakes.

use gig_tests::lab::{Subject, authority::Authority, network::text, service::Service};
use serde_json::json;

use super::{Scene, serve, told};

const HOST: &str = "api.example.com";
const KEY: &str = "It's a shared signing key 4f9Qz";

fn granted<'s>(scene: &'s Scene, names: &[&str]) -> Subject<'s> {
    let mut run = scene.gig().allow(HOST);
    for name in names {
        run = run.option(["--secret", &format!("{name}@{HOST}")]);
    }
    run
}

#[test]
fn messages_are_signed_in_every_framing() {
    let mut scene = Scene::new();
    let definition = "kind: {hmac: {message: '{body}', header: X-Hub-Signature-256, \
        value: 'sha256={signature}'}}";
    scene.keep("HOOK_KEY", definition, KEY, &[KEY]);
    let settings = json!({"hmac": KEY, "tokens": {}}).to_string();
    let settings = text(&scene.lab.file("settings.json", &settings));
    let origin = serve(&scene.lab, "sdk/services.py", &[HOST], &[&settings]);
    let script = "import httpx, requests\nu = 'https://api.example.com/signed'\n\
        for body in [b'', b'short', b'x' * 300_000]:\n \
         assert requests.post(u, data=body, timeout=60).status_code == 200\n \
         assert requests.post(u, data=iter([body, b'more']), timeout=60).status_code == 200\n \
         with httpx.Client(http2=True, timeout=60) as c:\n  \
          r = c.post(u, content=body, headers={'X-Hub-Signature-256': 'sha256=of my own'})\n  \
          assert (r.status_code, r.http_version) == (200, 'HTTP/2'), r.text\n\
        # What is longer than the definition holds is refused.\n\
        print('long', requests.post(u, data=b'x' * 1_100_000, timeout=60).status_code)\n";
    let run = scene.python(granted(&scene, &["HOOK_KEY"]), script);
    let lines = told(&origin);
    let signed = lines.iter().filter(|line| line["signed"] == true).count();
    assert_eq!((signed, lines.len()), (9, 9), "{run}");
    assert!(!run.text().contains("long 200"), "{run}");
}

/// A certificate and its key in one text, and the key's fourth line.
fn certificate(authority: &Authority) -> (String, String) {
    let leaf = authority.leaf(&["client.example.com"]);
    let line = leaf
        .key
        .lines()
        .nth(1)
        .expect("a line of the key")
        .to_owned();
    (leaf.certificate + &leaf.key, line)
}

#[test]
fn an_origin_that_demands_a_certificate_is_shown_gigs() {
    let mut scene = Scene::new();
    let clients = Authority::new();
    let (pem, line) = certificate(&clients);
    let (strange, _) = certificate(&Authority::new());
    scene.keep("CLIENT", "kind: client_certificate", &pem, &[&line]);
    scene.keep("STRANGE", "kind: client_certificate", &strange, &[]);
    let ca = text(&scene.lab.file("clients.pem", &clients.pem()));
    let demand = format!(
        "ssl_client_certificate {ca}; ssl_verify_client on; \
         location = /who {{ default_type text/plain; return 200 \"verified: $ssl_client_verify\\n\"; }}"
    );
    let _origin = scene.lab.nginx_with(&[HOST], true, &demand);
    let script = "import subprocess, requests, httpx\nu = 'https://api.example.com/who'\n\
        assert requests.get(u, timeout=60).text == 'verified: SUCCESS\\n'\n\
        with httpx.Client(http2=True) as c: assert c.get(u, timeout=60).text == 'verified: SUCCESS\\n'\n\
        for words in (['curl', '-sS', u], ['node', '-e', \"fetch('\" + u + \"').then(r => r.text()).then(console.log)\"]):\n \
         assert b'SUCCESS' in subprocess.run(words, capture_output=True, check=True).stdout\n";
    let _run = scene.python(granted(&scene, &["CLIENT"]), script);
    let status = "curl -s -o /dev/null -w 'status %{http_code}' https://api.example.com/who";
    for names in [&[][..], &["STRANGE"]] {
        let run = granted(&scene, names).sh(status);
        let _run = scene.check(run).says("status 400");
    }
}

/// A server that takes handshakes with the right credential alone.
fn websockets(scene: &Scene, clients: &Authority, secret: &str) -> Service {
    let ca = text(&scene.lab.file("clients.pem", &clients.pem()));
    let settings = json!({
        "basic": "lab:pass word/9Xk2Lm", "hmac": KEY, "id": "AKIAQ3EGUIDTRPW7BZ5L", "secret": secret,
        "ca": ca,
    });
    let settings = text(&scene.lab.file("settings.json", &settings.to_string()));
    serve(&scene.lab, "sdk/websocket_kinds.py", &[HOST], &[&settings])
}

#[test]
fn websocket_handshakes_are_signed_and_shown_certificates_like_any_request() {
    let mut scene = Scene::new();
    let clients = Authority::new();
    let (pem, line) = certificate(&clients);
    let secret = "vN9wXk2+RqLr/7TbYcE4uHsZ0dGmPfJ1aKoI5xQe";
    scene.keep(
        "LOGIN",
        "kind: basic",
        "lab:pass word/9Xk2Lm",
        &["pass word/9Xk2Lm"],
    );
    let hmac = "kind: {hmac: {message: '{method} {path}', header: X-Signature}}";
    scene.keep("HOOK_KEY", hmac, KEY, &[KEY]);
    let key = format!("AKIAQ3EGUIDTRPW7BZ5L:{secret}");
    scene.keep("AWS_ACCESS_KEY_ID", "kind: {aws: {}}", &key, &[secret]);
    scene.keep("CLIENT", "kind: client_certificate", &pem, &[&line]);
    let _server = websockets(&scene, &clients, secret);
    let script = "import base64, ssl\nfrom botocore.auth import SigV4QueryAuth\n\
        from botocore.awsrequest import AWSRequest\nfrom botocore.credentials import Credentials\n\
        from websockets.exceptions import InvalidStatus\nfrom websockets.sync.client import connect\n\
        trust = ssl.create_default_context()\n\
        def echoed(path, **fields):\n \
         try:\n  \
          with connect('wss://api.example.com' + path, ssl=trust, additional_headers=fields, proxy=None) as ws:\n   \
           ws.send('to and fro'); return ws.recv()\n \
         except InvalidStatus as error: return error.response.status_code\n\
        e = os.environ\n\
        if 'LOGIN' in e:\n \
         pair = base64.b64encode((e['LOGIN_USER'] + ':' + e['LOGIN']).encode()).decode()\n \
         print('basic', echoed('/basic', Authorization='Basic ' + pair))\n\
        if 'AWS_ACCESS_KEY_ID' in e:\n \
         keys = Credentials(e['AWS_ACCESS_KEY_ID'], e['AWS_SECRET_ACCESS_KEY'])\n \
         request = AWSRequest(method='GET', url='https://api.example.com/aws?X-Channel=a%2Fb')\n \
         SigV4QueryAuth(keys, 'execute-api', 'eu-central-1').add_auth(request)\n \
         print('aws', echoed(request.url.removeprefix('https://api.example.com')))\n\
        print('hmac', echoed('/hmac'))\nprint('certificate', echoed('/certificate'))\n";
    let all = ["LOGIN", "HOOK_KEY", "AWS_ACCESS_KEY_ID", "CLIENT"];
    let run = scene.python(granted(&scene, &all), script);
    let mut run = run;
    for kind in ["basic", "aws", "hmac", "certificate"] {
        run = run.says(&format!("{kind} to and fro"));
    }
    // Without the grant the server says no: it does check.
    let run = scene.python(granted(&scene, &["LOGIN"]), script);
    let _run = run
        .says("basic to and fro")
        .says("hmac 401")
        .says("certificate 401");
}
