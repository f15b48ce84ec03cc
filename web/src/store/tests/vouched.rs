//! Where secrets go is judged before a version is written, and must be so where it is, on both databases.

use super::{
    super::*,
    apply, policy,
    two_person::{by, make, owner, proposed, ruled},
};

on_both! {
    what_vouched_for_a_version_still_does_where_it_is_written,
    what_two_people_were_to_see_is_not_written_by_one,
}

fn judged(secrets: Vouched) -> Change {
    let Change::SavePolicy {
        name,
        expected,
        document,
        reason,
        ..
    } = policy("new", None, "x")
    else {
        unreachable!()
    };
    Change::SavePolicy {
        name,
        expected,
        document,
        reason,
        secrets,
    }
}

fn meanwhile(outcome: Result<Applied, ChangeError>) {
    assert!(
        matches!(outcome, Err(ChangeError::Meanwhile { .. })),
        "{outcome:?}"
    );
}

fn what_vouched_for_a_version_still_does_where_it_is_written(store: &dyn Store) {
    apply(store, &policy("p", Some(0), "lets it go")).unwrap();
    let by_first = || judged(Vouched::By(vec![("p".to_owned(), 1)]));
    apply(store, &by_first()).unwrap();
    // An admin takes the secret out of it, or takes it away, while an editor's version is on its way.
    apply(store, &policy("p", Some(1), "lets nothing go")).unwrap();
    meanwhile(apply(store, &by_first()));
    let by_second = || judged(Vouched::By(vec![("p".to_owned(), 2)]));
    apply(store, &by_second()).unwrap();
    let (name, expected) = ("p".to_owned(), None);
    apply(store, &Change::RemovePolicy { name, expected }).unwrap();
    meanwhile(apply(store, &by_second()));
    apply(store, &judged(Vouched::By(Vec::new()))).unwrap();
}

fn what_two_people_were_to_see_is_not_written_by_one(store: &dyn Store) {
    ruled(store);
    proposed(make(store, &judged(Vouched::ByTwo), &by("ben")));
    make(store, &Change::TwoPersonRule { on: false }, &owner()).unwrap();
    meanwhile(make(store, &judged(Vouched::ByTwo), &by("ben")));
    make(store, &judged(Vouched::By(Vec::new())), &by("ben")).unwrap();
}
