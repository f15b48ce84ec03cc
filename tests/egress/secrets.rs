//! Secrets with real clients: the program holds a sentinel, the origin gets the value.
//!
//! Every test asks both ends: what the origin received, and that the value was nowhere inside.

use std::io;

use gig_audit::Event;
use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Subject,
    http_origin::{Exchange, HttpOrigin, Request, greet},
    network::{Side, text},
    place,
    service::Service,
};

const HOST: &str = "api.example.com";
const VALUE: &str = "real-value-7Qx2mZ0pLr";

/// A run with one secret, bound and allowed.
fn with_secret(lab: &Lab) -> Subject<'_> {
    let subject = lab.gig().allow(HOST).host_env("GITHUB_TOKEN", VALUE);
    subject.option(["--secret", "GITHUB_TOKEN@api.example.com"])
}

/// The program printed no value, and the record holds none but names the secret.
fn check(run: Finished) -> Finished {
    let run = run.success();
    assert!(!run.text().contains(VALUE), "{run}");
    assert!(!run.error_text().contains(VALUE), "{run}");
    let records = format!("{:?}", run.audit);
    assert!(!records.contains(VALUE), "{records}");
    for event in [Event::Request, Event::Response] {
        let named = |names: &[std::sync::Arc<str>]| names.iter().any(|n| &**n == "GITHUB_TOKEN");
        assert!(
            run.audit.of(event).any(|entry| named(&entry.secrets)),
            "no {event} record names the secret: {records}"
        );
    }
    run
}

#[test]
fn curl_with_a_bearer_token_sends_the_value_and_holds_the_sentinel() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let run = with_secret(&lab).sh(
        "curl -sS --fail -H \"Authorization: Bearer $GITHUB_TOKEN\" https://api.example.com/; \
         env",
    );
    let run = check(run)
        .says("GITHUB_TOKEN=gigph-")
        .says("GIG_PLACEHOLDER=gigph-");
    let requests = origin.requests();
    let bearer = format!("Bearer {VALUE}");
    assert_eq!(requests[0].field("authorization"), Some(&*bearer), "{run}");
}

/// Runs Python with its clients inside, and gives what the origin got.
fn python(lab: &Lab, script: &str) -> Finished {
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let script = format!("import os\nt = os.environ['GITHUB_TOKEN']\n{script}");
    let run = with_secret(lab).read_only(&venv);
    check(run.run([python.as_str(), "-c", script.as_str()]))
}

fn bodies(origin: &HttpOrigin) -> Vec<String> {
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    origin.requests().iter().map(|r| text(&r.body)).collect()
}

#[test]
fn requests_sends_the_value_in_every_place() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let _run = python(
        &lab,
        "import requests\n\
         u = 'https://api.example.com/'\n\
         s = requests.Session()\n\
         for r in [\n \
          s.get(u, auth=('user', t)),\n \
          s.get(u, params={'key': t}),\n \
          s.get(u, cookies={'sid': t}),\n \
          s.get(u + 'bot' + t + '/getMe'),\n \
          s.post(u, json={'token': t}),\n \
          s.post(u, data={'token': t}),\n \
          s.post(u, files={'f': ('name', 'token=' + t)}),\n \
          s.post(u, data=(p.encode() for p in ['to', t[:7], t[7:], 'en'])),\n\
         ]: r.raise_for_status()",
    );
    let requests = origin.requests();
    let basic = "Basic dXNlcjpyZWFsLXZhbHVlLTdReDJtWjBwTHI=";
    assert_eq!(requests[0].field("authorization"), Some(basic));
    assert_eq!(requests[1].target, format!("/?key={VALUE}"));
    assert!(
        requests[2]
            .field("cookie")
            .unwrap_or_default()
            .contains(VALUE)
    );
    assert_eq!(requests[3].target, format!("/bot{VALUE}/getMe"));
    let bodies = bodies(&origin);
    assert_eq!(bodies[4], format!("{{\"token\": \"{VALUE}\"}}"));
    assert_eq!(bodies[5], format!("token={VALUE}"));
    assert!(
        bodies[6].contains(&format!("token={VALUE}\r\n")),
        "{}",
        bodies[6]
    );
    assert_eq!(bodies[7], format!("to{VALUE}en"));
    for (request, body) in requests.iter().zip(&bodies) {
        if let Some(length) = request.field("content-length") {
            assert_eq!(length, body.len().to_string(), "{}", request.target);
        }
    }
}

