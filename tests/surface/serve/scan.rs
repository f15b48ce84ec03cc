//! Every operation of the API, asked by everybody: who may not, and what hostile names do. What is asked for is
//! not there, so that whoever may is told so, and nothing changes. Who is let with a body that is good, and that no
//! operation takes more than it names, is judged beside the router (`web/src/router/tests/judged.rs`).

use serde_json::json;

use super::{Appliance, Ask, Reply};

/// The document's operations: a method and a path with its names in braces.
fn operations(appliance: &Appliance, token: &str) -> Vec<(String, String)> {
    let document = Ask::new("GET", "/api/v1/openapi.json").token(token);
    let document = document.send(appliance).json();
    let paths = document["paths"].as_object().expect("paths").iter();
    let paths = paths.filter(|(path, _)| !ENDLESS.iter().any(|end| path.ends_with(end)));
    let each = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").keys();
        let methods = methods.filter(|method| METHODS.contains(&method.as_str()));
        methods.map(move |method| (method.to_uppercase(), path.clone()))
    });
    each.collect()
}

/// Asks with `name` in place of each name.
fn ask(
    appliance: &Appliance,
    (method, path): (&str, &str),
    name: &str,
    token: Option<&str>,
) -> Reply {
    let parts = path.split('/');
    let parts = parts.map(|part| if part.starts_with('{') { name } else { part });
    let path = parts.collect::<Vec<_>>().join("/");
    let mut ask = Ask::new(method, &path);
    if let Some(token) = token {
        ask = ask.token(token);
    }
    if matches!(method, "PUT" | "POST" | "PATCH") {
        ask = ask.json(&json!({}));
    }
    ask.send(appliance)
}

fn letter(role: &str) -> char {
    match role {
        "approver" => 'p',
        "admin" => 'd',
        other => other.chars().next().expect("a letter"),
    }
}

/// Who is refused whatever they ask for, by the first letters of the roles; `None`: the body is read first, or
/// the answer is everybody's.
fn refused(method: &str, path: &str) -> Option<&'static str> {
    let path = path.strip_prefix("/api/v1/")?;
    let known = REFUSED.iter().find(|one| (one.0, one.1) == (method, path));
    known.map(|one| one.2)
}

#[test]
fn every_operation_refuses_whom_it_should_and_hostile_names_are_names() {
    let appliance = Appliance::start();
    let roles = ["viewer", "auditor", "editor", "approver", "admin"];
    let tokens = roles.map(|role| (role, appliance.token(role)));
    let admin = &tokens[4].1;
    let mut judged = 0;
    for (method, path) in operations(&appliance, admin) {
        let operation = (method.as_str(), path.as_str());
        let open = path.ends_with("healthz") || path.ends_with("readyz");
        if !open {
            let nobody = ask(&appliance, operation, "none", None);
            assert_eq!(nobody.status, 401, "{operation:?}: {nobody:?}");
            let forged = ask(&appliance, operation, "none", Some("gig_forged"));
            assert_eq!(forged.status, 401, "{operation:?}: {forged:?}");
        }
        let mut shut = String::new();
        for (role, token) in &tokens {
            let reply = ask(&appliance, operation, "none", Some(token));
            assert!(reply.status < 500, "{operation:?} {role}: {reply:?}");
            if reply.status == 403 {
                shut.push(letter(role));
            }
            let wrote = method != "GET" && reply.status < 400;
            let looks = ["/suggest", "/simulate", "/doctor"];
            let harmless = looks.iter().any(|end| path.ends_with(end));
            assert!(!wrote || harmless, "{operation:?} {role}: {reply:?}");
        }
        if let Some(expected) = refused(&method, &path) {
            assert_eq!(shut, expected, "{operation:?}");
            judged += 1;
        }
        if path.contains('{') {
            for name in HOSTILE {
                let reply = ask(&appliance, operation, name, Some(admin));
                let told = (400..500).contains(&reply.status) || path.ends_with("/log");
                assert!(
                    told || path.ends_with("/suggest"),
                    "{operation:?} {name}: {reply:?}"
                );
                assert!(
                    !reply.head.contains("x-planted"),
                    "{operation:?}: {reply:?}"
                );
            }
        }
    }
    // None of the table has gone.
    assert_eq!(judged, REFUSED.len());
    let left = appliance.gig(&["token", "ls"], "");
    assert_eq!(left.output.matches("for-").count(), roles.len(), "{left:?}");
}

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];
/// What does not end by itself.
const ENDLESS: [&str; 2] = ["/events", "/attach"];
/// Paths that lead up, an end of a text, a line of its own, one that nobody sees, and one that is long.
const HOSTILE: [&str; 5] = [
    "..%2f..%2fetc%2fpasswd",
    "a%00b",
    "a%0d%0ax-planted:%20yes",
    "%e2%80%ae%ff",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];
/// v, a, e, p for viewer, auditor, editor and approver; d is the admin.
const REFUSED: [(&str, &str, &str); 32] = [
    ("PUT", "assignments", "va"),
    ("POST", "assignments/simulate", "va"),
    ("GET", "audit", "v"),
    ("GET", "audit/{id}", "v"),
    ("GET", "audit/export/{format}", "v"),
    ("GET", "audit/proof", "v"),
    ("POST", "floors/simulate", "va"),
    ("GET", "held", "v"),
    ("POST", "held/{id}/allow", "va"),
    ("POST", "held/{id}/deny", "va"),
    ("POST", "doctor", "vaep"),
    ("DELETE", "policies/{name}", "vap"),
    ("POST", "policies/{name}/suggest", "va"),
    ("GET", "proposals", "v"),
    ("DELETE", "sandboxes/{id}", "vap"),
    ("GET", "sandboxes/{id}/log", "v"),
    ("GET", "searches", "v"),
    ("DELETE", "searches/{id}", "v"),
    ("GET", "second-factor-rule", "vaep"),
    ("DELETE", "secrets/{name}", "vaep"),
    ("DELETE", "servers/{name}", "vaep"),
    ("GET", "servers/{name}/log", "v"),
    ("POST", "servers/{name}/start", "vap"),
    ("DELETE", "teams/{name}", "vaep"),
    ("GET", "tokens", "vaep"),
    ("DELETE", "tokens/{id}", "vaep"),
    ("GET", "users", "vaep"),
    ("DELETE", "users/{name}", "vaep"),
    ("DELETE", "users/{name}/second-factor", "vaep"),
    ("GET", "webhooks", "vaep"),
    ("DELETE", "webhooks/{name}", "vaep"),
    ("POST", "webhooks/{name}/test", "vaep"),
];
