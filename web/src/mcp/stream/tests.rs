//! Where messages go, what is kept of them, and what breaks off.

use super::{
    place::{MOST_KEPT, MOST_OCTETS, READ_KEPT},
    *,
};
use crate::mcp::message::Message;

fn sent(text: &str) -> Sent {
    Sent::read(text.as_bytes()).unwrap()
}

fn request(id: u32) -> Sent {
    sent(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"_meta":{{"progressToken":"p{id}"}}}}}}"#
    ))
}

fn message(text: &str) -> Message {
    sent(text).messages.remove(0)
}

fn answer(id: u32) -> Message {
    message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
}

fn progress(of: u32) -> Message {
    message(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"p{of}"}}}}"#
    ))
}

fn news(text: &str) -> Message {
    message(&format!(
        r#"{{"jsonrpc":"2.0","method":"news","params":{{"a":"{text}"}}}}"#
    ))
}

fn ask(board: &mut Board, id: u32) -> Reader {
    board.ask(&request(id), false).unwrap().unwrap()
}

/// What is there, and whether that was all.
fn all(board: &mut Board, reader: &mut Reader) -> (Vec<String>, bool) {
    let mut found = Vec::new();
    loop {
        match board.read(reader) {
            Next::Message(_, text) => found.push(text.to_string()),
            Next::Nothing => return (found, false),
            Next::End => return (found, true),
        }
    }
}

fn put(board: &mut Board, one: &Message) {
    assert_eq!(board.place(one, false), Placed::There);
}

#[test]
fn each_message_goes_along_one_stream_where_it_belongs() {
    let mut board = Board::default();
    let (mut first, mut second) = (ask(&mut board, 1), ask(&mut board, 2));
    let mut standing = board.stand().unwrap();
    put(&mut board, &progress(2));
    put(&mut board, &news("x"));
    put(&mut board, &answer(2));
    put(&mut board, &progress(1));
    put(&mut board, &answer(1));
    // Of what was answered there is no progress any more.
    put(&mut board, &progress(1));
    let seen = all(&mut board, &mut first);
    assert_eq!(seen, (vec![progress(1).line, answer(1).line], true));
    let seen = all(&mut board, &mut second);
    assert_eq!(seen, (vec![progress(2).line, answer(2).line], true));
    let seen = all(&mut board, &mut standing);
    assert_eq!(seen, (vec![news("x").line, progress(1).line], false));
    assert_eq!(board.place(&answer(1), false), Placed::Unasked);
}

#[test]
fn where_nobody_stands_an_open_request_hears_it_or_it_is_held() {
    let mut board = Board::default();
    put(&mut board, &news("held"));
    let mut one = ask(&mut board, 1);
    put(&mut board, &news("heard"));
    assert_eq!(all(&mut board, &mut one), (vec![news("heard").line], false));
    let mut standing = board.stand().unwrap();
    assert_eq!(all(&mut board, &mut standing).0, [news("held").line]);
    assert_eq!(board.stand().unwrap_err(), Refused::Read);
    board.left(standing);
    let mut standing = board.stand().unwrap();
    assert_eq!(all(&mut board, &mut standing).0, [""; 0]);
}

