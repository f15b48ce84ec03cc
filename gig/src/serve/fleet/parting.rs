//! How an address is taken from a sandbox that is over.
//!
//! What its programs wrote last is delivered. Its connections are cut, then its link; what came before that and
//! waits still is taken in, as the old owner's; only then is the address free. Until that is shown it stays taken and
//! bound to who had it, and so does their place among those who may start some. What fails is tried again for as
//! long as hub and proxy are there.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use gig_netns::{Lease, ReleaseError};
use gig_proxy::Subject;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{Fleet, causes, seats::Seat};
use crate::{refused::Taken, run::wire::DELIVERY};

/// An address on its way back.
pub(super) struct Parting {
    fleet: Arc<Fleet>,
    subject: Arc<Subject>,
    lease: Arc<Lease>,
    seat: Arc<Seat>,
    /// Last: whoever waits for a place looks for it then.
    leaving: Leaving,
}

/// Counts who parts.
#[derive(Debug, Default)]
pub(super) struct Partings {
    leaving: AtomicUsize,
    left: Notify,
}

struct Leaving(Arc<Fleet>);

impl Leaving {
    fn new(fleet: Arc<Fleet>) -> Self {
        fleet.partings.leaving.fetch_add(1, Ordering::SeqCst);
        Self(fleet)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.partings.leaving.fetch_sub(1, Ordering::SeqCst);
        self.0.partings.left.notify_waiters();
    }
}

impl Partings {
    /// Takes a place, and waits for one a moment if there is none while somebody parts: whoever is told of an end
    /// may start the next at once.
    ///
    /// # Errors
    /// Why there was none the last time.
    pub(super) async fn patiently<T, E>(
        &self,
        mut take: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let until = Instant::now() + A_MOMENT;
        loop {
            let mut left = pin!(self.left.notified());
            // From here on none who leaves is missed.
            left.as_mut().enable();
            let leaving = self.leaving.load(Ordering::SeqCst);
            let refused = match take() {
                Ok(taken) => return Ok(taken),
                Err(refused) => refused,
            };
            if leaving == 0 || timeout_at(until, left).await.is_err() {
                return Err(refused);
            }
        }
    }
}

/// Waits, for no longer than a moment, until what the programs of `subject` wrote and closed in order before they
/// ended is with the origins. Nothing is waited for where nothing is under way.
pub(super) async fn deliver(fleet: &Fleet, subject: &Subject) {
    let Ok(machine) = fleet.machine() else { return };
    let delivered = machine.queues.delivered(subject);
    if timeout(DELIVERY, delivered).await.is_err() {
        tracing::warn!(
            sandbox.id = %subject.id(),
            "what a sandbox wrote last was not taken in time: the rest is dropped"
        );
    }
}

impl Parting {
    /// Cuts what is open, and the link if that can be done at once; ends what is left of its processes.
    pub(super) async fn begin(
        fleet: Arc<Fleet>,
        subject: Arc<Subject>,
        lease: Lease,
        seat: Arc<Seat>,
    ) -> Self {
        let leaving = Leaving::new(Arc::clone(&fleet));
        // Of its programs, which are over, before their end is told.
        let refused = match fleet.machine() {
            Ok(machine) => machine.refusing.taken().await,
            Err(_) => Taken::default(),
        };
        subject.close().await;
        let lease = Arc::new(lease);
        if let Err(error) = cut(Arc::clone(&fleet), Arc::clone(&lease)).await {
            // It is tried again, and then matters.
            tracing::debug!(%error, "a sandbox's network was not cut at once");
        }
        refused.recorded().await;
        Self {
            fleet,
            subject,
            lease,
            seat,
            leaving,
        }
    }

    /// Frees the address.
    pub(super) async fn finish(self) {
        let Self {
            fleet,
            subject,
            lease,
            seat,
            leaving,
        } = self;
        if let Err(error) = finish(&fleet, &subject, lease).await {
            let error = causes(&error);
            tracing::error!(%error, "a sandbox's network could not be taken away: its place stays taken");
        }
        drop(seat);
        drop(leaving);
    }
}

async fn finish(fleet: &Arc<Fleet>, subject: &Subject, lease: Arc<Lease>) -> anyhow::Result<()> {
    let machine = fleet.machine()?;
    let address = subject.address();
    until_cut(|| cut(Arc::clone(fleet), Arc::clone(&lease))).await?;
    // All that was sent from there is in gig's sockets by now, or nowhere. It is asked for once: who asks again
    // asks about what came since.
    let mut emptied = pin!(machine.queues.emptied());
    loop {
        match timeout(LATE, &mut emptied).await {
            Ok(shown) => break shown?,
            Err(_) => tracing::warn!(
                %address, "what waits is not taken in yet: the address can have no other owner"
            ),
        }
    }
    machine.bound.0.write().remove(&address);
    let lease = Arc::into_inner(lease).context("the place is in use")?;
    let theirs = Arc::clone(fleet);
    let released = tokio::task::spawn_blocking(move || {
        theirs.machine()?.hub.release(lease)?;
        anyhow::Ok(())
    });
    released.await.context("the end was lost")?
}

