//! Messages cut into frames, masks and fragments in every way.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;
use tokio::io::AsyncReadExt as _;

use super::{stream::RewrittenStream, *};
use crate::credential::memory::{Memory, NoMemory};

/// Writes everything in capitals, and a mark at the end of each message.
struct Shout;

impl Rewrite for Shout {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        if octets.contains(&b'!') {
            return Err(RewriteError::Misuse);
        }
        out.extend(octets.to_ascii_uppercase());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        out.push(b'.');
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }
}

fn frames(sender: Sender) -> Frames {
    Frames::new(sender, Box::new(|_| Box::new(Shout)))
}

fn frame((last, opcode): (bool, Opcode), mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_header((last, opcode), payload.len(), mask, &mut out);
    let mut payload = payload.to_vec();
    if let Some(key) = mask {
        Mask { key, used: 0 }.apply(&mut payload);
    }
    out.extend(payload);
    out
}

/// Takes a stream apart: opcode, whether last, payload.
fn apart(mut octets: &[u8], sender: Sender) -> Vec<(Opcode, bool, Vec<u8>)> {
    let mut all = Vec::new();
    while !octets.is_empty() {
        let Parsed::Whole(header, length) = Header::parse(octets, sender).unwrap() else {
            panic!("half a header");
        };
        let end = length + usize::try_from(header.length).unwrap();
        let mut payload = octets[length..end].to_vec();
        let key = header.mask.unwrap_or_default();
        Mask { key, used: 0 }.apply(&mut payload);
        all.push((header.opcode, header.last, payload));
        octets = &octets[end..];
    }
    all
}

/// Messages with their payloads put together, and control frames.
fn messages(octets: &[u8], sender: Sender) -> Vec<(Opcode, Vec<u8>)> {
    let mut done = Vec::new();
    let mut open: Option<(Opcode, Vec<u8>)> = None;
    for (opcode, last, payload) in apart(octets, sender) {
        if opcode.is_control() {
            done.push((opcode, payload));
            continue;
        }
        let message = open.get_or_insert((opcode, Vec::new()));
        message.1.extend(payload);
        if last {
            done.extend(open.take());
        }
    }
    assert!(open.is_none(), "a message without an end");
    done
}

const TEXT: (bool, Opcode) = (true, Opcode::Text);
const BEGIN: (bool, Opcode) = (false, Opcode::Text);
const END: (bool, Opcode) = (true, Opcode::Continuation);

#[test]
fn a_message_is_framed_anew_with_its_new_length_and_a_new_mask() {
    let sent = frame(TEXT, Some([1, 2, 3, 4]), &[b'a'; 125]);
    let mut out = Vec::new();
    frames(Sender::Client).push(&sent, &mut out).unwrap();
    assert_ne!(out[4..8], [1, 2, 3, 4], "the mask is our own");
    let expected = [vec![b'A'; 125], vec![b'.']].concat();
    assert_eq!(
        apart(&out, Sender::Client),
        [(Opcode::Text, true, expected)]
    );
}

#[test]
fn control_frames_stand_between_fragments() {
    let sent = [
        frame(BEGIN, None, b"one "),
        frame((true, Opcode::Ping), None, b"ping"),
        frame(END, None, b"two"),
        frame((true, Opcode::Close), None, b"\x03\xe8bye"),
    ]
    .concat();
    let mut out = Vec::new();
    let mut frames = frames(Sender::Server);
    frames.push(&sent, &mut out).unwrap();
    assert_eq!(
        apart(&out, Sender::Server),
        [
            (Opcode::Text, false, b"ONE ".to_vec()),
            (Opcode::Ping, true, b"PING.".to_vec()),
            (Opcode::Continuation, true, b"TWO.".to_vec()),
            (Opcode::Close, true, b"\x03\xe8BYE.".to_vec()),
        ]
    );
    let before = out.len();
    frames.push(b"what follows a close", &mut out).unwrap();
    assert_eq!(out.len(), before);
    assert!(frames.is_between());
}

