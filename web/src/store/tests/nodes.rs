//! Nodes that say that they live, and those that do not, on both databases.

use std::{cell::RefCell, time::Duration};

use super::super::{
    tables::{DatabaseError, Tables, Transaction},
    *,
};

on_both! {
    what_runs_is_listed_while_its_node_lives,
    a_node_that_was_silent_for_a_minute_is_told_as_lost_once,
    who_was_silent_itself_judges_nobody,
    a_node_that_begins_again_leaves_orphans_that_anybody_tells,
    what_could_not_be_told_is_told_at_the_next_look,
    of_a_server_and_a_profile_one_node_at_a_time_has_the_sandbox,
    what_one_node_asks_another_is_there_while_it_waits,
}

fn run(name: &str, run: &str) -> NodeRun {
    NodeRun {
        name: name.to_owned(),
        run: run.to_owned(),
        listens: vec!["10.0.0.2:8080".parse().unwrap()],
    }
}

fn row(node: &str, sandbox: &str) -> RunningRow {
    RunningRow {
        sandbox: sandbox.to_owned(),
        node: node.to_owned(),
        server: "docs".to_owned(),
        profile: "ana".to_owned(),
        facts: RunningFacts {
            attached: false,
            address: Some("10.200.0.2".to_owned()),
            namespace: None,
            policy: "p".to_owned(),
            policy_version: 1,
            policy_by: "all servers".to_owned(),
            started: "2026-11-21T09:30:00Z".to_owned(),
            layers: vec!["landlock: full".to_owned()],
        },
    }
}

fn put(rows: &[RunningRow]) -> RunningNews {
    RunningNews {
        put: rows.to_vec(),
        ended: Vec::new(),
    }
}

/// As if so many seconds had gone by since a node last said something; its steadiness is older, too.
fn aged(store: &impl Tables, node: &str, seconds: i64) {
    let age = |db: &Transaction<'_>| -> Result<(), DatabaseError> {
        let sql = "UPDATE nodes SET seen = seen - ?2, steady = steady - ?2 WHERE name = ?1";
        db.execute(sql, (node, seconds)).map(drop)
    };
    store.read(age).unwrap();
}

/// Two nodes, one with a sandbox; both for a while.
fn two(store: &impl Tables) -> (NodeRun, NodeRun) {
    let (one, other) = (run("one", "1"), run("two", "2"));
    for node in [&one, &other] {
        store.begin_node(node, "1.0").unwrap();
        aged(store, &node.name, 20);
        for _ in 0..3 {
            assert_eq!(store.beat(node, &put(&[])).unwrap(), Beaten::Noted);
            aged(store, &node.name, 20);
        }
        store.beat(node, &put(&[])).unwrap();
    }
    store.beat(&one, &put(&[row("one", "s1")])).unwrap();
    (one, other)
}

fn buried(store: &impl Tables, judge: &NodeRun) -> Vec<Lost> {
    let told = RefCell::new(Vec::new());
    let tell = |lost: &Lost| {
        told.borrow_mut().push(lost.clone());
        Ok(())
    };
    store.bury(judge, &tell).unwrap();
    told.into_inner()
}

fn ids(store: &impl Tables) -> Vec<String> {
    let running = store.running().unwrap().into_iter();
    running.map(|row| row.sandbox).collect()
}