/// How far a link is cut.
#[derive(Debug)]
enum Cut {
    /// Nothing of it comes any more.
    Done,
    /// It is cut, and something may be on its way.
    Begun,
    /// It may be asked for again.
    Refused(anyhow::Error),
}

/// The hub answers when it has done what it can at once: beside the runtime.
async fn cut(fleet: Arc<Fleet>, lease: Arc<Lease>) -> anyhow::Result<Cut> {
    let cut = tokio::task::spawn_blocking(move || match fleet.machine()?.hub.cut(&lease) {
        Ok(true) => Ok(Cut::Done),
        Ok(false) => Ok(Cut::Begun),
        Err(refused @ ReleaseError::Refused { .. }) => Ok(Cut::Refused(refused.into())),
        Err(lost @ ReleaseError::Lost { .. }) => anyhow::Result::Err(lost.into()),
    });
    cut.await.context("the end was lost")?
}

/// Asks until nothing of a link comes any more.
async fn until_cut<F>(mut cut: impl FnMut() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<Cut>>,
{
    let mut later = LATER;
    loop {
        match cut().await? {
            Cut::Done => return Ok(()),
            Cut::Begun => sleep(SOON).await,
            Cut::Refused(error) => {
                let error = causes(&error);
                tracing::warn!(%error, "a sandbox's network is not taken away yet");
                sleep(later).await;
                later = (later * 2).min(LATEST);
            }
        }
    }
}

/// The hub removes a link when nobody asked for anything for twenty milliseconds, in as many.
const SOON: Duration = Duration::from_millis(30);
/// A refusal is rare, and has kept the hub from all else for a tenth of a second.
const LATER: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_secs(60);
/// Tens of milliseconds are usual.
const A_MOMENT: Duration = Duration::from_secs(1);
/// When an operator is told: milliseconds are usual, and a host loaded to its limit takes a thousand times that.
const LATE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, io};

    use super::*;

    fn refused() -> Cut {
        Cut::Refused(anyhow::anyhow!("its processes do not end"))
    }

    async fn asked(answers: Vec<anyhow::Result<Cut>>) -> (anyhow::Result<()>, usize) {
        let mut answers = VecDeque::from(answers);
        let outcome = until_cut(|| std::future::ready(answers.pop_front().unwrap())).await;
        (outcome, answers.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_given_back_however_often_its_link_could_not_be_cut() {
        let mut answers = vec![Ok(Cut::Begun), Ok(refused()), Ok(Cut::Begun)];
        answers.extend((0..20).map(|_| Ok(refused())));
        answers.push(Ok(Cut::Done));
        let since = Instant::now();
        let (outcome, left) = asked(answers).await;
        outcome.unwrap();
        assert_eq!(left, 0);
        // The hub has other things to do.
        assert!(since.elapsed() > 10 * LATEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_of_somebody_who_parts_is_waited_for() {
        let partings = Partings::default();
        let free = AtomicUsize::new(0);
        let take = || match free.load(Ordering::SeqCst) {
            0 => Err("crowded"),
            some => Ok(some),
        };
        let since = Instant::now();
        assert!(partings.patiently(take).await.is_err());
        assert_eq!(since.elapsed(), Duration::ZERO, "nobody parts");
        partings.leaving.store(2, Ordering::SeqCst);
        let leave = async {
            sleep(Duration::from_millis(100)).await;
            partings.left.notify_waiters();
            sleep(Duration::from_millis(100)).await;
            free.store(1, Ordering::SeqCst);
            partings.left.notify_waiters();
        };
        let (taken, ()) = tokio::join!(partings.patiently(take), leave);
        assert_eq!(taken, Ok(1));
        free.store(0, Ordering::SeqCst);
        let since = Instant::now();
        assert!(partings.patiently(take).await.is_err());
        assert_eq!(since.elapsed(), A_MOMENT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hub_that_is_gone_is_not_asked_again() {
        let lost = ReleaseError::Lost {
            slot: 1,
            source: io::ErrorKind::UnexpectedEof.into(),
        };
        let (outcome, left) = asked(vec![Ok(Cut::Begun), Err(lost.into()), Ok(Cut::Done)]).await;
        assert!(outcome.is_err());
        assert_eq!(left, 1);
    }
}
