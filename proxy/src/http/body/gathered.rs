//! A request body that was read to its end before it is sent: its length and its digests are known.

use bytes::Bytes;
use gig_policy::DenyReason;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

use super::{Upload, UploadStopped};
use crate::credential::rewrite::{Rewrite, RewriteError};

/// A whole body.
#[derive(Debug, Clone)]
pub struct Gathered {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

/// A body could not be gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// It was stopped.
    #[error(transparent)]
    Stopped(UploadStopped),
    /// It is longer than may be held.
    #[error("the body is longer than {0} octets")]
    TooLong(usize),
}

impl GatherError {
    /// The word that it is told by.
    #[must_use]
    pub const fn reason(self) -> DenyReason {
        match self {
            Self::Stopped(
                UploadStopped::Limit(reason)
                | UploadStopped::Secret(reason)
                | UploadStopped::Revoked(reason)
                | UploadStopped::Downstream(reason),
            ) => reason,
            Self::Stopped(UploadStopped::Abandoned) => DenyReason::RequestIncomplete,
            Self::TooLong(_) => DenyReason::TooLarge,
        }
    }
}

impl Gathered {
    /// Reads `upload` to its end, `most` octets of it.
    ///
    /// # Errors
    /// [`GatherError`].
    pub async fn read(mut upload: Upload, most: usize) -> Result<Self, GatherError> {
        let mut data: Vec<u8> = Vec::new();
        let mut first: Option<Bytes> = None;
        let mut trailers = None;
        while let Some(frame) = upload.frame().await {
            let frame = frame.map_err(GatherError::Stopped)?;
            match frame.into_data() {
                Ok(octets) if data.is_empty() && first.is_none() => first = Some(octets),
                Ok(octets) => {
                    if let Some(first) = first.take() {
                        data.extend_from_slice(&first);
                    }
                    data.extend_from_slice(&octets);
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
            let length = first.as_ref().map_or(data.len(), Bytes::len);
            if length > most {
                return Err(GatherError::TooLong(most));
            }
        }
        Ok(Self {
            data: Some(first.unwrap_or_else(|| data.into())),
            trailers,
        })
    }

    /// What was read elsewhere.
    #[must_use]
    pub const fn of(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self {
            data: Some(data),
            trailers,
        }
    }

    /// The octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    /// Changes the body once more.
    ///
    /// # Errors
    /// What `after` says. The body is as it was: its request must not be sent.
    pub(super) fn change(&mut self, after: Box<dyn Rewrite>) -> Result<(), RewriteError> {
        self.data = Some(changed(after, self.octets())?);
        Ok(())
    }

    pub(super) fn next(&mut self) -> Option<Frame<Bytes>> {
        if let Some(data) = self.data.take().filter(|data| !data.is_empty()) {
            return Some(Frame::data(data));
        }
        self.trailers.take().map(Frame::trailers)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.octets().is_empty() && self.trailers.is_none()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.octets().len()).unwrap_or(u64::MAX))
    }
}

/// A whole body as it comes out of `after`.
///
/// # Errors
/// What `after` says.
pub(super) fn changed(mut after: Box<dyn Rewrite>, octets: &[u8]) -> Result<Bytes, RewriteError> {
    let mut out = Vec::with_capacity(octets.len());
    after.push(octets, &mut out)?;
    after.finish(&mut out)?;
    Ok(out.into())
}
