//! What clients say of a body is true of what the origin gets, though a value went into it.

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use gig_tests::lab::{Lab, http_origin::greet, network::text, place};

const VALUE: &str = "real-value-7Qx2mZ0pLr";

#[test]
fn what_curl_and_requests_say_of_a_long_body_is_true_of_what_the_origin_gets() {
    let lab = Lab::new();
    let origin = lab.https("api.example.com", greet);
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let script = "import base64, hashlib, os, requests, subprocess\n\
        url = 'https://api.example.com/'\n\
        body = ('{\"k\": \"%s\", \"more\": \"%s\"}' % (os.environ['TOKEN'], 'x' * 900000)).encode()\n\
        digest = 'sha-256=:%s:' % base64.b64encode(hashlib.sha256(body).digest()).decode()\n\
        fields = {'Content-Type': 'application/json', 'Content-Digest': digest}\n\
        requests.post(url, data=body, headers=fields).raise_for_status()\n\
        pieces = (body[at:at + 70000] for at in range(0, len(body), 70000))\n\
        requests.post(url, data=pieces, headers=fields).raise_for_status()\n\
        open('/tmp/body', 'wb').write(body)\n\
        words = [word for name in fields for word in ('-H', name + ': ' + fields[name])]\n\
        said = ['curl', '-sS', '--fail', '-m', '120', *words, '--data-binary', '@/tmp/body', url]\n\
        subprocess.run(said, check=True)\n\
        subprocess.run([*said, '-H', 'Expect: 100-continue'], check=True)";
    let run = lab.gig().allow("api.example.com").host_env("TOKEN", VALUE);
    let run = run.option(["--secret", "TOKEN@api.example.com"]);
    let run = run.read_only(&venv);
    let run = run.run([python.as_str(), "-c", script]).success();
    assert!(!run.text().contains(VALUE), "{run}");
    let requests = origin.requests();
    assert_eq!(requests.len(), 4, "{run}");
    for request in requests {
        let begins = format!("{{\"k\": \"{VALUE}\", \"more\": \"xxx");
        assert!(request.body.starts_with(begins.as_bytes()), "{run}");
        let expected = STANDARD.encode(digest(&SHA256, &request.body));
        let expected = format!("sha-256=:{expected}:");
        assert_eq!(request.field("content-digest"), Some(&*expected), "{run}");
        let length = request.body.len().to_string();
        assert_eq!(request.field("content-length"), Some(&*length), "{run}");
    }
}
