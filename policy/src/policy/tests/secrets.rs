//! Which secrets a request may carry.

use super::*;
use crate::FindingKind;

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
fn what_is_not_opened_takes_only_secrets_that_are_handed_in() {
    let p = policy(
        "egress:\n- {host: db.example, ports: [5432], protocol: tcp, secrets: [{name: T, entrusted: true}]}\n\
         - {host: '*.example', ports: [5432], protocol: tcp, secrets: [{name: U, entrusted: true}]}\n\
         - {host: p.example, ports: [443], tls: passthrough, secrets: [{name: V, entrusted: true}]}\n\
         - {host: a.example, ports: [443], secrets: [{name: W, entrusted: true}]}\n\
         - {host: x.example, ports: [5432], protocol: http}",
    );
    let may = |host: &str, port: u16, handling| -> Vec<String> {
        let host = Host::Name(host.parse().unwrap());
        let granted = p.entrusted_unopened(&host, Port::new(port).unwrap(), handling);
        granted.iter().map(|grant| grant.name.to_string()).collect()
    };
    use Handling::{Inspect, Opaque, Passthrough};
    assert_eq!(may("db.example", 5432, Opaque), ["T", "U"]);
    assert_eq!(may("other.example", 5432, Opaque), ["U"]);
    assert_eq!(may("p.example", 443, Passthrough), ["V"]);
    for (host, port, handling) in [
        ("db.example", 5433, Opaque),
        ("a.example", 443, Inspect),
        ("a.example", 443, Opaque),
        // The nearest rule decides, and it looks into them: a policy that only observes lets others pass.
        ("x.example", 5432, Opaque),
    ] {
        assert_eq!(may(host, port, handling), [""; 0], "{host}:{port}");
    }
    for secrets in [
        "T",
        "{name: T}",
        "{name: T, entrusted: true, in: [body]}",
        "{name: T, capture: true}",
    ] {
        for how in ["protocol: tcp", "tls: passthrough"] {
            let text = format!(
                "version: 1\negress:\n- {{host: db.example, ports: [5432], {how}, secrets: [{secrets}]}}\n"
            );
            let error = PolicyBuilder::new("p").document(&text, "p").map(drop);
            let error = error.unwrap_err().to_string();
            assert!(
                error.contains("handed itself") && error.contains("3:"),
                "{error}"
            );
        }
    }
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

/// The grants of a request to `auth.example`.
fn granted(p: &Policy, protocol: AppProtocol, path: &str) -> String {
    let port = if protocol == AppProtocol::Https {
        443
    } else {
        80
    };
    let told = request(p, ("auth.example", port), protocol, "POST", path);
    let told = told.strip_prefix("allow ").unwrap();
    // An option's rule is called as the option is written.
    let told = told.strip_prefix("--allow ").unwrap_or(told);
    let (_rule, secrets) = told.split_once(' ').unwrap();
    secrets.to_owned()
}

#[test]
fn a_token_endpoint_captures_and_takes_back_what_it_gave() {
    let p = policy(
        "egress:\n- host: auth.example\n  rules: [{methods: [POST], paths: [/token]}]\n  \
         secrets: [CLIENT, {name: LOGIN, capture: true}]\n\
         - {host: auth.example, rules: [{paths: [/keys]}]}\n\
         - {host: api.example, secrets: [LOGIN]}",
    );
    let (https, http) = (AppProtocol::Https, AppProtocol::Http);
    let capturing = "LOGIN (tokens in the answer become it)";
    let all = format!("CLIENT,{capturing},LOGIN,LOGIN_GRANT (in body)");
    assert_eq!(granted(&p, https, "/token"), all);
    // In clear text nothing goes, and what comes is captured.
    assert_eq!(granted(&p, http, "/token"), capturing);
    assert_eq!(granted(&p, https, "/keys"), "");
    let name = |text: &str| text.parse::<SecretName>().unwrap();
    assert_eq!(p.captured_names(), [name("LOGIN")]);
    let both = "egress: [{host: a.example, secrets: [{name: A, capture: true, entrusted: true}]}]";
    assert!(Policy::compile(both, "p").is_err());
    let two = "egress: [{host: a.example, secrets: [{name: A, capture: true}, {name: B, capture: true}]}]";
    assert!(Policy::compile(two, "p").is_err());
}

#[test]
fn another_spelling_of_a_captured_path_is_captured_whichever_rule_lets_it_go() {
    let entries = |methods: &str| {
        format!(
            "egress:\n- {{host: auth.example, secrets: [{{name: LOGIN, capture: true}}], \
             rules: [{{{methods}paths: [/oauth2/token]}}]}}\n\
             - {{host: auth.example, rules: [{{paths: [/**, '/oauth2/token%2F']}}]}}"
        )
    };
    let https = AppProtocol::Https;
    let capturing = "LOGIN (tokens in the answer become it)";
    for text in [entries(""), entries("methods: [GET, POST], ")] {
        let p = policy(&text);
        for path in LOOSE.iter().chain(&["/oauth2/token/", "/OAUTH2/token"]) {
            let told = match p.decide_request(&host("auth.example"), Port::HTTPS, &get(path)) {
                Verdict::Allow(_) => granted(&p, https, path),
                // What servers read in two ways goes where a rule spells it.
                Verdict::Deny(_) => continue,
            };
            assert_eq!(told, capturing, "{path}");
        }
        assert_eq!(granted(&p, https, "/oauth2/token%2F"), capturing);
        assert_eq!(granted(&p, https, "/oauth2//token"), capturing);
        assert_eq!(granted(&p, https, "/oauth2/tokens"), "");
    }
    let p = policy(&format!("mode: observe\n{}", entries("")));
    assert_eq!(granted(&p, https, "/oauth2/token%20"), capturing);
}

#[test]
fn what_comes_from_a_captured_path_is_captured_whatever_the_method() {
    let entries = |first: &str| {
        format!(
            "egress:\n- {{host: auth.example, secrets: [{{name: LOGIN, capture: true}}], \
             rules: [{{{first}}}]}}\n- {{host: auth.example, rules: [{{paths: [/**]}}]}}"
        )
    };
    let p = policy(&entries("methods: [POST], paths: [/token]"));
    let capturing = "LOGIN (tokens in the answer become it)";
    let got = |p: &Policy, path: &str| {
        let told = request(p, ("auth.example", 443), AppProtocol::Https, "GET", path);
        let told = told.strip_prefix("allow egress[1]").unwrap();
        told.split_once(' ').unwrap().1.to_owned()
    };
    for path in ["/token", "/token/", "//token", "/Token;a=1"] {
        assert_eq!(got(&p, path), capturing, "{path}");
    }
    assert_eq!(got(&p, "/keys"), "");
    // Where no path is named, what comes of other methods comes as it is; and that is said.
    let p = policy(&entries("methods: [POST]"));
    assert_eq!(got(&p, "/token"), "");
    let uncaptured = |first: &str| {
        let told = policy(&entries(first)).findings();
        let kinds = told.into_iter().map(|finding| finding.kind);
        kinds
            .filter(|kind| *kind == FindingKind::Uncaptured)
            .count()
    };
    assert_eq!(uncaptured("methods: [POST]"), 1);
    for first in ["methods: [POST], paths: [/token]", "paths: [/token]"] {
        assert_eq!(uncaptured(first), 0, "{first}");
    }
}

const fn get(path: &str) -> RequestIntent<'_> {
    RequestIntent {
        protocol: AppProtocol::Https,
        method: "GET",
        path,
    }
}

