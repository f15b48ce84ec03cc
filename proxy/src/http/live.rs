//! The secrets of what outlives its request: what may go into a WebSocket is asked for anew with each message,
//! what may come back with each piece of an answer. What was revoked, rotated or taken out of the policy holds
//! from the next one on.

use std::{fmt, sync::Arc};

use gig_policy::{Policy, RequestPermit, SecretGrant, Verdict};
use gig_vault::Guarded;
use parking_lot::Mutex;

use crate::{
    credential::{
        Readying, Wallet,
        body::{BodyPlan, Passes},
        inject::{readied, swappable_now},
        scrub::{Scrub, answer::Newest},
        wallet::Held,
    },
    enforce::request::Asked,
};

/// What a request asked for, and who asked.
#[derive(Clone)]
pub(super) struct Live {
    asked: Asked,
    wallet: Arc<Wallet>,
}

impl Live {
    /// `None` for a sandbox that may use no secrets.
    pub(super) fn new(asked: &Asked) -> Option<Self> {
        let wallet = Arc::clone(asked.subject.wallet()?);
        Some(Self {
            asked: asked.clone(),
            wallet,
        })
    }

    /// What the policy in force says of such a request; `None`: it no longer allows it.
    fn permit(&self) -> Option<RequestPermit> {
        let asked = &self.asked;
        match asked.decided_by(&asked.subject.policy()) {
            Verdict::Allow(permit) => Some(permit),
            Verdict::Deny(_) => None,
        }
    }

    /// What it grants to such a request.
    fn granted(&self) -> Vec<SecretGrant> {
        let permit = self.permit();
        permit.map_or_else(Vec::new, |permit| {
            self.wallet.placed(permit.secrets()).into_owned()
        })
    }

    /// What has to be waited for before the next message.
    pub(super) fn readied(&self) -> Option<Readying> {
        readied(&self.wallet, &self.granted())
    }

    /// What the next message passes through, planned for like this one.
    pub(super) fn passes(&self, like: &BodyPlan) -> Passes {
        self.wallet.forget_expired();
        let granted = self.granted();
        let swappable = swappable_now(&self.wallet, &granted);
        let watch = self.wallet.border().watch();
        like.renewed(&watch, &granted, swappable).passes()
    }

    /// What the sandbox must not see from now on, whenever that is asked.
    pub(super) fn newest(self) -> Newest {
        let last = Mutex::<Option<Seen>>::default();
        Newest::new(move || {
            let basis = self.basis();
            let mut last = last.lock();
            match &*last {
                Some(seen) if seen.basis.is(&basis) => {}
                _ => {
                    let scrub = self.scrub();
                    *last = Some(Seen { basis, scrub });
                }
            }
            last.as_ref().and_then(|seen| seen.scrub.clone())
        })
    }

    fn scrub(&self) -> Option<Arc<Scrub>> {
        let permit = self.permit();
        let bound = permit.as_ref().map_or(&[][..], RequestPermit::bound);
        self.wallet.scrub(bound)
    }

    fn basis(&self) -> Basis {
        Basis {
            policy: self.asked.subject.policy(),
            held: self.wallet.held(),
            kept: self.wallet.border().keeper().lately_guarded(),
        }
    }
}

/// What was told last, and by what.
struct Seen {
    basis: Basis,
    scrub: Option<Arc<Scrub>>,
}

/// All that what may come back depends on; each is another one where it changed.
struct Basis {
    policy: Policy,
    held: Arc<Vec<Held>>,
    kept: Arc<Guarded>,
}

impl Basis {
    fn is(&self, other: &Self) -> bool {
        self.policy.is(&other.policy)
            && Arc::ptr_eq(&self.held, &other.held)
            && Arc::ptr_eq(&self.kept, &other.kept)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Live({})", self.asked.id)
    }
}
