//! Takes in whatever waits in the sockets that all sandboxes share, before an address gets another owner.
//!
//! Whose a connection or datagram is, is found when it is taken out of its socket. One that waited there, or on its way
//! between threads, while its address changed owners would be the next one's. So each thread takes in what waits,
//! up to as much as can have waited when it was asked, and says so: sockets hand out in the order in which things
//! came, so that nothing older is left however much comes after. That nothing else comes from the address
//! meanwhile, and that it is bound to its old owner until this is done, is for who asks.
//!
//! It takes the time it takes: want of descriptors, and whatever else passes, is waited for. All who ask while a
//! thread is at it are answered by the one next time.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustix::{
    io::Errno,
    net::{RecvFlags, SocketFlags, acceptfrom_with, recvfrom, sockopt},
};
use thiserror::Error;
use tokio::{
    net::{TcpListener, UdpSocket},
    sync::watch,
    task::yield_now,
    time::sleep,
};

use crate::{accept::is_gone, subject::Subject};

/// The way to every thread that takes anything out of the sockets.
#[derive(Debug, Clone)]
pub struct Queues(Arc<[Line]>);

/// To one thread: how often it was asked, and up to which time of asking nothing older waits.
#[derive(Debug)]
pub(crate) struct Line {
    asked: watch::Sender<u64>,
    shown: watch::Receiver<u64>,
}

/// The thread's end of its line.
#[derive(Debug)]
pub(crate) struct Asked {
    asked: watch::Receiver<u64>,
    shown: watch::Sender<u64>,
}

/// It cannot be said that nothing waits any more: a thread of the proxy ended, as all do when it goes down.
#[derive(Debug, Error)]
#[error("a thread of the proxy ended before it had taken in what waits")]
pub struct EmptyQueuesError;

pub(crate) fn line() -> (Line, Asked) {
    let (ask, asked) = watch::channel(0);
    let (show, shown) = watch::channel(0);
    let line = Line { asked: ask, shown };
    (line, Asked { asked, shown: show })
}

impl Queues {
    pub(crate) fn new(lines: Vec<Line>) -> Self {
        Self(lines.into())
    }

    /// Completes when all that waited at the call was taken in, and given to whoever its address belonged to
    /// then: within milliseconds, or whenever gig has descriptors again. Safe to drop.
    ///
    /// # Errors
    /// When that cannot be shown any more: the address must not have another owner.
    pub async fn emptied(&self) -> Result<(), EmptyQueuesError> {
        let turns: Vec<u64> = self.0.iter().map(Line::ask).collect();
        for (line, turn) in self.0.iter().zip(turns) {
            let mut shown = line.shown.clone();
            let reached = shown.wait_for(|shown| *shown >= turn).await;
            drop(reached.map_err(|_| EmptyQueuesError)?);
        }
        Ok(())
    }

    /// Says that the programs of `subject` have ended, and completes when what they wrote and closed in order is with
    /// the origins, or cannot go there; at once where nothing is under way. How long that may take is for who waits.
    /// Safe to drop.
    pub async fn delivered(&self, subject: &Subject) {
        subject.end();
        // Otherwise a thread of the proxy has ended, and with it what it served.
        if self.emptied().await.is_ok() {
            subject.drained().await;
        }
    }
}

impl Line {
    fn ask(&self) -> u64 {
        let mut turn = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            turn = *asked;
        });
        turn
    }
}

impl Asked {
    /// Completes when somebody asks, with what to say then by [`Self::show`]; `None` when nobody can any more.
    pub(crate) async fn next(&mut self) -> Option<u64> {
        self.asked.changed().await.ok()?;
        Some(*self.asked.borrow_and_update())
    }

    /// Nothing waits that waited when `turn` was asked, or before.
    pub(crate) fn show(&self, turn: u64) {
        self.shown.send_replace(turn);
    }
}

