//! A body that one side breaks off is broken off for the other one, too: no way of ending a stream or a
//! connection in its middle makes it look whole, by either HTTP, in either direction.

use std::time::Duration;

use gig_audit::Event;
use http::Request;
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::{empty, read_head},
    h2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, field, frame},
    origin::Origin,
};

const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const BOTH: [&str; 2] = ["h2", "http/1.1"];

/// How the octets end that a side sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It goes on to listen.
    Open,
    /// The sending half is closed: in TLS with its last word.
    Closed,
    /// As if its process were killed.
    Dropped,
    /// With a reset.
    Reset,
}

/// Ends a connection.
async fn end<S>(mut stream: S, socket: impl Fn(&S) -> &TcpStream, end: End)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match end {
        End::Open => {}
        // The other side may have ended it first.
        End::Closed => drop(stream.shutdown().await),
        End::Dropped => return,
        End::Reset => {
            let socket = socket2::SockRef::from(socket(&stream));
            socket.set_linger(Some(Duration::ZERO)).unwrap();
            return;
        }
    }
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest).await);
}

/// A header section by HTTP/2.
fn head(flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let block: Vec<u8> = fields
        .iter()
        .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
        .collect();
    frame(HEADERS, flags, 1, &block)
}

fn reset(reason: u8) -> Vec<u8> {
    frame(RST_STREAM, 0, 1, &[0, 0, 0, reason])
}

/// What stands where the rest of a body would, and how the connection ends then.
fn cuts(alpn: &str) -> Vec<(Vec<u8>, End)> {
    let ends = [End::Closed, End::Dropped, End::Reset];
    let mut cuts: Vec<_> = ends.map(|end| (Vec::new(), end)).into();
    if alpn == "h2" {
        let goodbye = |reason| frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, reason]);
        let begun = head(0, &[("x-end", "1")]);
        let long = [&[0, 0, 8, DATA, END_STREAM, 0, 0, 0, 1][..], b"more"].concat();
        cuts.extend([
            (reset(8), End::Open),
            (reset(0), End::Open),
            (reset(8), End::Closed),
            (goodbye(0), End::Closed),
            (goodbye(2), End::Dropped),
            (begun, End::Closed),
            (long, End::Closed),
            (frame(h2::SETTINGS, 0, 1, &[0; 6]), End::Open),
        ]);
    } else {
        let texts: [&[u8]; 6] = [
            b"8\r\nmore",
            b"0",
            b"0\r\n",
            b"0\r\nx-end: 1\r\n",
            b"0\r\nx-end: 1",
            b"zz\r\n",
        ];
        cuts.extend(texts.map(|text| (text.to_vec(), End::Closed)));
        cuts.push((b"0\r\nx-end: 1\r\n".to_vec(), End::Dropped));
    }
    cuts
}

/// What an origin made of a request.
const WHOLE: &str = "whole";
const CUT: &str = "cut";

/// An origin that notes what comes of a body, and whether it ended as it should. It answers nothing else.
async fn origin(alpn: &'static str) -> Origin {
    Origin::tls("api.test", &[alpn], move |mut stream, seen| async move {
        let note = |octets: &[u8]| seen.octets.lock().extend_from_slice(octets);
        if alpn == "h2" {
            let mut preface = [0; 24];
            stream.read_exact(&mut preface).await.unwrap();
            let settings = frame(h2::SETTINGS, 0, 0, &[]);
            stream.write_all(&settings).await.unwrap();
            while let Ok((kind, flags, id, payload)) = h2::read_frame(&mut stream).await {
                if kind == h2::SETTINGS && flags & ACK == 0 {
                    let ack = frame(h2::SETTINGS, ACK, 0, &[]);
                    stream.write_all(&ack).await.unwrap();
                }
                if kind == DATA {
                    note(&payload);
                }
                if id == 1 && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                    return note(WHOLE.as_bytes());
                }
                if kind == RST_STREAM {
                    break;
                }
            }
        } else {
            let mut octets = Vec::new();
            while let Ok(octet) = stream.read_u8().await {
                octets.push(octet);
                if octet == b'f' && octets.ends_with(b"half") {
                    note(b"half");
                }
                let coded = octets.windows(5).any(|five| five == b"\r\n0\r\n");
                if coded && octets.ends_with(b"\r\n\r\n") {
                    return note(WHOLE.as_bytes());
                }
            }
        }
        note(CUT.as_bytes());
    })
    .await
}

