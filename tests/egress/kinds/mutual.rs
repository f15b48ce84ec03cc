//! `client_certificate` where it does not help (the origin ends TLS, or the certificate has ended), and where it
//! becomes another or goes while a program uses it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use gig_audit::Event;
use gig_policy::DenyReason;
use gig_tests::lab::{Subject, authority::Authority, network::text};

use super::{Scene, serve};

fn run<'s>(scene: &'s Scene, host: &str, names: &[&str]) -> Subject<'s> {
    let mut run = scene.gig().allow(host);
    for name in names {
        run = run.option(["--secret", &format!("{name}@{host}")]);
    }
    run
}

#[test]
fn an_origin_that_ends_tls_is_told_with_a_reason_and_recorded() {
    let mut scene = Scene::new();
    let (clients, others) = (Authority::new(), Authority::new());
    for (name, authority) in [("CLIENT", &clients), ("STRANGE", &others)] {
        let leaf = authority.leaf(&["client.example.com"]);
        let pem = leaf.certificate + &leaf.key;
        scene.keep(name, "kind: client_certificate", &pem, &[]);
    }
    let ca = text(&scene.lab.file("clients.pem", &clients.pem()));
    for version in ["1.2", "1.3"] {
        let host = format!("tls-{}.example.com", version.replace('.', "-"));
        let origin = serve(&scene.lab, "sdk/mutual_tls.py", &[&host], &[&ca, version]);
        let get = format!("curl -sS -w ' status %{{http_code}}\\n' https://{host}/");
        let shown = run(&scene, &host, &["CLIENT"]).sh(&get);
        let _shown = scene.check(shown).says("shown").says("status 200");
        for names in [&[][..], &["STRANGE"]] {
            let refused = run(&scene, &host, names).sh(&get);
            let refused = scene.check(refused).says("status 502");
            let told: Vec<_> = refused.audit.of(Event::Response).collect();
            let [ended] = told.as_slice() else {
                panic!("{refused}");
            };
            // In TLS 1.3 the server looks at the certificate when the client has begun to speak: what it
            // says may come before there is anybody to hear it.
            let late = version == "1.3";
            let reasons = [DenyReason::TlsProtocol, DenyReason::DestinationUnavailable];
            let may = if late { &reasons[..] } else { &reasons[..1] };
            let reason = ended.reason.unwrap_or_else(|| panic!("{refused}"));
            assert!(may.contains(&reason), "TLS {version}: {reason}: {refused}");
            let _refused = refused.says(&format!("\"reason\":\"{reason}\""));
        }
        assert!(origin.log().contains("refused"), "{}", origin.log());
    }
}

#[test]
fn a_certificate_that_has_ended_refuses_the_start_and_says_so() {
    let mut scene = Scene::new();
    let leaf = Authority::new().ended_leaf(&["client.example.com"]);
    let pem = leaf.certificate + &leaf.key;
    scene.keep("CLIENT", "kind: client_certificate", &pem, &[]);
    let run = run(&scene, "api.example.com", &["CLIENT"]).run(["true"]);
    let _run = run
        .exits(125)
        .complains("the certificate ended at 2020-01-01T00:00:00Z")
        .complains("gig secret rotate CLIENT");
}

/// Asks on one connection, until it is told that it is enough.
const ASK: &str = "import http.client, os, sys, time\n\
    c = http.client.HTTPSConnection('api.example.com', timeout=60)\n\
    while not os.path.exists(sys.argv[1]):\n \
     c.request('GET', '/'); r = c.getresponse(); said = r.read().decode().strip()\n \
     print(r.status, said.splitlines()[0] if r.status == 200 else '', flush=True); time.sleep(0.05)\n";

#[test]
fn a_certificate_that_is_rotated_or_removed_is_so_from_the_next_request_of_an_open_connection() {
    const HOST: &str = "api.example.com";
    let mut scene = Scene::new();
    let clients = Authority::new();
    let pem = || {
        let leaf = clients.leaf(&["client.example.com"]);
        leaf.certificate + &leaf.key
    };
    scene.keep("CLIENT", "kind: client_certificate", &pem(), &[]);
    let ca = text(&scene.lab.file("clients.pem", &clients.pem()));
    let _origin = serve(&scene.lab, "sdk/mutual_tls.py", &[HOST], &[&ca, "1.3"]);
    let folder = scene.lab.folder("shared");
    let enough = folder.join("enough");
    let run = run(&scene, HOST, &["CLIENT"]).option(["--rw", &text(&folder)]);
    let run = run.start(["/usr/bin/python3", "-c", ASK, &text(&enough)]);
    let last = || {
        run.output_so_far()
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned()
    };
    let until = |what: &str, come: &dyn Fn(&str) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let said = last();
            if come(&said) {
                return said;
            }
            assert!(Instant::now() < deadline, "{what} does not come: {said}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let first = until("an answer", &|said| said.starts_with("200 shown "));
    scene.secret(&["rotate", "CLIENT"], &pem());
    // What is under way ends with the one it began with; the next shows the other.
    let second = until("the other", &|said| {
        said.starts_with("200 shown ") && said != first
    });
    scene.secret(&["rm", "CLIENT"], "");
    let _refused = until("a refusal", &|said| said.starts_with("502"));
    // Forgotten, its name and its first version are another certificate's.
    scene.secret(&["rm", "CLIENT", "--forget"], "");
    let file = text(&scene.lab.file("again.yaml", "kind: client_certificate"));
    scene.secret(&["set", "CLIENT", "--definition", &file], &pem());
    let third = until("a third", &|said| said.starts_with("200 shown "));
    thread::sleep(Duration::from_millis(300));
    fs::write(&enough, "").expect("tell the program");
    let run = scene.check(run.finish(Duration::from_secs(60)));
    let said: Vec<String> = run
        .text()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect();
    let rounds: Vec<&str> = said
        .chunk_by(|a, b| a == b)
        .map(|round| &*round[0])
        .collect();
    assert_eq!(rounds, [&*first, &*second, "502", &*third], "{run}");
    assert!(third != first && third != second, "{run}");
    assert_eq!(run.audit.of(Event::Connect).count(), 1, "{run}");
}
