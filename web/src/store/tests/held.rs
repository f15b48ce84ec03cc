//! Floors and requests that wait, on both databases.

use super::{
    super::*,
    actor, apply, at, policy, registered,
    two_person::{by, decide, make, proposed, ruled, two_people},
};

mod unheard;

on_both! {
    a_floor_is_set_listed_recorded_and_keeps_its_policy,
    under_the_two_person_rule_a_floor_waits,
    a_policy_that_became_a_floor_is_no_more_an_editors_to_change,
    under_the_two_person_rule_somebody_known_lets_pass,
    a_word_is_said_once_and_in_time,
    what_is_over_is_forgotten,
    what_a_webhook_is_told_is_taken_by_one_and_again_where_it_failed,
    what_somebody_answers_whose_node_went_is_answered_again,
    what_may_have_been_taken_is_told_again_as_the_same_message,
    what_was_heard_is_not_heard_again_while_it_holds,
    rules_by_a_webhook_take_a_user_here,
}

fn what_a_webhook_is_told_is_taken_by_one_and_again_where_it_failed(store: &dyn Store) {
    let of = |webhook: &str, about: &str, what: &str| Telling {
        webhook: webhook.to_owned(),
        about: about.to_owned(),
        what: what.to_owned(),
    };
    let begun = |telling: &Telling, seconds| store.begin_telling(telling, at(seconds)).unwrap();
    let begin = |telling: &Telling, seconds| begun(telling, seconds).is_some();
    let end = |telling: &Telling, state, seconds| {
        store.end_telling(telling, state, at(seconds)).unwrap();
    };
    let take = |about: &str, seconds| store.begin_answer("ops", about, at(seconds)).unwrap();
    let leave = |about: &str, decided: Option<i64>| {
        store.end_answer("ops", about, decided.map(at)).unwrap();
    };
    let may = |about: &str, seconds| {
        let taken = take(about, seconds);
        if taken == Answerable::Yes {
            leave(about, None);
        }
        taken
    };
    let one = of("ops", "record:1-1", "x");
    assert!(begin(&one, 0) && !begin(&one, 1), "another node is at it");
    assert!(begin(&of("chat", "record:1-1", "x"), 1) && begin(&of("ops", "record:1-2", "y"), 1));
    assert_eq!(may("record:1-1", 1), Answerable::Yes);
    end(&one, ToldState::Failed, 2);
    assert_eq!(may("record:1-1", 3), Answerable::Never);
    // By its newest record, after a minute.
    let newer = of("ops", "record:1-3", "x");
    assert!(!begin(&newer, 61) && begin(&newer, 62));
    end(&newer, ToldState::Told, 63);
    assert_eq!(may("record:1-1", 64), Answerable::Never);
    assert_eq!(may("record:1-3", 64), Answerable::Yes);
    assert!(!begin(&of("ops", "record:1-4", "x"), 9999), "once a day");
    let listed = store.told_denials(at(64)).unwrap();
    let newest = listed
        .iter()
        .rfind(|one| one.telling.what == "x" && one.telling.webhook == "ops");
    assert_eq!(
        newest.map(|one| (one.state, one.tries)),
        Some((ToldState::Told, 2))
    );
    assert_eq!(listed.len(), 3);
    // Decided on by one alone, and denied once more after that; its old record is no news.
    assert_eq!(take("record:1-3", 69), Answerable::Yes);
    assert_eq!(take("record:1-3", 69), Answerable::Answered, "at once");
    end(&newer, ToldState::Failed, 69);
    leave("record:1-3", Some(70));
    end(&newer, ToldState::Told, 71);
    assert_eq!(may("record:1-3", 72), Answerable::Answered);
    assert!(!begin(&newer, 72) && begin(&of("ops", "record:1-4", "x"), 72));
    end(&of("ops", "record:1-4", "x"), ToldState::Told, 72);
    let day = 24 * 3600;
    assert_eq!(may("record:1-4", 72 + day), Answerable::Yes);
    assert_eq!(may("record:1-4", 73 + day), Answerable::Late);
    let same = of("ops", "record:1-4", "x");
    assert!(!begin(&same, day), "the same record");
    assert!(
        !begin(&of("ops", "record:1-4", "z"), 99),
        "also where another policy denies it"
    );
    assert!(begin(&of("ops", "record:1-9", "x"), day), "another day");
    assert_eq!(
        may("record:1-4", day),
        Answerable::Yes,
        "its button works still"
    );
    // No answer came, and it may stand there: it is told again, and what stands there is answered.
    let slow = of("ops", "record:2-1", "s");
    assert!(begin(&slow, 0));
    end(&slow, ToldState::Unsure, 10);
    assert_eq!(may("record:2-1", 11), Answerable::Yes);
    assert!(!begin(&slow, 12), "it was answered");
    let slow = of("ops", "record:2-2", "t");
    assert!(begin(&slow, 0));
    end(&slow, ToldState::Unsure, 10);
    assert!(!begin(&slow, 60) && begin(&slow, 70));
    // What waits.
    let held = of("ops", "h1", "");
    assert!(begin(&held, 0) && begin(&of("ops", "h2", ""), 0) && !begin(&held, 1));
    assert_eq!(
        (may("h1", 1), may("h3", 1)),
        (Answerable::Yes, Answerable::Never)
    );
}

