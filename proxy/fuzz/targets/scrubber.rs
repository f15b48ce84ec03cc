//! Values in answers: none goes on, in whatever spelling, wherever it is cut, coded or not.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gig_policy::SecretGrant;
use gig_proxy::credential::{
    coding::{Coding, Undone},
    memory::Memory,
    rewrite::Rewrite,
    scrub::{Fit, Scrub, Scrubbers, grpc::Messages},
};

use crate::secrets::{SENTINEL, VALUE, guarded, pieces, spelled};

/// One octet that says how, four for cuts, then a text.
pub fn run(data: &[u8]) {
    let Some((&[how, ref cuts @ ..], text)) = data.split_first_chunk::<5>() else {
        return;
    };
    let text = spelled(text, VALUE);
    let scrub = SCRUB.get_or_init(|| {
        let granted = [SecretGrant::everywhere("T".parse().expect("a name"))];
        Scrub::of(guarded(), &[SENTINEL], &granted).expect("a value")
    });
    let fit = [Fit::Free, Fit::Events, Fit::Exact][usize::from(how % 3)];
    let expected = through(scrub, fit, &[&text]);
    let got = through(scrub, fit, &pieces(&text, cuts));
    if fit == Fit::Events {
        // What ends with an event does not wait for whether it goes on.
        assert_clean(&text, &got, &expected);
    } else {
        assert_eq!(
            String::from_utf8_lossy(&got),
            String::from_utf8_lossy(&expected)
        );
    }
    if fit == Fit::Exact {
        assert_eq!(got.len(), text.len());
    }
    assert!(!holds(&expected), "{}", String::from_utf8_lossy(&expected));
    let mut uncopied = Vec::new();
    let mut scrubber = scrub.scrubber(fit);
    for piece in pieces(&text, cuts) {
        uncopied.extend_from_slice(&scrubber.pass(Bytes::copy_from_slice(piece)));
    }
    scrubber.finish(&mut uncopied).expect("scrubs");
    assert_eq!(uncopied, got);
    if how & 0x80 != 0 {
        coded(scrub, fit, &text, cuts);
    }
    if how & 0x40 != 0 {
        stalled(scrub, fit, &text, cuts);
        little(scrub, fit, &text, cuts);
    }
}

/// A value among octets that it has none of comes through in no longer part than may be shown, wherever it is cut
/// and whatever is called a message there.
fn little(scrub: &Arc<Scrub>, fit: Fit, text: &[u8], cuts: &[u8]) {
    let strange = |octet: &u8| !octet.is_ascii_alphanumeric() && !VALUE.as_bytes().contains(octet);
    let around: Vec<u8> = text.iter().copied().filter(strange).collect();
    let (head, tail) = around.split_at(around.len() / 2);
    let whole = [head, VALUE.as_bytes(), tail].concat();
    for out in paused(scrub, fit, &whole, cuts) {
        let parts = VALUE.as_bytes().windows(LITTLE);
        for part in parts {
            let stands = out.windows(LITTLE).any(|here| here == part);
            assert!(!stands, "{}", String::from_utf8_lossy(&out));
        }
    }
}

/// What comes out where nothing more comes for a while after each piece: of one text, and of what is said to be
/// messages.
fn paused(scrub: &Arc<Scrub>, fit: Fit, text: &[u8], cuts: &[u8]) -> [Vec<u8>; 2] {
    let mut one = Scrubbers::new(scrub, fit);
    let mut messages = Messages::new(
        Scrubbers::new(scrub, Fit::Exact),
        None,
        Memory::of_sandbox(),
    );
    let both: [&mut dyn Rewrite; 2] = [&mut one, &mut messages];
    both.map(|rewrite| {
        let mut out = Vec::new();
        let read = pieces(text, cuts).iter().try_for_each(|piece| {
            rewrite.push(piece, &mut out)?;
            rewrite.release(&mut out)
        });
        if read.is_ok() {
            rewrite.finish(&mut out).expect("nothing is coded");
        }
        out
    })
}

