//! Values in answers: none goes on, in whatever spelling, wherever it is cut, coded or not.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gig_policy::SecretGrant;
use gig_proxy::credential::{
    coding::{Coding, Undone},
    memory::Memory,
    rewrite::Rewrite,
    scrub::{Fit, Scrub},
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
}

/// Compiled once: every input has the same.
static SCRUB: OnceLock<Arc<Scrub>> = OnceLock::new();

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
