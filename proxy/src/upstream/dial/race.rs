//! Happy eyeballs: addresses of both families, tried one after the other with a head start each.

use std::{io, net::SocketAddr, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use crate::deadlines::Deadlines;

/// No address answered: the most telling failure.
#[derive(Debug)]
pub(super) struct RaceError {
    pub(super) addr: Option<SocketAddr>,
    pub(super) source: io::Error,
}

/// The first connection that succeeds. The next address starts when the one before fails or the
/// stagger is over (RFC 8305 §5); the others are dropped then.
pub(super) async fn race(
    addresses: &[SocketAddr],
    deadlines: &Deadlines,
) -> Result<(TcpStream, SocketAddr), RaceError> {
    let mut waiting = interleave(addresses).into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failure: Option<RaceError> = None;
    if let Some(first) = waiting.next() {
        attempts.push(attempt(first, deadlines.connect_attempt));
    }
    loop {
        let more = waiting.len() > 0;
        let next = tokio::select! {
            Some((addr, result)) = attempts.next() => match result {
                Ok(stream) => return Ok((stream, addr)),
                Err(source) => {
                    let failed = RaceError { addr: Some(addr), source };
                    failure = Some(more_telling(failure, failed));
                    waiting.next()
                }
            },
            () = sleep(deadlines.connect_stagger), if more => waiting.next(),
            else => break,
        };
        if let Some(addr) = next {
            attempts.push(attempt(addr, deadlines.connect_attempt));
        }
    }
    Err(failure.unwrap_or_else(|| RaceError {
        addr: None,
        source: io::Error::from(io::ErrorKind::AddrNotAvailable),
    }))
}

async fn attempt(addr: SocketAddr, deadline: Duration) -> (SocketAddr, io::Result<TcpStream>) {
    let connected = timeout(deadline, connect(addr)).await;
    let result = connected.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)));
    (addr, result)
}

async fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_nodelay(true)?;
    SockRef::from(&socket).set_tcp_keepalive(&KEEPALIVE)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the home of dialling: every address is vetted"
    )]
    socket.connect(addr).await
}

/// RFC 8305 §4: families by turns, IPv6 first, otherwise in the order given; each address once.
pub(super) fn interleave(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut seen = Vec::with_capacity(addresses.len());
    for address in addresses {
        if !seen.contains(address) && seen.len() < MAX_ADDRESSES {
            seen.push(*address);
        }
    }
    let (v6, v4): (Vec<_>, Vec<_>) = seen.into_iter().partition(SocketAddr::is_ipv6);
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut ordered = Vec::new();
    loop {
        let pair = (v6.next(), v4.next());
        if pair == (None, None) {
            return ordered;
        }
        ordered.extend(pair.0);
        ordered.extend(pair.1);
    }
}

/// A host without IPv6 fails at once there: that says less than a refusal or a silence elsewhere.
fn more_telling(old: Option<RaceError>, new: RaceError) -> RaceError {
    let weight = |error: &RaceError| match error.source.kind() {
        io::ErrorKind::ConnectionRefused => 2,
        io::ErrorKind::TimedOut => 1,
        _ => 0,
    };
    match old {
        Some(old) if weight(&old) >= weight(&new) => old,
        _ => new,
    }
}

/// A dead origin is noticed after two minutes even where nobody writes.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(60))
    .with_interval(Duration::from_secs(15))
    .with_retries(4);
/// More addresses of one name than anybody publishes with a purpose.
const MAX_ADDRESSES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn addrs(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|a| a.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns_and_six_goes_first() {
        let given = addrs(&[
            "192.0.2.1:1",
            "192.0.2.2:1",
            "192.0.2.1:1",
            "[2001:db8::1]:1",
        ]);
        let expected = addrs(&["[2001:db8::1]:1", "192.0.2.1:1", "192.0.2.2:1"]);
        assert_eq!(interleave(&given), expected);
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_passed_over_at_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let (stream, addr) = race(&[closed, good], &Deadlines::DEFAULT).await.unwrap();
        assert_eq!(addr, good);
        assert!(stream.nodelay().unwrap());
        let error = race(&[closed], &Deadlines::DEFAULT).await.unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::ConnectionRefused);
        assert!(race(&[], &Deadlines::DEFAULT).await.is_err());
    }

    #[tokio::test]
    async fn a_silent_address_only_costs_the_stagger() {
        // A full backlog answers no SYN: the kernel drops it.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&silent, 0).unwrap();
        let silent_at = silent.local_addr().unwrap();
        let _fill: Vec<_> = (0..2).map(|_| fill(silent_at)).collect();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let started = tokio::time::Instant::now();
        let (_stream, addr) = race(&[silent_at, good], &Deadlines::DEFAULT).await.unwrap();
        assert_eq!(addr, good);
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[expect(clippy::disallowed_methods, reason = "a test on loopback")]
    fn fill(addr: SocketAddr) -> io::Result<std::net::TcpStream> {
        std::net::TcpStream::connect_timeout(&addr, Duration::from_millis(100))
    }
}
