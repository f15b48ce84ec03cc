//! A policy document: compiled or refused, and one that is compiled opens nothing unnamed.

use gig_policy::{AppProtocol, Host, Policy, Port, RequestIntent, Verdict};

/// The document's text.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let policy = match Policy::compile(text, "fuzz.yaml") {
        Ok(policy) => policy,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let _findings = policy.findings();
    let again = Policy::compile(text, "fuzz.yaml").expect("the same text");
    for host in [
        "api.example.com",
        "xn--bcher-kva.example",
        "169.254.169.254",
        "20.1.2.3",
    ] {
        let host = Host::parse(host).expect("a host");
        for (port, protocol) in [
            (Port::HTTPS, AppProtocol::Https),
            (Port::HTTP, AppProtocol::Http),
        ] {
            let connect = policy.decide_connect(&host, port, Some(protocol));
            assert_eq!(
                format!("{connect:?}"),
                format!("{:?}", again.decide_connect(&host, port, Some(protocol)))
            );
            for path in ["/", "/repos/acme/x", "/a%2Fb"] {
                let intent = RequestIntent {
                    protocol,
                    method: "GET",
                    path,
                };
                let request = policy.decide_request(&host, port, &intent);
                // No request goes where no connection may.
                let opened = matches!(connect, Verdict::Allow(_));
                assert!(
                    opened || matches!(request, Verdict::Deny(_)),
                    "{host} {path}"
                );
            }
        }
    }
}
