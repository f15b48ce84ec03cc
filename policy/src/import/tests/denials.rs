//! One port that is denied, and hosts that a proxy does not open.

use super::*;

fn srt(network: &str) -> (String, Vec<String>, Vec<String>) {
    egress(
        Format::SandboxRuntime,
        &format!("{{\"network\": {{{network}}}}}"),
    )
}

#[test]
fn a_port_that_is_denied_takes_itself_out_and_nothing_else() {
    let of = |denied: &str| {
        srt(&format!(
            "\"allowedDomains\": [\"a.test:443\", \"b.test:22\", \"b.test:443\"], \"deniedDomains\": [{denied}]"
        ))
    };
    let a = "  - host: a.test\n    ports: [443]";
    let (ssh, b) = (
        "  - host: b.test\n    ports: [22]",
        "  - host: b.test\n    ports: [443]",
    );
    for (denied, left) in [
        ("\"*:22\"", vec![a, b]),
        ("\"b.test:22\"", vec![a, b]),
        ("\"*.test:443\"", vec![ssh]),
        ("\"a.test:22\"", vec![a, ssh, b]),
        ("\"c.test:443\"", vec![a, ssh, b]),
    ] {
        let (document, widened, narrowed) = of(denied);
        assert_eq!(
            document,
            format!("egress:\n{}", left.join("\n")),
            "{denied}"
        );
        assert!(
            widened.is_empty() && narrowed.is_empty(),
            "{widened:?} {narrowed:?}"
        );
    }
    // Without ports an entry is open at two.
    let (document, ..) =
        srt("\"allowedDomains\": [\"a.test\"], \"deniedDomains\": [\"a.test:80\"]");
    assert_eq!(document, "egress:\n  - host: a.test\n    ports: [443]");
    let (document, widened, _) = srt(
        "\"allowedDomains\": [\"*.test:443\"], \"deniedDomains\": [\"a.test:443\", \"b.test:22\"]",
    );
    assert!(document.contains("*.test"), "{document}");
    assert_eq!(widened.len(), 1, "{widened:?}");
    assert!(
        widened[0].contains("a.test:443 was denied and *.test allows it"),
        "{widened:?}"
    );
}

#[test]
fn what_is_not_opened_is_not_opened_here_or_told() {
    let of = |pinned: &str| {
        srt(&format!(
            "\"allowedDomains\": [\"*.example.com:443\", \"api.pin.com:443\", \"cdn.wild.org:443\"], \
             \"tlsTerminate\": {{\"excludeDomains\": [{pinned}]}}"
        ))
    };
    for (pinned, host) in [
        ("\"api.pin.com\"", "api.pin.com"),
        ("\"api.pin.com:443\"", "api.pin.com"),
        ("\"*.wild.org\"", "cdn.wild.org"),
        ("\"*.example.com\"", "\"*.example.com\""),
    ] {
        let (document, _, narrowed) = of(pinned);
        let said = format!("  - host: {host}\n    ports: [443]\n    tls: passthrough");
        assert!(document.contains(&said), "{pinned}: {document}");
        assert_eq!(document.matches("passthrough").count(), 1, "{document}");
        assert!(narrowed.is_empty(), "{narrowed:?}");
    }
    for (pinned, told) in [
        ("\"pinned.example.com\"", "and *.example.com is"),
        ("\"api.pin.com:8443\"", "and api.pin.com is"),
        ("\"elsewhere.test\"", "no entry allows it"),
    ] {
        let (document, _, narrowed) = of(pinned);
        assert!(!document.contains("passthrough"), "{document}");
        assert!(
            narrowed.len() == 1 && narrowed[0].contains(told),
            "{narrowed:?}"
        );
    }
}
