//! Readings end, and one document is judged by what each server reaches.

use gig_audit::{
    attempts::Traffic,
    row::Row,
    search::{Filter, Found, Marks, Page, Position, Query},
};
use gig_policy::Reach;

use super::{
    reading::{AT_ONCE, MOST, MOST_OCTETS, Recorded, newest},
    simulation::Differs,
    *,
};

fn query() -> Query {
    Query {
        filter: Filter::default(),
        before: None,
        limit: AT_ONCE,
    }
}

fn a_page(next: bool) -> Result<Page, Problem> {
    page_of("{}", next)
}

fn page_of(line: &str, next: bool) -> Result<Page, Problem> {
    let found = Found {
        at: Position { chain: 1, seq: 1 },
        line: line.to_owned(),
        row: Row::default(),
    };
    Ok(Page {
        records: vec![found; AT_ONCE],
        next: next.then(Marks::default),
    })
}

#[test]
fn a_reading_ends_at_its_bounds_and_says_so() {
    let (lines, complete) = newest(query(), |_| a_page(true), || false, |_| true).unwrap();
    assert_eq!((lines.len(), complete), (MOST, false));
    let (lines, complete) = newest(query(), |_| a_page(true), || true, |_| true).unwrap();
    assert_eq!((lines.len(), complete), (AT_ONCE, false));
    let (lines, complete) = newest(query(), |_| a_page(false), || true, |_| true).unwrap();
    assert_eq!((lines.len(), complete), (AT_ONCE, true));
    let long = "x".repeat(MOST_OCTETS / AT_ONCE + 1);
    let (lines, complete) = newest(query(), |_| page_of(&long, true), || false, |_| true).unwrap();
    assert_eq!((lines.len(), complete), (AT_ONCE, false));
}

fn line(server: &str, reason: &str, host: &str) -> String {
    let (time, none) = ("2026-11-21T12:00:00.000000Z", "0".repeat(64));
    format!(
        r#"{{"seq":1,"time":"{time}","node":"n","prev":"{none}","hash":"{none}","event":"connect","verdict":"deny","reason":"{reason}","server":"{server}","host":"{host}","port":443,"protocol":"tcp"}}"#
    )
}

#[test]
fn what_cannot_be_read_is_counted_and_what_a_local_server_asked_for_is_its_own() {
    let lines = vec![
        line("inside", "host_not_allowed", "10.0.0.1"),
        line("outside", "host_not_allowed", "one.example"),
        line("outside", "a_reason_of_a_later_gig", "two.example"),
        line("outside", "host_not_allowed", "three.example"),
    ];
    let read = Recorded::of(lines, |server, _| {
        Some(Under {
            is_local: server == "inside",
            ..Under::default()
        })
    });
    assert_eq!((read.records(), read.unreadable), (3, 1));
    let asked = |traffic: &Traffic| -> Vec<String> {
        let attempts = traffic.attempts.iter();
        attempts.map(|attempt| attempt.asked.to_string()).collect()
    };
    let group = |is_local| {
        let of = |one: &(&Under, &Traffic)| one.0.is_local == is_local;
        let mut found = read.groups.iter().filter(of);
        found.next().unwrap().1
    };
    assert_eq!(asked(group(true)), ["tcp 10.0.0.1:443"]);
    assert_eq!(
        asked(group(false)),
        ["tcp three.example:443", "tcp one.example:443"]
    );
    let document = "version: 1\negress:\n  - {ip: 10.0.0.1, ports: [443], protocol: tcp}\n";
    let replayed = |reach| {
        let policy = document::compile("p", 0, document, Some(reach)).unwrap();
        policy.replay(&group(true).attempts)
    };
    let (external, local) = (replayed(Reach::External), replayed(Reach::Local));
    assert!(external.newly_allowed.is_empty(), "{external:?}");
    assert_eq!(local.newly_allowed.len(), 1);
    let together = external.and(local);
    assert_eq!(
        (together.newly_allowed.len(), together.still_denied),
        (1, 1)
    );
}

#[test]
fn notes_are_few_and_short() {
    let notes = few(vec!["ä".repeat(LONGEST_NOTE + 1); MOST_LISTED + 2]);
    assert_eq!(notes.len(), MOST_LISTED + 1);
    assert_eq!(notes[0].chars().count(), LONGEST_NOTE + 1);
    assert_eq!(notes[MOST_LISTED], "and 2 more");
}

#[test]
fn what_a_sandbox_asked_for_is_shown_cut() {
    let mut differs = Differs {
        asked: format!("GET https://a.example:443/{}", "x".repeat(LONGEST)),
        count: 1,
        first: String::new(),
        last: "2026-11-21T12:00:00.000000Z".to_owned(),
        rule: None,
        reason: String::new(),
        already: false,
    };
    assert!(differs.short().ends_with("x…"));
    differs.asked.truncate(LONGEST);
    assert_eq!(differs.short(), differs.asked);
    let host = format!("{}evil.example", "a.".repeat(120));
    for asked in [
        format!("GET https://{host}:443/x"),
        format!("tcp {host}:5432"),
        format!("name {host}"),
    ] {
        differs.asked = asked;
        assert!(
            differs.short().contains("a.evil.example"),
            "{}",
            differs.short()
        );
    }
    assert_eq!(differs.moment(), "2026-11-21 12:00:00");
}

