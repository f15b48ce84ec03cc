//! Set-up links, on every store.

use super::*;

on_both! {
    a_set_up_link_works_once_before_it_ends_and_for_the_first_admin_only,
}

fn a_set_up_link_works_once_before_it_ends_and_for_the_first_admin_only(store: &dyn Store) {
    let mint = || credential::mint_setup().unwrap().digest;
    let [link, former, stranger, late] = [mint(), mint(), mint(), mint()];
    let copy = |one: &Digest| Digest::from_octets(one.octets());
    let open = |link, ends, beside| {
        let (digest, expires) = (copy(link), at(ends));
        let change = Change::OpenSetup {
            digest,
            expires,
            beside,
        };
        apply(store, &change).unwrap();
    };
    let finish = |link, name: &str| Change::FinishSetup {
        digest: copy(link),
        name: name.parse().unwrap(),
        password: "hash".to_owned(),
    };
    let refused = |outcome| assert!(matches!(outcome, Err(ChangeError::Setup)));
    let tried = |link, when| refused(store.apply(&finish(link, "eve"), &actor(when), &|_| Ok(())));
    // Each node's is good for its own time; a machine alone has the newest one.
    open(&former, 3600, false);
    open(&link, 3600, false);
    open(&late, 1800, true);
    tried(&stranger, 1);
    tried(&former, 1);
    tried(&late, 1800);
    tried(&link, 3600);
    // Who has another role is no admin: somebody has to be the first.
    let editor = Change::AddUser {
        name: "ben".parse().unwrap(),
        role: Role::Editor,
        password: "hash".to_owned(),
    };
    apply(store, &editor).unwrap();
    apply(store, &finish(&link, "ana")).unwrap();
    tried(&link, 1);
    tried(&late, 1);
    open(&stranger, 3600, true);
    tried(&stranger, 1);
    let users = store.users().unwrap();
    let roles: Vec<_> = users
        .iter()
        .map(|one| (one.name.as_str(), one.role))
        .collect();
    assert_eq!(roles, [("ana", Role::Admin), ("ben", Role::Editor)]);
}
