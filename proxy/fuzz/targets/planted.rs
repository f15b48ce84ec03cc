//! A bug that was put here on purpose: a fuzzer that does not find it finds nothing else either.
//!
//! Blind chance needs 2^32 inputs for it; coverage tells after each octet that it was the right one.

/// Panics on one word.
pub fn run(data: &[u8]) {
    if data.first() == Some(&b'h')
        && data.get(1) == Some(&b'o')
        && data.get(2) == Some(&b'l')
        && data.get(3) == Some(&b'e')
    {
        panic!("the planted bug");
    }
}