fn what_may_have_been_taken_is_told_again_as_the_same_message(store: &dyn Store) {
    let of = |about: &str| Telling {
        webhook: "ops".to_owned(),
        about: about.to_owned(),
        what: "u".to_owned(),
    };
    let begin = |about: &str, seconds| store.begin_telling(&of(about), at(seconds)).unwrap();
    let end = |about: &str, state, seconds| {
        store.end_telling(&of(about), state, at(seconds)).unwrap();
    };
    let is = |about: &str| Some(about.to_owned());
    // What was refused is nowhere: the next is a message of its own.
    assert_eq!(begin("record:1-1", 0), is("record:1-1"));
    end("record:1-1", ToldState::Failed, 1);
    assert_eq!(begin("record:1-2", 100), is("record:1-2"));
    end("record:1-2", ToldState::Unsure, 101);
    assert_eq!(begin("record:1-2", 1000), is("record:1-2"));
    end("record:1-2", ToldState::Unsure, 1001);
    // Also by a newer record.
    assert_eq!(begin("record:1-3", 2000), is("record:1-2"));
    end("record:1-3", ToldState::Unsure, 2001);
    assert_eq!(begin("record:1-4", 5000), is("record:1-2"));
    end("record:1-4", ToldState::Told, 5001);
    // Decided on and denied anew it is news.
    let taken = store.begin_answer("ops", "record:1-4", at(5002)).unwrap();
    assert_eq!(taken, Answerable::Yes);
    store
        .end_answer("ops", "record:1-4", Some(at(5003)))
        .unwrap();
    assert_eq!(begin("record:1-5", 5004), is("record:1-5"));
    let other = Telling {
        webhook: "chat".to_owned(),
        ..of("record:1-5")
    };
    let other = store.begin_telling(&other, at(5004)).unwrap();
    assert_eq!(other, is("record:1-5"));
}

fn what_somebody_answers_whose_node_went_is_answered_again(store: &dyn Store) {
    let left = Telling {
        webhook: "ops".to_owned(),
        about: "record:3-1".to_owned(),
        what: "l".to_owned(),
    };
    assert!(store.begin_telling(&left, at(0)).unwrap().is_some());
    store.end_telling(&left, ToldState::Told, at(1)).unwrap();
    let take = |seconds| {
        store
            .begin_answer("ops", "record:3-1", at(seconds))
            .unwrap()
    };
    assert_eq!(take(10), Answerable::Yes);
    assert_eq!(take(310), Answerable::Answered);
    assert_eq!(take(311), Answerable::Yes);
    assert_eq!(take(312), Answerable::Answered);
}

