//! Node: `https`, `fetch`, undici with and without its proxy agent, axios.

use gig_tests::lab::{Lab, network::text, place};

const HOST: &str = "api.example.com";

fn node(script: &str) {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    let modules = place::client("node");
    let run = lab.gig().allow(HOST).read_only(&modules);
    let run = run.env("NODE_PATH", &text(&modules.join("node_modules")));
    let run = run.run(["node", "-e", script]);
    let _run = run.success().says("hello from the origin").requested(HOST);
}

#[test]
fn node_https_gets() {
    node(
        "require('https').get('https://api.example.com/hello', r => r.pipe(process.stdout))\
         .on('error', e => { console.error(e); process.exit(1) })",
    );
}

#[test]
fn node_fetch_gets() {
    node("fetch('https://api.example.com/hello').then(r => r.text()).then(console.log)");
}

#[test]
fn undici_gets_straight() {
    node(
        "require('undici').request('https://api.example.com/hello')\
         .then(r => r.body.text()).then(console.log)",
    );
}

#[test]
fn undici_gets_by_proxy() {
    node(
        "const u = require('undici'); u.setGlobalDispatcher(new u.EnvHttpProxyAgent()); \
         u.request('https://api.example.com/hello').then(r => r.body.text()).then(console.log)",
    );
}

#[test]
fn undici_gets_over_h2() {
    node(
        "const u = require('undici'); u.setGlobalDispatcher(new u.Agent({allowH2: true})); \
         u.fetch('https://api.example.com/hello').then(r => r.text()).then(console.log)",
    );
}

/// It asks the proxy for `https://…` itself: no CONNECT.
#[test]
fn axios_gets_by_proxy() {
    node(
        "require('axios').get('https://api.example.com/hello').then(r => console.log(r.data))\
         .catch(e => { console.error(e.message); process.exit(1) })",
    );
}

#[test]
fn node_http2_gets() {
    node(
        "const s = require('http2').connect('https://api.example.com'); \
         const r = s.request({':path': '/hello'}); r.on('data', d => process.stdout.write(d)); \
         r.on('end', () => s.close()); s.on('error', e => { console.error(e); process.exit(1) })",
    );
}
