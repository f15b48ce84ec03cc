//! One sandbox of a server and a profile, however many ask for it at once.

use std::sync::atomic::Ordering;

use futures_util::{future::join_all, poll};
use gig_audit::Event;

use super::*;
use crate::app::tests::{Lab, owner, registered};

/// What somebody gets who asks for it.
async fn ask(lab: &Lab, server: &str, profile: &str) -> Result<(bool, SandboxFacts), Problem> {
    let known = lab.app.store.server(server).unwrap().unwrap();
    let tell = |id, words: &str| {
        let mut entry = Entry::new(Event::Admin);
        entry.sandbox = Some(id);
        entry.findings = vec![words.into()];
        entry
    };
    match lab.app.instance(&known, &profile.into(), tell) {
        Instance::Runs(facts) => Ok((false, facts)),
        Instance::UnderWay(id, start) => {
            let facts = here(start.await?);
            assert_eq!(facts.id, id);
            Ok((false, facts))
        }
        Instance::New(start) => Ok((true, here(start.await?))),
    }
}

fn here(started: Started) -> SandboxFacts {
    match started {
        Started::Here(facts) => facts,
        Started::There(row) => panic!("another node has {row:?}"),
    }
}

fn told(lab: &Lab) -> Vec<String> {
    let records = lab.log.records().into_iter();
    records
        .map(|one| one.entry.findings[0].to_string())
        .collect()
}

#[tokio::test]
async fn who_asks_at_once_gets_one_sandbox_and_each_profile_its_own() {
    let lab = Lab::with(&["one", "two"]);
    let pairs = ["one ana", "one ana", "one Ana", "one ben", "two ana"];
    let mut asked: Vec<_> = pairs
        .iter()
        .map(|pair| {
            let (server, profile) = pair.split_once(' ').unwrap();
            ask(&lab, server, profile).boxed()
        })
        .collect();
    while lab.control.decided.available_permits() < 3 {
        for one in &mut asked {
            assert!(poll!(one).is_pending());
        }
        tokio::task::yield_now().await;
    }
    lab.control.gate.add_permits(5);
    let got: Vec<_> = join_all(asked)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let new: Vec<bool> = got.iter().map(|(new, _)| *new).collect();
    assert_eq!(new, [true, false, false, true, true]);
    let ids: Vec<_> = got.iter().map(|(_, facts)| facts.id).collect();
    assert!(ids[0] == ids[1] && ids[1] == ids[2]);
    assert!(ids[0] != ids[3] && ids[0] != ids[4] && ids[3] != ids[4]);
    assert_eq!(lab.app.control.sandboxes().len(), 3);
    // Later, too; and beside one that somebody is attached to.
    let (new, again) = ask(&lab, "one", "ana").await.unwrap();
    assert!(!new && again.id == ids[0]);
    lab.app.control.stop(ids[0]).unwrap();
    let (new, next) = ask(&lab, "one", "ana").await.unwrap();
    assert!(new && next.id != ids[0]);
    assert_eq!(
        told(&lab).len(),
        4,
        "one record of each start: {:?}",
        told(&lab)
    );
}

#[tokio::test]
async fn a_failed_start_is_told_to_all_who_wait_and_another_may_be_tried() {
    let lab = Lab::with(&["one"]);
    lab.control.prepared.forget_permits(1000);
    let mut asked: Vec<_> = (0..3).map(|_| ask(&lab, "one", "ana").boxed()).collect();
    while lab.store.asked.load(Ordering::SeqCst) < 4 {
        for one in &mut asked {
            assert!(poll!(one).is_pending());
        }
        tokio::task::yield_now().await;
    }
    // It is changed while it is being started, so that start is refused.
    let change = registered("one", "/bin/other");
    lab.app.change(owner(), change).await.unwrap();
    lab.control.prepared.add_permits(10);
    lab.control.gate.add_permits(10);
    // One has not looked at what became of it yet: it is in nobody's way.
    let left = asked.pop();
    for refused in join_all(asked).await {
        assert_eq!(refused.unwrap_err().status(), StatusCode::CONFLICT);
    }
    assert!(lab.app.control.sandboxes().is_empty());
    assert!(ask(&lab, "one", "ana").await.unwrap().0);
    let refused = left.unwrap().await.unwrap_err();
    assert_eq!(refused.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn who_waits_goes_on_without_the_first_and_a_start_that_nobody_waits_for_is_the_next_ones() {
    let lab = Lab::with(&["one"]);
    lab.control.prepared.forget_permits(1000);
    let mut asked: Vec<_> = (0..2).map(|_| ask(&lab, "one", "ana").boxed()).collect();
    for one in &mut asked {
        assert!(poll!(one).is_pending());
    }
    drop(asked.remove(0));
    lab.control.prepared.add_permits(1);
    lab.control.gate.add_permits(10);
    let (new, facts) = asked.remove(0).await.unwrap();
    assert!(!new);
    lab.app.control.stop(facts.id).unwrap();

    let mut given_up = ask(&lab, "one", "ana").boxed();
    assert!(poll!(&mut given_up).is_pending());
    drop(given_up);
    tokio::task::yield_now().await;
    lab.control.prepared.add_permits(10);
    let (new, other) = ask(&lab, "one", "ana").await.unwrap();
    assert!(!new && other.id != facts.id);
    assert_eq!(lab.app.control.sandboxes().len(), 1);
}

#[tokio::test]
async fn one_that_runs_what_the_server_was_is_ended_for_who_asks_and_that_is_recorded() {
    let lab = Lab::with(&["one"]);
    lab.control.gate.add_permits(10);
    let (_, before) = ask(&lab, "one", "ana").await.unwrap();
    let change = registered("one", "/bin/other");
    lab.app.change(owner(), change).await.unwrap();
    let (new, now) = ask(&lab, "one", "ana").await.unwrap();
    assert!(new && now.id != before.id);
    assert_eq!(now.spec.command, ["/bin/other"]);
    let running: Vec<_> = lab
        .app
        .control
        .sandboxes()
        .iter()
        .map(|one| one.id)
        .collect();
    assert_eq!(running, [now.id]);
    let told = told(&lab);
    let stop = told
        .iter()
        .position(|one| one == "sandbox stop: its server was changed");
    assert!(stop.is_some_and(|at| at + 2 == told.len()), "{told:?}");
}
