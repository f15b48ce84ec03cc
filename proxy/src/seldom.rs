//! Waits that hardly ever end, beside work that is polled all the time.
//!
//! A connection's task is woken several times a request. What it also waits for (a revocation, a
//! deadline in minutes, the end of gig) would be asked each time whether it has come, and hyper asks
//! the stream each time whether something is to be read, through all its layers. Here a wait is asked
//! only when it has called: it gets a waker of its own, which passes the call on.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A future, or a stream's reading, that is polled only when it called.
#[derive(Debug)]
pub(crate) struct Seldom<T> {
    inner: T,
    bell: Arc<Bell>,
    waker: Waker,
    /// Whom the bell calls; compared without touching the bell, which is several times a request.
    task: Waker,
}

/// Remembers a call until it is answered. Unlike an `AtomicWaker` it keeps whom it calls when it has
/// called, so that nobody need be told again.
#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    task: Mutex<Waker>,
}

impl<T> Seldom<T> {
    /// Around a wait that is expected to take long, or a stream that is read often in vain.
    pub(crate) fn new(inner: T) -> Self {
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        });
        Self {
            inner,
            waker: Waker::from(Arc::clone(&bell)),
            bell,
            task: Waker::noop().clone(),
        }
    }

    /// What is beneath.
    pub(crate) fn into_inner(self) -> T {
        self.inner
    }

    /// Whether it called since it was asked last.
    fn called(&mut self, cx: &Context<'_>) -> bool {
        if !self.task.will_wake(cx.waker()) {
            // Before the look: a call between the two is not lost.
            self.task.clone_from(cx.waker());
            self.bell.task.lock().clone_from(cx.waker());
        }
        self.bell.rung.load(Ordering::Acquire) && self.bell.rung.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        // After the lock: whom it wakes may come back here.
        let task = self.task.lock().clone();
        task.wake();
    }
}

impl<F: Future + Unpin> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if !self.called(cx) {
            return Poll::Pending;
        }
        let this = &mut *self;
        Pin::new(&mut this.inner).poll(&mut Context::from_waker(&this.waker))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Seldom<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.called(cx) {
            return Poll::Pending;
        }
        let this = &mut *self;
        let mut own = Context::from_waker(&this.waker);
        let read = ready!(Pin::new(&mut this.inner).poll_read(&mut own, buffer));
        // There may be more, of which nobody will tell.
        this.bell.rung.store(true, Ordering::Release);
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Seldom<S> {
    crate::writes::pass_writes!();
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::atomic::AtomicUsize, time::Duration};

    use futures_util::FutureExt as _;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        sync::Notify,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_asked_once_until_it_calls() {
        let (asked, notify) = (AtomicUsize::new(0), Notify::new());
        let mut notified = pin!(notify.notified());
        let wait = std::future::poll_fn(|cx| {
            asked.fetch_add(1, Ordering::Relaxed);
            notified.as_mut().poll(cx)
        });
        let mut seldom = Seldom::new(wait);
        for _ in 0..10 {
            assert!((&mut seldom).now_or_never().is_none());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        notify.notify_waiters();
        seldom.await;
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_wakes_the_task_and_a_wait_of_several_steps_goes_on() {
        let steps = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            7
        };
        let begun = tokio::time::Instant::now();
        assert_eq!(Seldom::new(pin!(steps)).await, 7);
        assert_eq!(begun.elapsed(), Duration::from_secs(180));
    }

    #[tokio::test(start_paused = true)]
    async fn who_asked_last_is_called() {
        let notify = Notify::new();
        let notified = pin!(notify.notified());
        let mut seldom = Seldom::new(notified);
        // By nobody's task, then by this one.
        assert!((&mut seldom).now_or_never().is_none());
        let call = async {
            tokio::task::yield_now().await;
            notify.notify_waiters();
        };
        let called = tokio::time::timeout(Duration::from_secs(60), async {
            tokio::join!(seldom, call)
        });
        assert!(called.await.is_ok());
    }

    #[tokio::test]
    async fn a_stream_is_read_when_something_came_and_to_its_end() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = Seldom::new(near);
        let mut room = [0; 4];
        for _ in 0..3 {
            assert!(near.read(&mut room).now_or_never().is_none());
        }
        far.write_all(b"more than fits").await.unwrap();
        drop(far);
        let mut all = Vec::new();
        while let read @ 1.. = near.read(&mut room).await.unwrap() {
            all.extend_from_slice(&room[..read]);
        }
        assert_eq!(all, b"more than fits");
    }
}
