//! Where rules go, as the store says it.

use super::*;
use crate::{
    app::tests::{Lab, registered, saved},
    document::moment,
    store::Change,
};

fn row(port: Option<u16>, method: Option<&str>) -> Row {
    Row {
        host: Some("a.example".to_owned()),
        port,
        protocol: Some("https".to_owned()),
        method: method.map(str::to_owned),
        path: method.map(|_| "/x".to_owned()),
        ..Row::default()
    }
}

/// Denied to a server under a policy.
fn denied(server: &str, policy: &str, version: u64) -> Row {
    Row {
        verdict: Some("deny".to_owned()),
        reason: Some("host_not_allowed".to_owned()),
        server: Some(server.to_owned()),
        policy: Some(policy.to_owned()),
        policy_version: Some(version),
        ..row(Some(443), None)
    }
}

fn of(lab: &Lab, row: &Row) -> Option<(String, Option<String>)> {
    let now = moment(lab.app.now());
    let mut remedies = Remedies::read(lab.store.as_ref(), now).unwrap();
    let found = remedies.of(row).unwrap();
    found.map(|remedy| (remedy.policy, remedy.assign))
}

fn assign(lab: &Lab, server: Option<&str>, policy: Option<&str>) {
    lab.make(&Change::Assign {
        place: server.map(str::to_owned).into(),
        policy: policy.map(str::to_owned),
        expected: None,
    });
}

#[test]
fn a_record_asks_for_what_it_says_and_no_more() {
    let words = |row: &Row| asked(row).map(|asked| asked.to_string());
    let request = row(Some(443), Some("GET"));
    let want = "GET https://a.example:443/x";
    assert_eq!(words(&request).as_deref(), Some(want));
    let connection = row(Some(443), None);
    assert_eq!(words(&connection).as_deref(), Some("https a.example:443"));
    assert_eq!(words(&row(None, None)).as_deref(), Some("name a.example"));
    let mut hostile = connection;
    hostile.host = Some("a.example\nb".to_owned());
    assert_eq!(words(&hostile), None);
}

#[test]
fn what_a_floor_denies_waits_for_nobody() {
    let compiled = |text: &str| Policy::compile(text, "p").unwrap();
    let own = compiled("version: 1\negress: []\n");
    let denied = row(Some(443), None);
    assert!(denies(&own, &denied));
    let open = compiled("version: 1\negress:\n  - host: a.example\n");
    assert!(denies(&own.under(vec![open.clone()]), &denied));
    assert!(!denies(&own.under(vec![own.clone()]), &denied));
    assert!(!denies(&open, &denied));
}

#[test]
fn the_floor_that_denies_is_named_and_nothing_else_is() {
    let lab = Lab::with(&["docs"]);
    lab.make(&saved("ground"));
    let floor = |lab: &Lab, row: &Row| {
        let now = moment(lab.app.now());
        let mut remedies = Remedies::read(lab.store.as_ref(), now).unwrap();
        remedies.floor(row).unwrap()
    };
    let row = denied("docs", "p", 1);
    assert_eq!(floor(&lab, &row), None, "its own policy denies it");
    lab.make(&Change::SetFloor {
        place: crate::store::Place::All,
        policy: Some("ground".to_owned()),
        expected: None,
    });
    assert_eq!(floor(&lab, &row).as_deref(), Some("ground"));
    assert_eq!(of(&lab, &row), None);
    // Nor does a rule beneath one open an address that it does not.
    let open = |name: &str, private: &str| Change::SavePolicy {
        name: name.parse().unwrap(),
        expected: None,
        document: format!("version: 1\negress:\n  - {{host: a.example{private}}}\n"),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    };
    lab.make(&open("ground", ""));
    lab.make(&open("p", ", allow_private: [10.1.2.3/32]"));
    let mut found = row.clone();
    found.reason = Some("private_address".to_owned());
    found.dst_ip = Some("10.1.2.3".to_owned());
    assert_eq!(floor(&lab, &found).as_deref(), Some("ground"));
    assert_eq!(of(&lab, &found), None);
    lab.make(&open("ground", ", allow_private: [10.0.0.0/8]"));
    assert_eq!(floor(&lab, &found), None);
    let mut misuse = row;
    misuse.reason = Some("secret_misuse".to_owned());
    assert_eq!(floor(&lab, &misuse), None);
    let now = moment(lab.app.now());
    let mut remedies = Remedies::read(lab.store.as_ref(), now).unwrap();
    assert_eq!(remedies.why_none(&misuse).unwrap(), NoRule::Secret);
    assert_eq!(floor(&lab, &denied("gone", "p", 1)), None);
}

