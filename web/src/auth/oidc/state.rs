//! How the provider was when it was asked last: a part of Health, and of gig's own log where it failed. Nobody is
//! asked for it: it is known from sign-ins.

use super::{Refused, SingleSignOn};
use crate::app::App;

impl SingleSignOn {
    /// It answered as it should.
    pub(super) fn works(&self, app: &App) {
        let words = format!("{} vouched for somebody last at {}", self.host(), app.now());
        app.watch.say(PART, true, words);
    }

    /// It failed, if what was refused is its failure and nobody else's.
    pub(super) fn failed(&self, app: &App, refused: &Refused) {
        let Refused::Provider(why) = refused else {
            return;
        };
        let (host, at) = (self.host(), app.now());
        tracing::warn!(provider = host, why, "nobody can be signed in by it");
        app.watch.say(
            PART,
            false,
            format!(
                "{host} cannot be used, at {at}: {why}; who has a password here signs in by that"
            ),
        );
    }
}

const PART: &str = "single sign-on";
