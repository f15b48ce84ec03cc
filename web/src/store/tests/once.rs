//! Requests that are made once, as every store keeps them.

use std::sync::Arc;

use super::{
    super::{once, tables::Tables as _},
    *,
};
use crate::credential::Digest;

on_both! {
    one_try_is_made_however_many_begin_at_once,
    a_change_is_of_the_try_that_holds_its_row,
    what_is_more_than_a_change_is_not_begun_again,
    an_answer_is_of_one_request_of_one_caller_who_may_the_same,
    answers_go_after_a_day,
}

/// Whether there is such a user.
pub(crate) fn is_made(store: &dyn Store, name: &str) -> bool {
    store.user(name).unwrap().is_some()
}

fn asked(attempt: &str) -> Asked {
    Asked {
        once: Once {
            caller: "token 1".to_owned(),
            key: Digest::from_octets([1; 32]),
            attempt: attempt.to_owned(),
        },
        fingerprint: Digest::from_octets([2; 32]),
        may: "admin".to_owned(),
        acts: false,
    }
}

fn add(store: &dyn Store, name: &str, asked: &Asked) -> Result<Applied, ChangeError> {
    let once = Some(Arc::new(asked.once.clone()));
    let actor = Actor { once, ..actor(0) };
    store.apply(&user(name, Role::Viewer), &actor, &|_| Ok(()))
}

fn answer() -> KeptAnswer {
    KeptAnswer {
        status: 201,
        headers: "[]".to_owned(),
        body: vec![0xff, 0],
    }
}

fn one_try_is_made_however_many_begin_at_once(store: &dyn Store) {
    let made: usize = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || {
                    let asked = asked(&n.to_string());
                    let begun = store.begin_once(&asked, at(0)).unwrap();
                    assert!(matches!(begun, Begun::Now | Begun::Running), "{begun:?}");
                    // Whoever was told to wait and goes on all the same changes nothing.
                    let done = add(store, &format!("user{n}"), &asked);
                    assert_eq!(done.is_ok(), begun == Begun::Now, "{done:?}");
                    usize::from(done.is_ok())
                })
            })
            .collect();
        tries.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!((made, store.users().unwrap().len()), (1, 1));
}

fn a_change_is_of_the_try_that_holds_its_row(store: &dyn Store) {
    let (first, second) = (asked("1"), asked("2"));
    assert_eq!(store.begin_once(&first, at(0)).unwrap(), Begun::Now);
    assert_eq!(store.begin_once(&second, at(119)).unwrap(), Begun::Running);
    // It has changed nothing for longer than a request lives.
    assert_eq!(store.begin_once(&second, at(120)).unwrap(), Begun::Now);
    let late = add(store, "late", &first);
    assert!(matches!(late, Err(ChangeError::Overtaken)), "{late:?}");
    assert!(!is_made(store, "late"));
    add(store, "ben", &second).unwrap();
    // Killed before it was answered: it is known to be made, and is not made again.
    let third = asked("3");
    assert_eq!(store.begin_once(&third, at(121)).unwrap(), Begun::Running);
    let lost = store.begin_once(&third, at(240)).unwrap();
    assert_eq!(lost, Begun::Lost { made: true });
    // What is late says nothing in place of who holds it.
    store
        .finish_once(&first.once, &Finish::Kept(answer()))
        .unwrap();
    assert_eq!(store.begin_once(&third, at(240)).unwrap(), lost);
    // Nor is a change forgotten because its answer was that something is amiss.
    store
        .finish_once(&second.once, &Finish::Refused(answer()))
        .unwrap();
    assert_eq!(
        store.begin_once(&third, at(240)).unwrap(),
        Begun::Before(answer())
    );
}

