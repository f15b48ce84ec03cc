//! A body that is lent to who sends it, and taken back when its origin did not look at it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use super::{Upload, UploadStopped};
use crate::http::pipe::Piped;

/// Sent by one, held by another.
#[derive(Debug, Clone)]
pub struct Lent(Arc<Mutex<Upload>>);

impl Lent {
    /// Whether a body is kept as it goes: only such a one can be taken back.
    #[must_use]
    pub const fn takes(upload: &Upload) -> bool {
        matches!(upload, Upload::Streaming(streaming) if streaming.kept.is_some())
    }

    /// Lends a body.
    #[must_use]
    pub fn new(upload: Upload) -> Self {
        Self(Arc::new(Mutex::new(upload)))
    }

    /// Takes it back as it was before any of it went, if that can be had: who sends it finds nothing more.
    #[must_use]
    pub fn take_back(&self) -> Option<Upload> {
        let Upload::Streaming(mut streaming) = std::mem::take(&mut *self.0.lock()) else {
            return None;
        };
        streaming.rewind().then_some(Upload::Streaming(streaming))
    }

    /// Its origin has looked at it.
    pub fn settle(&self) {
        if let Upload::Streaming(streaming) = &mut *self.0.lock() {
            streaming.kept = None;
        }
    }
}

impl Body for Lent {
    type Data = Bytes;
    type Error = UploadStopped;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadStopped>>> {
        match &mut *self.0.lock() {
            // It was taken back: what was begun with it is no request.
            Upload::Empty => Poll::Ready(Some(Err(UploadStopped::Abandoned))),
            upload => Pin::new(upload).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &*self.0.lock() {
            Upload::Empty => false,
            upload => upload.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}

impl Piped for Lent {}
