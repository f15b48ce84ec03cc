//! What the page of one record says of today: who could let it pass, what lets it pass already, whether it waits.

use gig_audit::{Entry, Event, HELD};

use super::{
    console::signed_in,
    furnished::{Ask, Furnished, denial},
};
use crate::{
    app::tests::Lab,
    role::Role,
    store::{Change, Place},
};

/// The page of the newest record, or of `id`, as this browser sees it.
async fn page(appliance: &Furnished, id: &str, cookie: &str) -> String {
    let page = appliance.page(&format!("GET /audit/{id}"), cookie).await;
    assert_eq!(page.status, 200, "{page:?}");
    page.body
}

async fn newest(lab: &Lab) -> String {
    let page = lab.app.search(gig_audit::search::Query {
        filter: gig_audit::search::Filter::default(),
        before: None,
        limit: 1,
    });
    crate::api::audit::id(&page.await.unwrap().records[0])
}

fn of_role(cookies: &[String; 5], wanted: Role) -> &str {
    let place = Role::ALL.iter().position(|role| *role == wanted);
    &cookies[place.unwrap()]
}

#[tokio::test]
async fn a_denied_record_says_who_could_let_it_pass_and_by_what_it_would_pass_now() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let (auditor, editor) = (
        of_role(&cookies, Role::Auditor),
        of_role(&cookies, Role::Editor),
    );
    let id = appliance.record.clone();
    let lacks = "a rule in policy p would let it pass";
    let passes = "By its rules it would pass now";
    let seen = page(&appliance, &id, auditor).await;
    assert!(seen.contains(lacks) && !seen.contains(passes), "{seen}");
    let seen = page(&appliance, &id, editor).await;
    assert!(
        !seen.contains(lacks) && !seen.contains(passes) && seen.contains("Allow this path"),
        "{seen}"
    );
    appliance.lab.make(&Change::SavePolicy {
        name: "p".parse().unwrap(),
        expected: None,
        document: "version: 1\negress:\n  - host: a.example\n  - host: new.example\n".to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    });
    for cookie in [auditor, editor] {
        let seen = page(&appliance, &id, cookie).await;
        assert!(!seen.contains(lacks), "{seen}");
        let rule = "<a href=\"/policies/p/versions/3?rule=egress%5B1%5D#rule\">egress[1] of policy p, version 3</a>";
        assert!(seen.contains(&format!("{passes}: {rule}")), "{seen}");
    }
}

#[tokio::test]
async fn of_a_secret_on_its_way_out_it_is_said_that_no_button_lets_it() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let mut theft = denial(&appliance.sandbox, ("ana", "new.example", "/x"));
    theft.reason = Some(gig_policy::DenyReason::SecretMisuse);
    appliance.record([theft]).await;
    let id = newest(&appliance.lab).await;
    let seen = page(&appliance, &id, &cookies[4]).await;
    assert!(
        seen.contains("a secret was on its way to where it may not go")
            && !seen.contains("Allow this"),
        "{seen}"
    );
}

#[tokio::test]
async fn a_request_that_waits_leads_from_its_record_to_where_it_is_answered() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let mut held = Entry::new(Event::Finding);
    held.server = Some("docs".into());
    held.profile = Some("ana".into());
    held.request = Some("h1".into());
    held.reason = Some(gig_policy::DenyReason::HostNotAllowed);
    held.findings = vec![HELD.into()];
    appliance.record([held]).await;
    let id = newest(&appliance.lab).await;
    let waits = "It waits for somebody's answer: <a href=\"/approvals\">";
    let seen = page(&appliance, &id, &cookies[4]).await;
    assert!(seen.contains(waits), "{seen}");
    appliance
        .lab
        .app
        .store
        .end_held(&["h1".to_owned()])
        .unwrap();
    let seen = page(&appliance, &id, &cookies[4]).await;
    assert!(!seen.contains(waits), "{seen}");
}