#[test]
fn the_rule_goes_where_it_is_in_force_now_and_not_where_it_was() {
    let lab = Lab::with(&["docs"]);
    let old = denied("docs", "p", 1);
    assert_eq!(of(&lab, &old), Some(("p".to_owned(), None)));
    lab.make(&saved("q"));
    assign(&lab, Some("docs"), Some("q"));
    assert_eq!(of(&lab, &old), Some(("q".to_owned(), None)));
    // Of a server that went, where it was decided; nowhere where that went, too.
    let gone = denied("gone", "p", 1);
    assert_eq!(of(&lab, &gone), Some(("p".to_owned(), None)));
    assert_eq!(of(&lab, &denied("gone", "lost", 1)), None);
    assert_eq!(of(&lab, &denied("gone", "nothing assigned", 0)), None);
    // What passes now is offered nothing.
    lab.make(&Change::SavePolicy {
        name: "q".parse().unwrap(),
        expected: None,
        document: "version: 1\negress:\n  - host: a.example\n".to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    });
    assert_eq!(of(&lab, &old), None);
}

#[test]
fn a_document_for_one_server_replaces_nobody_elses() {
    let lab = Lab::with(&["docs", "mail"]);
    let alone = |lab: &Lab, profile: &str| {
        let now = moment(lab.app.now());
        let mut remedies = Remedies::read(lab.store.as_ref(), now).unwrap();
        let found = remedies.alone("docs", profile).unwrap().unwrap();
        (found.policy, found.assign)
    };
    let new = |assign: Option<&str>| ("docs".to_owned(), assign.map(str::to_owned));
    // What all servers have stays as it is.
    assert_eq!(alone(&lab, "ana"), new(Some("docs")));
    lab.make(&saved("q"));
    assign(&lab, Some("docs"), Some("q"));
    assert_eq!(alone(&lab, "ana"), ("q".to_owned(), None));
    assign(&lab, Some("mail"), Some("q"));
    assert_eq!(alone(&lab, "ana"), new(Some("docs")));
    assign(&lab, Some("mail"), None);
    lab.make(&Change::SetFloor {
        place: crate::store::Place::Server("mail".to_owned()),
        policy: Some("q".to_owned()),
        expected: None,
    });
    assert_eq!(alone(&lab, "ana"), new(Some("docs")));
    // Putting it in force for the server would change nothing for who has their own.
    lab.make(&Change::Assign {
        place: crate::store::Place::profile("ana"),
        policy: Some("p".to_owned()),
        expected: None,
    });
    assert_eq!(alone(&lab, "ana"), new(None));
}

#[test]
fn where_nothing_is_in_force_a_new_policy_is_offered_with_its_server() {
    let lab = Lab::with(&[]);
    assign(&lab, None, None);
    for server in ["docs", "p", "check"] {
        lab.make(&registered(server, "/bin/true"));
    }
    let of_server = |server: &str| of(&lab, &denied(server, "nothing assigned", 0));
    let new = |name: &str, server: &str| Some((name.to_owned(), Some(server.to_owned())));
    assert_eq!(of_server("docs"), new("docs", "docs"));
    // Another policy has that name, or nobody may.
    assert_eq!(of_server("p"), new("p-2", "p"));
    assert_eq!(of_server("check"), new("check-2", "check"));
}