/// Accepts until nothing waits, or as many came as can have waited at the call.
pub(crate) async fn accept_waiting(
    listener: &TcpListener,
    mut take: impl FnMut(std::net::TcpStream, SocketAddr),
) {
    let mut taken = 0;
    while taken <= MOST_CONNECTIONS {
        match acceptfrom_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok((socket, from)) => {
                taken += 1;
                if let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) {
                    take(socket.into(), from);
                }
            }
            // Its peer gave up: it is out of the queue.
            Err(Errno::CONNABORTED) => taken += 1,
            Err(error) => {
                if is_empty_after(error).await {
                    return;
                }
            }
        }
        if taken % AT_ONCE == 0 {
            yield_now().await;
        }
    }
}

/// Reads until nothing waits, or as much came as can have waited at the call.
pub(crate) async fn receive_waiting(
    socket: &UdpSocket,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8], SocketAddr),
) {
    let room = sockopt::socket_recv_buffer_size(socket).unwrap_or(MOST_OCTETS);
    let most = room / LEAST_DATAGRAM;
    let mut taken = 0;
    while taken <= most {
        match recvfrom(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((length, _, from)) => {
                taken += 1;
                if let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) {
                    take(buffer.get(..length).unwrap_or_default(), from);
                }
            }
            // What ICMP said of an answer that was sent.
            Err(Errno::CONNREFUSED) => {}
            Err(error) => {
                if is_empty_after(error).await {
                    return;
                }
            }
        }
        if taken % AT_ONCE == 0 {
            yield_now().await;
        }
    }
}

/// Nothing came out of a socket: whether nothing waits there. What may still wait is to be asked for again, after a
/// pause where it takes one.
async fn is_empty_after(error: Errno) -> bool {
    match error {
        Errno::WOULDBLOCK => true,
        Errno::INTR => false,
        // What waited there went with it.
        error if is_gone(&error.into()) => true,
        error => {
            let error = io::Error::from(error);
            tracing::warn!(%error, "what waits cannot be taken in at the moment");
            sleep(AFTER_WANT).await;
            false
        }
    }
}

/// More than the kernel lets wait: sockets are made with a backlog of 4,096.
const MOST_CONNECTIONS: usize = 8192;
/// What the kernel charges for the smallest datagram is more.
const LEAST_DATAGRAM: usize = 256;
/// More than sockets are given, should one not say how much it has room for.
const MOST_OCTETS: usize = 16 << 20;
/// Taken in before others of the thread have their turn.
const AT_ONCE: usize = 64;
/// Out of descriptors: some come back as connections end.
const AFTER_WANT: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    async fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(future_is_ready(future, cx))).await
    }

    fn future_is_ready(
        future: &mut (impl Future + Unpin),
        cx: &mut std::task::Context<'_>,
    ) -> bool {
        pin!(future).poll(cx).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_ask_meanwhile_are_answered_by_the_next_time_however_late() {
        let (line, mut thread) = line();
        let queues = Queues::new(vec![line]);
        let mut first = Box::pin(queues.emptied());
        assert!(!is_ready(&mut first).await);
        let turn = thread.next().await.unwrap();
        // They came when it had begun: what they ask about may have come since.
        let mut later: Vec<_> = (0..64).map(|_| Box::pin(queues.emptied())).collect();
        for one in &mut later {
            assert!(!is_ready(one).await);
        }
        sleep(Duration::from_secs(3600)).await;
        assert!(!is_ready(&mut first).await);
        thread.show(turn);
        first.await.unwrap();
        for one in &mut later {
            assert!(!is_ready(one).await);
        }
        let turn = thread.next().await.unwrap();
        thread.show(turn);
        for one in later {
            one.await.unwrap();
        }
        // Nobody asks any more.
        drop(queues);
        assert!(thread.next().await.is_none());
    }

    #[tokio::test]
    async fn each_thread_must_have_shown_it() {
        let ((one, mut first), (other, mut second)) = (line(), line());
        let queues = Queues::new(vec![one, other]);
        let mut emptied = Box::pin(queues.emptied());
        assert!(!is_ready(&mut emptied).await);
        let (turn, others) = (first.next().await.unwrap(), second.next().await.unwrap());
        second.show(others);
        assert!(!is_ready(&mut emptied).await);
        first.show(turn);
        emptied.await.unwrap();
        drop(first);
        assert!(queues.emptied().await.is_err());
    }
}
