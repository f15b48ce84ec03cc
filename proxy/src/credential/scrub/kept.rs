//! What was compiled is kept until a value or a sentinel changes.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use gig_vault::{Guarded, Keeper};

use super::own::Own;
use crate::credential::wallet::Held;

/// The values of a wallet.
#[derive(Debug, Default)]
pub(in crate::credential) struct KeptScrub(ArcSwapOption<Compiled>);

#[derive(Debug)]
struct Compiled {
    held: Arc<Vec<Held>>,
    kept: Arc<Guarded>,
    own: Option<Arc<Own>>,
}

impl KeptScrub {
    /// For `held`, of what the keeper knows; `None` when there is nothing to look for.
    pub(in crate::credential) fn of(
        &self,
        held: Arc<Vec<Held>>,
        kept: Arc<Guarded>,
        keeper: &dyn Keeper,
    ) -> Option<Arc<Own>> {
        if let Some(known) = &*self.0.load()
            && Arc::ptr_eq(&known.held, &held)
            && Arc::ptr_eq(&known.kept, &kept)
        {
            return known.own.clone();
        }
        let own = Own::new(&kept, &held, keeper).map(Arc::new);
        self.0.store(Some(Arc::new(Compiled {
            held,
            kept,
            own: own.clone(),
        })));
        own
    }
}
