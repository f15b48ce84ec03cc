//! Python's HTTP clients: urllib, requests, httpx (h2), aiohttp.

use gig_tests::lab::{Finished, Lab, Way, network::text, nginx::Nginx, place};

const HOST: &str = "api.example.com";

fn run(lab: &Lab, way: Way, script: &str) -> Finished {
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    lab.gig()
        .allow(HOST)
        .read_only(&venv)
        .going(way)
        .run([python.as_str(), "-c", script])
}

fn both_ways(script: &str) -> Nginx {
    let lab = Lab::new();
    let origin = lab.nginx(&[HOST]);
    for way in Way::BOTH {
        let _run = run(&lab, way, script)
            .success()
            .says("hello from the origin")
            .requested(HOST);
    }
    origin
}

#[test]
fn urllib_gets_over_https() {
    let _origin = both_ways(
        "import urllib.request; \
         print(urllib.request.urlopen('https://api.example.com/hello', timeout=60).read().decode())",
    );
}

#[test]
fn requests_gets_over_https() {
    let _origin = both_ways(
        "import requests; r = requests.get('https://api.example.com/hello', timeout=60); \
         r.raise_for_status(); print(r.text)",
    );
}

#[test]
fn httpx_gets_over_h2() {
    let _origin = both_ways(
        "import httpx\nwith httpx.Client(http2=True, timeout=60) as c:\n \
         r = c.get('https://api.example.com/hello'); r.raise_for_status()\n \
         assert r.http_version == 'HTTP/2', r.http_version\n print(r.text)",
    );
}

#[test]
fn httpx_multiplexes_a_hundred_requests_on_one_connection() {
    let lab = Lab::new();
    let origin = lab.nginx(&[HOST]);
    let script = "import httpx, asyncio\nasync def main():\n async with httpx.AsyncClient(http2=True, \
        timeout=60, limits=httpx.Limits(max_connections=1)) as c:\n  rs = await asyncio.gather(*\
        [c.get('https://api.example.com/hello') for _ in range(100)])\n  \
        print(sum(r.text == 'hello from the origin\\n' for r in rs))\nasyncio.run(main())";
    let _run = run(&lab, Way::Straight, script)
        .success()
        .says("100")
        .requested(HOST);
    assert_eq!(origin.lines().len(), 100);
}

#[test]
fn aiohttp_gets_over_https() {
    let _origin = both_ways(
        "import aiohttp, asyncio, ssl\nasync def main():\n \
         async with aiohttp.ClientSession(trust_env=True) as s:\n  \
         async with s.get('https://api.example.com/hello') as r: print(await r.text())\n\
         asyncio.run(main())",
    );
}
