//! Takes in whatever waits in the sockets that all sandboxes share, before an address gets another owner.
//!
//! Whose a connection or datagram is, is found when it is taken out of its socket. One that waited there, or on its way
//! between threads, while its address changed owners would be the next one's. So each thread takes in what waits,
//! up to as much as can have waited when it was asked, and says so: sockets hand out in the order in which things
//! came, so that nothing older is left however much comes after. That nothing else comes from the address
//! meanwhile, and that it is bound to its old owner until this is done, is for who asks.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustix::{
    io::Errno,
    net::{RecvFlags, SocketFlags, acceptfrom_with, recvfrom, sockopt},
};
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{mpsc, oneshot},
    task::yield_now,
    time::{sleep, timeout},
};

use crate::start::Order;

/// The way to every thread that takes anything out of the sockets.
#[derive(Debug, Clone)]
pub struct Queues(Arc<[mpsc::Sender<Order>]>);

/// It cannot be said that nothing waits any more.
#[derive(Debug, Error)]
pub enum EmptyQueuesError {
    /// A thread ended, or may not take anything in.
    #[error("a thread of the proxy could not take in what waits for it")]
    Lost,
    /// It took too long.
    #[error("the proxy did not take in what waits for it within {0:?}")]
    Late(Duration),
}

impl Queues {
    pub(crate) fn new(ways: &[mpsc::Sender<Order>]) -> Self {
        Self(ways.into())
    }

    /// Completes when all that waited at the call was taken in, and given to whoever its address belonged to
    /// then. Takes [`WITHIN`] at most. Safe to drop.
    ///
    /// # Errors
    /// When that cannot be shown: the address must not have another owner.
    pub async fn emptied(&self) -> Result<(), EmptyQueuesError> {
        timeout(WITHIN, self.asked())
            .await
            .unwrap_or(Err(EmptyQueuesError::Late(WITHIN)))
    }

    async fn asked(&self) -> Result<(), EmptyQueuesError> {
        let mut answers = Vec::with_capacity(self.0.len());
        for way in &*self.0 {
            let (done, answer) = oneshot::channel();
            let sent = way.send(Order::Empty(done)).await;
            sent.map_err(|_| EmptyQueuesError::Lost)?;
            answers.push(answer);
        }
        for answer in answers {
            answer.await.map_err(|_| EmptyQueuesError::Lost)?;
        }
        Ok(())
    }
}

/// Accepts until nothing waits, or as many came as can have waited at the call.
pub(crate) async fn accept_waiting(
    listener: &TcpListener,
    mut take: impl FnMut(TcpStream, SocketAddr),
) -> io::Result<()> {
    let mut taken = 0;
    while taken <= MOST_CONNECTIONS {
        match acceptfrom_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok((socket, from)) => {
                taken += 1;
                let stream = TcpStream::from_std(socket.into())?;
                if let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) {
                    take(stream, from);
                }
            }
            Err(Errno::WOULDBLOCK) => return Ok(()),
            // Its peer gave up: it is out of the queue.
            Err(Errno::CONNABORTED) => taken += 1,
            Err(Errno::INTR) => {}
            // It is in the queue still. Who asked does not wait for ever.
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                sleep(AFTER_WANT).await;
            }
            Err(error) => return Err(error.into()),
        }
        if taken % AT_ONCE == 0 {
            yield_now().await;
        }
    }
    Ok(())
}

/// Reads until nothing waits, or as much came as can have waited at the call.
pub(crate) async fn receive_waiting(
    socket: &UdpSocket,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8], SocketAddr),
) -> io::Result<()> {
    let most = sockopt::socket_recv_buffer_size(socket)? / LEAST_DATAGRAM;
    for taken in 0..=most {
        match recvfrom(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((length, _, from)) => {
                if let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) {
                    take(buffer.get(..length).unwrap_or_default(), from);
                }
            }
            Err(Errno::WOULDBLOCK) => return Ok(()),
            // What ICMP said of an answer that was sent.
            Err(Errno::CONNREFUSED | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if taken % AT_ONCE == 0 {
            yield_now().await;
        }
    }
    Ok(())
}

/// Milliseconds are usual; a host that is loaded to its limit takes a thousand times that.
const WITHIN: Duration = Duration::from_secs(10);
/// More than the kernel lets wait: sockets are made with a backlog of 4,096.
const MOST_CONNECTIONS: usize = 8192;
/// What the kernel charges for the smallest datagram is more.
const LEAST_DATAGRAM: usize = 256;
/// Taken in before others of the thread have their turn.
const AT_ONCE: usize = 64;
/// Out of descriptors: some come back as connections end.
const AFTER_WANT: Duration = Duration::from_millis(50);
