//! People whom a change names: that they are still who was meant, and how the record names them.

use super::*;

on_both! {
    a_name_that_is_another_account_by_then_is_not_who_was_meant,
    the_record_says_who_would_come_to_a_team_and_names_nobody_where_it_is_refused,
}

fn a_name_that_is_another_account_by_then_is_not_who_was_meant(store: &dyn Store) {
    policies(store, &["q"]);
    ruled(store);
    let eve = |at: i64| make(store, &user("Eve", Role::Viewer), &actor(at)).unwrap();
    eve(1);
    let asked = [
        team("data", &["ana", "eve"]),
        assign(Place::profile("eve"), Some("q")),
        floor(Place::profile("eve"), Some("q")),
    ];
    let asked = asked.map(|change| proposed(make(store, &change, &by("ana"))));
    let other = proposed(make(
        store,
        &assign(Place::profile("zoe"), Some("q")),
        &by("ana"),
    ));
    let stale = |id: u64| store.proposal(id).unwrap().unwrap().stale;
    assert!(asked.iter().all(|id| !stale(*id)));
    let name = "eve".to_owned();
    apply(store, &Change::RemoveUser { name }).unwrap();
    assert!(asked.iter().all(|id| stale(*id)), "she is gone");
    eve(500);
    assert!(asked.iter().all(|id| stale(*id)), "she is somebody else");
    assert!(!stale(other), "of whom gig knows nothing");
    for id in asked {
        let approved = make(store, &decide(id, Decision::Approve), &by("cem"));
        assert!(
            matches!(approved, Err(ChangeError::Outdated { .. })),
            "{approved:?}"
        );
    }
}

fn the_record_says_who_would_come_to_a_team_and_names_nobody_where_it_is_refused(
    store: &dyn Store,
) {
    apply(store, &team("data", &["ana", "ben"])).unwrap();
    ruled(store);
    let told = std::cell::RefCell::new(String::new());
    let witness = |entry: Entry| {
        let words: Vec<String> = entry.findings.iter().map(ToString::to_string).collect();
        *told.borrow_mut() = words.join("; ");
        Ok(())
    };
    let change = team("data", &["ben", "cem"]);
    for (decision, expected) in [
        (
            Decision::Reject,
            "rejected, not made: team data: 2 members; decided by cem; why: seen",
        ),
        (
            Decision::Approve,
            "approved: team data: 2 members; added: cem; taken out: ana; decided by cem; why: seen",
        ),
    ] {
        let asked = store.apply(&change, &by("ana"), &witness).unwrap();
        let waits = told.borrow().clone();
        assert!(
            waits.ends_with("; to be added: cem; to be taken out: ana"),
            "{waits}"
        );
        let id = asked.proposal.unwrap().id;
        store
            .apply(&decide(id, decision), &by("cem"), &witness)
            .unwrap();
        assert!(told.borrow().ends_with(expected), "{}", told.borrow());
    }
}
