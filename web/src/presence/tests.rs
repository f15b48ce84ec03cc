//! What a node tells of itself and of others, look by look.

use super::*;
use crate::{app::tests::Lab, control::Control as _, store::Fleet as _};

fn beats(teller: &mut Teller) {
    teller.said = None;
    teller.round();
}

fn running(lab: &Lab) -> Vec<String> {
    let rows = lab.store.running().unwrap().into_iter();
    rows.map(|row| row.sandbox).collect()
}

/// A record that can be searched.
fn record(lab: &Lab) {
    drop(gig_audit::SqliteStore::open(&lab.record(), "here").unwrap());
}

/// What was recorded of nodes: deed, and about what.
fn told_deeds(lab: &Lab) -> Vec<(Deed, Option<SandboxId>)> {
    let entries = lab.log.records().into_iter();
    entries
        .map(|record| record.entry)
        .filter_map(|entry| Some((entry.deed?, entry.sandbox)))
        .filter(|(deed, _)| matches!(deed, Deed::NodeLost | Deed::SandboxLost))
        .collect()
}

fn teller(lab: &Lab) -> Teller {
    Teller::new(&lab.app).unwrap()
}

#[test]
fn what_begins_ends_and_gets_another_policy_is_told_at_the_next_look() {
    let lab = Lab::with(&["docs"]);
    let mut teller = teller(&lab);
    let facts = lab.control.run("docs", "p");
    teller.round();
    assert_eq!(running(&lab), [facts.id.to_string()]);
    lab.control.set_policy(
        "docs",
        "ana",
        crate::control::Ruling::denying("another policy"),
    );
    teller.round();
    let row = &lab.store.running().unwrap()[0];
    assert_eq!(row.facts.policy, "another policy");
    let before = lab.store.asked.load(std::sync::atomic::Ordering::SeqCst);
    teller.round();
    let after = lab.store.asked.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(after, before, "nothing is new");
    lab.control.stop(facts.id).unwrap();
    teller.round();
    assert!(running(&lab).is_empty());
    teller.end();
    assert!(lab.store.nodes().unwrap().is_empty());
}

#[test]
fn where_other_nodes_listen_is_closed_to_sandboxes_as_long_as_they_live() {
    let lab = Lab::with(&["docs"]);
    let mut teller = teller(&lab);
    let other = NodeRun {
        name: "there".to_owned(),
        run: "1".to_owned(),
        listens: vec![
            "10.0.0.2:8080".parse().unwrap(),
            "[fd12::2]:8080".parse().unwrap(),
        ],
    };
    lab.store.begin_node(&other, "1.0").unwrap();
    teller.round();
    assert_eq!(*lab.control.closed.lock(), other.listens);
    // Its own it knows, and does not take for another's.
    teller.node.listens = vec!["10.0.0.1:8080".parse().unwrap()];
    teller.begin_anew();
    beats(&mut teller);
    assert_eq!(*lab.control.closed.lock(), other.listens);
    lab.store.take_for_dead("there");
    beats(&mut teller);
    assert!(lab.control.closed.lock().is_empty());
}

#[test]
fn a_node_that_was_taken_for_dead_ends_what_was_told_as_lost_and_nothing_else() {
    let lab = Lab::with(&["docs"]);
    let mut teller = teller(&lab);
    let told = lab.control.run("docs", "p");
    teller.round();
    lab.store.take_for_dead("here");
    let later = lab.control.run("docs", "p");
    beats(&mut teller);
    let left: Vec<_> = lab.control.sandboxes().iter().map(|one| one.id).collect();
    assert_eq!(left, [later.id], "and {} not", told.id);
    teller.round();
    assert_eq!(running(&lab), [later.id.to_string()]);
    assert!(!lab.store.nodes().unwrap()[0].gone);
}

#[test]
fn what_ends_as_lost_is_not_told_as_running_meanwhile() {
    let lab = Lab::with(&["docs"]);
    let mut teller = teller(&lab);
    let told = lab.control.run("docs", "p");
    teller.round();
    assert_eq!(running(&lab), [told.id.to_string()]);
    teller.end_lost();
    lab.control.put_back(told);
    teller.round();
    assert!(running(&lab).is_empty());
}

#[test]
fn what_a_former_start_ran_is_told_as_lost_once_unless_its_end_is_recorded() {
    use gig_audit::{Recorder, RecorderSettings, SqliteStore};

    let lab = Lab::with(&["docs"]);
    record(&lab);
    let mut former = teller(&lab);
    let (lost, over) = (lab.control.run("docs", "p"), lab.control.run("docs", "p"));
    former.round();
    drop(former);
    let store = SqliteStore::open(&lab.record(), "here").unwrap();
    let (recorder, owner) =
        Recorder::start(Box::new(store), RecorderSettings::new("here")).unwrap();
    let mut exit = Entry::new(Event::SandboxExit);
    exit.sandbox = Some(over.id);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(recorder.record(exit)).unwrap();
    drop(recorder);
    owner.close(Duration::from_secs(5));
    for one in [&lost, &over] {
        lab.control.stop(one.id).unwrap();
    }
    let mut now = teller(&lab);
    now.node.run = "the next start".to_owned();
    now.round();
    assert_eq!(told_deeds(&lab), [(Deed::SandboxLost, Some(lost.id))]);
    beats(&mut now);
    assert_eq!(told_deeds(&lab).len(), 1);
}