#[test]
fn httpx_sends_the_value_over_h2() {
    let lab = Lab::new();
    let answer = format!(
        "location /secret {{ default_type text/plain; \
         if ($http_authorization = \"Bearer {VALUE}\") {{ return 200 \"the value came\\n\"; }} \
         return 401 \"it did not\\n\"; }}"
    );
    let _origin = lab.nginx_with(&[HOST], true, &answer);
    let _run = python(
        &lab,
        "import httpx\nwith httpx.Client(http2=True, timeout=60) as c:\n \
         r = c.get('https://api.example.com/secret', headers={'Authorization': 'Bearer ' + t})\n \
         assert r.http_version == 'HTTP/2', r.http_version\n print(r.text)",
    )
    .says("the value came");
}

#[test]
fn node_fetch_sends_the_value_in_json() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let script = "fetch('https://api.example.com/', {method: 'POST', \
        headers: {'content-type': 'application/json', 'x-api-key': process.env.GITHUB_TOKEN}, \
        body: JSON.stringify({k: [process.env.GITHUB_TOKEN]})}).then(r => r.text()).then(console.log)";
    let run = with_secret(&lab).run(["node", "-e", script]);
    let _run = check(run).says("hello");
    assert_eq!(origin.requests()[0].field("x-api-key"), Some(VALUE));
    assert_eq!(bodies(&origin), [format!("{{\"k\":[\"{VALUE}\"]}}")]);
}

/// Sends the token cut at every place: in chunks of HTTP/1.1, in frames of HTTP/2, octet by octet at the end.
const CUTS: &str = "const t = process.env.GITHUB_TOKEN, https = require('https'), http2 = require('http2');\n\
    const text = `a ${t} b`, agent = new https.Agent({keepAlive: true, maxSockets: 1});\n\
    const cuts = [...Array(text.length - 1).keys()].map(n => [text.slice(0, n + 1), text.slice(n + 1)]);\n\
    cuts.push([...text]);\n\
    const pause = () => new Promise(done => setImmediate(done));\n\
    const whole = async (stream, pieces) => {\n \
      for (const piece of pieces) { stream.write(piece); await pause(); }\n \
      stream.end();\n\
    };\n\
    const one = pieces => new Promise((done, fail) => {\n \
      const r = https.request('https://api.example.com/one', {agent, method: 'POST'}, a => a.resume().on('end', \
       () => a.statusCode == 200 ? done() : fail(a.statusCode)));\n \
      r.on('error', fail); r.setNoDelay(true); whole(r, pieces);\n\
    });\n\
    const two = (session, pieces) => new Promise((done, fail) => {\n \
      const s = session.request({':method': 'POST', ':path': '/two'});\n \
      s.on('response', h => h[':status'] == 200 ? 0 : fail(h[':status'])).on('error', fail).on('end', done).resume();\n \
      whole(s, pieces);\n\
    });\n\
    (async () => {\n \
      for (const pieces of cuts) await one(pieces);\n \
      const session = http2.connect('https://api.example.com');\n \
      for (const pieces of cuts) await two(session, pieces);\n \
      session.close(); agent.destroy(); console.log('sent', cuts.length);\n\
    })().catch(e => { console.log('failed', e); process.exit(1); });";