fn what_was_heard_is_not_heard_again_while_it_holds(store: &dyn Store) {
    let digest = |number: u32| Digest::of(&number.to_string());
    let hear = |number: u32, seconds: i64| {
        let (until, now) = (at(seconds + 601), at(seconds));
        store.hear("ops", &digest(number), until, now).unwrap()
    };
    assert_eq!(hear(0, 0), Hearing::First);
    for seconds in [0, 1, 601] {
        assert_eq!(hear(0, seconds), Hearing::Again, "{seconds}");
    }
    assert_eq!(hear(1, 0), Hearing::First);
    assert_eq!(
        hear(0, 602),
        Hearing::First,
        "its time is checked before this"
    );
    // One that says much keeps no other from being heard.
    let most = u32::try_from(heard::MOST).unwrap();
    let much: Vec<_> = (10..10 + most).map(|number| hear(number, 700)).collect();
    assert_eq!(much.first(), Some(&Hearing::First));
    assert_eq!(much.last(), Some(&Hearing::Crowded));
    let other = store.hear("chat", &digest(9), at(1301), at(700)).unwrap();
    assert_eq!(other, Hearing::First);
}

fn rules_by_a_webhook_take_a_user_here(store: &dyn Store) {
    let webhook = |rules: bool, new: bool| Change::SaveWebhook {
        name: "ops".parse().unwrap(),
        kind: WebhookKind::Generic,
        url: String::new(),
        answerers: ["ben", "cem", "pat", "U1=ben", "U2=pat"]
            .map(str::to_owned)
            .to_vec(),
        rules,
        new,
    };
    let save = |rules: bool| {
        apply(store, &webhook(rules, false)).unwrap();
        assert_eq!(store.webhooks().unwrap()[0].rules, rules);
    };
    // Of two who make it new one makes it.
    apply(store, &webhook(true, true)).unwrap();
    let second = apply(store, &webhook(false, true));
    assert!(matches!(second, Err(ChangeError::Meanwhile { .. })));
    assert!(store.webhooks().unwrap()[0].rules);
    apply(store, &super::user("ben", Role::Editor)).unwrap();
    apply(store, &super::user("cem", Role::Approver)).unwrap();
    apply(store, &policy("p", Some(0), "one")).unwrap();
    let write = |user: &str, rules: bool| {
        let standing = Standing::Webhook {
            name: "ops".into(),
            user: user.into(),
            rules,
        };
        let actor = Actor {
            standing,
            ..actor(0)
        };
        make(store, &policy("p", None, "two"), &actor).is_ok()
    };
    save(false);
    assert!(write("pat", false) && !write("ben", true));
    save(true);
    assert!(write("ben", true) && write("pat", false));
    // Nobody here, somebody here who writes none, and nobody of the list.
    for user in ["pat", "cem", "eve", "U2"] {
        assert!(!write(user, true), "{user}");
    }
    // Who is said to be a user here is one.
    assert!(write("U1", false) && write("U1", true) && !write("U2", false));
    let gone = Change::RemoveUser {
        name: "ben".to_owned(),
    };
    apply(store, &gone).unwrap();
    assert!(!write("U1", false) && write("ben", false) && !write("ben", true));
}

fn floor(server: Option<&str>, policy: Option<&str>) -> Change {
    Change::SetFloor {
        place: server.map(str::to_owned).into(),
        policy: policy.map(str::to_owned),
        expected: None,
    }
}

