//! A cursor over TLS presentation language: every read is checked, none panics.

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        match self.take(2)? {
            &[high, low] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }

    /// `opaque data<0..2^8-1>`.
    pub(super) fn vector8(&mut self) -> Option<&'a [u8]> {
        match self.take(1)? {
            &[length] => self.take(usize::from(length)),
            _ => None,
        }
    }

    /// `opaque data<0..2^16-1>`.
    pub(super) fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}