#[tokio::test]
async fn who_simulates_again_and_again_keeps_nobody_elses_simulation_waiting() {
    use futures_util::{FutureExt as _, poll};

    use crate::places::on_behalf;

    let lab = crate::app::tests::Lab::new();
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let opened = Arc::new(parking_lot::Mutex::new(opened));
    // Each would take for ever.
    let slow = || {
        let opened = Arc::clone(&opened);
        let work = move |_: &App| {
            let _ended = opened.lock().recv();
            Ok(())
        };
        on_behalf("editor".into(), beside(&lab.app, work)).boxed()
    };
    let mut all: Vec<_> = (0..8).map(|_| slow()).collect();
    for one in &mut all {
        assert!(poll!(one).is_pending());
    }
    let mut approver = on_behalf("approver".into(), beside(&lab.app, |_| Ok(7))).boxed();
    assert!(poll!(&mut approver).is_pending(), "it has the next turn");
    // The first of the editor's ends; the next of theirs has not begun.
    open.send(()).unwrap();
    assert!(all.remove(0).await.is_ok());
    let answer = tokio::time::timeout(std::time::Duration::from_secs(20), approver).await;
    assert!(matches!(answer, Ok(Ok(7))));
    drop(open);
}

/// With a floor below one of two servers, and what both tried.
async fn with_a_floor() -> (crate::app::tests::Lab, gig_policy::SandboxId) {
    use gig_audit::{Entry, Event, Recorder, RecorderSettings, SqliteStore, VerdictWord};
    use gig_policy::DenyReason;

    use crate::store::{Change as Make, Place};

    let lab = crate::app::tests::Lab::with(&["docs", "mail"]);
    let floor = Make::SavePolicy {
        name: "company".parse().unwrap(),
        expected: None,
        document: "version: 1\nlimits: {connections: 7}\negress:\n  - host: api.example.com\n"
            .to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    };
    lab.make(&floor);
    lab.make(&Make::SetFloor {
        place: Place::Server("docs".to_owned()),
        policy: Some("company".to_owned()),
        expected: None,
    });
    let store = SqliteStore::open(&lab.record(), "here").unwrap();
    let (recorder, owner) =
        Recorder::start(Box::new(store), RecorderSettings::new("here")).unwrap();
    let sandbox = gig_policy::SandboxId::new(uuid::Uuid::now_v7());
    for (server, decided) in [("docs", "company"), ("mail", "p")] {
        let mut entry = Entry::new(Event::Request);
        entry.sandbox = Some(sandbox).filter(|_| server == "docs");
        (entry.server, entry.profile) = (Some(server.into()), Some("ana".into()));
        (entry.host, entry.port) = (Some("new.example".into()), Some(443));
        entry.protocol = Some("https".into());
        (entry.method, entry.path) = (Some("GET".into()), Some(format!("/{server}").into()));
        (entry.policy, entry.policy_version) = (Some(decided.into()), Some(1));
        entry.verdict = Some(VerdictWord::Deny);
        entry.reason = Some(DenyReason::HostNotAllowed);
        recorder.record(entry).await.unwrap();
    }
    let mut carrying = Entry::new(Event::Request);
    (carrying.server, carrying.profile) = (Some("mail".into()), Some("ana".into()));
    (carrying.host, carrying.port) = (Some("new.example".into()), Some(443));
    carrying.protocol = Some("https".into());
    (carrying.method, carrying.path) = (Some("GET".into()), Some("/carrying".into()));
    (carrying.policy, carrying.verdict) = (Some("q".into()), Some(VerdictWord::Allow));
    carrying.secrets = vec!["TOK".into()];
    recorder.record(carrying).await.unwrap();
    drop(recorder);
    owner.close(std::time::Duration::from_secs(5));
    (lab, sandbox)
}

#[tokio::test]
async fn what_a_floor_denies_is_simulated_as_denied() {
    let (lab, sandbox) = with_a_floor().await;
    let draft = DRAFT;
    let of_span = async |name: &str, span: Span| {
        let made = simulate(&lab.app, name.to_owned(), draft.to_owned(), span)
            .await
            .unwrap();
        let allowed = made.newly_allowed.iter().map(|one| one.asked.clone());
        (allowed.collect::<Vec<_>>(), made.still_denied)
    };
    let of = async |name: &str, server: Option<&str>| {
        let span = Span {
            days: 7,
            policy: server.is_none().then(|| name.to_owned()),
            server: server.map(str::to_owned),
            sandbox: None,
        };
        of_span(name, span).await
    };
    let mail = vec!["GET https://new.example:443/mail".to_owned()];
    assert_eq!(of("p", Some("docs")).await, (Vec::new(), 1));
    assert_eq!(of("p", Some("mail")).await, (mail.clone(), 0));
    // Of the policy wherever it is in force: what the floor denied is in it, and stays denied.
    assert_eq!(of("p", None).await, (mail, 1));
    // Also of one sandbox alone.
    let span = Span {
        days: 7,
        policy: Some("p".to_owned()),
        server: None,
        sandbox: Some(sandbox.to_string()),
    };
    assert_eq!(of_span("p", span).await, (Vec::new(), 1));
    // The floor itself, drafted anew: what is beneath it denies that, too, until it does not.
    assert_eq!(of("company", None).await, (Vec::new(), 1));
    lab.make(&crate::store::Change::SavePolicy {
        name: "p".parse().unwrap(),
        expected: None,
        document: draft.to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    });
    let docs = vec!["GET https://new.example:443/docs".to_owned()];
    assert_eq!(of("company", None).await, (docs, 0));
}

