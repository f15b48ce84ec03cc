//! `client_certificate` where it does not help: the origin ends TLS, or the certificate has ended.

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
