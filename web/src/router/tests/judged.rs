//! Every operation of the API, asked with what it takes: who is let, role by role, and that none takes what it does
//! not name. Whoever adds an operation adds a line to the table.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::furnished::{Answer, Ask, Furnished};
use crate::role::Role;

mod shape;
mod table;

use table::{OPERATIONS, Operation};

impl Operation {
    fn ask<'a>(&'a self, token: &'a str) -> Ask<'a> {
        Ask {
            what: self.at,
            token,
            body: self.body,
            field: self.field,
        }
    }

    async fn appliance(&self) -> Furnished {
        match self.two {
            true => Furnished::ruled().await,
            false => Furnished::new().await,
        }
    }
}

/// Where lists are asked for whole: all that answer with `items`, but what waits, which is bounded, and the health of
/// each layer.
pub(super) fn lists() -> impl Iterator<Item = &'static str> {
    let whole = [
        "GET /api/v1/held",
        "GET /api/v1/health",
        "GET /api/v1/nodes",
    ];
    let known = OPERATIONS.iter().map(|one| one.at);
    known.filter(move |at| {
        let path = at.strip_prefix("GET /api/v1/").unwrap_or_default();
        let plural = path.ends_with('s') && !path.contains('/') || path.ends_with("/versions");
        plural && !whole.contains(at) && path != "events"
    })
}

/// A token of this role, made by an admin who is nobody's subject here.
fn token(appliance: &Furnished, role: Role) -> String {
    appliance.token("dan", role, ("", ""))
}

#[tokio::test]
async fn every_operation_of_the_document_is_judged() {
    let appliance = Furnished::new().await;
    let token = token(&appliance, Role::Viewer);
    let document = appliance.ask(Ask {
        what: "GET /api/v1/openapi.json",
        token: &token,
        ..Ask::default()
    });
    let document = document.await.json();
    let methods = ["get", "put", "post", "patch", "delete"];
    let mut known = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let theirs = item.as_object().unwrap();
        let theirs = theirs
            .iter()
            .filter(|(name, _)| methods.contains(&name.as_str()));
        for (method, operation) in theirs {
            let what = format!("{} {path}", method.to_uppercase());
            let judged = OPERATIONS.iter().find(|one| one.what == what);
            let judged = judged.unwrap_or_else(|| panic!("{what} is not in the table"));
            let takes = operation.get("requestBody").is_some();
            assert_eq!(
                judged.body.is_some(),
                takes,
                "{what}: a body where it takes one"
            );
            known.insert(what);
        }
    }
    assert_eq!(
        known.len(),
        OPERATIONS.len(),
        "the table has what is not there"
    );
}