#[test]
fn a_long_frame_goes_on_in_fragments_before_it_is_whole() {
    let payload = vec![b'x'; 300_000];
    let sent = frame((true, Opcode::Binary), None, &payload);
    let mut frames = frames(Sender::Server);
    let mut out = Vec::new();
    frames.push(&sent[..100_000], &mut out).unwrap();
    assert!(out.len() > 90_000, "{}", out.len());
    assert!(!frames.is_between());
    frames.push(&sent[100_000..], &mut out).unwrap();
    let expected = [vec![b'X'; 300_000], vec![b'.']].concat();
    assert_eq!(messages(&out, Sender::Server), [(Opcode::Binary, expected)]);
}

#[test]
fn a_reason_that_no_longer_fits_is_left_out() {
    let reason = [&b"\x03\xe8"[..], &[b'r'; 123]].concat();
    let mut out = Vec::new();
    let sent = frame((true, Opcode::Close), None, &reason);
    frames(Sender::Server).push(&sent, &mut out).unwrap();
    assert_eq!(
        apart(&out, Sender::Server),
        [(Opcode::Close, true, b"\x03\xe8".to_vec())]
    );
}

#[test]
fn what_breaks_the_protocol_is_stopped() {
    let masked = Some([9, 9, 9, 9]);
    let server = Sender::Server;
    let bad: [(&str, Vec<u8>, Sender); 10] = [
        ("no mask", frame(TEXT, None, b"x"), Sender::Client),
        ("a mask", frame(TEXT, masked, b"x"), server),
        ("compressed", vec![0xc1, 0x01, b'x'], server),
        ("opcode", vec![0x83, 0x01, b'x'], server),
        ("continuation", frame(END, None, b"x"), server),
        (
            "within",
            [frame(BEGIN, None, b"x"), frame(TEXT, None, b"y")].concat(),
            server,
        ),
        ("ping in pieces", vec![0x09, 0x00], server),
        ("long ping", vec![0x89, 126, 0, 200], server),
        ("two octets for five", vec![0x81, 126, 0, 5], server),
        (
            "a length of 2^63",
            vec![0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0],
            server,
        ),
    ];
    for (what, octets, sender) in bad {
        let stopped = frames(sender).push(&octets, &mut Vec::new());
        assert!(matches!(stopped, Err(FrameError::Protocol(_))), "{what}");
    }
}

#[tokio::test]
async fn a_stopped_stream_gives_what_came_before_and_then_the_reason() {
    let sent = [frame(TEXT, None, b"good"), frame(TEXT, None, b"bad!")].concat();
    let mut stream = RewrittenStream::new(sent.as_slice(), frames(Sender::Server));
    let mut read = Vec::new();
    let error = stream.read_to_end(&mut read).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert_eq!(
        messages(&read, Sender::Server),
        [(Opcode::Text, b"GOOD.".to_vec())]
    );
    assert_eq!(
        stream.stopped(),
        Some(FrameError::Rewrite(RewriteError::Misuse))
    );
}

/// Writes a thousand octets for each.
struct Grow;

impl Rewrite for Grow {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        out.extend(octets.iter().flat_map(|octet| [*octet; 1000]));
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }
}

#[tokio::test]
async fn what_a_message_grows_to_is_counted_and_stopped_where_it_is_too_much() {
    let sent = frame(TEXT, None, &[b'a'; 500]);
    let grow = || Frames::new(Sender::Server, Box::new(|_| Box::new(Grow)));
    let memory = Memory::of(600_000);
    let mut one = RewrittenStream::new(sent.as_slice(), grow()).counted(&memory);
    let mut read = [0; 1000];
    one.read_exact(&mut read).await.unwrap();
    assert!(memory.held() >= 500_000, "{}", memory.held());
    // Another one of the same sandbox finds nothing left.
    let mut two = RewrittenStream::new(sent.as_slice(), grow()).counted(&memory);
    let error = two.read_exact(&mut read).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    let none = FrameError::Rewrite(RewriteError::NoMemory(NoMemory));
    assert_eq!(two.stopped(), Some(none));
    assert_eq!(none.close_code(), CloseCode::Internal);
    drop(two);
    let mut rest = Vec::new();
    one.read_to_end(&mut rest).await.unwrap();
    assert_eq!(memory.held(), 0);
    let [(_, message)] = &messages(&[&read[..], &rest].concat(), Sender::Server)[..] else {
        panic!("another message");
    };
    assert_eq!(*message, [b'a'; 500_000]);
}