#[test]
fn a_sentinel_that_a_client_cuts_anywhere_goes_out_as_its_value() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let run = with_secret(&lab).run(["node", "-e", CUTS]).success();
    // In groups of three as many octets are left over as of its value.
    let sentinel = (38..41).find(|length| length % 3 == VALUE.len() % 3);
    let cuts = sentinel.expect("a length") + "a  b".len();
    let run = run.says(&format!("sent {cuts}"));
    // What went into a body shows with its end.
    let named =
        |entry: &&gig_audit::Entry| entry.secrets.iter().any(|name| &**name == "GITHUB_TOKEN");
    assert_eq!(
        run.audit.of(Event::Response).filter(named).count(),
        2 * cuts,
        "{run}"
    );
    assert!(!format!("{:?}", run.audit).contains(VALUE));
    let requests = origin.requests();
    let of = |target: &str| requests.iter().filter(|r| r.target == target).count();
    assert_eq!((of("/one"), of("/two")), (cuts, cuts));
    let expected = format!("a {VALUE} b");
    assert!(bodies(&origin).iter().all(|body| *body == expected));
}

/// What no spelling leaves as it is.
const AWKWARD: &str = "p@ss\"w\\rd+/=%\u{e9}-7Qx2mZ0pLr";

#[test]
fn a_value_that_needs_escapes_is_right_wherever_clients_write_it() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let script = "import json, os, requests\n\
        t, u = os.environ['GITHUB_TOKEN'], 'https://api.example.com/'\n\
        for r in [\n \
         requests.post(u, json={'key': t}),\n \
         requests.post(u, data=json.dumps({'key': t})),\n \
         requests.post(u, files={'payload_json': (None, json.dumps({'key': t}))}),\n \
         requests.post(u, data={'key': t}),\n\
        ]: r.raise_for_status()\n";
    let script = lab.file("client.py", script);
    let fetch = "fetch('https://api.example.com/', {method: 'POST', \
        body: JSON.stringify({key: process.env.GITHUB_TOKEN})}).then(r => r.text())";
    let all = format!(
        "curl -sS --fail -d \"{{\\\"key\\\":\\\"$GITHUB_TOKEN\\\"}}\" https://api.example.com/ \
         && node -e \"{fetch}\" && {python} {client} && \
         curl -sS --fail -d \"key=$GITHUB_TOKEN\" https://api.example.com/",
        client = text(&script),
    );
    let subject = lab.gig().allow(HOST).host_env("GITHUB_TOKEN", AWKWARD);
    let subject = subject.option(["--secret", "GITHUB_TOKEN@api.example.com"]);
    let run = subject
        .read_only(&venv)
        .read_only(&script)
        .sh(&all)
        .success();
    assert!(!run.text().contains("7Qx2mZ0pLr"), "{run}");
    let bodies = bodies(&origin);
    assert_eq!(bodies.len(), 7, "{run}");
    let json = |body: &str| -> Option<String> {
        let from = body.find('{')?;
        let to = body.rfind('}')?;
        let value: serde_json::Value = serde_json::from_str(body.get(from..=to)?).ok()?;
        Some(value.get("key")?.as_str()?.to_owned())
    };
    for body in &bodies[..5] {
        assert_eq!(json(body).as_deref(), Some(AWKWARD), "{body}");
    }
    let escaped = "key=p%40ss%22w%5Crd%2B%2F%3D%25%C3%A9-7Qx2mZ0pLr";
    assert_eq!([&*bodies[5], &*bodies[6]], [escaped; 2]);
}

#[test]
fn git_sends_the_value_in_basic_credentials() {
    let lab = Lab::new();
    let origin = lab.https(HOST, |request, exchange| {
        exchange.body(request)?;
        if request.field("authorization").is_some() {
            return exchange.answer("404 Not Found", "no such repository\n");
        }
        exchange.send(
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"git\"\r\n\
             content-length: 0\r\n\r\n",
        )
    });
    let run = with_secret(&lab)
        .sh("git ls-remote https://oauth2:$GITHUB_TOKEN@api.example.com/acme.git || echo asked");
    let _run = check(run).says("asked");
    let requests = origin.requests();
    let sent: Vec<_> = requests
        .iter()
        .filter_map(|r| r.field("authorization"))
        .collect();
    assert_eq!(sent, ["Basic b2F1dGgyOnJlYWwtdmFsdWUtN1F4Mm1aMHBMcg=="]);
}

