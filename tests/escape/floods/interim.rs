//! An origin that answers with interim responses without end.

use std::io;

use gig_audit::Event;
use gig_tests::lab::{
    Lab,
    http_origin::{Exchange, Request, greet},
};

const HOST: &str = "api.example.com";
const EACH: usize = 8 << 10;
const FLOOD: usize = 20_000;

/// 160 MB of early hints, one after the other.
fn flood(request: &mut Request, exchange: &mut Exchange<'_>) -> io::Result<()> {
    if request.target != "/flood" {
        return greet(request, exchange);
    }
    let hint = format!(
        "HTTP/1.1 103 Early Hints\r\nlink: <{}>\r\n\r\n",
        "x".repeat(EACH)
    );
    for _ in 0..FLOOD {
        exchange.send(&hint)?;
    }
    greet(request, exchange)
}

#[test]
fn a_flood_of_interim_answers_does_not_grow_gig_and_ends() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, flood);
    let live = lab.gig().allow(HOST).start([
        "sh",
        "-c",
        "curl -sS -m 200 -o /dev/null https://api.example.com/flood; \
         curl -sS -m 60 --fail https://api.example.com/",
    ]);
    let pid = live.pid();
    let peak = std::thread::spawn(move || super::peak_kib(pid));
    let run = live.finish(std::time::Duration::from_secs(90));
    let peak = peak.join().expect("the watcher");
    // Less than the flood: nobody keeps all of it, not even once.
    let bounds = 1..120 * 1024;
    assert!(bounds.contains(&peak), "gig grew to {peak} KiB; {run}");
    // How the flood ended is on the record, and so is the request behind it.
    let ended = run.audit.of(Event::Response).map(|one| one.path.as_deref());
    let ended: Vec<_> = ended.collect();
    assert_eq!(ended, [Some("/flood"), Some("/")], "{run}");
    let _run = run.success().says("hello from the origin");
}