fn a_floor_is_set_listed_recorded_and_keeps_its_policy(store: &dyn Store) {
    apply(store, &policy("base", Some(0), "one")).unwrap();
    apply(store, &registered("docs")).unwrap();
    let missing = |change| matches!(apply(store, &change), Err(ChangeError::Missing { .. }));
    assert!(missing(floor(None, Some("none"))));
    assert!(missing(floor(Some("nobody"), Some("base"))));
    assert!(missing(floor(None, None)));
    let told = std::cell::RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        told.borrow_mut().push(entry);
        Ok(())
    };
    store
        .apply(&floor(None, Some("base")), &actor(0), &witness)
        .unwrap();
    let entry = told.into_inner().remove(0);
    assert_eq!(entry.event, gig_audit::Event::PolicyChange);
    assert_eq!(&*entry.findings[0], "base is the floor of all servers");
    apply(store, &floor(Some("docs"), Some("base"))).unwrap();
    let places: Vec<_> = store.floors().unwrap();
    let places: Vec<_> = places.iter().map(|one| one.place.server()).collect();
    assert_eq!(places, [None, Some("docs")]);
    assert!(store.assignments().unwrap().is_empty());
    let name = "base".to_owned();
    let used = apply(
        store,
        &Change::RemovePolicy {
            name,
            expected: None,
        },
    );
    assert!(matches!(used, Err(ChangeError::InUse { .. })), "{used:?}");
    apply(store, &floor(None, None)).unwrap();
    let name = "docs".to_owned();
    apply(store, &Change::remove_server(name)).unwrap();
    assert!(
        store.floors().unwrap().is_empty(),
        "it goes with its server"
    );
    let name = "base".to_owned();
    apply(
        store,
        &Change::RemovePolicy {
            name,
            expected: None,
        },
    )
    .unwrap();
}

fn under_the_two_person_rule_a_floor_waits(store: &dyn Store) {
    ruled(store);
    let id = proposed(make(store, &floor(None, Some("p")), &by("ana")));
    assert!(store.floors().unwrap().is_empty());
    let kept = store.proposal(id).unwrap().unwrap();
    assert_eq!(kept.draft.kind.as_str(), "policy.floor");
    assert!(!kept.stale);
    make(store, &decide(id, Decision::Approve), &by("cem")).unwrap();
    assert_eq!(store.floors().unwrap()[0].policy, "p");
    // Asked for by somebody who may not, it cannot be approved.
    let id = proposed(make(store, &floor(None, None), &by("ben")));
    let refused = make(store, &decide(id, Decision::Approve), &by("cem"));
    assert!(
        matches!(refused, Err(ChangeError::Outdated { .. })),
        "{refused:?}"
    );
}

fn a_policy_that_became_a_floor_is_no_more_an_editors_to_change(store: &dyn Store) {
    ruled(store);
    let wider = policy("p", Some(1), "wider");
    let (editors, admins) = (
        make(store, &wider, &by("ben")),
        make(store, &wider, &by("ana")),
    );
    let (editors, admins) = (proposed(editors), proposed(admins));
    let set = proposed(make(store, &floor(None, Some("p")), &by("ana")));
    make(store, &decide(set, Decision::Approve), &by("cem")).unwrap();
    let refused = make(store, &decide(editors, Decision::Approve), &by("cem"));
    assert!(
        matches!(refused, Err(ChangeError::Outdated { .. })),
        "{refused:?}"
    );
    make(store, &decide(admins, Decision::Approve), &by("cem")).unwrap();
}

fn under_the_two_person_rule_somebody_known_lets_pass(store: &dyn Store) {
    ruled(store);
    store
        .put_held(&[waits("a", "one", 30), waits("b", "one", 30)])
        .unwrap();
    let answer = |id: &str, allow, who: &Actor| {
        let (id, what) = (id.to_owned(), String::new());
        make(store, &Change::AnswerHeld { id, allow, what }, who)
    };
    let nobody = Actor {
        person: None,
        ..by("webhook")
    };
    two_people(answer("a", true, &nobody));
    answer("a", false, &nobody).unwrap();
    // Somebody known who may approve nothing: they asked before the rule was on.
    let lapsed = answer("b", true, &by("ben"));
    assert!(matches!(lapsed, Err(ChangeError::Lapsed)), "{lapsed:?}");
    // What runs for them nobody lets pass, by whichever of their accounts.
    let account = Account {
        issuer: "https://id.example".to_owned(),
        subject: "u1".to_owned(),
    };
    let other_self = Change::SignOn {
        id: "one".to_owned(),
        digest: crate::credential::mint_token().unwrap().digest,
        name: "ana-2".parse().unwrap(),
        account,
        role: Role::Approver,
        teams: Vec::new(),
        first: true,
        expires: at(3600),
        agent: String::new(),
    };
    apply(store, &other_self).unwrap();
    for own in ["ana", "ANA", "ana-2"] {
        two_people(answer("b", true, &by(own)));
    }
    answer("b", true, &by("cem")).unwrap();
    // Nor what they had started for somebody else.
    let mut started = waits("d", "one", 30);
    started.facts.profile = "zoe".to_owned();
    started.facts.started_by = vec!["gateway".to_owned(), "Ana".to_owned()];
    store.put_held(&[started]).unwrap();
    for own in ["ana", "ana-2"] {
        two_people(answer("d", true, &by(own)));
    }
    answer("d", true, &by("cem")).unwrap();
    store.put_held(&[waits("c", "one", 30)]).unwrap();
    answer("c", false, &by("ana")).unwrap();
}