fn what_runs_is_listed_while_its_node_lives(store: &impl Tables) {
    let (one, other) = two(store);
    assert_eq!(store.running().unwrap(), [row("one", "s1")]);
    assert_eq!(store.running_one("s1").unwrap(), Some(row("one", "s1")));
    assert_eq!(store.running_one("s2").unwrap(), None);
    let mut newer = row("one", "s1");
    newer.facts.policy_version = 2;
    let news = RunningNews {
        put: vec![newer.clone(), row("one", "s2")],
        ended: vec!["s0".to_owned()],
    };
    store.beat(&one, &news).unwrap();
    assert_eq!(store.running().unwrap(), [row("one", "s2"), newer]);
    let nodes = store.nodes().unwrap();
    assert!(nodes.iter().all(|node| node.listens == one.listens));
    let told: Vec<_> = nodes
        .iter()
        .map(|node| (node.name.as_str(), node.sandboxes, node.gone))
        .collect();
    assert_eq!(told, [("one", 2, false), ("two", 0, false)]);
    assert_eq!(nodes[0].version, "1.0");
    let news = RunningNews {
        put: Vec::new(),
        ended: vec!["s1".to_owned()],
    };
    store.beat(&one, &news).unwrap();
    assert_eq!(ids(store), ["s2"]);
    store.end_node(&one).unwrap();
    assert!(ids(store).is_empty());
    assert!(buried(store, &other).is_empty(), "it went in order");
    assert_eq!(
        store.beat(&one, &put(&[])).unwrap(),
        Beaten::Unknown,
        "it begins again"
    );
}

fn a_node_that_was_silent_for_a_minute_is_told_as_lost_once(store: &impl Tables) {
    let (one, other) = two(store);
    aged(store, "one", 55);
    assert!(buried(store, &other).is_empty());
    assert_eq!(ids(store), ["s1"]);
    aged(store, "one", 10);
    let told = buried(store, &other);
    let [
        Lost::Node {
            name,
            silent,
            sandboxes: 1,
        },
        Lost::Sandbox(lost),
    ] = told.as_slice()
    else {
        panic!("{told:?}");
    };
    assert_eq!(name, "one");
    assert!(*silent >= Duration::from_secs(65), "{silent:?}");
    assert_eq!(**lost, row("one", "s1"));
    assert!(ids(store).is_empty());
    assert!(buried(store, &other).is_empty(), "once");
    let nodes = store.nodes().unwrap();
    assert!(nodes[0].gone && !nodes[1].gone, "{nodes:?}");
    // It was only cut off: it is told, and what it says meanwhile is not noted.
    let said = store.beat(&one, &put(&[row("one", "s1")])).unwrap();
    assert_eq!(said, Beaten::Gone);
    assert!(ids(store).is_empty());
    let again = run("one", "3");
    store.begin_node(&again, "1.0").unwrap();
    assert_eq!(store.beat(&one, &put(&[])).unwrap(), Beaten::Gone);
    assert_eq!(
        store.beat(&again, &put(&[row("one", "s3")])).unwrap(),
        Beaten::Noted
    );
    assert_eq!(ids(store), ["s3"]);
    assert!(buried(store, &other).is_empty());
}

fn who_was_silent_itself_judges_nobody(store: &impl Tables) {
    let (one, other) = two(store);
    // The database was away for all of them.
    for node in ["one", "two"] {
        aged(store, node, 100);
    }
    assert!(buried(store, &other).is_empty(), "it has not spoken yet");
    store.beat(&other, &put(&[])).unwrap();
    assert!(buried(store, &other).is_empty(), "not for a minute");
    assert_eq!(store.beat(&one, &put(&[])).unwrap(), Beaten::Noted);
    aged(store, "one", 100);
    for _ in 0..3 {
        aged(store, "two", 25);
        store.beat(&other, &put(&[])).unwrap();
    }
    assert_eq!(buried(store, &other).len(), 2);
}

fn a_node_that_begins_again_leaves_orphans_that_anybody_tells(store: &impl Tables) {
    let (_, other) = two(store);
    let again = run("one", "3");
    store.begin_node(&again, "1.1").unwrap();
    assert!(ids(store).is_empty(), "it does not say that this runs");
    let told = buried(store, &again);
    assert_eq!(told, [Lost::Sandbox(Box::new(row("one", "s1")))]);
    assert!(buried(store, &other).is_empty());
    assert_eq!(store.nodes().unwrap()[0].version, "1.1");
}

