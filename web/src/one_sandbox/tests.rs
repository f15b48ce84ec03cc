//! What the record alone tells, and what is in force for it.

use gig_audit::row::Row;

use super::*;
use crate::{
    app::tests::Lab,
    control::Control as _,
    store::{Change, Place},
};

fn start(node: &str) -> Row {
    let told = |text: &str| Some(text.to_owned());
    Row {
        time: "2026-11-21T09:30:00.000001Z".to_owned(),
        node: node.to_owned(),
        event: "sandbox.start".to_owned(),
        sandbox: told("0193"),
        server: told("docs"),
        profile: told("ana"),
        policy: told("p"),
        policy_version: Some(1),
        src: told("10.200.0.6:0"),
        findings: ["landlock: full", "policy put in force by: team data"]
            .map(str::to_owned)
            .to_vec(),
        ..Row::default()
    }
}

fn exit() -> Row {
    Row {
        time: "2026-11-21T09:40:00.000001Z".to_owned(),
        event: "sandbox.exit".to_owned(),
        policy_version: Some(2),
        status: Some(143),
        findings: vec!["ended: it was stopped".to_owned()],
        ..start("here")
    }
}

#[test]
fn its_start_and_its_end_tell_what_it_was() {
    let told = |rows: &[Row]| recorded::told(rows, "here").unwrap();
    let ended = told(&[exit(), start("here")]);
    let view = &ended.view;
    assert_eq!((view.state, view.exit_status), (ENDED, Some(143)));
    assert_eq!(
        (view.server.as_str(), view.profile.as_str()),
        ("docs", "ana")
    );
    assert_eq!(
        (view.policy.as_str(), view.policy_version),
        ("p", 2),
        "of its end"
    );
    assert_eq!(view.policy_by, "", "that was said of version 1");
    assert_eq!(view.layers, ["landlock: full"]);
    assert_eq!(view.address.as_deref(), Some("10.200.0.6"));
    assert_eq!(view.ended.as_deref(), Some("2026-11-21T09:40:00.000Z"));
    assert_eq!(ended.ended_by.as_deref(), Some("ended: it was stopped"));
    let lost = told(&[start("here")]);
    assert_eq!(
        (lost.view.state, lost.view.policy_by.as_str()),
        (LOST, "team data")
    );
    assert!(!lost.is_there());
    let other = told(&[start("there")]);
    assert_eq!(
        (other.view.state, other.view.node.as_str()),
        (ELSEWHERE, "there")
    );
    assert!(other.is_there());
    // Its start is too old to be kept.
    let late = told(&[exit()]);
    assert_eq!((late.view.state, late.view.started.as_str()), (ENDED, ""));
    assert!(recorded::told(&[], "here").is_none());
}

#[tokio::test]
async fn what_a_node_ran_before_it_began_to_serve_again_is_lost_on_the_others() {
    use gig_audit::{Deed, Entry, Event, Recorder, RecorderSettings, SqliteStore};

    let lab = Lab::with(&["docs"]);
    let store = SqliteStore::open(&lab.record(), "there").unwrap();
    let settings = RecorderSettings::new("there");
    let (recorder, owner) = Recorder::start(Box::new(store), settings).unwrap();
    let begins = |deed: Option<Deed>| {
        let mut entry = Entry::new(Event::Admin);
        entry.deed = deed;
        entry.findings = vec!["gig begins to serve".into()];
        entry
    };
    let id = SandboxId::new(uuid::Uuid::now_v7());
    let mut start = Entry::new(Event::SandboxStart);
    start.sandbox = Some(id);
    (start.server, start.profile) = (Some("docs".into()), Some("ana".into()));
    recorder
        .record(begins(Some(Deed::ServeStart)))
        .await
        .unwrap();
    recorder.record(start).await.unwrap();
    let (ana, text) = (Caller::itself("ana"), id.to_string());
    let state = async || {
        let one = of(&lab.app, &ana, &text, &Sight::All).await.unwrap();
        (one.sandbox.state, one.reach.now)
    };
    assert_eq!(state().await, (ELSEWHERE, true));
    // Whoever says so is not it.
    recorder
        .record(begins(Some(Deed::ServerSave)))
        .await
        .unwrap();
    recorder.record(begins(None)).await.unwrap();
    assert_eq!(state().await, (ELSEWHERE, true));
    recorder
        .record(begins(Some(Deed::ServeStart)))
        .await
        .unwrap();
    assert_eq!(state().await, (LOST, false));
    owner.close(std::time::Duration::from_secs(60));
}