/// Writes a thousand octets for each, and counts them.
struct GrowCounted(Arc<AtomicUsize>);

impl Rewrite for GrowCounted {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.0.fetch_add(1000 * octets.len(), Ordering::Relaxed);
        Grow.push(octets, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        Grow.finish(out)
    }

    fn held(&self) -> usize {
        0
    }
}

#[tokio::test]
async fn a_message_that_grows_too_much_is_stopped_before_all_of_it_has_grown() {
    let sent = frame(TEXT, None, &[b'a'; 60_000]);
    let written = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&written);
    let make = move |_| -> Box<dyn Rewrite> { Box::new(GrowCounted(Arc::clone(&counting))) };
    let frames = Frames::new(Sender::Server, Box::new(make));
    let memory = Memory::of(600_000);
    let mut stream = RewrittenStream::new(sent.as_slice(), frames).counted(&memory);
    assert!(stream.read_to_end(&mut Vec::new()).await.is_err());
    let none = FrameError::Rewrite(RewriteError::NoMemory(NoMemory));
    assert_eq!((stream.stopped(), memory.held()), (Some(none), 0));
    // Of sixty million octets no more than one step's came to be.
    assert!(written.load(Ordering::Relaxed) <= 1000 * STEP);
}

#[tokio::test]
async fn what_waits_for_the_rest_of_a_frame_is_counted() {
    let sent = frame(TEXT, None, &[b'a'; 60_000]);
    let memory = Memory::of(50_000);
    let mut stream = RewrittenStream::new(sent.as_slice(), frames(Sender::Server)).counted(&memory);
    assert!(stream.read_to_end(&mut Vec::new()).await.is_err());
    let none = FrameError::Rewrite(RewriteError::NoMemory(NoMemory));
    assert_eq!((stream.stopped(), memory.held()), (Some(none), 0));
}

proptest! {
    #[test]
    fn where_the_stream_is_cut_does_not_matter(
        payloads in prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..300), 1..6),
        mask in any::<[u8; 4]>(),
        cuts in prop::collection::vec(1_usize..40, 0..60),
    ) {
        let mut sent = Vec::new();
        for payload in &payloads {
            let (one, two) = payload.split_at(payload.len() / 2);
            sent.extend(frame(BEGIN, Some(mask), one));
            sent.extend(frame((true, Opcode::Pong), Some(mask), b"pong"));
            sent.extend(frame(END, Some(mask), two));
        }
        let mut frames = frames(Sender::Client);
        let mut out = Vec::new();
        let mut rest = sent.as_slice();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            frames.push(piece, &mut out).unwrap();
            rest = after;
        }
        frames.push(rest, &mut out).unwrap();
        prop_assert!(frames.is_between());
        let mut expected = Vec::new();
        for payload in &payloads {
            expected.push((Opcode::Pong, b"PONG.".to_vec()));
            let text = [payload.to_ascii_uppercase(), vec![b'.']].concat();
            expected.push((Opcode::Text, text));
        }
        prop_assert_eq!(messages(&out, Sender::Client), expected);
    }

    #[test]
    fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        for sender in [Sender::Client, Sender::Server] {
            let mut frames = frames(sender);
            let mut out = Vec::new();
            for piece in octets.chunks(7) {
                if frames.push(piece, &mut out).is_err() {
                    break;
                }
            }
        }
    }
}