#[test]
fn a_body_for_all_answers_holds_answers_alone() {
    let mut board = Board::default();
    let both = r#"[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":"1","method":"m"}]"#;
    let mut whole = board.ask(&sent(both), true).unwrap().unwrap();
    put(&mut board, &news("not here"));
    put(&mut board, &answer(1));
    assert_eq!(all(&mut board, &mut whole), (vec![answer(1).line], false));
    let other = message(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#);
    put(&mut board, &other);
    assert_eq!(all(&mut board, &mut whole), (vec![other.line], true));
    assert_eq!(board.resume(whole.at()).unwrap_err(), Refused::Gone);
    // Whoever gave up is answered nothing.
    let whole = board.ask(&request(3), true).unwrap().unwrap();
    board.left(whole);
    assert_eq!(board.place(&answer(3), false), Placed::Unasked);
}

#[test]
fn an_id_is_asked_by_once_until_it_is_answered_or_not_wanted_any_more() {
    let mut board = Board::default();
    let mut one = ask(&mut board, 1);
    assert_eq!(board.ask(&request(1), false).unwrap_err(), Refused::Asked);
    let twice = r#"[{"jsonrpc":"2.0","id":5,"method":"m"},{"jsonrpc":"2.0","id":5,"method":"m"}]"#;
    assert_eq!(board.ask(&sent(twice), false).unwrap_err(), Refused::Asked);
    let unwanted =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    // What is refused has not been told either.
    let refused = twice.replace('[', &format!("[{unwanted},"));
    assert_eq!(
        board.ask(&sent(&refused), false).unwrap_err(),
        Refused::Asked
    );
    assert_eq!(all(&mut board, &mut one), (Vec::new(), false));
    assert_eq!(board.ask(&sent(unwanted), false).unwrap(), None);
    assert_eq!(all(&mut board, &mut one), (Vec::new(), true));
    ask(&mut board, 1);
    for id in 2..=128 {
        ask(&mut board, id);
    }
    assert_eq!(board.ask(&request(129), false).unwrap_err(), Refused::Full);
    // Those whose askers are gone make room.
    let gone = board.lines.iter().next_back().map(|(stream, line)| Reader {
        reader: line.reader.unwrap(),
        at: Mark {
            stream: *stream,
            number: 0,
        },
    });
    board.left(gone.unwrap());
    ask(&mut board, 129);
}

#[test]
fn an_answer_that_is_too_long_is_known_by_its_beginning() {
    let mut board = Board::default();
    let id = |one: u32| match answer(one).kind {
        Kind::Response { id, .. } => id,
        other => panic!("{other:?}"),
    };
    let named = br#"{"jsonrpc":"2.0","id":2,"result":{"text":"aaaa"#;
    let hidden = br#"{"result":{"id":2,"text":"aaaa"#;
    assert_eq!(board.asked_by(named), None);
    ask(&mut board, 1);
    assert_eq!(board.asked_by(named), None, "nobody asked that");
    ask(&mut board, 2);
    assert_eq!(board.asked_by(named), Some(id(2)));
    assert_eq!(board.asked_by(hidden), None);
    assert_eq!(board.asked_by(b"xxxx"), None);
}

#[test]
fn a_stream_that_broke_off_goes_on_where_it_was_and_has_one_reader() {
    let mut board = Board::default();
    let mut one = ask(&mut board, 1);
    put(&mut board, &progress(1));
    put(&mut board, &progress(1));
    let Next::Message(first, _) = board.read(&mut one) else {
        panic!("it was told");
    };
    // It is not known yet that they are gone.
    let mut again = board.resume(first).unwrap();
    assert_eq!(board.read(&mut one), Next::End);
    board.left(one);
    put(&mut board, &answer(1));
    let expected = vec![progress(1).line, answer(1).line];
    assert_eq!(all(&mut board, &mut again), (expected.clone(), true));
    board.left(again);
    // Also once all of it was read.
    let mut once_more = board.resume(first).unwrap();
    assert_eq!(all(&mut board, &mut once_more), (expected, true));
    for none in [
        Mark { number: 9, ..first },
        Mark {
            stream: 77,
            number: 0,
        },
    ] {
        assert_eq!(board.resume(none).unwrap_err(), Refused::Gone);
    }
    let mark: Mark = first.to_string().parse().unwrap();
    assert_eq!(mark, first);
    for text in ["", "1", "-", "1-", "x-1", "1-1-1", "18446744073709551616-0"] {
        assert!(text.parse::<Mark>().is_err(), "{text}");
    }
}

#[test]
fn what_is_kept_is_bounded_and_a_stream_with_a_gap_ends() {
    let mut board = Board::default();
    let long = "x".repeat(1024 * 1024);
    let one = ask(&mut board, 1);
    put(&mut board, &progress(1));
    board.left(one);
    for _ in 0..20 {
        put(&mut board, &news(&long));
    }
    assert!(board.octets <= MOST_OCTETS, "{}", board.octets);
    assert!(board.lost() > 10);
    assert_eq!(board.resume(one.at()).unwrap_err(), Refused::Gone);
    // Whoever stands is waited for, and then missed out no word without an end.
    let mut standing = board.stand().unwrap();
    assert!(matches!(board.read(&mut standing), Next::Message(..)));
    while board.place(&news(&long), false) == Placed::There {}
    assert_eq!(board.place(&news(&long), false), Placed::Full);
    assert_eq!(board.place(&news(&long), true), Placed::There);
    assert_eq!(board.read(&mut standing), Next::End);
    let many = (0..2000).map(|_| board.place(&news(""), true));
    assert!(many.into_iter().all(|placed| placed == Placed::There));
    assert!(board.kept.len() <= MOST_KEPT);
}

/// However large each is: of what was read only so much goes as there is, and nothing that was not.
#[test]
fn who_reads_all_the_time_misses_nothing() {
    let mut board = Board::default();
    let mut reader = ask(&mut board, 1);
    let long = |megabytes: usize| {
        let text = "x".repeat(megabytes * 1_000_000);
        message(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"p1","text":"{text}"}}}}"#
        ))
    };
    let mut came = 0;
    let mut read = |board: &mut Board| {
        let next = board.read(&mut reader);
        assert!(matches!(next, Next::Message(..)), "after {came}");
        came += 1;
    };
    for megabytes in [2, 3, 3] {
        put(&mut board, &long(megabytes));
    }
    read(&mut board);
    assert_eq!(board.place(&long(4), false), Placed::Full);
    read(&mut board);
    put(&mut board, &long(4));
    put(&mut board, &answer(1));
    (0..3).for_each(|_| read(&mut board));
    assert_eq!((came, board.lost()), (5, 0));
}

#[test]
fn what_was_read_is_kept_for_a_while_and_no_longer() {
    let mut board = Board::default();
    let mut standing = board.stand().unwrap();
    for _ in 0..(10 * READ_KEPT) {
        put(&mut board, &news("x"));
        assert_eq!(all(&mut board, &mut standing).0.len(), 1);
    }
    assert!(board.kept.len() <= READ_KEPT + 1, "{}", board.kept.len());
    for id in 0..1000 {
        let mut one = ask(&mut board, id);
        put(&mut board, &answer(id));
        assert!(all(&mut board, &mut one).1);
        board.left(one);
    }
    assert!(board.lines.len() <= READ_KEPT + 2, "{}", board.lines.len());
}

#[test]
fn the_end_answers_who_waits_and_ends_all_streams() {
    let mut board = Board::default();
    let (mut one, mut standing) = (ask(&mut board, 1), board.stand().unwrap());
    board.end("its program ended");
    board.end("again");
    let (told, ended) = all(&mut board, &mut one);
    assert!(
        ended && told.len() == 1 && told[0].contains("gig: its program ended"),
        "{told:?}"
    );
    assert_eq!(all(&mut board, &mut standing), (Vec::new(), true));
    assert_eq!(board.ask(&request(2), false).unwrap_err(), Refused::Over);
    assert_eq!(board.stand().unwrap_err(), Refused::Over);
}
