//! What runs for one profile, asked for by another: it is not there, and stays as it is.

use gig_audit::Event;

use super::furnished::{Ask, Furnished, denial};
use crate::{
    control::Control as _,
    credential::mint_session,
    role::Role,
    store::{Change, Store as _},
};

/// Every operation that has an id of something of somebody's, and what a token of dan's is answered of ana's or ben's. What is kept
/// for all who read the record, or proposed to all who approve, is no secret, and not theirs to remove or to decide.
const OTHERS: [(&str, u16); 11] = [
    ("GET /api/v1/sandboxes/{sandbox}", 404),
    ("GET /api/v1/sandboxes/{sandbox}/log", 404),
    ("DELETE /api/v1/sandboxes/{sandbox}", 404),
    // Under the two-person rule it takes an approver, whatever waits.
    (ALLOW, 403),
    (DENY, 404),
    ("DELETE /api/v1/sessions/sess1", 404),
    ("DELETE /api/v1/tokens/spare", 403),
    ("DELETE /api/v1/searches/s1", 403),
    ("POST /api/v1/proposals/1/withdraw", 409),
    ("POST /api/v1/proposals/1/approve", 403),
    ("DELETE /api/v1/users/ana/second-factor", 403),
];
const ALLOW: &str = "POST /api/v1/held/h1/allow";
const DENY: &str = "POST /api/v1/held/h1/deny";
const NARROW: &str = "read audit policies:write servers:run approvals:answer profiles:act";

async fn asked(appliance: &Furnished, what: &str, token: &str, of: Option<&str>) -> (u16, String) {
    let body = match what.split('/').next_back() {
        Some("allow" | "withdraw" | "approve") => Some("{}"),
        _ => None,
    };
    let ask = Ask {
        token,
        body,
        field: of.map(|of| ("gig-profile", of)),
        ..Ask::of(what)
    };
    let answer = appliance.ask(ask).await;
    (answer.status, answer.body)
}

/// Whether all that is ana's is as it was.
fn stands(appliance: &Furnished) {
    let (store, now) = (&appliance.lab.store, appliance.lab.app.now());
    let running = appliance.lab.control.sandboxes();
    assert_eq!(running.len(), 1, "{running:?}");
    assert_eq!(store.held(now).unwrap().len(), 1);
    assert!(store.session("sess1", now).unwrap().is_some());
    assert!(store.token("spare", now).unwrap().is_some());
    assert_eq!(store.searches().unwrap().len(), 1);
    assert_eq!(store.proposals(true, None, 10).unwrap().len(), 2);
}

#[tokio::test]
async fn what_runs_for_one_profile_is_not_there_for_another() {
    let appliance = Furnished::ruled().await;
    let whole = appliance.token("dan", Role::Editor, ("", ""));
    let narrow = appliance.token("dan", Role::Editor, (NARROW, ""));
    for (what, expected) in OTHERS {
        // Whoever writes policies for all decides on what waits for all: an editor who is not narrowed.
        let held = [ALLOW, DENY].contains(&what);
        let tokens = [&narrow, &whole].into_iter().take(if held { 1 } else { 2 });
        for token in tokens {
            let (status, body) = asked(&appliance, what, token, None).await;
            assert_eq!(status, expected, "{what}: {body}");
            stands(&appliance);
        }
    }
    for token in [&whole, &narrow] {
        let (_, listed) = asked(&appliance, "GET /api/v1/sandboxes", token, None).await;
        assert!(!listed.contains(&appliance.sandbox), "{listed}");
        let (_, printed) = asked(&appliance, "GET /api/v1/servers/docs/log", token, None).await;
        assert!(!printed.contains("said by"), "{printed}");
    }
    let (_, held) = asked(&appliance, "GET /api/v1/held", &narrow, None).await;
    assert!(!held.contains("h1"), "{held}");
    let told = appliance.lab.log.records().into_iter();
    let told = told.filter(|one| one.entry.event == Event::Auth);
    let told: String = told
        .flat_map(|one| one.entry.findings)
        .map(|one| one.to_string() + "\n")
        .collect();
    assert!(told.contains("a sandbox of another profile"), "{told}");
    assert!(told.contains("POST /api/v1/held/{id}"), "{told}");
    assert_eq!(asked(&appliance, DENY, &whole, None).await.0, 204);
}

