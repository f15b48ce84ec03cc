//! A stream whose bytes are not opened, watched for values that go astray in plain sight.
//!
//! No secret is bound to such a stream, so that none may pass. What is encrypted within it, packed or
//! otherwise disguised is not seen.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use gig_policy::{Policy, SecretGrant, SecretName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    misuse::{Bearer, Guard},
    tally::{Misuse, Tally},
    wallet::{Readying, Wallet},
};

/// What is read from it was looked at.
#[derive(Debug)]
pub struct WatchedStream<S> {
    inner: S,
    wallet: Arc<Wallet>,
    guard: Guard,
    tally: Arc<Tally>,
}

impl<S> WatchedStream<S> {
    /// Watches what the wallet's sandbox, under this policy, sends by `inner`; `encrypted` streams hold
    /// no escapes that would be worth undoing.
    #[must_use]
    pub fn new(inner: S, wallet: &Arc<Wallet>, policy: &Policy, encrypted: bool) -> Self {
        let border = wallet.border();
        let granted = entrusted(wallet, policy);
        let bearer = Bearer {
            sandbox: wallet.sandbox(),
            granted: &granted,
        };
        let tally = Arc::new(Tally::default());
        let guard = Guard::new(&border.watch(), &bearer, "the stream", &tally);
        Self {
            inner,
            wallet: Arc::clone(wallet),
            guard: if encrypted { guard.as_is() } else { guard },
            tally,
        }
    }

    /// What was refused.
    #[must_use]
    pub fn misuses(&self) -> Vec<Misuse> {
        self.tally.take_misuses()
    }
}

/// What has to be waited for before a stream is watched: a value that the program was handed, and that
/// nobody asked for since, counts as current only if it still is.
pub fn readied(wallet: &Wallet, policy: &Policy) -> Option<Readying> {
    let names = known(wallet);
    let names = names.iter().filter(|name| policy.entrusts(name));
    wallet.border().readied(names)
}

fn known(wallet: &Wallet) -> Vec<SecretName> {
    let guarded = wallet.border().keeper().guarded();
    let names = guarded.values.iter().map(|value| value.name.clone());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Secrets that the program was handed, for protocols like this one: those that are marked so and that
/// its own policy entrusts it with.
fn entrusted(wallet: &Wallet, policy: &Policy) -> Vec<SecretGrant> {
    let border = wallet.border();
    let handed = |name: &SecretName| {
        if !policy.entrusts(name) {
            return false;
        }
        let secret = border.keeper().usable(name);
        secret.is_some_and(|secret| secret.entrusted)
    };
    let names = known(wallet).into_iter().filter(handed);
    names.map(SecretGrant::everywhere).collect()
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
