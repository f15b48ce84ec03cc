//! What waits in a gig that is no more takes no answer, on both databases.

use super::{
    super::super::{
        tables::{DatabaseError, Tables, Transaction},
        *,
    },
    actor, at, said, waits,
};

on_both! {
    what_a_killed_gig_left_waiting_takes_no_word,
    a_word_that_nobody_hears_is_taken_back_and_one_that_is_read_is_not,
    what_a_start_left_waiting_is_gone_with_the_next_with_its_end_and_when_it_is_taken_for_dead,
}

fn what_a_killed_gig_left_waiting_takes_no_word(store: &impl Tables) {
    let aged = |seconds: i64| {
        let age = |db: &Transaction<'_>| -> Result<(), DatabaseError> {
            let sql = "UPDATE held SET seen = seen - ?1";
            db.execute(sql, [seconds]).map(drop)
        };
        store.read(age).unwrap();
    };
    let is_lost = || {
        let held = store.held(at(1)).unwrap();
        held.iter().map(|one| one.lost).collect::<Vec<_>>()
    };
    store
        .put_held(&[waits("a", "one", 30), waits("b", "two", 30)])
        .unwrap();
    // One of the two asks on what was said.
    for _ in 0..5 {
        aged(5);
        store.words_for("one").unwrap();
    }
    assert_eq!(is_lost(), [false, true]);
    for allow in [true, false] {
        let change = Change::AnswerHeld {
            id: "b".to_owned(),
            allow,
            what: "GET x".to_owned(),
        };
        let recorded = std::cell::Cell::new(false);
        let refused = store.apply(&change, &actor(1), &|_| {
            recorded.set(true);
            Ok(())
        });
        assert!(
            matches!(refused, Err(ChangeError::Unheard { .. })),
            "{refused:?}"
        );
        assert!(!recorded.get(), "nothing was allowed, so nothing says so");
    }
    assert!(store.words_for("two").unwrap().is_empty());
    // It comes back, from a pause that was longer than most.
    assert_eq!(is_lost(), [false, false]);
    for (id, node) in [("a", "one"), ("b", "two")] {
        said(store, id, true, 2).unwrap();
        assert_eq!(store.words_for(node).unwrap().len(), 1);
    }
}

fn a_word_that_nobody_hears_is_taken_back_and_one_that_is_read_is_not(store: &impl Tables) {
    let age = |db: &Transaction<'_>| db.execute("UPDATE held SET seen = seen - 11", ()).map(drop);
    store
        .put_held(&[waits("a", "one", 30), waits("b", "two", 30)])
        .unwrap();
    said(store, "a", true, 2).unwrap();
    said(store, "b", true, 2).unwrap();
    // Both were there a moment ago.
    for id in ["a", "b"] {
        assert_eq!(store.take_back_word(id).unwrap(), HeldFate::Unheard);
    }
    store.read(age).unwrap();
    // One asks after all, and has it; the other never does.
    assert_eq!(store.words_for("one").unwrap().len(), 1);
    assert_eq!(store.take_back_word("a").unwrap(), HeldFate::Unheard);
    assert_eq!(store.take_back_word("b").unwrap(), HeldFate::TakenBack);
    assert!(store.words_for("two").unwrap().is_empty());
    store.end_held(&["a".to_owned()]).unwrap();
    assert_eq!(store.take_back_word("a").unwrap(), HeldFate::Heard);
}

fn what_a_start_left_waiting_is_gone_with_the_next_with_its_end_and_when_it_is_taken_for_dead(
    store: &impl Tables,
) {
    let node = |name: &str, run: &str| NodeRun {
        name: name.to_owned(),
        run: run.to_owned(),
        listens: Vec::new(),
    };
    let (one, other) = (node("n", "one"), node("m", "two"));
    for node in [&one, &other] {
        store.begin_node(node, "1.0").unwrap();
    }
    store
        .put_held(&[waits("a", "one", 30), waits("b", "two", 30)])
        .unwrap();
    let waiting = || {
        let held = store.held(at(1)).unwrap();
        held.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    // Asked once more by the same start: it has them still.
    store.begin_node(&one, "1.0").unwrap();
    assert_eq!(waiting(), ["a", "b"]);
    store.begin_node(&node("n", "three"), "1.0").unwrap();
    assert_eq!(waiting(), ["b"]);
    assert!(matches!(
        said(store, "a", true, 2),
        Err(ChangeError::Missing { .. })
    ));
    store.end_node(&other).unwrap();
    assert_eq!(waiting(), [""; 0]);
    // Another one, that is silent for long.
    store.begin_node(&other, "1.0").unwrap();
    store.put_held(&[waits("c", "two", 30)]).unwrap();
    let three = node("n", "three");
    for _ in 0..5 {
        let sql = "UPDATE nodes SET seen = seen - 20, steady = steady - 20";
        let age = |db: &Transaction<'_>| db.execute(sql, ()).map(drop);
        store.read(age).unwrap();
        store.beat(&three, &RunningNews::default()).unwrap();
    }
    store.bury(&three, &|_| Ok(())).unwrap();
    assert_eq!(waiting(), [""; 0]);
}
