//! The two-person rule: a change of a policy waits for somebody else, at every door.

use serde_json::{Value, json};

use super::{Appliance, Ask, PASSWORD, Reply};

const ONE: &str = "version: 1\negress:\n  - host: one.example\n";
const TWO: &str = "version: 1\negress:\n  - host: two.example\n";

/// An admin, an editor and an approver, signed in; the policy `web` at version 1, and the rule on.
struct Office {
    appliance: Appliance,
    ana: String,
    ben: String,
    cem: String,
}

impl Office {
    fn open() -> Self {
        let appliance = Appliance::start();
        let ana = appliance.first_admin();
        let ben = appliance.member(&ana, "ben", "editor");
        let cem = appliance.member(&ana, "cem", "approver");
        let office = Self {
            appliance,
            ana,
            ben,
            cem,
        };
        let made = office.put(&office.ben, 0, ONE);
        assert_eq!(made.status, 201, "{made:?}");
        let on = office.form(&office.ana, "/approvals/rule", "rule=on");
        assert_eq!(on.status, 303, "{on:?}");
        office
    }

    /// The API, with a session.
    fn ask(&self, cookie: &str, method: &str, path: &str, body: &Value) -> Reply {
        Ask::new(method, path)
            .cookie(cookie)
            .header("If-Match", "*")
            .header("Origin", &format!("http://{}", self.appliance.address))
            .json(body)
            .send(&self.appliance)
    }

    fn form(&self, cookie: &str, path: &str, fields: &str) -> Reply {
        let form = self.appliance.form(path, fields);
        form.cookie(cookie).send(&self.appliance)
    }

    fn page(&self, cookie: &str, path: &str) -> String {
        let reply = Ask::new("GET", path).cookie(cookie).send(&self.appliance);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.body
    }

    fn put(&self, cookie: &str, on: u64, document: &str) -> Reply {
        let ask = Ask::new("PUT", "/api/v1/policies/web").cookie(cookie);
        let ask = ask.header("Origin", &format!("http://{}", self.appliance.address));
        let ask = match on {
            0 => ask.header("If-None-Match", "*"),
            version => ask.header("If-Match", &format!("\"{version}\"")),
        };
        let body = json!({"document": document, "reason": "for the test"});
        ask.json(&body).send(&self.appliance)
    }

    /// The id of what was proposed.
    fn proposed(&self, reply: &Reply) -> u64 {
        assert_eq!(reply.status, 202, "{reply:?}");
        let proposal = reply.json();
        assert_eq!(proposal["state"], "pending", "{proposal}");
        let id = proposal["id"].as_u64().expect("an id");
        let place = format!("location: /api/v1/proposals/{id}");
        assert!(reply.head.contains(&place), "{reply:?}");
        id
    }

    fn approve(&self, cookie: &str, id: u64) -> Reply {
        let path = format!("/api/v1/proposals/{id}/approve");
        self.ask(cookie, "POST", &path, &json!({"why": "looked at it"}))
    }

    fn version(&self) -> u64 {
        let kept = Ask::new("GET", "/api/v1/policies/web").cookie(&self.ana);
        let kept = kept.send(&self.appliance).json();
        kept["version"].as_u64().expect("a version")
    }
}