/// What some server takes for `/oauth2/token`.
const LOOSE: [&str; 9] = [
    "//oauth2/token",
    "/oauth2//token",
    "/oauth2/token;a=1",
    "/oauth2/token%3Bx",
    "/oauth2/x/..;/token",
    "/oauth2/token%2F",
    "/oauth2/\\token",
    "/oauth2/token%20",
    "/oauth2/token.",
];

#[test]
fn where_an_answer_holds_tokens_can_be_said() {
    let p = policy(
        "egress:\n- {host: auth.example, rules: [{paths: [/token]}], secrets: \
         [{name: LOGIN, capture: true, from: ['header:X-Session', 'cookie:sid', 'body:key']}]}",
    );
    let told = granted(&p, AppProtocol::Https, "/token");
    let capturing =
        "LOGIN (tokens in the answer become it, also from header:x-session, cookie:sid, body:key)";
    assert!(told.starts_with(capturing), "{told}");
    for wrong in [
        "capture: true, from: [body]",
        "capture: true, from: [x]",
        "from: ['cookie:a']",
    ] {
        let text = format!("egress: [{{host: a.example, secrets: [{{name: A, {wrong}}}]}}]");
        let error = Policy::compile(&text, "p").unwrap_err().to_string();
        assert!(error.contains("`from`"), "{error}");
    }
}

#[test]
fn that_id_tokens_are_shown_can_be_said_and_of_no_other() {
    let p = policy(
        "egress:\n- {host: auth.example, rules: [{paths: [/token]}], secrets: \
         [{name: LOGIN, capture: true, show: [id_token]}]}",
    );
    let told = granted(&p, AppProtocol::Https, "/token");
    let capturing = "LOGIN (tokens in the answer become it, save ID tokens, which are shown)";
    assert!(told.starts_with(capturing), "{told}");
    for wrong in [
        "capture: true, show: [access_token]",
        "capture: true, show: [id_token, refresh_token]",
        "show: [id_token]",
    ] {
        let text = format!("egress: [{{host: a.example, secrets: [{{name: A, {wrong}}}]}}]");
        let error = Policy::compile(&text, "p").unwrap_err().to_string();
        assert!(error.contains("`show`"), "{error}");
    }
}

