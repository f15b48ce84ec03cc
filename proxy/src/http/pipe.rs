//! Sends a body into an HTTP/2 stream, as fast as the other side takes it.
//!
//! Nothing is read of a body while what was read before waits for room, and no room is asked for
//! before there is something to fill it: room that one stream holds is taken from the others of its
//! connection. What is sent and not written yet has a bound for each connection ([`super::backlog`]). A body that may
//! not go on, or that nobody takes, says so while it waits.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};
use tokio::sync::AcquireError;

use super::backlog::{Backlog, PART};

/// A body that is sent.
pub trait Piped: Body<Data = Bytes> {
    /// Ready when nothing more of it may go. Asked while what was read of it waits for room; while it is
    /// read, it says so there.
    fn poll_over(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Error> {
        Poll::Pending
    }
}

/// A body did not go to its end.
#[derive(Debug, thiserror::Error)]
pub enum PipeError<E> {
    /// It could not be read, or may not go on; the stream was reset.
    #[error("a body broke off")]
    Body(#[source] E),
    /// The other side wants no more of it, or its connection is gone.
    #[error("a body is not taken any more")]
    Stream(#[source] h2::Error),
    /// The same, and h2 does not say why.
    #[error("a body is not taken any more")]
    Closed,
}

/// Sends `body` to its end. Dropping the future leaves the stream as it is: it is reset when nobody
/// holds it any more.
///
/// # Errors
/// [`PipeError`].
pub async fn pipe<B>(
    body: B,
    send: &mut SendStream<Bytes>,
    backlog: &Backlog,
) -> Result<(), PipeError<B::Error>>
where
    B: Piped,
{
    let mut body = pin!(body);
    while let Some(frame) = next(body.as_mut(), send).await? {
        match frame.into_data() {
            Ok(mut data) => {
                let last = body.is_end_stream();
                while !data.is_empty() {
                    send.reserve_capacity(data.len().min(PART));
                    room(body.as_mut(), send).await?;
                    let part = data.split_to(data.len().min(PART).min(send.capacity()));
                    let part = hold(body.as_mut(), send, backlog.hold(part)).await?;
                    let end = last && data.is_empty();
                    send.send_data(part, end).map_err(PipeError::Stream)?;
                    if end {
                        return Ok(());
                    }
                }
                if last {
                    break;
                }
            }
            Err(frame) => {
                let Ok(trailers) = frame.into_trailers() else {
                    continue;
                };
                return send.send_trailers(trailers).map_err(PipeError::Stream);
            }
        }
    }
    send.send_data(Bytes::new(), true)
        .map_err(PipeError::Stream)
}

/// The next frame, unless the other side wants none.
async fn next<B>(
    mut body: Pin<&mut B>,
    send: &mut SendStream<Bytes>,
) -> Result<Option<Frame<Bytes>>, PipeError<B::Error>>
where
    B: Piped,
{
    let frame = poll_fn(|cx| {
        poll_stopped(send, cx)?;
        body.as_mut().poll_frame(cx).map(Ok)
    });
    match frame.await? {
        None => Ok(None),
        Some(Ok(frame)) => Ok(Some(frame)),
        Some(Err(error)) => {
            send.send_reset(Reason::CANCEL);
            Err(PipeError::Body(error))
        }
    }
}

/// Waits until what is sent next has its place among what is not written yet.
async fn hold<B>(
    mut body: Pin<&mut B>,
    send: &mut SendStream<Bytes>,
    held: impl Future<Output = Result<Bytes, AcquireError>>,
) -> Result<Bytes, PipeError<B::Error>>
where
    B: Piped,
{
    let mut held = pin!(held);
    poll_fn(|cx| {
        if let Poll::Ready(held) = held.as_mut().poll(cx) {
            return Poll::Ready(held.map_err(|_| PipeError::Closed));
        }
        poll_stopped(send, cx)?;
        let over = ready!(body.as_mut().poll_over(cx));
        send.send_reset(Reason::CANCEL);
        Poll::Ready(Err(PipeError::Body(over)))
    })
    .await
}

/// Waits until something can be sent.
async fn room<B>(
    mut body: Pin<&mut B>,
    send: &mut SendStream<Bytes>,
) -> Result<(), PipeError<B::Error>>
where
    B: Piped,
{
    poll_fn(|cx| {
        poll_stopped(send, cx)?;
        while send.capacity() == 0 {
            match send.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Err(PipeError::Stream(error)));
                }
                Poll::Ready(None) => return Poll::Ready(Err(PipeError::Closed)),
                Poll::Pending => {
                    let over = ready!(body.as_mut().poll_over(cx));
                    send.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(PipeError::Body(over)));
                }
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// Fails when the stream was reset, and wakes when it is.
fn poll_stopped<E>(send: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Result<(), PipeError<E>> {
    match send.poll_reset(cx) {
        Poll::Pending => Ok(()),
        Poll::Ready(Ok(reason)) => Err(PipeError::Stream(reason.into())),
        Poll::Ready(Err(error)) => Err(PipeError::Stream(error)),
    }
}
