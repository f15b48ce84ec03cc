//! Node: `https`, `fetch`, undici with and without its proxy agent, axios.

use gig_audit::Event;
use gig_tests::lab::{Finished, Lab, network::text, place};

const HOST: &str = "api.example.com";

fn node(script: &str) -> Finished {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    let modules = place::client("node");
    let run = lab.gig().allow(HOST).read_only(&modules);
    let run = run.env("NODE_PATH", &text(&modules.join("node_modules")));
    let run = run.run(["node", "-e", script]);
    run.success().says("hello from the origin").requested(HOST)
}

/// Each request came by this version, as its connection agreed on it.
fn by(run: &Finished, alpn: &str) {
    let requests = run.audit.of(Event::Request);
    let agreed: Vec<_> = requests
        .map(|entry| entry.tls.as_ref().and_then(|tls| tls.alpn.clone()))
        .collect();
    let all = agreed.iter().all(|one| one.as_deref() == Some(alpn));
    assert!(!agreed.is_empty() && all, "{alpn} is wanted: {agreed:?}");
}

#[test]
fn node_https_gets() {
    let _run = node(
        "require('https').get('https://api.example.com/hello', r => r.pipe(process.stdout))\
         .on('error', e => { console.error(e); process.exit(1) })",
    );
}

#[test]
fn node_fetch_gets() {
    let _run = node("fetch('https://api.example.com/hello').then(r => r.text()).then(console.log)");
}

#[test]
fn undici_gets_straight() {
    let _run = node(
        "require('undici').request('https://api.example.com/hello')\
         .then(r => r.body.text()).then(console.log)",
    );
}

#[test]
fn undici_gets_by_proxy() {
    let _run = node(
        "const u = require('undici'); u.setGlobalDispatcher(new u.EnvHttpProxyAgent()); \
         u.request('https://api.example.com/hello').then(r => r.body.text()).then(console.log)",
    );
}

#[test]
fn undici_gets_over_h2() {
    let run = node(
        "const u = require('undici'); u.setGlobalDispatcher(new u.Agent({allowH2: true})); \
         u.fetch('https://api.example.com/hello').then(r => r.text()).then(console.log)",
    );
    by(&run, "h2");
}

/// It asks the proxy for `https://…` itself: no CONNECT.
#[test]
fn axios_gets_by_proxy() {
    let _run = node(
        "require('axios').get('https://api.example.com/hello').then(r => console.log(r.data))\
         .catch(e => { console.error(e.message); process.exit(1) })",
    );
}

#[test]
fn node_http2_gets() {
    let run = node(
        "const s = require('http2').connect('https://api.example.com'); \
         const r = s.request({':path': '/hello'}); r.on('data', d => process.stdout.write(d)); \
         r.on('end', () => s.close()); s.on('error', e => { console.error(e); process.exit(1) })",
    );
    by(&run, "h2");
}