#[tokio::test]
async fn what_was_removed_of_the_time_is_not_claimed() {
    let (lab, sandbox) = with_a_floor().await;
    let of = async |sandbox: Option<String>| {
        let span = Span {
            days: 7,
            policy: None,
            server: Some("mail".to_owned()).filter(|_| sandbox.is_none()),
            sandbox,
        };
        let made = simulate(&lab.app, "p".to_owned(), DRAFT.to_owned(), span).await;
        let made = made.unwrap();
        (made.complete, made.covered)
    };
    let removed = |class: &str, days: i64| {
        let newest = lab.app.now() - jiff::SignedDuration::from_hours(24 * days);
        let record = rusqlite::Connection::open(lab.record()).unwrap();
        let keep = "INSERT OR REPLACE INTO removed (chain, class, newest) VALUES (1, ?1, ?2)";
        record
            .execute(keep, (class, format!("{newest:.6}")))
            .unwrap();
    };
    // Longer ago, and of what is not asked for.
    removed("dns", 8);
    removed("access", 1);
    for sandbox in [None, Some(sandbox.to_string())] {
        removed("request", 8);
        assert!(of(sandbox.clone()).await.0);
        removed("request", 6);
        let (complete, words) = of(sandbox).await;
        assert!(
            !complete && words.contains("were removed, the newest of"),
            "{words}"
        );
    }
}

#[tokio::test]
async fn what_the_newest_version_does_already_is_no_change_of_a_draft() {
    let (lab, _sandbox) = with_a_floor().await;
    let listed = async |policy: &str, server: &str| {
        let span = Span {
            days: 7,
            policy: None,
            server: Some(server.to_owned()),
            sandbox: None,
        };
        let made = simulate(&lab.app, policy.to_owned(), DRAFT.to_owned(), span);
        let allowed = made.await.unwrap().newly_allowed.into_iter();
        let told = allowed.map(|one| (one.asked, one.already));
        told.collect::<Vec<_>>()
    };
    let save = |name: &str| {
        lab.make(&crate::store::Change::SavePolicy {
            name: name.parse().unwrap(),
            expected: None,
            document: DRAFT.to_owned(),
            reason: String::new(),
            secrets: crate::store::Vouched::Freely,
        });
    };
    let mail = "GET https://new.example:443/mail".to_owned();
    assert_eq!(listed("p", "mail").await, [(mail.clone(), false)]);
    save("p");
    assert_eq!(listed("p", "mail").await, [(mail, true)]);
    // Of a floor no less.
    let docs = "GET https://new.example:443/docs".to_owned();
    assert_eq!(listed("company", "docs").await, [(docs.clone(), false)]);
    save("company");
    assert_eq!(listed("company", "docs").await, [(docs, true)]);
}

#[tokio::test]
async fn a_draft_is_held_against_the_secrets_that_were_used_and_keeps_what_records_do_not_say() {
    let (lab, _sandbox) = with_a_floor().await;
    let draft = DRAFT;
    // A draft that grants a secret no more denies what carried it.
    let of_policy = |name: &str| Span {
        days: 7,
        policy: Some(name.to_owned()),
        server: None,
        sandbox: None,
    };
    let made = simulate(&lab.app, "q".to_owned(), draft.to_owned(), of_policy("q"))
        .await
        .unwrap();
    assert_eq!(made.newly_denied_total, 1, "{made:?}");
    assert_eq!(made.newly_denied[0].reason, "secret_misuse");
    let made = suggestion(
        &lab.app,
        "q".to_owned(),
        Breadth::Path,
        of_policy("q"),
        None,
    );
    let made = made.await.unwrap();
    assert!(made.document.contains("secrets: [\"TOK\"]"), "{made:?}");
    // What it replaces says more than records do.
    let made = suggestion(
        &lab.app,
        "company".to_owned(),
        Breadth::Path,
        of_policy("company"),
        None,
    );
    let made = made.await.unwrap();
    assert!(
        made.document.contains("limits:\n  connections: 7\n"),
        "{made:?}"
    );
    // So does a new one that is to stand in its place.
    let instead = Some("company".to_owned());
    let made = suggestion(
        &lab.app,
        "new".to_owned(),
        Breadth::Path,
        of_policy("q"),
        instead,
    );
    let made = made.await.unwrap();
    assert!(
        made.document.contains("limits:\n  connections: 7\n"),
        "{made:?}"
    );
}

const DRAFT: &str = "version: 1\negress:\n  - host: new.example\n";