#[tokio::test]
async fn what_has_ended_or_runs_elsewhere_is_walled_by_its_record() {
    let appliance = Furnished::new().await;
    let id = gig_policy::SandboxId::new(appliance.sandbox.parse().unwrap());
    appliance.lab.control.stop(id).unwrap();
    appliance.lab.control.printed.lock().push(id);
    let (dan, ana) = ("dan", "ana");
    for (person, role, status) in [
        (dan, Role::Editor, 404),
        (ana, Role::Editor, 200),
        (dan, Role::Viewer, 200),
        (dan, Role::Auditor, 200),
        (dan, Role::Approver, 200),
        (dan, Role::Admin, 200),
    ] {
        let token = appliance.token(person, role, ("", ""));
        let (one, body) = asked(&appliance, "GET /api/v1/sandboxes/{sandbox}", &token, None).await;
        assert_eq!(one, status, "{person} {role}: {body}");
        if role == Role::Viewer {
            continue;
        }
        let what = "GET /api/v1/sandboxes/{sandbox}/log";
        let (one, printed) = asked(&appliance, what, &token, None).await;
        assert_eq!(one, status, "{person} {role}: {printed}");
        let (one, all) = asked(&appliance, "GET /api/v1/servers/docs/log", &token, None).await;
        assert_eq!(
            (one, all.contains("said by")),
            (200, status == 200),
            "{person} {role}: {all}"
        );
    }
    // Of what no record tells whose it was, no line is there.
    let stranger = gig_policy::SandboxId::new(uuid::Uuid::now_v7());
    appliance.lab.control.printed.lock().push(stranger);
    let token = appliance.token(ana, Role::Editor, ("", ""));
    let (_, all) = asked(&appliance, "GET /api/v1/servers/docs/log", &token, None).await;
    assert!(!all.contains(&stranger.to_string()), "{all}");
}

#[tokio::test]
async fn a_gateway_has_what_runs_for_whom_it_names() {
    let appliance = Furnished::new().await;
    let gateway = appliance.token("dan", Role::Editor, (NARROW, "docs"));
    let one = "GET /api/v1/sandboxes/{sandbox}";
    for (of, status) in [
        (None, 404),
        (Some("ben"), 404),
        (Some("cem"), 404),
        (Some("Ana"), 200),
    ] {
        let (got, body) = asked(&appliance, one, &gateway, of).await;
        assert_eq!(got, status, "{of:?}: {body}");
    }
    for what in [
        "GET /api/v1/sandboxes",
        "GET /api/v1/servers/docs/log",
        "GET /api/v1/held",
    ] {
        for (of, there) in [("cem", false), ("ana", true)] {
            let (status, body) = asked(&appliance, what, &gateway, Some(of)).await;
            let told = body.contains(&appliance.sandbox);
            assert_eq!((status, told), (200, there), "{what} {of}: {body}");
        }
    }
    // Who may not act for others names nobody: not an admin either.
    let admin = appliance.token("dan", Role::Admin, ("", ""));
    for what in [
        one,
        "DELETE /api/v1/sandboxes/{sandbox}",
        "GET /api/v1/sandboxes",
    ] {
        let (status, body) = asked(&appliance, what, &admin, Some("ana")).await;
        assert_eq!(status, 403, "{what}: {body}");
    }
    for of in [None, Some("cem")] {
        assert_eq!(asked(&appliance, ALLOW, &gateway, of).await.0, 404);
    }
    let now = appliance.lab.app.now();
    assert_eq!(appliance.lab.store.held(now).unwrap().len(), 1);
    assert_eq!(asked(&appliance, ALLOW, &gateway, Some("ana")).await.0, 204);
    let stop = "DELETE /api/v1/sandboxes/{sandbox}";
    assert_eq!(asked(&appliance, stop, &gateway, Some("ana")).await.0, 202);
    assert!(appliance.lab.control.sandboxes().is_empty());
}