#[test]
fn grpc_carries_the_value_out_and_the_sentinel_back() {
    let lab = Lab::new();
    let address = lab.address_for(HOST);
    let leaf = lab.leaf(HOST);
    let certificate = lab.file("cert.pem", &leaf.certificate);
    let key = lab.file("key.pem", &leaf.key);
    let interpreter = text(&place::client("venv").join("bin/python"));
    let mut server = lab.network.command(Side::Internet, &interpreter);
    server
        .arg(gig_tests::lab::fixture::path("grpc_secret_server.py"))
        .arg(format!("{address}:443"))
        .args([&certificate, &key])
        .arg(VALUE);
    let mut server = Service::start(server, lab.fresh_path("grpc.log"));
    server.wait_for(&lab.network, (address, 443).into());
    let venv = place::client("venv");
    let script = gig_tests::lab::fixture::text("grpc_secret_client.py");
    let run = with_secret(&lab).read_only(&venv);
    let run = run.run([&interpreter, "-c", &script, "api.example.com:443"]);
    let _run = check(run)
        .says("text yes, binary yes")
        .says("plain holds the sentinel")
        .says("gzip holds the sentinel")
        .says("the status can be read");
}

/// Says who asks, and whether that is still so.
fn says_who(request: &mut Request, exchange: &mut Exchange<'_>) -> io::Result<()> {
    let public = request.target == "/public";
    let tag = if public { "\"public\"" } else { "\"private\"" };
    if request
        .field("if-none-match")
        .is_some_and(|tags| tags.contains(tag))
    {
        return exchange.send(format!("HTTP/1.1 304 Not Modified\r\netag: {tag}\r\n\r\n"));
    }
    let body = match request.field("authorization") {
        Some(who) if !public => who.to_owned(),
        _ => "nobody".to_owned(),
    };
    let length = body.len();
    exchange.send(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncache-control: no-cache\r\netag: {tag}\r\n\
         content-length: {length}\r\n\r\n{body}"
    ))
}

#[test]
fn a_cache_that_two_runs_share_gives_none_the_sentinel_of_the_other() {
    let lab = Lab::new();
    let origin = lab.https(HOST, says_who);
    let cache = lab.folder("cache");
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let script = "import os, requests, cachecontrol, cachecontrol.caches\n\
         cache = cachecontrol.caches.FileCache(os.environ['CACHE'])\n\
         s = cachecontrol.CacheControl(requests.Session(), cache=cache)\n\
         t = 'Bearer ' + os.environ['GITHUB_TOKEN']\n\
         for path in ['private', 'public'] * 2:\n \
          r = s.get('https://api.example.com/' + path, headers={'Authorization': t})\n \
          assert r.text == (t if path == 'private' else 'nobody'), (r.text, t)\n";
    for _ in 0..2 {
        let run = with_secret(&lab)
            .read_only(&venv)
            .option(["--rw", &text(&cache)])
            .env("CACHE", &text(&cache));
        let _run = check(run.run([python.as_str(), "-c", script]));
    }
    let requests = origin.requests();
    let asked = |target: &str| -> Vec<bool> {
        let these = requests.iter().filter(|r| r.target == target);
        these.map(|r| r.field("if-none-match").is_some()).collect()
    };
    assert_eq!(asked("/private"), [false; 4]);
    assert_eq!(asked("/public"), [false, true, true, true]);
}

