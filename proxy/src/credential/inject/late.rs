//! A request that waits before it goes: for its body, or for a connection. What was revoked meanwhile must not leave.

use std::{fmt, sync::Arc, time::Duration};

use gig_vault::{Keeper, Secret, SecretUnavailable};
use tokio::time::Instant;

use crate::credential::{body::BodyPlan, tally::Tally, treat::Treat};

/// The secrets in a request that was readied a while ago.
pub struct Late {
    keeper: Arc<dyn Keeper>,
    /// In its head, or completing it.
    head: Vec<Arc<Secret>>,
    /// Perhaps in its body.
    body: Vec<Arc<Secret>>,
    tally: Arc<Tally>,
    since: Instant,
}

impl Late {
    /// Of a request with these in its head, and those that treat it.
    pub(super) fn of(
        keeper: &Arc<dyn Keeper>,
        mut head: Vec<Arc<Secret>>,
        treats: &[Arc<dyn Treat>],
        body: Option<&BodyPlan>,
        tally: &Arc<Tally>,
    ) -> Option<Self> {
        head.extend(treats.iter().map(|treat| Arc::clone(treat.secret())));
        let body: Vec<_> = body.map(BodyPlan::kept).unwrap_or_default();
        (!head.is_empty() || !body.is_empty()).then(|| Self {
            keeper: Arc::clone(keeper),
            head,
            body,
            tally: Arc::clone(tally),
            since: Instant::now(),
        })
    }

    /// Whether the request may go now.
    ///
    /// # Errors
    /// [`SecretUnavailable`]: something in it was revoked since.
    pub fn look(&self) -> Result<(), SecretUnavailable> {
        if self.since.elapsed() < LATE {
            return Ok(());
        }
        let names = self.tally.names();
        let placed = |secret: &&Arc<Secret>| names.contains(secret.name.shared());
        let mut used = self.head.iter().chain(self.body.iter().filter(placed));
        match used.find(|secret| !self.keeper.stands(secret)) {
            Some(secret) => Err(SecretUnavailable::Ended {
                name: secret.name.clone(),
            }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}

/// Who was readied so short a time ago is not asked about again; as long as others' changes take to be heard of.
const LATE: Duration = Duration::from_millis(50);
