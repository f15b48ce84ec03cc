//! A request body that was read to its end before it is sent: its length and its digests are known.
//! It is counted in what its sandbox's bodies may hold, from the first octet to when the last one went.

use std::sync::Arc;

use bytes::Bytes;
use gig_policy::DenyReason;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use super::{Streaming, Upload, UploadStopped};
use crate::credential::{
    memory::{Memory, NoMemory},
    rewrite::{Rewrite, RewriteError},
};

/// A whole body.
#[derive(Debug, Clone)]
pub struct Gathered {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

/// A body of which so much was read.
#[derive(Debug)]
pub(in crate::http) enum Begun {
    /// All of it.
    Whole(Gathered),
    /// More than was asked for, and it goes on.
    Long(Box<Streaming>),
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
    /// Its sandbox's bodies hold all the memory that they may.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
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
            Self::NoMemory(_) => DenyReason::DecoderLimit,
        }
    }
}

impl Gathered {
    /// Reads `upload` to its end, `most` octets of it, into what is taken from `memory`.
    ///
    /// # Errors
    /// [`GatherError`].
    pub async fn read(
        upload: Upload,
        most: usize,
        memory: &Arc<Memory>,
    ) -> Result<Self, GatherError> {
        match Self::begin(upload, most, memory).await? {
            Begun::Whole(whole) => Ok(whole),
            Begun::Long(_) => Err(GatherError::TooLong(most)),
        }
    }

    /// The same; what is longer streams on, with what was read of it first.
    ///
    /// # Errors
    /// [`GatherError`].
    pub(in crate::http) async fn begin(
        mut upload: Upload,
        most: usize,
        memory: &Arc<Memory>,
    ) -> Result<Begun, GatherError> {
        let expected = upload.size_hint().exact();
        let expected = expected.and_then(|length| usize::try_from(length).ok());
        let mut data = memory.counted();
        let mut first: Option<Bytes> = None;
        let mut trailers = None;
        while let Some(frame) = upload.frame().await {
            let frame = frame.map_err(GatherError::Stopped)?;
            match frame.into_data() {
                Ok(octets) if data.is_empty() && first.is_none() => first = Some(octets),
                Ok(octets) => {
                    if let Some(first) = first.take() {
                        data.make_room(expected.unwrap_or(0).min(most))?;
                        data.extend(&first)?;
                    }
                    data.extend(&octets)?;
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
            let length = first.as_ref().map_or(data.len(), Bytes::len);
            if length > most
                && let Upload::Streaming(mut rest) = upload
            {
                rest.read = Some(first.unwrap_or_else(|| data.into_bytes()));
                return Ok(Begun::Long(rest));
            }
        }
        Ok(Begun::Whole(Self {
            // One piece alone is what the connection read.
            data: Some(first.unwrap_or_else(|| data.into_bytes())),
            trailers,
        }))
    }

    /// What was read elsewhere.
    #[must_use]
    pub const fn of(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self {
            data: Some(data),
            trailers,
        }
    }

    /// The octets, shared.
    #[must_use]
    pub fn data(&self) -> Bytes {
        self.data.clone().unwrap_or_default()
    }

    /// The octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    /// Its trailer section.
    pub(in crate::http) const fn trailers(&mut self) -> Option<&mut HeaderMap> {
        self.trailers.as_mut()
    }

    /// Changes the body once more.
    ///
    /// # Errors
    /// What `after` says. The body is as it was: its request must not be sent.
    pub(super) fn change(
        &mut self,
        after: Box<dyn Rewrite>,
        memory: &Arc<Memory>,
    ) -> Result<(), RewriteError> {
        self.data = Some(changed(after, self.octets(), memory)?);
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
pub(super) fn changed(
    mut after: Box<dyn Rewrite>,
    octets: &[u8],
    memory: &Arc<Memory>,
) -> Result<Bytes, RewriteError> {
    let room = memory.take(octets.len())?;
    let mut out = Vec::with_capacity(octets.len());
    after.push(octets, &mut out)?;
    after.finish(&mut out)?;
    drop(room);
    Ok(memory.keep(out)?)
}