#[tokio::test]
async fn what_it_may_reach_is_what_is_in_force_now_with_its_floors() {
    let lab = Lab::with(&["docs"]);
    let _record = gig_audit::SqliteStore::open(&lab.record(), "here").unwrap();
    let floor = "version: 1\negress:\n  - host: other.example.com\n";
    lab.make(&Change::SavePolicy {
        name: "bound".parse().unwrap(),
        expected: None,
        document: floor.to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    });
    let facts = lab.control.run("docs", "p");
    let (ana, id) = (Caller::itself("ana"), facts.id.to_string());
    let look = || of(&lab.app, &ana, &id, &Sight::All);
    let open = look().await.unwrap();
    assert_eq!(open.reach.policy_by, "all servers");
    assert!(open.reach.now && open.reach.rules[0].bounds.is_empty());
    lab.make(&Change::SetFloor {
        place: Place::All,
        policy: Some("bound".to_owned()),
        expected: None,
    });
    let bounded = look().await.unwrap();
    assert_eq!(bounded.reach.floors, ["bound"]);
    assert_eq!(bounded.reach.rules[0].bounds, ["closed by bound"]);
    assert_eq!(bounded.tried.unwrap().total, 0);
    // Known to nobody: neither here nor in the record.
    lab.control.stop(facts.id).unwrap();
    let gone = look().await.unwrap_err();
    assert_eq!(gone.status(), http::StatusCode::NOT_FOUND);
    let text = of(&lab.app, &Caller::itself("ana"), "../x", &Sight::All).await;
    assert_eq!(text.unwrap_err().status(), http::StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_page_of_what_another_node_has_says_which_keeps_its_log() {
    use axum::{body::to_bytes, extract::State};
    use gig_audit::{Entry, Event, Recorder, RecorderSettings, SqliteStore};

    let lab = Lab::with(&["docs"]);
    let id = SandboxId::new(uuid::Uuid::now_v7());
    let store = SqliteStore::open(&lab.record(), "there").unwrap();
    let (recorder, owner) =
        Recorder::start(Box::new(store), RecorderSettings::new("there")).unwrap();
    let mut entry = Entry::new(Event::SandboxStart);
    (entry.server, entry.profile) = (Some("docs".into()), Some("ana".into()));
    (entry.policy, entry.policy_version) = (Some("p".into()), Some(1));
    entry.sandbox = Some(id);
    recorder.record(entry).await.unwrap();
    drop(recorder);
    owner.close(std::time::Duration::from_secs(5));
    let page = async |id: String| {
        let app = Arc::clone(&lab.app);
        let shown = crate::pages::sandboxes::show(
            State(app),
            Caller::itself("ana"),
            crate::pages::Path(id),
        );
        let shown = shown.await.unwrap_or_else(|_| panic!("a page"));
        let body = to_bytes(shown.into_body(), 1 << 20).await.unwrap();
        String::from_utf8_lossy(&body).into_owned()
    };
    let log = async |id: String| {
        let (app, who) = (Arc::clone(&lab.app), Caller::itself("ana"));
        crate::api::sandboxes::log(
            State(app),
            who,
            crate::api::Path(id),
            http::HeaderMap::new(),
        )
        .await
    };
    let refused = log(id.to_string()).await.unwrap_err();
    assert_eq!(
        (refused.status(), refused.title()),
        (http::StatusCode::CONFLICT, "elsewhere")
    );
    assert!(refused.detail.contains("gig on there"), "{refused:?}");
    let words = "the gig on there keeps what this sandbox printed";
    assert!(page(id.to_string()).await.contains(words));
    let own = lab.control.run("docs", "p");
    assert!(log(own.id.to_string()).await.is_ok());
    assert!(
        !page(own.id.to_string())
            .await
            .contains("keeps what this sandbox printed")
    );
}

#[tokio::test]
async fn one_that_has_ended_might_reach_what_its_version_said() {
    let lab = Lab::with(&["docs"]);
    lab.make(&Change::SavePolicy {
        name: "p".parse().unwrap(),
        expected: None,
        document: "version: 1\negress: []\n".to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    });
    let mut row = start("here");
    let known = |row: &Row| recorded::told(std::slice::from_ref(row), "here").unwrap();
    let (then, _) = reach::of(&lab.app, &known(&row)).await.unwrap();
    assert_eq!(
        (then.now, then.policy_version, then.rules.len()),
        (false, 1, 1)
    );
    row.policy_version = Some(2);
    let (then, _) = reach::of(&lab.app, &known(&row)).await.unwrap();
    assert_eq!((then.policy_version, then.rules.len()), (2, 0));
    // Of a version that is nowhere any more, nothing.
    row.policy = Some("lost".to_owned());
    let (then, _) = reach::of(&lab.app, &known(&row)).await.unwrap();
    assert_eq!((then.policy_version, then.rules.len()), (0, 0));
}