#[test]
fn no_door_leads_past_the_second_person() {
    let office = Office::open();
    let (ana, ben, cem) = (&office.ana, &office.ben, &office.cem);
    // A version, a roll-back, an assignment, a removal; by API and by console.
    let saved = office.proposed(&office.put(ana, 1, TWO));
    let back = json!({"version": 1});
    office.proposed(&office.ask(ben, "POST", "/api/v1/policies/web/rollback", &back));
    let all = json!({"server": null, "policy": "web"});
    let assigned = office.proposed(&office.ask(ana, "PUT", "/api/v1/assignments", &all));
    office.proposed(&office.ask(ben, "DELETE", "/api/v1/policies/web", &json!({})));
    let encoded: String = TWO.bytes().map(|octet| format!("%{octet:02X}")).collect();
    for (path, fields) in [
        (
            "/policies/web/edit",
            format!("version=1&act=save&document={encoded}"),
        ),
        ("/policies/web/versions/1", "on=1".to_owned()),
        ("/policies/web/assign", "server=".to_owned()),
    ] {
        let reply = office.form(ben, path, &fields);
        assert_eq!(reply.status, 303, "{path}: {reply:?}");
        assert!(reply.head.contains("location: /approvals/"), "{reply:?}");
    }
    assert_eq!(office.version(), 1);
    let assignments = Ask::new("GET", "/api/v1/assignments").cookie(ana);
    let assignments = assignments.send(&office.appliance).json();
    assert_eq!(assignments["items"], json!([]));
    // Nor does an admin approve their own, by session or by a token of theirs.
    assert_eq!(office.approve(ana, saved).status, 409);
    let body = json!({"name": "mine", "role": "admin"});
    let token = office.ask(ana, "POST", "/api/v1/tokens", &body).json();
    let token = token["token"].as_str().expect("a token").to_owned();
    let by_token = |path: &str, body: &Value| {
        let ask = Ask::new("POST", path).token(&token).json(body);
        ask.send(&office.appliance)
    };
    let path = format!("/api/v1/proposals/{saved}/approve");
    assert_eq!(by_token(&path, &json!({})).status, 409);
    // Nor by a token that this token makes.
    let second = by_token("/api/v1/tokens", &json!({"name": "more", "role": "admin"}));
    let second = second.json()["token"].as_str().expect("a token").to_owned();
    let reply = Ask::new("POST", &path).token(&second).json(&json!({}));
    assert_eq!(reply.send(&office.appliance).status, 409);
    // Nor by somebody whom they make, or whose password they set.
    for (method, path, body) in [
        (
            "POST",
            "/api/v1/users",
            json!({"name": "puppet", "role": "approver", "password": PASSWORD}),
        ),
        ("PATCH", "/api/v1/users/cem", json!({"password": PASSWORD})),
    ] {
        let reply = office.ask(ana, method, path, &body);
        assert_eq!(reply.status, 409, "{path}: {reply:?}");
        assert!(reply.body.contains("two-person rule"), "{reply:?}");
    }
    // Editors do not approve at all.
    assert_eq!(office.approve(ben, saved).status, 403);
    assert_eq!(office.version(), 1);
    let approved = office.approve(cem, saved);
    assert_eq!(approved.status, 200, "{approved:?}");
    assert_eq!(approved.json()["version"], 2);
    assert_eq!(office.version(), 2);
    // What the others were built on is gone.
    let stale = office.approve(cem, assigned);
    assert_eq!(stale.status, 409, "{stale:?}");
    assert!(stale.body.contains("stale"), "{stale:?}");
}

#[test]
fn a_proposal_is_looked_at_approved_in_the_console_and_recorded_with_both_names() {
    let office = Office::open();
    let id = office.proposed(&office.put(&office.ben, 1, TWO));
    let overview = office.page(&office.cem, "/");
    assert!(
        overview.contains("<b>1</b><span><a href=\"/approvals\">waiting"),
        "{overview}"
    );
    let listed = office.page(&office.cem, "/approvals");
    assert!(listed.contains(&format!("/approvals/{id}")), "{listed}");
    let place = format!("/approvals/{id}");
    let mine = office.page(&office.ben, &place);
    assert!(
        mine.contains("Withdraw") && !mine.contains("value=\"approve\""),
        "{mine}"
    );
    let page = office.page(&office.cem, &place);
    for part in [
        "host: two.example",
        "host: one.example",
        "value=\"approve\"",
        "for the test",
    ] {
        assert!(page.contains(part), "no {part}: {page}");
    }
    let unsaid = office.form(&office.cem, &place, "act=reject&why=");
    assert_eq!(unsaid.status, 400, "{unsaid:?}");
    let approved = office.form(&office.cem, &place, "act=approve&why=looked");
    assert_eq!(approved.status, 303, "{approved:?}");
    assert_eq!(office.version(), 2);
    let auditor = office.appliance.token("auditor");
    let records = office
        .appliance
        .records(&auditor, "event=policy.change&policy=web&profile=cem");
    let found = records[0]["findings"].to_string();
    assert!(
        found.contains("of ben approved: version saved") && found.contains("decided by cem"),
        "{found}"
    );
    assert_eq!(records[0]["policy_version"], 2);
    let asked = office
        .appliance
        .records(&auditor, "event=policy.change&policy=web&profile=ben");
    let found = asked[0]["findings"].to_string();
    assert!(found.contains("waits for a second person"), "{found}");
    let again = office.form(&office.cem, &place, "act=approve&why=");
    assert_eq!(again.status, 409, "{again:?}");
}