/// The first half of a request.
fn request(alpn: &str) -> Vec<u8> {
    if alpn == "h2" {
        let fields = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "api.test"),
            (":path", "/"),
        ];
        let half = frame(DATA, 0, 1, b"half");
        return [h2::preface(), head(END_HEADERS, &fields), half].concat();
    }
    let head = "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    [head.as_bytes(), b"4\r\nhalf\r\n"].concat()
}

/// A program that sends half of a request and then `rest`, at once or when the half is at its origin.
async fn send(
    (program, at_origin): (&str, &'static str),
    rest: &[u8],
    how: End,
    late: bool,
) -> (Lab, Origin) {
    let origin = origin(at_origin).await;
    let arrangement = Arrangement::new(ALLOW_API);
    let lab = arrangement.origin("api.test:443", &origin).lab();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let mut stream = lab.tls(stream, "api.test", &[program]).await.unwrap();
    if late {
        stream.write_all(&request(program)).await.unwrap();
        origin.seen.until_text("half").await;
        stream.write_all(rest).await.unwrap();
    } else {
        let all = [&request(program), rest].concat();
        stream.write_all(&all).await.unwrap();
    }
    lab.tasks
        .spawn(end(stream, |stream| stream.get_ref().0, how));
    (lab, origin)
}

/// What its origin made of the request, in the end.
async fn became(origin: &Origin) -> &'static str {
    let ending = async {
        loop {
            let seen = origin.seen.text();
            if let Some(end) = [WHOLE, CUT].into_iter().find(|end| seen.ends_with(end)) {
                return end;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), ending).await;
    ended.unwrap_or_else(|_| panic!("no end: {}", origin.seen.text()))
}

#[tokio::test]
async fn a_request_that_its_program_breaks_off_never_looks_whole() {
    for program in BOTH {
        for (rest, how) in cuts(program) {
            for (at_origin, late) in BOTH.into_iter().flat_map(|at| [(at, true), (at, false)]) {
                let what = format!("{program} to {at_origin}, {late}: {rest:?} {how:?}");
                let (lab, origin) = send((program, at_origin), &rest, how, late).await;
                if late {
                    assert_eq!(became(&origin).await, CUT, "{what}");
                    let response = lab.until_records(Event::Response, 1).await.remove(0);
                    assert!(response.entry.reason.is_some(), "{what}: {response:#?}");
                } else {
                    // It may have been broken off before anything of it went.
                    lab.subject.close().await;
                    let seen = origin.seen.text();
                    assert!(!seen.contains(WHOLE), "{what}: {seen}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_is_whole_arrives_whole_with_trailers_and_without() {
    for program in BOTH {
        let ends: [&[u8]; 2] = [b"0\r\n\r\n", b"0\r\nx-end: 1\r\n\r\n"];
        let mut ends = ends.map(<[u8]>::to_vec);
        if program == "h2" {
            let trailers = head(END_HEADERS | END_STREAM, &[("x-end", "1")]);
            ends = [frame(DATA, END_STREAM, 1, b""), trailers];
        }
        for (rest, at_origin) in ends.iter().flat_map(|rest| BOTH.map(|at| (rest, at))) {
            let (_lab, origin) = send((program, at_origin), rest, End::Open, true).await;
            assert_eq!(became(&origin).await, WHOLE);
        }
    }
}

#[tokio::test]
async fn a_request_that_is_cut_here_never_looks_whole() {
    for (program, at_origin) in BOTH
        .into_iter()
        .flat_map(|program| BOTH.map(|at| (program, at)))
    {
        let (lab, origin) = send((program, at_origin), b"", End::Open, true).await;
        lab.subject.close().await;
        assert_eq!(became(&origin).await, CUT);
    }
}

/// An origin that answers with these octets, and ends as `how` says.
async fn answering(alpn: &'static str, octets: Vec<u8>, how: End) -> Origin {
    Origin::tls("api.test", &[alpn], move |mut stream, _| {
        let octets = octets.clone();
        async move {
            if alpn == "h2" {
                let mut preface = [0; 24];
                stream.read_exact(&mut preface).await.unwrap();
                let settings = frame(h2::SETTINGS, 0, 0, &[]);
                stream.write_all(&settings).await.unwrap();
                while let Ok((kind, ..)) = h2::read_frame(&mut stream).await {
                    if kind == HEADERS {
                        break;
                    }
                }
            } else {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
            }
            stream.write_all(&octets).await.unwrap();
            end(stream, |stream| stream.get_ref().0, how).await;
        }
    })
    .await
}

/// Answers that begin well and are broken off, each with how its connection ends.
fn broken(alpn: &str) -> Vec<(Vec<u8>, End)> {
    let start = match alpn {
        "h2" => [
            head(END_HEADERS, &[(":status", "200")]),
            frame(DATA, 0, 1, b"half"),
        ]
        .concat(),
        _ => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n".to_vec(),
    };
    let mut broken = cuts(alpn);
    for (octets, _) in &mut broken {
        *octets = [&start[..], octets].concat();
    }
    if alpn != "h2" {
        for how in [End::Closed, End::Dropped, End::Reset] {
            let short = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf";
            broken.push((short.to_vec(), how));
        }
        // With neither, the last word of TLS is what tells the end.
        for how in [End::Dropped, End::Reset] {
            let endless = b"HTTP/1.1 200 OK\r\n\r\nhalf";
            broken.push((endless.to_vec(), how));
        }
    }
    broken
}

#[tokio::test]
async fn an_answer_that_its_origin_breaks_off_never_looks_whole() {
    for at_origin in BOTH {
        for (octets, how) in broken(at_origin) {
            for program in BOTH {
                let what = format!("{at_origin} to {program}: {octets:?} {how:?}");
                let origin = answering(at_origin, octets.clone(), how).await;
                let arrangement = Arrangement::new(ALLOW_API);
                let lab = arrangement.origin("api.test:443", &origin).lab();
                let mut client = lab.https("api.test", program).await;
                let request = Request::get("https://api.test/").header("host", "api.test");
                let got = match client.start(request.body(empty()).unwrap()).await {
                    Ok(response) => {
                        let status = response.status().as_u16();
                        Some((status, response.into_body().collect().await.ok()))
                    }
                    Err(_) => None,
                };
                // Refused in words before it began, or begun and broken off.
                let refused = matches!(got, Some((502, _)));
                let broken = matches!(got, None | Some((_, None)));
                assert!(refused || broken, "{what}: {got:?}");
                let response = lab.until_records(Event::Response, 1).await.remove(0);
                let reason = response.entry.reason;
                assert!(reason.is_some(), "{what}: {reason:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_length_ends_for_a_program_of_http_1_0_as_it_does_for_its_origin() {
    let start = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    for whole in [false, true] {
        let octets = start.to_owned() + if whole { "0\r\n\r\n" } else { "" };
        let origin = answering("http/1.1", octets.clone().into(), End::Closed).await;
        let arrangement = Arrangement::new(ALLOW_API);
        let lab = arrangement.origin("api.test:443", &origin).lab();
        let stream = lab.connect(Way::to("api.test", 443)).await;
        let stream = lab.tls(stream, "api.test", &["http/1.1"]).await.unwrap();
        let (text, ended) = read_old(stream).await;
        assert!(text.contains(" 200 ") && ended == whole, "{text} {ended}");

        let plain = Origin::raw(move |mut stream, _| {
            let octets = octets.clone();
            async move {
                read_head(&mut stream).await;
                stream.write_all(octets.as_bytes()).await.unwrap();
                end(stream, |stream| stream, End::Closed).await;
            }
        })
        .await;
        let arrangement = Arrangement::new(ALLOW_API);
        let lab = arrangement.origin("api.test:80", &plain).lab();
        let (text, ended) = read_old(lab.connect(Way::to("api.test", 80)).await).await;
        assert_eq!(ended, whole, "{text}");
        assert!(!whole || text.ends_with("\r\n\r\nhalf"), "{text}");
    }
}

/// Asks as a program of HTTP/1.0: what came, and whether the connection ended in order.
async fn read_old<S>(mut stream: S) -> (String, bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = b"GET / HTTP/1.0\r\nHost: api.test\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer).await;
    (String::from_utf8(answer).unwrap(), read.is_ok())
}