#[tokio::test]
async fn what_stands_for_ever_is_shown_before_a_waiting_request_is_allowed_by_it() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = of_role(&cookies, Role::Admin);
    let post = async |body: &str| {
        let form = ("content-type", "application/x-www-form-urlencoded");
        let fields = [("cookie", admin), ("origin", "http://127.0.0.1"), form];
        appliance
            .send("POST /approvals/held/h1", &fields, body)
            .await
    };
    let version = || {
        let kept = appliance.lab.app.store.policy("p", None).unwrap();
        kept.unwrap().head
    };
    // One press shows it; nothing is written.
    let pressed = post("act=ever-host").await;
    let sheet = "/approvals/held/h1/allow?width=host";
    assert_eq!(pressed.headers["location"], sheet, "{pressed:?}");
    assert_eq!(version().version, 2);
    let page = appliance.page(&format!("GET {sheet}"), admin).await;
    for words in [
        "Allow it for ever?",
        "+   - {host: new.example, ports: [443]}",
        "against version 2. That is in force for all servers that have none of their own:",
    ] {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
    let mark = |page: &str| {
        let (_, rest) = page.split_once("name=\"shown\" value=\"").unwrap();
        rest.split_once('"').unwrap().0.replace(':', "%3A")
    };
    let shown = mark(&page.body);
    // Another version by now, or in force for others: nothing is saved.
    let nothing = async |shown: &str| {
        let stale = post(&format!("act=ever-host&shown={shown}")).await;
        assert_eq!(stale.status, 412, "{stale:?}");
        assert!(stale.body.contains("nothing is saved"), "{}", stale.body);
        assert_eq!(version().version, 2);
    };
    nothing(&shown.replace("p%3A2", "p%3A1")).await;
    appliance.lab.make(&Change::Assign {
        place: Place::Server("docs".to_owned()),
        policy: Some("p".to_owned()),
        expected: None,
    });
    nothing(&shown).await;
    let page = appliance.page(&format!("GET {sheet}"), admin).await;
    assert!(page.body.contains("; server docs:"), "{}", page.body);
    let shown = mark(&page.body);
    let saved = post(&format!("act=ever-host&shown={shown}&why=a+ticket")).await;
    assert_eq!(saved.status, 303, "{saved:?}");
    let head = version();
    assert_eq!((head.version, head.reason.as_str()), (3, "a ticket"));
    // A viewer is shown no such form.
    let other = appliance
        .page(&format!("GET {sheet}"), of_role(&cookies, Role::Viewer))
        .await;
    assert_eq!(other.status, 403, "{other:?}");
}

#[tokio::test]
async fn of_a_record_that_was_removed_it_is_said_that_it_was_there() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let id = appliance.record.clone();
    let (chain, seq) = id.split_once('-').unwrap();
    let later = denial(&appliance.sandbox, ("ana", "later.example", "/x"));
    appliance.record([later]).await;
    let record = rusqlite::Connection::open(appliance.lab.record()).unwrap();
    let key = (chain.parse::<i64>().unwrap() << 40) | seq.parse::<i64>().unwrap();
    let gone = record.execute("DELETE FROM record WHERE position = ?1", [key]);
    assert_eq!(gone.unwrap(), 1);
    let token = appliance.token("dan", Role::Editor, ("", ""));
    let ask = async |id: &str| {
        let what = format!("GET /api/v1/audit/{id}");
        let ask = Ask {
            token: &token,
            ..Ask::of(&what)
        };
        let answer = appliance.ask(ask).await;
        assert_eq!(answer.status, 404, "{answer:?}");
        answer.json()["detail"].as_str().unwrap().to_owned()
    };
    assert!(ask(&id).await.contains("its chain goes on behind it"));
    for never in [format!("{chain}-99999"), format!("9{chain}-{seq}")] {
        assert_eq!(ask(&never).await, format!("there is no record {never}"));
    }
    let what = format!("GET /audit/{id}");
    let page = appliance
        .page(&what, of_role(&cookies, Role::Auditor))
        .await;
    assert_eq!(page.status, 404, "{page:?}");
    assert!(
        page.body.contains("its chain goes on behind it"),
        "{page:?}"
    );
}
