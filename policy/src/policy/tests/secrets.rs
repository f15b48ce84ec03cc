//! Which secrets a request may carry.

use super::*;

#[test]
fn secrets_go_in_clear_text_only_where_http_is_written() {
    let p = policy(
        "egress:\n- {host: a.example, ports: [8080], secrets: [T]}\n\
         - {host: b.example, ports: [8080], protocol: http, secrets: [T]}",
    );
    assert_eq!(
        request(&p, ("a.example", 8080), AppProtocol::Https, "GET", "/"),
        "allow egress[0] T"
    );
    assert_eq!(
        request(&p, ("a.example", 8080), AppProtocol::Http, "GET", "/"),
        "allow egress[0] "
    );
    assert_eq!(
        request(&p, ("b.example", 8080), AppProtocol::Http, "GET", "/"),
        "allow egress[1] T"
    );
}

#[test]
fn a_grant_says_where_and_whether_the_value_is_entrusted() {
    let p = policy(
        "egress:\n- {host: a.example, secrets: [{name: T, in: [header:Authorization, 'query:key']}]}\n\
         - {host: b.example, secrets: [{name: U, entrusted: true}]}",
    );
    assert_eq!(
        request(&p, ("a.example", 443), AppProtocol::Https, "GET", "/"),
        "allow egress[0] T (in header:authorization, query:key)"
    );
    let name = |text: &str| text.parse().unwrap();
    assert!(p.entrusts(&name("U")) && !p.entrusts(&name("T")));
    assert_eq!(p.secret_names(), [name("T"), name("U")]);
}

#[test]
fn a_binding_adds_a_secret_where_a_rule_allows_and_nowhere_else() {
    let bind = |place: &str| Binding::parse("T".parse().unwrap(), place).unwrap();
    let document = "egress:\n- {host: a.example, ports: [443, 8443], secrets: [D]}\n\
                    - {host: h.example, ports: [443], protocol: http}";
    let build = |observe: bool| {
        let mut builder = PolicyBuilder::new("p").document(document, "p").unwrap();
        for place in ["a.example", "other.example", "h.example"] {
            builder = builder.bind(bind(place));
        }
        let builder = if observe { builder.observe() } else { builder };
        builder.build().unwrap()
    };
    let p = build(false);
    let https = AppProtocol::Https;
    assert_eq!(
        request(&p, ("a.example", 443), https, "GET", "/"),
        "allow egress[0] D,T"
    );
    assert_eq!(
        request(&p, ("a.example", 8443), https, "GET", "/"),
        "allow egress[0] D"
    );
    assert!(request(&p, ("other.example", 443), https, "GET", "/").starts_with("deny"));
    // In clear text only where the rule writes `protocol: http` itself.
    assert_eq!(
        request(&p, ("h.example", 443), AppProtocol::Http, "GET", "/"),
        "allow egress[1] T"
    );
    let p = build(true);
    assert_eq!(
        request(&p, ("other.example", 443), https, "GET", "/"),
        "allow - T"
    );
    assert_eq!(
        request(&p, ("other.example", 443), AppProtocol::Http, "GET", "/"),
        "allow - "
    );
}