#[test]
fn the_rule_ends_by_two_and_the_machines_owner_passes_it_on_the_record() {
    let office = Office::open();
    let off = json!({"on": false});
    let id = office.proposed(&office.ask(&office.ana, "PUT", "/api/v1/two-person-rule", &off));
    assert_eq!(office.approve(&office.ana, id).status, 409);
    let applied = office
        .appliance
        .gig(&["policy", "apply", "web", "-", "--on", "1"], TWO);
    assert_eq!(applied.status, 0, "{applied:?}");
    assert_eq!(office.version(), 2);
    let auditor = office.appliance.token("auditor");
    let records = office
        .appliance
        .records(&auditor, "event=policy.change&policy=web");
    let found = records[0]["findings"].to_string();
    assert!(found.contains("passed by this machine"), "{found}");
    let listed = office.appliance.gig(&["policy", "proposals"], "");
    assert!(
        listed.output.contains("rule.off") && listed.output.contains("ana"),
        "{listed:?}"
    );
    let again = office.appliance.kill_and_start_again();
    let approved = Ask::new("POST", &format!("/api/v1/proposals/{id}/approve"))
        .cookie(&office.cem)
        .header("Origin", &format!("http://{}", again.address))
        .json(&json!({}))
        .send(&again);
    assert_eq!(approved.status, 200, "{approved:?}");
    let shown = again.gig(&["policy", "two-person"], "");
    assert!(shown.output.contains("off"), "{shown:?}");
    let on = again.gig(&["policy", "two-person", "on"], "");
    assert_eq!(on.status, 0, "{on:?}");
}

#[test]
fn a_password_that_an_admin_chose_makes_no_second_person_and_their_token_is_nobodys() {
    let appliance = Appliance::start();
    let ana = appliance.first_admin();
    let user = json!({"name": "cem", "role": "approver", "password": PASSWORD});
    let origin = format!("http://{}", appliance.address);
    let ask = |method: &str, path: &str, body: &Value| {
        let ask = Ask::new(method, path)
            .cookie(&ana)
            .header("Origin", &origin);
        ask.json(body).send(&appliance)
    };
    assert_eq!(ask("POST", "/api/v1/users", &user).status, 201);
    // Ana knows that password: she would be both.
    let on = json!({"on": true});
    let refused = ask("PUT", "/api/v1/two-person-rule", &on);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("chose themselves"), "{refused:?}");
    let cem = appliance.own_password("cem");
    let users = ask("GET", "/api/v1/users", &json!({})).json();
    for user in users["items"].as_array().expect("users") {
        assert_eq!(user["own_password"], true, "{users}");
    }
    assert_eq!(ask("PUT", "/api/v1/two-person-rule", &on).status, 204);
    // A token that this machine's owner made is nobody's.
    let token = appliance.token("admin");
    let put = |with: Ask<'_>| {
        let put = with.header("If-None-Match", "*");
        put.json(&json!({"document": ONE})).send(&appliance)
    };
    let path = "/api/v1/policies/web";
    let refused = put(Ask::new("PUT", path).token(&token));
    assert_eq!(refused.status, 409, "{refused:?}");
    let asked = put(Ask::new("PUT", path).cookie(&ana).header("Origin", &origin));
    assert_eq!(asked.status, 202, "{asked:?}");
    let approve = format!("/api/v1/proposals/{}/approve", asked.json()["id"]);
    let by_token = Ask::new("POST", &approve).token(&token).json(&json!({}));
    assert_eq!(by_token.send(&appliance).status, 409);
    // Nor does one person open a server's network.
    let server = json!({"command": ["true"], "network": "local"});
    let local = Ask::new("PUT", "/api/v1/servers/tool").cookie(&ana);
    let local = local.header("Origin", &origin).header("If-None-Match", "*");
    let local = local.json(&server).send(&appliance);
    assert_eq!(local.status, 409, "{local:?}");
    let by_cem = Ask::new("POST", &approve)
        .cookie(&cem)
        .header("Origin", &origin);
    let approved = by_cem.json(&json!({})).send(&appliance);
    assert_eq!(approved.status, 200, "{approved:?}");
}
