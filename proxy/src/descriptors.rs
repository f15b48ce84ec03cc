//! How many descriptors gig may have open, and how many of them one sandbox may take.
//!
//! Every connection is a descriptor of gig's, and all sandboxes of one gig share them: whatever one
//! does, some are left for the others and for gig itself.

use rustix::process::{Resource, getrlimit};

/// The process's limit, as it was when the proxy started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors(u32);

impl Descriptors {
    /// What the process is allowed now.
    #[must_use]
    pub fn of_process() -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        Self(limit.map_or(u32::MAX, |limit| u32::try_from(limit).unwrap_or(u32::MAX)))
    }

    /// The most that connections of one sandbox to origins may take: a quarter.
    #[must_use]
    pub const fn for_origins(self) -> u32 {
        let quarter = self.0 / 4;
        if quarter == 0 { 1 } else { quarter }
    }

    /// The most that connections of one sandbox to gig may take: an eighth.
    #[must_use]
    pub const fn for_sandbox(self) -> u32 {
        self.0 / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sandbox_leaves_most_of_them_to_others() {
        // The least that a process is given anywhere: what a policy allows unstated fits.
        let few = Descriptors(1024);
        assert_eq!((few.for_sandbox(), few.for_origins()), (128, 256));
        assert!(Descriptors::of_process().0 > 0);
    }
}
