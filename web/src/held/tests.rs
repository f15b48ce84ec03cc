//! What waits is seen and decided on through the store, and bounded.

use std::sync::{atomic::Ordering, mpsc};

use super::*;
use crate::{
    app::tests::owner,
    clock::SystemClock,
    store::{Change, ChangeError, fake::FakeStore},
};

fn facts(sandbox: &str) -> HeldFacts {
    HeldFacts {
        sandbox: sandbox.to_owned(),
        server: "docs".to_owned(),
        profile: "ana".to_owned(),
        started_by: Vec::new(),
        host: "new.example".to_owned(),
        port: 443,
        protocol: "https".to_owned(),
        method: Some("GET".to_owned()),
        path: Some("/x".to_owned()),
        policy: "web".to_owned(),
        policy_version: 1,
        reason: "host_not_allowed".to_owned(),
    }
}

fn desk(store: &Arc<FakeStore>, node: &str) -> HeldDesk {
    let store = Arc::clone(store) as Arc<dyn Store>;
    HeldDesk::open(store, Arc::new(SystemClock), node.to_owned()).unwrap()
}

fn put(desk: &HeldDesk, id: &str, sandbox: &str) -> (Option<HeldPlace>, mpsc::Receiver<Said>) {
    let (send, said) = mpsc::channel();
    let tell: Tell = Box::new(move |word| send.send(word).unwrap());
    (desk.put_up(id, facts(sandbox), LATE, tell), said)
}

/// The same of another server.
fn put_of(desk: &HeldDesk, (id, sandbox, server): (&str, &str, &str)) -> Option<HeldPlace> {
    let facts = HeldFacts {
        server: server.to_owned(),
        ..facts(sandbox)
    };
    desk.put_up(id, facts, LATE, Box::new(drop))
}

fn listed(store: &FakeStore) -> Vec<String> {
    let found = store.held(SystemClock.now()).unwrap();
    found.into_iter().map(|one| one.id).collect()
}

fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

fn answer(store: &FakeStore, id: &str, allow: bool) -> Result<(), ChangeError> {
    let (id, what) = (id.to_owned(), "GET x".to_owned());
    let change = Change::AnswerHeld { id, allow, what };
    store.apply(&change, &owner(), &|_| Ok(())).map(drop)
}

const LATE: Duration = Duration::from_secs(60);

#[test]
fn what_waits_at_one_node_is_seen_and_decided_at_another() {
    let store = Arc::new(FakeStore::new());
    let (one, other) = (desk(&store, "one"), desk(&store, "other"));
    let (place, said) = put(&one, "a-1", "s");
    let (_others, unsaid) = put(&other, "b-1", "s");
    until("both are listed", || listed(&store).len() == 2);
    answer(&store, "a-1", true).unwrap();
    let word = said.recv_timeout(LATE).unwrap();
    assert!(word.allow && *word.by == crate::local_user(0), "{word:?}");
    assert_eq!(listed(&store), ["b-1"], "what was decided waits for nobody");
    assert!(matches!(
        answer(&store, "a-1", false),
        Err(ChangeError::Missing { .. })
    ));
    assert!(unsaid.try_recv().is_err());
    drop(place);
    until("its row is gone", || {
        store.words_for("one").unwrap().is_empty()
    });
}

#[test]
fn who_goes_is_listed_no_more_and_cannot_be_answered() {
    let store = Arc::new(FakeStore::new());
    let desk = desk(&store, "one");
    let (place, said) = put(&desk, "a-1", "s");
    until("it is listed", || listed(&store) == ["a-1"]);
    drop(place);
    until("it is not", || listed(&store).is_empty());
    assert!(answer(&store, "a-1", true).is_err());
    assert!(said.recv().is_err(), "nobody was told");
}

#[test]
fn as_many_wait_as_may() {
    let store = Arc::new(FakeStore::new());
    let desk = desk(&store, "one");
    let all: Vec<_> = (0..=MOST_OF_ONE)
        .map(|number| put(&desk, &format!("a-{number}"), "s").0)
        .collect();
    assert_eq!(all.iter().flatten().count(), MOST_OF_ONE);
    assert!(put(&desk, "b-1", "other").0.is_some(), "others have room");
}

#[test]
fn where_nobody_can_be_asked_that_is_told_at_once() {
    let store = Arc::new(FakeStore::new());
    store.failing.store(true, Ordering::SeqCst);
    let desk = desk(&store, "one");
    let (_place, said) = put(&desk, "a-1", "s");
    assert!(matches!(
        said.recv_timeout(LATE),
        Err(mpsc::RecvTimeoutError::Disconnected)
    ));
}

#[test]
fn what_ends_with_the_desk_is_told() {
    let store = Arc::new(FakeStore::new());
    let desk = desk(&store, "one");
    let (_place, said) = put(&desk, "a-1", "s");
    drop(desk);
    assert!(said.recv().is_err());
}

#[test]
fn one_servers_sandboxes_leave_room_for_anothers() {
    let store = Arc::new(FakeStore::new());
    let desk = desk(&store, "one");
    // As many sandboxes as run of one server, each with as many requests as wait.
    let all: Vec<_> = (0..32 * MOST_OF_ONE)
        .map(|number| {
            let (id, sandbox) = (number.to_string(), (number / MOST_OF_ONE).to_string());
            put_of(&desk, (&id, &sandbox, "docs"))
        })
        .collect();
    assert_eq!(all.iter().flatten().count(), MOST_OF_SERVER);
    assert!(put_of(&desk, ("other", "s", "mail")).is_some());
}
