//! Which answers are read here, and which are left to hyper.

use super::*;

fn read_text(text: &str, to_head: bool) -> Option<Answer> {
    match read(Bytes::copy_from_slice(text.as_bytes()), to_head) {
        Read::Answer(answer) => Some(answer),
        Read::Unusual(came) => {
            assert_eq!(came, text.as_bytes(), "hyper gets all of it");
            None
        }
    }
}

#[test]
fn an_answer_with_one_length_is_read() {
    let text = "HTTP/1.1 404 No\r\nContent-Length: 5\r\nX: a\r\nx: b\r\n\r\nhello";
    let answer = read_text(text, false).unwrap();
    assert_eq!(answer.head.status(), 404);
    let fields: Vec<_> = answer.head.headers().get_all("x").iter().collect();
    assert_eq!(fields, ["a", "b"]);
    assert_eq!((answer.length, answer.keeps), (5, true));
    assert_eq!(answer.first, "hello");
}

#[test]
fn what_can_have_no_body_has_none_whatever_it_announces() {
    for (text, to_head) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\n\r\n", false),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            false,
        ),
    ] {
        assert_eq!(read_text(text, to_head).unwrap().length, 0, "{text}");
    }
}

#[test]
fn a_connection_that_shall_close_is_not_kept() {
    for (value, keeps) in [
        ("keep-alive", true),
        ("Upgrade, Keep-Alive", true),
        ("close", false),
        ("keep-alive ,\tClose", false),
    ] {
        let text = format!("HTTP/1.1 204 No Content\r\nConnection: {value}\r\n\r\n");
        assert_eq!(read_text(&text, false).unwrap().keeps, keeps, "{value}");
    }
}

#[test]
fn whatever_has_another_reading_is_left_to_hyper() {
    for text in [
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 99 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Len",
    ] {
        assert!(read_text(text, false).is_none(), "{text}");
    }
    let many = "X: a\r\n".repeat(MOST_FIELDS);
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{many}\r\n");
    assert!(read_text(&text, false).is_none());
}

#[test]
fn only_a_part_of_a_header_section_is_waited_for() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for end in 1..text.len() {
        assert!(is_begun(&text.as_bytes()[..end]), "{end}");
    }
    for text in [text, "HTTP/1.1 200 OK\n\n", "SSH-2.0-OpenSSH", "HTTP/3"] {
        assert!(!is_begun(text.as_bytes()), "{text}");
    }
}

#[test]
fn a_request_that_announces_more_than_itself_is_not_written() {
    let mut out = Vec::new();
    let mut written = |name: &'static str, value: &'static str| {
        let request = Request::get("/a?b=c").header(name, value).body(()).unwrap();
        write(&request, &mut out).then(|| String::from_utf8(out.clone()).unwrap())
    };
    let text = "GET /a?b=c HTTP/1.1\r\nx-one: 1\r\n\r\n";
    assert_eq!(written("X-One", "1").as_deref(), Some(text));
    assert!(written("Content-Length", "0").is_some());
    assert!(written("Content-Length", "1").is_none());
    assert!(written("Content-Length", "00").is_none());
    assert!(written("Transfer-Encoding", "chunked").is_none());
    assert!(written("Upgrade", "websocket").is_none());
}

#[test]
fn a_long_header_section_and_a_length_that_no_body_has_are_left_to_hyper() {
    let long = |octets: usize| {
        let field = "b".repeat(octets);
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: {field}\r\n\r\n")
    };
    assert!(read_text(&long(LONGEST - 100), false).is_some());
    assert!(read_text(&long(LONGEST), false).is_none());
    let text = |length: u64| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    assert!(read_text(&text(u64::MAX - 2), false).is_some());
    assert!(read_text(&text(u64::MAX - 1), false).is_none());
    assert!(read_text(&text(u64::MAX), false).is_none());
}