#[test]
fn a_secret_that_cannot_be_had_or_would_leak_otherwise_refuses_the_start() {
    let lab = Lab::new();
    let secret = ["--secret", "GITHUB_TOKEN@api.example.com"];
    let run = lab.gig().allow(HOST).option(secret).run(["true"]);
    let _run = run
        .exits(125)
        .complains("gig's own environment has no GITHUB_TOKEN");
    let run = with_secret(&lab).run(["echo", &format!("token={VALUE}")]);
    let _run = run
        .exits(125)
        .complains("arguments hold the value of secret GITHUB_TOKEN");
    let run = with_secret(&lab)
        .env("OTHER", &format!("x{VALUE}"))
        .run(["true"]);
    let _run = run.exits(125).complains("--env OTHER");
    let run = with_secret(&lab)
        .option(["--env", "GITHUB_TOKEN"])
        .run(["true"]);
    let _run = run.exits(125).complains("both set GITHUB_TOKEN");
    let run = lab
        .gig()
        .host_env("T", VALUE)
        .option(["--secret", "T"])
        .run(["true"]);
    let _run = run.exits(125).complains("nothing says where it may go");
    // Who keeps what is said would keep the value.
    let typed = format!("TOKEN={VALUE}@{HOST}");
    let run = lab.gig().option(["--secret", &typed]).run(["true"]);
    let run = run
        .exits(125)
        .complains("never taken from the command line");
    assert!(!run.error_text().contains(VALUE), "{run}");
    // What gig sets itself, or a loader reads.
    for name in ["HTTPS_PROXY", "LD_PRELOAD"] {
        let bound = format!("{name}@{HOST}");
        let run = lab.gig().allow(HOST).option(["--secret", &bound]);
        let run = run.run(["true"]);
        let _run = run.exits(125).complains("use a name of its own");
    }
}

#[test]
fn a_binding_allows_nothing_and_says_so() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let run = lab
        .gig()
        .host_env("GITHUB_TOKEN", VALUE)
        .option(["--secret", "GITHUB_TOKEN@api.example.com"])
        .sh("curl -sS -m 60 https://api.example.com/ || echo refused");
    let run = run.success().says("refused");
    let run = run.complains("no rule allows api.example.com");
    assert_eq!(origin.raw().wire_octets(), 0, "{run}");
    assert_eq!(
        run.audit.denials(DenyReason::SecretMisuse).count(),
        0,
        "{run}"
    );
}

#[test]
fn a_file_that_shows_the_value_is_told_about() {
    let lab = Lab::new();
    let shown = lab.file("config.env", &format!("GITHUB_TOKEN={VALUE}\n"));
    let folder = shown.parent().expect("its folder");
    let run = with_secret(&lab).read_only(folder).run(["true"]);
    let run = run
        .success()
        .complains("holds the value of secret GITHUB_TOKEN");
    let _run = run.complains("config.env");
}

#[test]
fn the_value_is_nowhere_inside() {
    let lab = Lab::new();
    let bound = lab.https(HOST, greet);
    // Put together inside, so that the search does not find itself.
    let script = "curl -sS -m 60 -H \"X-Key: $GITHUB_TOKEN\" https://api.example.com/ >/tmp/answer\n\
         python3 - <<'END'\n\
         import glob\n\
         value = b'-'.join([b'real', b'value', b'7Qx2mZ0pLr'[:4] + b'mZ0pLr'])\n\
         print('looked for', value[::-1].decode())\n\
         open('/tmp/control', 'wb').write(b'..' + value + b'..')\n\
         files = glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline') + glob.glob('/tmp/*')\n\
         files += [f for f in glob.glob('/etc/**', recursive=True)]\n\
         for name in files:\n \
          try:\n  \
           if value in open(name, 'rb').read(): print('holds the value:', name)\n \
          except OSError: pass\n\
         END\n\
         echo looked";
    let run = with_secret(&lab).sh(script);
    // What was looked for is the value, and it is found where it is: in the file that the search made of it.
    let backwards: String = VALUE.chars().rev().collect();
    let expected = format!("looked for {backwards}\nholds the value: /tmp/control\nlooked\n");
    assert_eq!(run.clone().success().text(), expected, "{run}");
    assert_eq!(bound.requests()[0].field("x-key"), Some(VALUE), "{run}");
}