#[tokio::test]
async fn what_ships_logs_reads_everybodys_and_touches_none() {
    let appliance = Furnished::new().await;
    let id = gig_policy::SandboxId::new(appliance.sandbox.parse().unwrap());
    appliance.lab.control.printed.lock().push(id);
    for role in [Role::Auditor, Role::Admin] {
        let sees = async |scopes: &str, servers: &str| {
            let token = appliance.token("dan", role, (scopes, servers));
            let what = "GET /api/v1/sandboxes/{sandbox}/log";
            let (status, _) = asked(&appliance, what, &token, None).await;
            let (_, all) = asked(&appliance, "GET /api/v1/servers/docs/log", &token, None).await;
            (status, all.contains("said by"))
        };
        assert_eq!(sees("read audit", "").await, (404, false), "{role}");
        assert_eq!(
            sees("read audit profiles:oversee", "").await,
            (200, true),
            "{role}"
        );
        let of_one = sees("read audit profiles:oversee", "docs").await;
        assert_eq!(of_one, (200, true), "{role}");
        let of_other = sees("read audit profiles:oversee", "idle").await;
        assert_eq!(of_other, (404, false), "{role}");
    }
}

#[tokio::test]
async fn the_next_token_of_the_same_person_has_what_the_first_one_ran() {
    let appliance = Furnished::new().await;
    let scopes = "read audit servers:run approvals:answer";
    for person in ["ana", "dan"] {
        // The first ran it, and was removed.
        let next = appliance.token(person, Role::Editor, (scopes, "docs"));
        let (there, gone) = (200, 404);
        let expected = if person == "ana" { there } else { gone };
        for what in [
            "GET /api/v1/sandboxes/{sandbox}",
            "GET /api/v1/sandboxes/{sandbox}/log",
        ] {
            let (status, body) = asked(&appliance, what, &next, None).await;
            assert_eq!(status, expected, "{person} {what}: {body}");
        }
        let (_, held) = asked(&appliance, "GET /api/v1/held", &next, None).await;
        assert_eq!(held.contains("\"h1\""), person == "ana", "{person}: {held}");
    }
    let next = appliance.token("ana", Role::Editor, (scopes, "docs"));
    let stop = "DELETE /api/v1/sandboxes/{sandbox}";
    assert_eq!(asked(&appliance, stop, &next, None).await.0, 202);
}

/// It is told what it may answer; of what was denied the record tells, which it may not read.
#[tokio::test]
async fn a_token_that_answers_alone_sees_what_waits() {
    let appliance = Furnished::new().await;
    let records = [denial(&appliance.sandbox, ("ana", "denied.example", "/y"))];
    appliance.record(records.into_iter()).await;
    for (scopes, sees_denied) in [
        ("servers:run approvals:answer", false),
        ("audit servers:run approvals:answer", true),
    ] {
        let token = appliance.token("ana", Role::Editor, (scopes, "docs"));
        let (status, body) = asked(&appliance, "GET /api/v1/held", &token, None).await;
        assert_eq!(status, 200, "{scopes}: {body}");
        assert!(body.contains("\"h1\""), "{scopes}: {body}");
        assert_eq!(
            body.contains("denied.example"),
            sees_denied,
            "{scopes}: {body}"
        );
    }
    let token = appliance.token("ana", Role::Editor, ("servers:run", "docs"));
    let (status, body) = asked(&appliance, "GET /api/v1/held", &token, None).await;
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("whose scopes name audit"), "{body}");
}