fn what_could_not_be_told_is_told_at_the_next_look(store: &impl Tables) {
    let (_, other) = two(store);
    aged(store, "one", 65);
    let refuse = |_: &Lost| Err("disk full".to_owned());
    let refused = store.bury(&other, &refuse);
    assert!(matches!(refused, Err(ChangeError::NotRecorded(_))));
    assert!(!store.nodes().unwrap()[0].gone);
    assert_eq!(buried(store, &other).len(), 2);
}

fn of_a_server_and_a_profile_one_node_at_a_time_has_the_sandbox(store: &impl Tables) {
    let (one, other) = two(store);
    let claim = |node: &str, sandbox: &str, profile: &str, spec: &str| {
        let claim = Claim {
            server: "docs".to_owned(),
            profile: profile.to_owned(),
            sandbox: sandbox.to_owned(),
            spec: spec.to_owned(),
        };
        store.claim(node, &claim).unwrap()
    };
    let theirs = |same: bool| Claimed::Theirs {
        node: "one".to_owned(),
        sandbox: "s1".to_owned(),
        same,
    };
    assert_eq!(claim("one", "s1", "ana", "x"), Claimed::Mine);
    assert_eq!(claim("two", "s2", "ana", "x"), theirs(true));
    assert_eq!(claim("two", "s2", "ana", "y"), theirs(false));
    assert_eq!(claim("two", "s3", "ben", "x"), Claimed::Mine, "his own");
    assert_eq!(claim("three", "s4", "cem", "x"), Claimed::Unknown);
    // Its node says that it has ended.
    let news = RunningNews {
        put: Vec::new(),
        ended: vec!["s1".to_owned()],
    };
    store.beat(&one, &news).unwrap();
    assert_eq!(claim("two", "s2", "ana", "x"), Claimed::Mine);
    store.release("s2").unwrap();
    assert_eq!(claim("one", "s5", "ana", "x"), Claimed::Mine);
    // Its node is gone.
    aged(store, "one", 65);
    buried(store, &other);
    assert_eq!(claim("two", "s6", "ana", "x"), Claimed::Mine);
    assert_eq!(
        claim("one", "s7", "cem", "x"),
        Claimed::Unknown,
        "it is gone"
    );
    store.begin_node(&run("one", "9"), "1.0").unwrap();
    store.end_node(&other).unwrap();
    assert_eq!(claim("one", "s8", "ana", "x"), Claimed::Mine);
}

fn what_one_node_asks_another_is_there_while_it_waits(store: &impl Tables) {
    let question = |id: &str| Question {
        id: id.to_owned(),
        text: format!("{{\"of\":\"{id}\"}}"),
    };
    for id in ["1", "2"] {
        store.put_question("one", &question(id)).unwrap();
    }
    assert!(store.questions_for("two").unwrap().is_empty());
    let asked = store.questions_for("one").unwrap();
    assert_eq!(asked, [question("1"), question("2")]);
    assert_eq!(store.reply("1").unwrap(), None);
    store.answer_question("1", "yes").unwrap();
    store.answer_question("1", "no").unwrap();
    assert_eq!(store.reply("1").unwrap().as_deref(), Some("yes"));
    assert_eq!(store.questions_for("one").unwrap(), [question("2")]);
    store.forget_question("1").unwrap();
    store.answer_question("1", "late").unwrap();
    assert_eq!(store.reply("1").unwrap(), None);
    // Nobody waits for the other any more, and the next word of any node sweeps it away.
    let age =
        |db: &Transaction<'_>| db.execute("UPDATE questions SET asked = asked - ?1", [11_i64]);
    assert_eq!(store.read(age).unwrap(), 1);
    assert!(store.questions_for("one").unwrap().is_empty());
    store.answer_question("2", "yes").unwrap();
    store.beat(&run("two", "1"), &put(&[])).unwrap();
    assert!(store.reply("2").unwrap().is_some(), "for some seconds more");
    let age =
        |db: &Transaction<'_>| db.execute("UPDATE questions SET asked = asked - ?1", [50_i64]);
    store.read(age).unwrap();
    store.beat(&run("two", "1"), &put(&[])).unwrap();
    assert_eq!(store.reply("2").unwrap(), None);
}
