//! Much of it: large bodies both ways, a slow reader, many requests at once.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::Command,
};

use gig_tests::lab::{
    Lab,
    http_origin::{Exchange, Request},
    network::text,
};

const HOST: &str = "bulk.example.com";
const OCTETS: u64 = 200 << 20;

#[test]
fn large_downloads_arrive_whole() {
    let lab = Lab::new();
    let origin = lab.nginx(&[HOST]);
    let file = origin.root().join("large");
    let sum = numbered(&file);
    for version in ["--http1.1", "--http2"] {
        let script =
            format!("curl -sS --fail {version} https://bulk.example.com/large | sha256sum");
        let run = lab.gig().allow(HOST).sh(&script);
        let _run = run.success().says(&sum).requested(HOST);
    }
}

#[test]
fn large_uploads_arrive_whole() {
    let lab = Lab::new();
    let origin = lab.nginx(&[HOST]);
    let file = lab.folder("large").join("file");
    let sum = numbered(&file);
    for version in ["--http1.1", "--http2"] {
        let script = format!(
            "cat {} | curl -sS --fail {version} -T - -H 'Expect:' https://bulk.example.com/up",
            text(&file)
        );
        let run = lab.gig().allow(HOST).read_only(&file).sh(&script);
        let _run = run.success().requested(HOST);
        let stored = origin.root().join("up");
        assert_eq!(digest(&stored), sum, "{version}");
        fs::remove_file(stored).expect("it is stored");
    }
    assert_eq!(origin.lines().len(), 2);
}

/// Fills a file in which no eight octets are like any others, and gives its digest.
fn numbered(path: &Path) -> String {
    let mut file = io::BufWriter::new(fs::File::create(path).expect("a file"));
    for number in 0..OCTETS / 8 {
        file.write_all(&number.to_be_bytes()).expect("write");
    }
    drop(file);
    digest(path)
}

fn digest(path: &Path) -> String {
    let said = Command::new("sha256sum").arg(path).output();
    let said = String::from_utf8(said.expect("sha256sum").stdout).expect("text");
    said.split(' ').next().expect("a digest").to_owned()
}

#[test]
fn a_slow_reader_slows_the_origin_down() {
    let lab = Lab::new();
    let address = lab.address_for(HOST);
    let origin = lab.https(
        HOST,
        move |_: &mut Request, exchange: &mut Exchange<'_>| -> io::Result<()> {
            exchange.send(format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                1_u64 << 30
            ))?;
            let block = vec![0; 1 << 20];
            for _ in 0..1024 {
                exchange.send(&block)?;
                SENT.fetch_add(1 << 20, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        },
    );
    // The client reads one mebibyte and then waits; what lies between the two is buffers.
    let script = "import time, urllib.request\n\
        r = urllib.request.urlopen('https://bulk.example.com/', timeout=60)\n\
        print(len(r.read(1 << 20)), flush=True); time.sleep(4)";
    let run = lab.gig().allow(HOST).python(script).says("1048576");
    let sent = SENT.load(std::sync::atomic::Ordering::Relaxed);
    assert!(
        sent < 64 << 20,
        "the origin could send {sent} octets to {address}; {run}"
    );
    drop(origin);
}

static SENT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Sends until nothing goes out for two seconds, over TLS that gig opens or passes through.
const FILLS: &str = "import socket, ssl, sys\n\
    for host in ['bulk.example.com', 'sealed.example.com']:\n \
     plain = socket.create_connection((host, 443), timeout=60)\n \
     s = ssl._create_unverified_context().wrap_socket(plain, server_hostname=host)\n \
     s.sendall(f'PUT /up HTTP/1.1\\r\\nhost: {host}\\r\\ncontent-length: {1 << 30}\\r\\n\\r\\n'.encode())\n \
     s.settimeout(2); sent = 0\n \
     try:\n  \
      while sent < 1 << 30: sent += s.send(bytes(1 << 16))\n \
     except TimeoutError: pass\n \
     print('sent', sent, flush=True)\n";
/// The same in a stream of HTTP/2.
const FILLS_A_STREAM: &str = "const stream = require('http2').connect('https://bulk.example.com')\
    .request({':method': 'PUT', ':path': '/up'});\n\
    let sent = 0, last = Date.now();\n\
    const block = Buffer.alloc(65536), next = () => stream.write(block, () => {\n \
     sent += block.length; last = Date.now(); if (sent < 2 ** 30) next();\n\
    });\n\
    next();\n\
    setInterval(() => { if (Date.now() - last > 2000) { console.log('sent', sent); process.exit(0); } }, 50);";

#[test]
fn an_origin_that_reads_nothing_slows_the_program_down() {
    const SEALED: &str = "sealed.example.com";
    let lab = Lab::new();
    let reads_nothing = |_: &mut Request, _: &mut Exchange<'_>| -> io::Result<()> {
        std::thread::sleep(std::time::Duration::from_secs(15));
        Ok(())
    };
    let _origins = [
        lab.https(HOST, reads_nothing),
        lab.https(SEALED, reads_nothing),
    ];
    let gig = || lab.gig().allow(HOST).allow(&format!("tls:{SEALED}"));
    let one = gig().python(FILLS);
    let two = gig().run(["node", "-e", FILLS_A_STREAM]);
    for (run, times) in [(one, 2), (two, 1)] {
        let said = run.text();
        let sent = said.lines().filter_map(|line| line.strip_prefix("sent "));
        let sent: Vec<u64> = sent.map(|n| n.parse().expect("a number")).collect();
        assert_eq!(sent.len(), times, "{run}");
        // What lies between the two is buffers; nobody reads on into memory.
        let bounded = |sent: &u64| (1 << 16..64 << 20).contains(sent);
        assert!(sent.iter().all(bounded), "{sent:?}: {run}");
    }
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let lab = Lab::new();
    let origin = lab.nginx(&[HOST]);
    let script = "curl -sS --fail --no-progress-meter -Z --parallel-max 32 -o /dev/null \
        'https://bulk.example.com/hello?[1-400]' && echo all";
    let _run = lab
        .gig()
        .allow(HOST)
        .sh(script)
        .success()
        .says("all")
        .requested(HOST);
    assert_eq!(origin.lines().len(), 400);
}