/// More than may be shown of a value of that length when nothing more comes for a while.
const LITTLE: usize = 8;

/// Where nothing more comes for a while after each piece, in one text and in what is said to be messages, the
/// value does not come through bit by bit; nor does it where something else is looked for in the end.
fn stalled(scrub: &Arc<Scrub>, fit: Fit, text: &[u8], cuts: &[u8]) {
    let renewed = RENEWED.get_or_init(|| {
        let sentinel = "gigph-ffeeddccbbaa99887766554433221100";
        Scrub::of(guarded(), &[sentinel], &[]).expect("a value")
    });
    for out in paused(scrub, fit, text, cuts) {
        assert!(!holds(&out), "{}", String::from_utf8_lossy(&out));
    }
    let mut out = Vec::new();
    let mut scrubbers = Scrubbers::new(scrub, fit);
    for (number, piece) in pieces(text, cuts).iter().enumerate() {
        if number == 1 {
            scrubbers.renew(renewed);
        }
        scrubbers.push(piece, &mut out).expect("scrubs");
    }
    scrubbers.finish(&mut out).expect("scrubs");
    assert!(!holds(&out), "{}", String::from_utf8_lossy(&out));
}

/// Compiled once: every input has the same.
static SCRUB: OnceLock<Arc<Scrub>> = OnceLock::new();
static RENEWED: OnceLock<Arc<Scrub>> = OnceLock::new();

/// In deflate, the body goes on plain and scrubbed; and whatever else it is, it ends in order.
fn coded(scrub: &Arc<Scrub>, fit: Fit, text: &[u8], cuts: &[u8]) {
    let mut stored = Vec::new();
    let blocks = text.chunks(0xffff);
    let last = blocks.len().saturating_sub(1);
    for (number, block) in blocks.enumerate() {
        let length = u16::try_from(block.len()).expect("a block is short");
        stored.push(u8::from(number == last));
        stored.extend_from_slice(&length.to_le_bytes());
        stored.extend_from_slice(&(!length).to_le_bytes());
        stored.extend_from_slice(block);
    }
    let mut undone = Undone::new(
        &[Coding::Deflate],
        &Memory::of_sandbox(),
        scrub.scrubber(fit),
    )
    .expect("memory");
    let mut out = Vec::new();
    let read = pieces(&stored, cuts)
        .iter()
        .try_for_each(|piece| undone.push(piece, &mut out));
    if read.and_then(|()| undone.finish(&mut out)).is_ok() {
        assert!(!holds(&out), "{}", String::from_utf8_lossy(&out));
    }
    for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
        let mut undone =
            Undone::new(&[coding], &Memory::of_sandbox(), scrub.scrubber(fit)).expect("memory");
        let mut out = Vec::new();
        if undone.push(text, &mut out).is_ok() {
            let _finished = undone.finish(&mut out);
        }
    }
}

fn through(scrub: &Arc<Scrub>, fit: Fit, pieces: &[&[u8]]) -> Vec<u8> {
    let mut scrubber = scrub.scrubber(fit);
    let mut out = Vec::new();
    for piece in pieces {
        scrubber.push(piece, &mut out).expect("scrubs");
    }
    scrubber.finish(&mut out).expect("scrubs");
    out
}

/// Without a blank line at the end of a piece nothing went before its time.
fn assert_clean(text: &[u8], got: &[u8], expected: &[u8]) {
    if !text
        .windows(2)
        .any(|two| matches!(two, b"\n\n" | b"\r\n" | b"\r\r"))
    {
        assert_eq!(got, expected);
    }
}

/// The value as it is or in digits.
fn holds(out: &[u8]) -> bool {
    let hex: String = VALUE.bytes().map(|octet| format!("{octet:02x}")).collect();
    let is = |text: &str| {
        out.windows(text.len())
            .any(|here| here.eq_ignore_ascii_case(text.as_bytes()))
    };
    out.windows(VALUE.len())
        .any(|here| here == VALUE.as_bytes())
        || is(&hex)
}
