//! What a node answers to what others ask of it.

use super::*;
use crate::{app::tests::Lab, control::LogPlace, store::Fleet as _};

fn wanted(lab: &Lab, profile: Option<&str>) -> LinesWanted {
    let _runs = lab.control.run("docs", "p");
    LinesWanted {
        server: "docs".to_owned(),
        sandbox: None,
        profile: profile.map(ToOwned::to_owned),
        since: None,
        until: None,
        grep: None,
        from: LogFrom::After(LogPlace { file: 1, offset: 2 }),
        limit: 10,
    }
}

fn put(lab: &Lab, node: &str, text: String) -> String {
    let id = uuid::Uuid::now_v7().to_string();
    let question = Question {
        id: id.clone(),
        text,
    };
    lab.store.put_question(node, &question).unwrap();
    id
}

fn said(lab: &Lab, id: &str) -> Option<Reply> {
    let reply = lab.store.reply(id).unwrap();
    reply.map(|text| serde_json::from_str(&text).unwrap())
}

#[test]
fn what_is_asked_of_this_node_is_answered_once_and_of_no_other() {
    let lab = Lab::with(&["docs"]);
    let text = serde_json::to_string(&Wanted::Lines(wanted(&lab, None))).unwrap();
    let (ours, theirs) = (put(&lab, "here", text.clone()), put(&lab, "there", text));
    assert!(round(&lab.app, || false));
    let Some(Reply::Lines(page)) = said(&lab, &ours) else {
        panic!("it answers");
    };
    assert!(page.lines[0].text.starts_with("said by "), "{page:?}");
    assert!(said(&lab, &theirs).is_none(), "another's");
    assert!(lab.store.questions_for("here").unwrap().is_empty());
}

#[test]
fn lines_of_others_are_not_there_for_who_sees_their_own() {
    let lab = Lab::with(&["docs"]);
    for (profile, lines) in [(None, 1), (Some("ana"), 2), (Some("ben"), 0)] {
        let text = serde_json::to_string(&Wanted::Lines(wanted(&lab, profile))).unwrap();
        let id = put(&lab, "here", text);
        assert!(round(&lab.app, || false));
        let Some(Reply::Lines(page)) = said(&lab, &id) else {
            panic!("it answers");
        };
        assert_eq!(page.lines.len(), lines, "{profile:?}");
    }
}

#[test]
fn a_question_of_another_version_is_answered_too() {
    let lab = Lab::with(&["docs"]);
    let id = put(&lab, "here", r#"{"levers":{"pull":true}}"#.to_owned());
    assert!(round(&lab.app, || false));
    assert!(matches!(said(&lab, &id), Some(Reply::Failed(why)) if why.contains("version")));
}

#[test]
fn a_page_that_is_too_long_for_the_database_is_answered_in_part() {
    let lab = Lab::with(&["docs"]);
    let mut asked = wanted(&lab, None);
    *lab.control.longest.lock() = MOST_OCTETS / 3;
    for _ in 0..7 {
        let _runs = lab.control.run("docs", "p");
    }
    asked.limit = 8;
    let text = serde_json::to_string(&Wanted::Lines(asked)).unwrap();
    let id = put(&lab, "here", text);
    assert!(round(&lab.app, || false));
    let Some(Reply::Lines(page)) = said(&lab, &id) else {
        panic!("it answers");
    };
    assert_eq!((page.lines.len(), page.more), (2, true));
}

#[tokio::test]
async fn nobody_is_asked_who_is_not_there() {
    let lab = Lab::with(&["docs"]);
    let refused = lines(&lab.app, ("there", &[]), wanted(&lab, None)).await;
    assert_eq!(refused.unwrap_err().status(), StatusCode::NOT_FOUND);
    let own = lines(&lab.app, ("here", &[]), wanted(&lab, None))
        .await
        .unwrap();
    assert_eq!(own.lines.len(), 2);
}

#[test]
fn who_goes_down_answers_nothing_more() {
    let lab = Lab::with(&["docs"]);
    let text = serde_json::to_string(&Wanted::Lines(wanted(&lab, None))).unwrap();
    let id = put(&lab, "here", text);
    assert!(!round(&lab.app, || true));
    assert!(said(&lab, &id).is_none());
}
