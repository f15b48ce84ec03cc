//! Whose turn it is on a thread that serves many. Promises that whoever waits is asked again at once; leaves
//! scheduling to the runtime.

use std::task::Poll;

/// Lets every task of this thread run that can, once. tokio's own `yield_now` would also look at the
/// sockets, which is a system call.
pub async fn others_first() {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_can_run_runs_first() {
        let said = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let local = tokio::task::LocalSet::new();
        let (one, other) = (std::rc::Rc::clone(&said), std::rc::Rc::clone(&said));
        local.spawn_local(async move {
            others_first().await;
            one.borrow_mut().push("who waited");
        });
        local.spawn_local(async move { other.borrow_mut().push("who could run") });
        local.await;
        assert_eq!(*said.borrow(), ["who could run", "who waited"]);
    }
}