#[test]
fn an_option_captures_at_one_path_by_every_door() {
    let name: SecretName = "LOGIN".parse().unwrap();
    let mut builder = PolicyBuilder::new("p").allow("auth.example").unwrap();
    for binding in Binding::capture(&name, "https://auth.example/oauth2/token").unwrap() {
        builder = builder.bind(binding);
    }
    let p = builder.build().unwrap();
    let (https, http) = (AppProtocol::Https, AppProtocol::Http);
    let capturing = "LOGIN (tokens in the answer become it)";
    let all = format!("{capturing},LOGIN,LOGIN_GRANT (in body)");
    for path in ["/oauth2/token", "/oauth2/token/", "/OAuth2/Token"] {
        assert_eq!(granted(&p, https, path), all, "{path}");
        assert_eq!(granted(&p, http, path), capturing, "{path}");
    }
    // Nothing goes there, and servers take it for the same.
    for path in LOOSE {
        assert_eq!(granted(&p, https, path), capturing, "{path}");
    }
    assert_eq!(granted(&p, https, "/oauth2/tokens"), "");
    for wrong in [
        "auth.example/token",
        "http://auth.example/token",
        "https://auth.example",
        "https://auth.example/",
        "https://auth.example/token?x",
        "https://auth.example/*",
        "https://*.auth.example/token",
        "https://auth.example:0/token",
    ] {
        assert!(Binding::capture(&name, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_a_secret_is_granted_for_has_to_be_as_it_is_whatever_else_is_open() {
    let bound = |document: &str, url: &str| {
        let bindings = Binding::capture(&"B".parse().unwrap(), url).unwrap();
        let builder = PolicyBuilder::new("p").document(document, "p").unwrap();
        let builder = bindings.into_iter().fold(builder, PolicyBuilder::bind);
        builder.build().unwrap()
    };
    let open = "- {host: a.example}";
    let entry = |rules: &str| {
        format!("egress:\n- {{host: a.example, secrets: [T], rules: [{rules}]}}\n{open}")
    };
    let host = host("a.example");
    let decided = |p: &Policy, method: &str, path: &str| {
        let intent = RequestIntent {
            protocol: AppProtocol::Https,
            method,
            path,
        };
        let Verdict::Allow(permit) = p.decide_request(&host, Port::HTTPS, &intent) else {
            panic!("denied");
        };
        let DecidedOn {
            method,
            path,
            either,
        } = permit.decided_on();
        (method, path, either)
    };
    let both = policy(&entry("{methods: [POST], paths: [/a]}"));
    assert_eq!(decided(&both, "POST", "/a"), (true, true, true));
    assert_eq!(decided(&both, "POST", "/b"), (false, false, false));
    let method = policy(&entry("{methods: [POST]}"));
    assert_eq!(decided(&method, "POST", "/b"), (true, false, true));
    let path = policy(&entry("{paths: [/a]}"));
    assert_eq!(decided(&path, "GET", "/a"), (false, true, true));
    let any = policy(&format!(
        "egress:\n- {{host: a.example, secrets: [T]}}\n{open}"
    ));
    assert_eq!(decided(&any, "GET", "/a"), (false, false, false));
    let bound = bound(&format!("egress:\n{open}"), "https://a.example/hook");
    assert_eq!(decided(&bound, "GET", "/hook"), (false, true, true));
    // Nothing leads to where tokens are captured past the capture.
    assert_eq!(decided(&bound, "GET", "/other"), (false, true, true));
    for (rules, expected) in [
        (", rules: [{paths: [/token]}]", (false, true, true)),
        (", rules: [{methods: [POST]}]", (true, false, true)),
        (
            ", rules: [{methods: [POST], paths: [/token]}]",
            (true, true, true),
        ),
        // Every answer is captured.
        ("", (false, false, false)),
    ] {
        let secrets = "secrets: [{name: T, capture: true}]";
        let capturing = format!("egress:\n- {{host: a.b.example, {secrets}{rules}}}");
        for open in ["a.b.example", "'*.b.example'"] {
            let p = policy(&format!("{capturing}\n- {{host: {open}}}"));
            let Verdict::Allow(permit) = p.decide_request(
                &self::host("a.b.example"),
                Port::HTTPS,
                &RequestIntent {
                    protocol: AppProtocol::Https,
                    method: "GET",
                    path: "/other",
                },
            ) else {
                panic!("denied");
            };
            let by = permit.decided_on();
            assert_eq!((by.method, by.path, by.either), expected, "{rules} {open}");
        }
    }
}
