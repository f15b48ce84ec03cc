//! SHA-256 (FIPS 180-4) of what is recorded.
//!
//! Every request's records are hashed before it may go: AWS-LC has assembly also for processors without instructions of
//! their own for it, where another implementation took a sixth of all that a request over HTTP/2 costs.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};

/// Of octets that are all here.
pub(crate) fn sha256(octets: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    of(digest(&SHA256, octets).as_ref())
}

/// Of octets that come one after the other.
#[derive(Clone)]
pub(crate) struct Sha256(Context);

impl Sha256 {
    pub(crate) fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    pub(crate) fn finish(self) -> [u8; SHA256_OUTPUT_LEN] {
        of(self.0.finish().as_ref())
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sha256")
    }
}

/// It has that length always.
fn of(hash: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut octets = [0; SHA256_OUTPUT_LEN];
    octets.copy_from_slice(hash);
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_standards() {
        // FIPS 180-4's example of one block.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hex = |hash: [u8; 32]| hash.map(|octet| format!("{octet:02x}")).concat();
        assert_eq!(hex(sha256(b"abc")), expected);
        let mut parts = Sha256::default();
        parts.update(b"a");
        parts.update(b"bc");
        assert_eq!(hex(parts.finish()), expected);
    }
}
