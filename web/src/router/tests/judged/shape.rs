//! Every operation of the API, asked in each way that it can be refused: one shape of what is not done (RFC 9457), and
//! what programs go on by beside it.

use std::collections::BTreeSet;

use axum::response::IntoResponse as _;
use serde_json::Value;

use super::{
    super::furnished::{Answer, Ask, Furnished},
    table::{OPERATIONS, Operation},
};
use crate::{
    api_error::Problem, control::ControlError, role::Role, router::LONGEST_BODY, store::ChangeError,
};

/// What is wrong with an answer, if anything.
fn fault(answer: &Answer) -> Option<String> {
    let has = |name: &str| answer.headers.contains_key(name);
    let beside = match answer.status {
        201 => "location",
        401 => "www-authenticate",
        405 => "allow",
        426 => "upgrade",
        429 => "retry-after",
        _ => "x-content-type-options",
    };
    if !has(beside) {
        return Some(format!("no {beside}"));
    }
    if answer.status < 400 {
        return None;
    }
    let kind = answer.headers.get("content-type");
    if kind.is_none_or(|kind| kind != "application/problem+json") {
        return Some(format!("it is {kind:?}"));
    }
    let Ok(Value::Object(problem)) = serde_json::from_str(&answer.body) else {
        return Some("no object".to_owned());
    };
    let text = |name: &str| {
        problem
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let known = [
        "type",
        "title",
        "status",
        "detail",
        "problems",
        "needs_role",
    ];
    if let Some(other) = problem.keys().find(|name| !known.contains(&name.as_str())) {
        return Some(format!("{other} is no field of a problem"));
    }
    let word = text("type").strip_prefix("urn:gig:problem:");
    let is_whole = word.is_some_and(|word| word.replace('_', " ") == text("title"))
        && !text("title").is_empty()
        && !text("detail").is_empty()
        && problem.get("status") == Some(&answer.status.into());
    (!is_whole).then(|| "it does not say what, why and how".to_owned())
}

/// What is sent, and how.
struct Way {
    what: String,
    token: String,
    fields: Vec<(&'static str, &'static str)>,
    body: String,
}

/// Each way of asking it that is refused, or might be.
fn ways(operation: &Operation, (admin, viewer): (&str, &str)) -> Vec<Way> {
    let body = operation.body.unwrap_or_default();
    let way = |what: &str, token: &str, body: &str| Way {
        what: what.to_owned(),
        token: token.to_owned(),
        fields: operation
            .field
            .into_iter()
            .chain([("content-type", "application/json")])
            .collect(),
        body: body.to_owned(),
    };
    let at = operation.at;
    let (method, path) = at.split_once(' ').unwrap();
    let other = match method {
        "GET" => "TRACE",
        _ => "GET",
    };
    let mut ways = vec![
        way(at, "", body),
        way(at, "gig_forged", body),
        way(at, viewer, body),
        way(&format!("{at}?cursor="), admin, body),
        way(&format!("{at}?cursor=%25&limit=-"), admin, body),
        way(&format!("{at}?made_up=1"), admin, body),
        way(&format!("{other} {path}"), admin, ""),
        way(&format!("OPTIONS {path}"), admin, ""),
    ];
    for name in ["none", "%FF", "a%00b", "..%2f.."] {
        let named = operation.what.replace("{id}", name);
        let named = named.replace("{name}", name).replace("{version}", name);
        ways.push(way(&named.replace("{format}", name), admin, body));
    }
    for wrong in ["", "{", "[]", "{}", r#"{"made_up": 1}"#] {
        ways.push(way(at, admin, wrong));
    }
    ways.push(way(at, admin, &"x".repeat(LONGEST_BODY + 1)));
    let fields = [
        ("content-type", "text/plain"),
        ("idempotency-key", "none"),
        // It is left out.
        ("if-match", ""),
        ("gig-profile", "no name"),
        ("traceparent", "none"),
    ];
    for field in fields {
        let mut one = way(at, admin, body);
        one.fields.retain(|(name, _)| *name != field.0);
        if !field.1.is_empty() {
            one.fields.push(field);
        }
        ways.push(one);
    }
    ways
}

async fn ask(appliance: &Furnished, way: &Way) -> Answer {
    let token = format!("Bearer {}", way.token);
    let mut fields: Vec<(&str, &str)> = way.fields.clone();
    if !way.token.is_empty() {
        fields.push(("authorization", &token));
    }
    appliance.send(&way.what, &fields, &way.body).await
}

#[tokio::test]
async fn whatever_is_not_done_is_told_in_one_shape() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for two in [false, true] {
        let appliance = match two {
            true => Furnished::ruled().await,
            false => Furnished::new().await,
        };
        let token = |role| super::token(&appliance, role);
        let viewer = token(Role::Viewer);
        let ours = |one: &&Operation| one.two == two && one.what.contains(" /api/");
        for operation in OPERATIONS.iter().filter(ours) {
            // Of their own: nobody is told to wait.
            let admin = token(Role::Admin);
            for way in ways(operation, (&admin, &viewer)) {
                let answer = ask(&appliance, &way).await;
                seen.insert(answer.status);
                if let Some(fault) = fault(&answer) {
                    let body: String = answer.body.chars().take(200).collect();
                    let (what, status) = (&way.what, answer.status);
                    wrong.push(format!("{what}: {fault}: {status} {body}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for status in [400, 401, 403, 404, 405, 413, 415, 422, 426, 428] {
        assert!(seen.contains(&status), "{status} of {seen:?}");
    }
}

#[tokio::test]
async fn what_is_made_is_where_its_location_says() {
    let mut made = 0;
    for operation in OPERATIONS.iter().filter(|one| one.answers[4] == 201) {
        let appliance = operation.appliance().await;
        let token = super::token(&appliance, Role::Admin);
        let answer = appliance.ask(operation.ask(&token)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let place = answer.headers.get("location");
        let place = place.unwrap_or_else(|| panic!("{} says no place", operation.what));
        let at = format!("GET {}", place.to_str().unwrap());
        let there = Ask {
            what: &at,
            token: &token,
            ..Default::default()
        };
        let found = appliance.ask(there).await;
        // Some are changed and removed there, and read in their lists.
        assert!(matches!(found.status, 200 | 405), "{at}: {found:?}");
        made += 1;
    }
    assert!(made >= 5, "{made}");
}

/// Whose change and start are refused for what they did before.
#[test]
fn who_is_to_wait_is_told_how_long() {
    let problems: [(Problem, &str); 2] = [
        (ControlError::Crowded("as many as may".into()).into(), "60"),
        (
            ChangeError::TooMuch {
                most: 256,
                left: 1234,
            }
            .into(),
            "1234",
        ),
    ];
    for (problem, expected) in problems {
        let answer = problem.into_response();
        assert_eq!(answer.status(), 429);
        assert_eq!(answer.headers()["retry-after"], expected);
    }
}

fn times(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => found.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| times(one, found)),
        Value::Object(all) => all.values().for_each(|one| times(one, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_time_of_the_api_has_one_form() {
    let mut found = Vec::new();
    for two in [false, true] {
        let appliance = match two {
            true => Furnished::ruled().await,
            false => Furnished::new().await,
        };
        let token = super::token(&appliance, Role::Admin);
        // Records are told as they were written.
        let ours = |one: &&Operation| {
            one.two == two
                && one.what.starts_with("GET /api/")
                && !one.what.starts_with("GET /api/v1/audit")
                && one.answers[4] == 200
        };
        for operation in OPERATIONS.iter().filter(ours) {
            let answer = appliance.ask(operation.ask(&token)).await;
            let Ok(value) = serde_json::from_str(&answer.body) else {
                continue;
            };
            let mut theirs = Vec::new();
            times(&value, &mut theirs);
            for time in theirs {
                let is_told = time.len() == 24 && time.ends_with('Z') && time.contains('.');
                assert!(is_told, "{}: {time}", operation.what);
                found.push(time);
            }
        }
    }
    assert!(found.len() >= 20, "{found:?}");
}
