//! What was compiled is kept until a value or a sentinel changes.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use gig_vault::{Guarded, Keeper};

use super::{Scrub, pattern::Patterns};
use crate::credential::wallet::Held;

/// The patterns of a border.
#[derive(Debug, Default)]
pub(in crate::credential) struct KeptPatterns(ArcSwapOption<Patterns>);

/// The sentinels of a wallet for the values of a border.
#[derive(Debug, Default)]
pub(in crate::credential) struct KeptScrub(ArcSwapOption<Compiled>);

#[derive(Debug)]
struct Compiled {
    held: Arc<Vec<Held>>,
    patterns: Arc<Patterns>,
    scrub: Option<Arc<Scrub>>,
}

impl KeptPatterns {
    /// Those of `guarded`.
    pub(in crate::credential) fn of(&self, guarded: Arc<Guarded>) -> Arc<Patterns> {
        if let Some(patterns) = &*self.0.load()
            && Arc::ptr_eq(patterns.guarded(), &guarded)
        {
            return Arc::clone(patterns);
        }
        let patterns = Arc::new(Patterns::new(guarded));
        self.0.store(Some(Arc::clone(&patterns)));
        patterns
    }
}

impl KeptScrub {
    /// For `held`; `None` when there is nothing to look for.
    pub(in crate::credential) fn of(
        &self,
        held: Arc<Vec<Held>>,
        patterns: Arc<Patterns>,
        keeper: &dyn Keeper,
    ) -> Option<Arc<Scrub>> {
        if let Some(known) = &*self.0.load()
            && Arc::ptr_eq(&known.held, &held)
            && Arc::ptr_eq(&known.patterns, &patterns)
        {
            return known.scrub.clone();
        }
        let scrub = Scrub::new(&patterns, &held, keeper);
        self.0.store(Some(Arc::new(Compiled {
            held,
            patterns,
            scrub: scrub.clone(),
        })));
        scrub
    }
}
