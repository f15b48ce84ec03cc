//! A short body in a coding that nobody asked for: as it came, or plain where it holds a value.

use super::*;
use crate::credential::scrub::work::Became;

/// What it comes to, cut into such pieces.
fn whole(scrub: &Arc<Scrub>, octets: &[u8], size: usize) -> Result<(Vec<u8>, Became), Stopped> {
    let memory = Memory::of_sandbox();
    let decoder = Decoder::new(&[Coding::Gzip], &memory).unwrap();
    let scrubbers = || Scrubbers::new(scrub, Fit::Free);
    let rewriter = Rewriter::Body(scrubbers());
    let mut work = Work::whole((decoder, memory.share()), scrubbers(), rewriter);
    for piece in octets.chunks(size) {
        work.feed(Bytes::copy_from_slice(piece));
        loop {
            match work.step()? {
                Step::Out(data) => panic!("{data:?} went before all was seen"),
                Step::On => {}
                Step::Dry => break,
            }
        }
    }
    let out = work.finish()?.to_vec();
    Ok((out, work.became()))
}

fn gzip(name: &str, body: &str, after: &str) -> Vec<u8> {
    let mut to = flate2::GzBuilder::new()
        .comment(name)
        .write(Vec::new(), flate2::Compression::fast());
    to.write_all(body.as_bytes()).unwrap();
    [to.finish().unwrap(), after.as_bytes().to_vec()].concat()
}

#[test]
fn it_goes_as_it_came_or_plain_with_the_sentinel() {
    let scrub = scrub();
    for size in [1, 7, 1000] {
        let harmless = gzip("x", "harmless", "and more");
        assert_eq!(whole(&scrub, &harmless, size), Ok((harmless, Became::Same)));
        let holds = gzip("x", &format!("a {VALUE} b"), "");
        let plain = format!("a {SENTINEL} b").into_bytes();
        assert_eq!(whole(&scrub, &holds, size), Ok((plain, Became::Undone)));
        // What the coding itself has room for does not come along.
        for (name, after) in [(VALUE, ""), ("x", VALUE)] {
            let hides = gzip(name, "harmless", after);
            let plain = b"harmless".to_vec();
            assert_eq!(whole(&scrub, &hides, size), Ok((plain, Became::Undone)));
        }
    }
}

#[test]
fn a_little_that_becomes_much_is_kept_by_nobody_and_cut_where_it_holds_a_value() {
    let scrub = scrub();
    let much = "a ".repeat(1 << 20);
    let harmless = gzip("x", &much, "");
    let same = Ok((harmless.clone(), Became::Same));
    assert_eq!(whole(&scrub, &harmless, 1000), same);
    // Two layers of it are a bomb; nobody is looked after meanwhile.
    let bomb = gzip("x", &" ".repeat((64 << 20) + 1), "");
    assert_eq!(whole(&scrub, &bomb, 1000), Err(Stopped::Much));
    for holds in [format!("{VALUE} {much}"), format!("{much} {VALUE}")] {
        let holds = gzip("x", &holds, "");
        assert_eq!(whole(&scrub, &holds, 1000), Err(Stopped::Value));
    }
}