/// Those who are refused share an appliance, on which nothing may change; whoever is let has one of their own.
#[tokio::test]
async fn every_operation_lets_whom_it_should_with_what_it_takes() {
    let (plain, ruled) = (Furnished::new().await, Furnished::ruled().await);
    let tokens = [&plain, &ruled].map(|one| Role::ALL.map(|role| token(one, role)));
    let mut wrong = Vec::new();
    for operation in OPERATIONS {
        let (shared, theirs) = match operation.two {
            false => (&plain, &tokens[0]),
            true => (&ruled, &tokens[1]),
        };
        let reads = operation.what.starts_with("GET ");
        for (number, expected) in operation.answers.into_iter().enumerate() {
            let role = Role::ALL[number];
            let answer = if expected < 400 && !reads {
                let own = operation.appliance().await;
                own.ask(operation.ask(&token(&own, role))).await
            } else {
                shared.ask(operation.ask(&theirs[number])).await
            };
            if answer.status != expected {
                wrong.push(format!("{} {role}: {expected}, {answer:?}", operation.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whoever may not is refused as ever, and told to the record; whoever may is not obeyed as if nothing was said.
#[tokio::test]
async fn no_operation_is_done_on_a_condition_that_it_does_not_hold() {
    let appliance = Furnished::new().await;
    let tokens = Role::ALL.map(|role| token(&appliance, role));
    let mut wrong = Vec::new();
    let mut tried = 0;
    for operation in OPERATIONS {
        let (method, path) = operation.what.split_once(' ').unwrap();
        let method: http::Method = method.parse().unwrap();
        let held = crate::openapi::heeded(&method, path).unwrap();
        // Signed by who sends it, who is no caller.
        if method.is_safe() || held.if_match || path.ends_with("/answer") {
            continue;
        }
        for (number, expected) in operation.answers.into_iter().enumerate() {
            let ask = Ask {
                field: Some(("if-match", "\"stale\"")),
                ..operation.ask(&tokens[number])
            };
            let answer = appliance.ask(ask).await;
            // Who may not at all, or may a part of it.
            let may_not = expected == 403 && answer.status == 403;
            if !(may_not || matches!(answer.status, 404 | 412 | 422)) {
                wrong.push(format!(
                    "{} {}: {answer:?}",
                    operation.what,
                    Role::ALL[number]
                ));
            }
            tried += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 100, "{tried}");
}

/// A token of an admin that is made to oversee, and nothing else: it reads what an auditor reads, and changes nothing but
/// what every reader keeps for themselves.
#[tokio::test]
async fn a_token_that_oversees_reads_as_an_auditor_and_changes_nothing() {
    let (plain, ruled) = (Furnished::new().await, Furnished::ruled().await);
    let scopes = ("read audit profiles:oversee", "");
    let tokens = [&plain, &ruled].map(|one| one.token("dan", Role::Admin, scopes));
    let mut wrong = Vec::new();
    for operation in OPERATIONS {
        let (appliance, token) = match operation.two {
            false => (&plain, &tokens[0]),
            true => (&ruled, &tokens[1]),
        };
        let auditors = operation.answers[1];
        let reads = operation.what.starts_with("GET ");
        if !reads && auditors < 400 {
            continue;
        }
        let answer = appliance.ask(operation.ask(token)).await;
        let is_right = answer.status == auditors || (!reads && answer.status == 403);
        if !is_right {
            wrong.push(format!("{}: {auditors}, {answer:?}", operation.what));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn no_operation_takes_a_field_that_it_does_not_name() {
    for two in [false, true] {
        let appliance = match two {
            true => Furnished::ruled().await,
            false => Furnished::new().await,
        };
        let token = token(&appliance, Role::Admin);
        let before = all(&appliance, &token).await;
        let told = appliance.lab.log.records().len();
        let taking = OPERATIONS.iter().filter(|one| one.two == two);
        // What is signed is not heard at all here: its body has a test beside it.
        let taking = taking.filter(|one| one.body.is_some() && one.answers[4] != 401);
        let mut tried = 0;
        for operation in taking {
            let body = operation.body.unwrap();
            let body = serde_json::from_str(body).unwrap();
            for body in with_one_more(&body) {
                let text = body.to_string();
                let ask = Ask {
                    body: Some(&text),
                    ..operation.ask(&token)
                };
                let answer = appliance.ask(ask).await;
                assert!(
                    matches!(answer.status, 400 | 422) && answer.body.contains("unknown field"),
                    "{} takes {body}: {answer:?}",
                    operation.what
                );
                tried += 1;
            }
        }
        assert!(tried >= if two { 3 } else { 20 }, "{tried}");
        assert_eq!(appliance.lab.log.records().len(), told, "nothing was begun");
        assert_eq!(all(&appliance, &token).await, before);
    }
}

/// `body`, with a field that nobody knows in each of its objects, one after the other; variables of a server have
/// whatever names they like.
fn with_one_more(body: &Value) -> Vec<Value> {
    let fields = body.as_object().unwrap();
    let more = |fields: &Map<String, Value>| {
        let mut fields = fields.clone();
        fields.insert("made_up".to_owned(), "admin".into());
        Value::Object(fields)
    };
    let mut bodies = vec![more(fields)];
    for (name, value) in fields.iter().filter(|(name, _)| *name != "env") {
        if let Value::Object(inner) = value {
            let mut outer = fields.clone();
            outer.insert(name.clone(), more(inner));
            bodies.push(Value::Object(outer));
        }
    }
    bodies
}

/// All that the API shows, but the record: what is told of asking for it is there.
async fn all(appliance: &Furnished, token: &str) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    for operation in OPERATIONS {
        let path = operation.what.strip_prefix("GET /api/v1/");
        let Some(path) = path.filter(|path| !(path.starts_with("audit") || *path == "events"))
        else {
            continue;
        };
        let Answer { status, body, .. } = appliance.ask(operation.ask(token)).await;
        shown.push((format!("{path} {status}"), body));
    }
    shown
}