fn what_is_more_than_a_change_is_not_begun_again(store: &dyn Store) {
    let acting = |attempt| Asked {
        acts: true,
        ..asked(attempt)
    };
    assert_eq!(store.begin_once(&acting("1"), at(0)).unwrap(), Begun::Now);
    assert_eq!(
        store.begin_once(&acting("2"), at(9)).unwrap(),
        Begun::Running
    );
    let unknown = store.begin_once(&acting("2"), at(500)).unwrap();
    assert_eq!(unknown, Begun::Lost { made: false });
    // Nobody knows what was done before it broke off.
    let once = acting("1").once;
    let answered = |status| {
        let refused = Finish::Refused(KeptAnswer { status, ..answer() });
        store.finish_once(&once, &refused).unwrap();
    };
    answered(503);
    assert_eq!(store.begin_once(&acting("2"), at(501)).unwrap(), unknown);
    // What is refused was not done, and nothing of its answer is kept.
    answered(422);
    assert_eq!(store.begin_once(&acting("2"), at(501)).unwrap(), Begun::Now);
    let once = acting("2").once;
    store.finish_once(&once, &Finish::Shown(201)).unwrap();
    assert_eq!(
        store.begin_once(&acting("3"), at(502)).unwrap(),
        Begun::Shown
    );
}

fn an_answer_is_of_one_request_of_one_caller_who_may_the_same(store: &dyn Store) {
    let first = asked("1");
    assert_eq!(store.begin_once(&first, at(0)).unwrap(), Begun::Now);
    store
        .finish_once(&first.once, &Finish::Kept(answer()))
        .unwrap();
    assert_eq!(
        store.begin_once(&asked("2"), at(1)).unwrap(),
        Begun::Before(answer())
    );
    let other = Asked {
        fingerprint: Digest::from_octets([3; 32]),
        ..asked("3")
    };
    assert_eq!(store.begin_once(&other, at(1)).unwrap(), Begun::Other);
    let less = Asked {
        may: "viewer".to_owned(),
        ..asked("3")
    };
    assert_eq!(store.begin_once(&less, at(1)).unwrap(), Begun::Lapsed);
    let mut another = asked("3");
    "token 2".clone_into(&mut another.once.caller);
    assert_eq!(store.begin_once(&another, at(1)).unwrap(), Begun::Now);
}

fn answers_go_after_a_day(store: &dyn Store) {
    let asked = asked("1");
    assert_eq!(store.begin_once(&asked, at(0)).unwrap(), Begun::Now);
    store
        .finish_once(&asked.once, &Finish::Kept(answer()))
        .unwrap();
    let day = 24 * 3600;
    assert_eq!(
        store.begin_once(&asked, at(day - 1)).unwrap(),
        Begun::Before(answer())
    );
    assert_eq!(store.begin_once(&asked, at(day)).unwrap(), Begun::Now);
}

#[test]
fn nobody_has_more_than_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("gig.db")).unwrap();
    let begins = store.change(false, |db| {
        let mut asked = asked("1");
        for n in 0..once::MOST {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&n.to_be_bytes());
            asked.once.key = Digest::from_octets(key);
            assert_eq!(once::begin(db, &asked, at(0))?, Begun::Now, "{n}");
        }
        asked.once.key = Digest::from_octets([9; 32]);
        let own = once::begin(db, &asked, at(0))?;
        "token 2".clone_into(&mut asked.once.caller);
        Ok((own, once::begin(db, &asked, at(0))?))
    });
    assert_eq!(begins.unwrap(), (Begun::Full, Begun::Now));
}

#[test]
fn who_opens_the_file_again_leaves_the_locks_of_this_process_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gig.db");
    for _ in 0..2 {
        let _first = SqliteStore::open(&path).unwrap();
        // It holds locks itself, so that it goes before anybody looks for those of the first.
        drop(SqliteStore::open(&path).unwrap());
        // Without it the next process that closes the file takes the log away under this one.
        let file = format!(":{} ", path.metadata().unwrap().ino());
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        assert!(locks.lines().any(|line| line.contains(&file)), "{locks}");
    }
}