fn waits(id: &str, node: &str, until: i64) -> HeldRow {
    HeldRow {
        id: id.to_owned(),
        node: node.to_owned(),
        facts: HeldFacts {
            sandbox: "s".to_owned(),
            server: "docs".to_owned(),
            profile: "ana".to_owned(),
            started_by: Vec::new(),
            host: "new.example".to_owned(),
            port: 443,
            protocol: "https".to_owned(),
            method: Some("GET".to_owned()),
            path: Some("/\u{202e}x".to_owned()),
            policy: "web".to_owned(),
            policy_version: 3,
            reason: "host_not_allowed".to_owned(),
        },
        created: at(0),
        expires: at(until),
        lost: false,
    }
}

fn said(store: &dyn Store, id: &str, allow: bool, when: i64) -> Result<Applied, ChangeError> {
    let change = Change::AnswerHeld {
        id: id.to_owned(),
        allow,
        what: "GET x".to_owned(),
    };
    store.apply(&change, &actor(when), &|entry| {
        assert_eq!(entry.request.as_deref(), Some(id));
        Ok(())
    })
}

fn a_word_is_said_once_and_in_time(store: &dyn Store) {
    let rows = [
        waits("a", "one", 30),
        waits("b", "one", 30),
        waits("c", "two", 10),
    ];
    store.put_held(&rows).unwrap();
    // Asked a second time.
    store.put_held(&rows[..1]).unwrap();
    assert_eq!(store.held(at(1)).unwrap(), rows);
    assert_eq!(
        store.held(at(10)).unwrap(),
        rows[..2],
        "the time of one is over"
    );
    assert!(matches!(
        said(store, "c", true, 10),
        Err(ChangeError::Missing { .. })
    ));
    let refused = Change::AnswerHeld {
        id: "a".to_owned(),
        allow: true,
        what: String::new(),
    };
    let refused = store.apply(&refused, &actor(1), &|_| Err("disk full".to_owned()));
    assert!(matches!(refused, Err(ChangeError::NotRecorded(_))));
    assert!(store.words_for("one").unwrap().is_empty());
    said(store, "a", true, 1).unwrap();
    said(store, "b", false, 1).unwrap();
    assert!(said(store, "a", false, 2).is_err(), "nobody says twice");
    let words = store.words_for("one").unwrap();
    let words: Vec<_> = words
        .iter()
        .map(|one| (one.id.as_str(), one.allow))
        .collect();
    assert_eq!(words, [("a", true), ("b", false)]);
    assert!(store.words_for("two").unwrap().is_empty());
    store.end_held(&["a".to_owned(), "b".to_owned()]).unwrap();
    assert!(store.words_for("one").unwrap().is_empty());
}

fn what_is_over_is_forgotten(store: &dyn Store) {
    let mut old = waits("old", "dead", 30);
    store.put_held(std::slice::from_ref(&old)).unwrap();
    said(store, "old", true, 1).unwrap();
    old.id = "new".to_owned();
    old.created = at(3600);
    old.expires = at(3700);
    store.put_held(&[old]).unwrap();
    assert!(store.words_for("dead").unwrap().is_empty());
    assert_eq!(store.held(at(3601)).unwrap().len(), 1);
}
