//! What a sandbox can stretch is bounded: frames, fields, handshakes, patience.
//!
//! After each flood the same sandbox is still served, and gig has not grown.

mod interim;

use std::{io::Write as _, time::Duration};

use gig_tests::lab::{Finished, Lab, fixture, http_origin::greet, network::text, place};

use crate::naive::Naive;

const HOST: &str = "api.example.com";

fn flood(which: &str) -> Finished {
    flood_within(which, 240)
}

/// Nothing of it may make gig hold so much more than it does after one honest request.
fn flood_within(which: &str, most_mib: u64) -> Finished {
    let lab = Lab::new();
    let _origin = lab.https(HOST, |request, exchange| {
        if request.target == "/slow" {
            std::thread::sleep(Duration::from_secs(2));
        }
        if request.target == "/large" {
            return exchange.answer("200 OK", &"x".repeat(240 * 1024));
        }
        greet(request, exchange)
    });
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let script = fixture::text("wire.py") + &fixture::text("h2_hostile.py");
    let live = lab.gig().allow(HOST).read_only(&venv);
    let mut live = live.start([python.as_str(), "-c", &script, which]);
    live.wait_for("served before: True");
    let pid = live.pid();
    let base = held_kib(pid).expect("gig runs");
    let mut input = live.stdin().expect("its input");
    let peak = std::thread::spawn(move || peak_kib(pid));
    input.write_all(b"go\n").expect("tell it");
    let run = live.finish(Duration::from_secs(90));
    let peak = peak.join().expect("the watcher");
    assert!(base > 0 && peak >= base, "{base} {peak}");
    let grown = peak - base;
    assert!(grown < most_mib * 1024, "gig grew by {grown} KiB; {run}");
    run.success().says("still served: True")
}

/// The most memory the process ever held, asked until it ends.
fn peak_kib(pid: u32) -> u64 {
    let mut peak = 0;
    while let Some(held) = held_kib(pid) {
        peak = held;
        std::thread::sleep(Duration::from_millis(20));
    }
    peak
}

/// The most memory the process held so far; nothing when it has ended.
fn held_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Else "cut off" would prove nothing.
#[test]
fn a_server_without_limits_takes_every_flood_to_its_end() {
    let naive = Naive::start(Lab::new(), HOST, None);
    let script = fixture::text("wire.py") + &fixture::text("h2_hostile.py");
    for which in ["rapid_reset", "continuation_flood", "hpack_bomb"] {
        let said = naive.client(&script, &[which]);
        assert!(
            said.contains("took ") && !said.contains("cut off"),
            "{which}: {said}"
        );
        assert!(said.contains("still served: True"), "{which}: {said}");
    }
    // Who keeps all that the fields stand for has so much to keep.
    let said = naive.client(&script, &["weigh_the_bombs"]);
    assert!(said.contains("they weigh 2457 MiB"), "{said}");
}

#[test]
fn rapid_resets_are_cut_off() {
    let _run = flood("rapid_reset").says("cut off");
}

#[test]
fn continuation_floods_are_cut_off() {
    let _run = flood("continuation_flood").says("cut off");
}

#[test]
fn header_compression_bombs_do_not_grow() {
    // One of them alone weighs 50 MiB.
    let _run = flood_within("hpack_bomb", 32);
}

#[test]
fn streams_over_the_limit_are_refused() {
    let _run = flood("many_streams");
}

#[test]
fn downloads_that_nobody_reads_do_not_grow() {
    let _run = flood("unread_downloads");
}

#[test]
fn empty_frames_are_harmless() {
    let _run = flood("empty_frames");
}

#[test]
fn settings_floods_are_harmless() {
    let _run = flood("settings_flood");
}

#[test]
fn ping_floods_are_harmless() {
    let _run = flood("ping_flood");
}

/// By the client, the origin and the record, which the same request with one field passes.
fn refused_for_its_fields(script: &str) {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let run = |script: &str| lab.gig().allow(HOST).wire(script).success();
    let right = "s = tls('api.example.com'); s.sendall(get('/', 'api.example.com', 'X-1: y', 'Connection: close'))\n\
        print(rest(s, 20))";
    let _run = run(right).says("hello from");
    assert_eq!(origin.requests().len(), 1);
    let run = run(script);
    let refused = ["400", "413", "431", "cut off"]
        .iter()
        .any(|sign| run.text().contains(sign));
    assert!(refused && !run.text().contains("hello from"), "{run}");
    assert_eq!(origin.requests().len(), 1, "{run}");
    assert!(run.audit.refused_anything(), "{run}");
}

fn wire(script: &str) -> Finished {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let run = lab
        .gig()
        .allow(HOST)
        .patience(Duration::from_secs(90))
        .wire(script);
    run.success()
}

#[test]
fn header_sections_have_a_limit() {
    let script = "s = tls('api.example.com')\n\
        try:\n s.sendall(get('/', 'api.example.com', *[f'X-{n}: ' + 'y' * 8000 for n in range(200)]))\n\
        except OSError as e: print('cut off', e)\n\
        print(rest(s, 5)[:200])";
    refused_for_its_fields(script);
}

#[test]
fn many_small_fields_have_a_limit_too() {
    let script = "s = tls('api.example.com')\n\
        try:\n s.sendall(get('/', 'api.example.com', *[f'X-{n}: y' for n in range(20000)]))\n\
        except OSError as e: print('cut off', e)\n\
        print(rest(s, 5)[:200])";
    refused_for_its_fields(script);
}

#[test]
fn a_head_that_comes_slowly_is_not_waited_for_forever() {
    let script = "s = tls('api.example.com'); started = time.monotonic()\n\
        s.settimeout(2)\n\
        try:\n\
        \x20for octet in b'GET / HTTP/1.1\\r\\nHost: api.example.com\\r\\n' + b'X-Slow: ' + b'y' * 100:\n\
        \x20 s.sendall(bytes([octet])); time.sleep(1)\n\
        except OSError as e: print('cut off', e)\n\
        took = time.monotonic() - started; print(rest(s, 1)[:40]); print('bounded' if took < 90 else 'UNBOUNDED', took)";
    let _run = wire(script).says("bounded");
}

#[test]
fn a_handshake_that_stops_is_not_waited_for_forever() {
    let script = "s = connect('api.example.com', 443); s.sendall(b'\\x16\\x03\\x01\\x02\\x00\\x01\\x00'); started = time.monotonic()\n\
        rest(s, 70); took = time.monotonic() - started; print('bounded' if took < 60 else 'UNBOUNDED', took)";
    let _run = wire(script).says("bounded");
}