#[tokio::test]
async fn denials_of_others_neither_hide_nor_stand_for_ones_own() {
    let appliance = Furnished::new().await;
    // The same destination, and more others than are listed at once, all of them later.
    let of_ben = |host: &str| denial(&appliance.sandbox, ("ben", host, "/y"));
    let others = (0..30).map(|number| of_ben(&format!("n{number}.example")));
    appliance
        .record(others.chain([of_ben("new.example")]))
        .await;
    let gateway = appliance.token("dan", Role::Editor, (NARROW, "docs"));
    let listed = async |of: &str| {
        let (status, body) = asked(&appliance, "GET /api/v1/held", &gateway, Some(of)).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<serde_json::Value>(&body).unwrap()
    };
    let anas = listed("ana").await;
    let one = &anas["denied"][0];
    assert_eq!(one["record"], appliance.record, "{anas}");
    assert_eq!((&one["profile"], &one["count"]), (&"ana".into(), &1.into()));
    assert_eq!(anas["denied"].as_array().unwrap().len(), 1);
    assert_eq!(anas["denied_complete"], true, "{anas}");
    let bens = listed("ben").await;
    let all = bens["denied"].as_array().unwrap();
    assert!(
        all.len() == 20 && all.iter().all(|one| one["profile"] == "ben"),
        "{bens}"
    );
    assert_eq!(bens["denied_complete"], false);
    let cems = listed("cem").await;
    assert_eq!(cems["denied"], serde_json::json!([]));
    // Whoever decides for all sees one line of both.
    let whole = appliance.token("dan", Role::Editor, ("", ""));
    let (_, body) = asked(&appliance, "GET /api/v1/held", &whole, None).await;
    let all: serde_json::Value = serde_json::from_str(&body).unwrap();
    let same = all["denied"].as_array().unwrap().iter();
    let same: Vec<_> = same.filter(|one| one["host"] == "new.example").collect();
    assert_eq!((same.len(), &same[0]["count"]), (1, &2.into()), "{all}");
}

#[tokio::test]
async fn the_consoles_pages_have_the_same_wall() {
    let appliance = Furnished::new().await;
    appliance.lab.make(&Change::RemoveFactor {
        name: "ben".to_owned(),
        code: None,
    });
    for (person, role) in [("ben", Role::Editor), ("dan", Role::Admin)] {
        let minted = mint_session().unwrap();
        let change = Change::StartSession {
            id: minted.id,
            digest: minted.digest,
            user: person.to_owned(),
            password: "own".to_owned(),
            code: None,
            expires: appliance.lab.app.now() + jiff::SignedDuration::from_hours(1),
            agent: String::new(),
        };
        appliance.lab.make(&change);
        let cookie = format!("gig={}", *minted.text);
        let sees = role == Role::Admin;
        for path in ["/sandboxes", "/servers/docs/log", "/sandboxes/{sandbox}"] {
            let answer = appliance.page(&format!("GET {path}"), &cookie).await;
            let hidden = path.contains('{') && !sees;
            assert_eq!(answer.status, if hidden { 404 } else { 200 }, "{answer:?}");
            let link = format!("/sandboxes/{}", appliance.sandbox);
            let told = answer.body.contains(&link) || answer.body.contains("said by");
            assert_eq!(told, sees, "{path} {role}: {answer:?}");
        }
        // The last records of a server are for whoever reads the record; its sandboxes are not.
        let server = appliance.page("GET /servers/docs", &cookie).await;
        let running = server.body.contains("<span class=\"tag running\">");
        assert_eq!((server.status, running), (200, sees), "{server:?}");
        let stopped = appliance
            .page("POST /sandboxes/{sandbox}/stop", &cookie)
            .await;
        assert_eq!(stopped.status, if sees { 303 } else { 404 }, "{stopped:?}");
        assert_eq!(appliance.lab.control.sandboxes().is_empty(), sees);
    }
}
