//! How an address is taken from a sandbox that is over.
//!
//! Its connections are cut, then its link; what came before that and waits still is taken in, as the old
//! owner's; only then is the address free. Until that is shown it stays taken and bound to who had it, and so does
//! their place among those who may start some. What fails is tried again for as long as hub and proxy are there.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use anyhow::Context;
use gig_netns::{Lease, ReleaseError};
use gig_proxy::Subject;
use tokio::time::{sleep, timeout};

use super::{Fleet, causes, seats::Seat};

/// An address on its way back.
pub(super) struct Parting {
    fleet: Arc<Fleet>,
    subject: Arc<Subject>,
    lease: Arc<Lease>,
    seat: Arc<Seat>,
}

impl Parting {
    /// Cuts what is open, and the link if that can be done at once; ends what is left of its processes.
    pub(super) async fn begin(
        fleet: Arc<Fleet>,
        subject: Arc<Subject>,
        lease: Lease,
        seat: Arc<Seat>,
    ) -> Self {
        subject.close().await;
        let lease = Arc::new(lease);
        if let Err(error) = cut(Arc::clone(&fleet), Arc::clone(&lease)).await {
            // It is tried again, and then matters.
            tracing::debug!(%error, "a sandbox's network was not cut at once");
        }
        Self {
            fleet,
            subject,
            lease,
            seat,
        }
    }

    /// Frees the address.
    pub(super) async fn finish(self) {
        let Self {
            fleet,
            subject,
            lease,
            seat,
        } = self;
        if let Err(error) = finish(&fleet, &subject, lease).await {
            let error = causes(&error);
            tracing::error!(%error, "a sandbox's network could not be taken away: its place stays taken");
        }
        drop(seat);
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
/// A refusal is rare, and can have kept the hub from all else for ten seconds.
const LATER: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(600);
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
        let since = tokio::time::Instant::now();
        let (outcome, left) = asked(answers).await;
        outcome.unwrap();
        assert_eq!(left, 0);
        // The hub has other things to do.
        assert!(since.elapsed() > 10 * LATEST);
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
