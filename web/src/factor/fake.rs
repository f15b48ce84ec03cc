//! A sealer that keeps what it seals in sight, bound to its context, and fails when it is told to.

use std::sync::atomic::{AtomicBool, Ordering};

use zeroize::Zeroizing;

use super::{SealError, Sealer};

#[derive(Debug, Default)]
pub(crate) struct FakeSealer {
    /// As without its key.
    pub(crate) failing: AtomicBool,
}

impl FakeSealer {
    fn works(&self) -> Result<(), SealError> {
        match self.failing.load(Ordering::SeqCst) {
            true => Err(SealError::Unusable("as it was told to".to_owned())),
            false => Ok(()),
        }
    }
}

impl Sealer for FakeSealer {
    fn seal(&self, plain: &[u8], context: &[&str]) -> Result<Vec<u8>, SealError> {
        self.works()?;
        Ok([context.join("|").as_bytes(), b"|", plain].concat())
    }

    fn open(&self, sealed: &[u8], context: &[&str]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        self.works()?;
        let bound = format!("{}|", context.join("|"));
        let plain = sealed.strip_prefix(bound.as_bytes());
        let plain =
            plain.ok_or_else(|| SealError::Otherwise("it was sealed otherwise".to_owned()))?;
        Ok(Zeroizing::new(plain.to_vec()))
    }

    fn key(&self, purpose: &str) -> Result<Zeroizing<Vec<u8>>, SealError> {
        self.works()?;
        Ok(Zeroizing::new(purpose.as_bytes().to_vec()))
    }
}
