//! A stream whose bytes are not opened, watched for values that go astray in plain sight.
//!
//! No sentinel is swapped in such a stream, and no value may pass but one that the program was handed, where the
//! rule of that very host and port entrusts it. What is encrypted within it, packed or otherwise disguised is not
//! seen.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use gig_policy::{ConnectPermit, Handling, Host, Port, SecretGrant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    misuse::{Bearer, Guard},
    tally::{Misuse, Tally},
    wallet::{Readying, Wallet},
};
use crate::subject::Subject;

/// What is read from it was looked at.
#[derive(Debug)]
pub struct WatchedStream<S> {
    inner: S,
    wallet: Arc<Wallet>,
    entrusted: Entrusted,
    guard: Guard,
    tally: Arc<Tally>,
}

/// What a stream may carry, as its sandbox's policy says now.
#[derive(Debug)]
pub struct Entrusted {
    subject: Arc<Subject>,
    at: (Host, Port, Handling),
    /// A rule let it go: what is only observed, or what a person let go, is granted nothing.
    ruled: bool,
    /// [`Subject::changes`] when it was asked.
    changes: u64,
    granted: Arc<[SecretGrant]>,
}

impl Entrusted {
    /// Of a connection that was permitted.
    #[must_use]
    pub fn of(subject: &Arc<Subject>, permit: &ConnectPermit) -> Self {
        let mut entrusted = Self {
            subject: Arc::clone(subject),
            at: (permit.host().clone(), permit.port(), permit.handling()),
            ruled: permit.rule().is_some() && !permit.released() && permit.would_deny().is_none(),
            changes: 0,
            granted: Arc::default(),
        };
        entrusted.ask();
        entrusted
    }

    fn ask(&mut self) {
        // Before the policy: one that is replaced meanwhile is asked again.
        self.changes = self.subject.changes();
        let (host, port, handling) = &self.at;
        let policy = self.subject.policy();
        self.granted = match self.ruled {
            true => policy.entrusted_unopened(host, *port, *handling),
            false => Arc::default(),
        };
    }

    /// Asks again where the policy was replaced; whether it was.
    fn renew(&mut self) -> bool {
        let is_old = self.subject.changes() != self.changes;
        if is_old {
            self.ask();
        }
        is_old
    }

    /// Of these, what the program was handed: its secret is marked so, too.
    fn marked(&self, wallet: &Wallet) -> Vec<SecretGrant> {
        let mut granted = wallet.placed(&self.granted).into_owned();
        granted.retain(|grant| grant.entrusted);
        granted
    }

    /// What has to be waited for before the stream is watched: a value that the program was handed, and that
    /// nobody asked for since, counts as current only if it still is.
    #[must_use]
    pub fn readied(&self, wallet: &Wallet) -> Option<Readying> {
        let names = self.granted.iter().map(|grant| &grant.name);
        wallet.border().readied(names)
    }
}

impl<S> WatchedStream<S> {
    /// Watches what the wallet's sandbox sends by `inner`; `encrypted` streams hold no escapes that would be worth
    /// undoing.
    #[must_use]
    pub fn new(inner: S, wallet: &Arc<Wallet>, entrusted: Entrusted, encrypted: bool) -> Self {
        let bearer = Bearer {
            sandbox: wallet.sandbox(),
            granted: &entrusted.marked(wallet),
        };
        let tally = Arc::new(Tally::default());
        let guard = Guard::new(&wallet.border().watch(), &bearer, "the stream", &tally);
        Self {
            inner,
            wallet: Arc::clone(wallet),
            entrusted,
            guard: if encrypted { guard.as_is() } else { guard },
            tally,
        }
    }

    /// What was refused.
    #[must_use]
    pub fn misuses(&self) -> Vec<Misuse> {
        self.tally.take_misuses()
    }

    /// What passed and a person may want to know.
    #[must_use]
    pub const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        // What became known since the stream began is looked for, too.
        this.guard.renew(&this.wallet.border().watch());
        if this.entrusted.renew() {
            this.guard.carry(&this.entrusted.marked(&this.wallet));
        }
        if let Err(error) = this.guard.look(fresh) {
            buffer.set_filled(before);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
