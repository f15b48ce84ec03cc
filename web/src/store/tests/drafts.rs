//! What was typed by whose session had ended, on both databases.

use super::{super::*, at};

on_both! {
    what_was_typed_is_its_persons_alone_for_a_while_and_bounded,
}

fn what_was_typed_is_its_persons_alone_for_a_while_and_bounded(store: &dyn Store) {
    let keep = |person: &str, policy: &str, document: &str, minutes: i64| {
        let draft = Unsaved {
            version: 1,
            document: document.to_owned(),
            reason: "why".to_owned(),
            assign: String::new(),
        };
        let kept = store.draft((person, policy), &DraftAct::Keep(draft), at(minutes * 60));
        kept.unwrap().is_some()
    };
    let of = |person: &str, policy: &str, minutes: i64| {
        let kept = store.draft((person, policy), &DraftAct::Show, at(minutes * 60));
        kept.unwrap().map(|one| one.document)
    };
    assert!(keep("Ana", "web", "a", 0) && keep("ana", "web", "b", 1));
    assert_eq!(of("ANA", "web", 2).as_deref(), Some("b"));
    assert_eq!(of("ben", "web", 2), None);
    assert_eq!(of("ana", "other", 2), None);
    assert_eq!(of("ana", "web", 16), None, "its time is over");
    for number in 0..10 {
        assert!(keep("ana", &format!("p{number}"), "x", 20 + number));
    }
    assert_eq!(of("ana", "p5", 30), None);
    assert!(of("ana", "p6", 30).is_some() && of("ana", "p9", 30).is_some());
    let kept = (0..100).filter(|number| keep(&format!("u{number}"), "web", "x", 30));
    assert_eq!(kept.count(), 60);
    assert!(of("ana", "p9", 30).is_some(), "nobody's goes for another's");
    let gone = store.draft(("ANA", "p9"), &DraftAct::Forget, at(30 * 60));
    assert_eq!(gone.unwrap(), None);
    assert_eq!(of("ana", "p9", 30), None);
}
