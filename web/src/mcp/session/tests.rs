//! A program that takes nothing and a client that reads nothing are waited for, and not for ever.

use super::*;
use crate::mcp::{
    answer::whole,
    asked::{REVISION, revision},
};

fn session() -> (Arc<Session>, mpsc::Receiver<ToProgram>) {
    let owner = Owner {
        caller: "token one".to_owned(),
        profile: "ana".to_owned(),
        server: "docs".to_owned(),
    };
    let opened = message(r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#);
    let Kind::Request { id, .. } = opened.kind else {
        panic!("it asks");
    };
    Session::new(owner, id)
}

fn sent(text: &str) -> Sent {
    Sent::read(text.as_bytes()).unwrap()
}

fn message(text: &str) -> Message {
    sent(text).messages.remove(0)
}

fn long(id: u32) -> String {
    let text = "x".repeat(3 * 1024 * 1024);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"a":"{text}"}}}}"#)
}

#[tokio::test(start_paused = true)]
async fn a_program_that_takes_nothing_is_waited_for_and_then_told_of() {
    let (session, mut lines) = session();
    let first = session.send(sent(&long(1)), false).await.unwrap();
    let begun = Instant::now();
    let refused = session.send(sent(&long(2)), false).await.unwrap_err();
    assert_eq!(refused.status(), http::StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(begun.elapsed(), TAKEN_WITHIN);
    // Whoever goes away while they wait has asked for nothing either.
    let waiting = session.send(sent(&long(2)), false);
    let gone = tokio::time::timeout(Duration::from_secs(1), waiting).await;
    assert!(gone.is_err());
    assert!(lines.recv().await.unwrap().line.len() > 3 * 1024 * 1024);
    // What was refused is not asked: its id is free.
    let again = session.send(sent(&long(2)), false).await.unwrap();
    assert!(first.is_some() && again.is_some());
    let asked = session.send(sent(&long(2)), false).await.unwrap_err();
    assert_eq!(asked.status(), http::StatusCode::BAD_REQUEST);
    assert!(lines.recv().await.is_some());
    assert!(lines.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_holds_the_program_up_and_is_then_let_go() {
    let (session, _lines) = session();
    let mut listener = session.listen(None).unwrap();
    let news = format!(
        r#"{{"jsonrpc":"2.0","method":"news","params":{{"a":"{}"}}}}"#,
        "x".repeat(3 * 1024 * 1024)
    );
    let begun = Instant::now();
    for _ in 0..2 {
        session.put(message(&news)).await;
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // As soon as it reads there is room.
    let (read, ()) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            listener.next().await
        },
        session.put(message(&news))
    );
    assert!(read.is_some());
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    session.put(message(&news)).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(1) + READ_WITHIN);
    assert!(listener.next().await.is_none(), "it missed something");
    drop(listener);
    assert_eq!(session.end("over"), 1);
}

/// Each has a connection, of which gig takes so many: a stream is counted for as long as it is open.
#[tokio::test]
async fn one_has_so_many_streams_and_leaves_room_for_others() {
    let sessions = Sessions::default();
    let owner = |caller: &str| Owner {
        caller: caller.to_owned(),
        profile: "p".to_owned(),
        server: "s".to_owned(),
    };
    let (session, _lines) = session();
    let stream = session.listen(None).unwrap();
    let stream = stream.in_place(sessions.asks(&owner("ana")).unwrap());
    let others = (1..MOST_ASKS_OF_ONE).map(|_| sessions.asks(&owner("ana")).unwrap());
    let others: Vec<_> = others.collect();
    let refused = sessions.asks(&owner("ana")).unwrap_err();
    assert!(
        refused.detail.contains("as many of your requests"),
        "{refused:?}"
    );
    drop(sessions.asks(&owner("ben")).unwrap());
    drop(stream);
    drop(sessions.asks(&owner("ana")).unwrap());
    drop(others);
}

#[test]
fn what_the_two_agreed_on_is_spoken_in_their_session() {
    let (session, _lines) = session();
    let said = http::HeaderValue::from_static("2026-06-30");
    let headers = http::HeaderMap::from_iter([(REVISION, said)]);
    assert!(revision(&headers, Some(&session)).is_err());
    session.revision.set("2026-06-30".to_owned()).unwrap();
    assert!(revision(&headers, Some(&session)).is_ok());
}

/// However many answers are asked for as one.
#[tokio::test]
async fn what_one_body_holds_of_answers_is_bounded() {
    let (session, _lines) = session();
    let asked = [1, 2, 3].map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#));
    let asked = sent(&format!("[{}]", asked.join(",")));
    let listener = session.send(asked, true).await.unwrap().unwrap();
    let answers = async {
        for id in [1, 2, 3] {
            let text = "x".repeat(3 * 1024 * 1024);
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"a":"{text}"}}}}"#);
            session.put(message(&answer)).await;
        }
    };
    let (whole, ()) = tokio::join!(whole(listener, true), answers);
    let refused = whole.unwrap_err();
    assert!(
        refused.detail.contains("more than one body holds"),
        "{refused:?}"
    );
}
