//! Who answers by a webhook: nobody that gig knows as a person, and what that lets them do.

use std::net::SocketAddr;

use super::Caller;
use crate::{
    narrowing::Narrowing,
    pages::Beside,
    role::Role,
    store::{Standing, Webhook},
};

impl Caller {
    /// Somebody who answers by a webhook, which vouches for them: nobody that gig knows as a person.
    /// With `rules` somebody who, by that, writes a rule that only a user here writes, who may.
    pub(crate) fn of_webhook(
        webhook: &Webhook,
        (user, rules): (&str, bool),
        address: Option<SocketAddr>,
    ) -> Self {
        let name = webhook.name.as_str();
        // Who reads the record knows them by their name here.
        let who = match webhook.user_here(user) {
            Some(here) if here != user => format!("{user}, {here} here"),
            _ => user.to_owned(),
        };
        Self {
            name: format!("webhook {name} ({who})").into(),
            role: Role::Editor,
            session: None,
            narrowing: Narrowing::of_webhook(),
            person: None,
            needs_factor: false,
            owner: false,
            standing: Standing::Webhook {
                name: name.into(),
                user: user.into(),
                rules,
            },
            by_token: false,
            once: None,
            request: None,
            address,
            beside: Beside::default(),
            unkept: None,
        }
    }

    /// Whether they may let pass more than one method and path: nobody for whom a webhook alone vouches may.
    pub(crate) fn opens_hosts(&self) -> bool {
        !matches!(self.standing, Standing::Webhook { rules: false, .. })
    }

    /// Whether a webhook says who they are.
    pub(crate) fn is_vouched_for(&self) -> bool {
        matches!(self.standing, Standing::Webhook { .. })
    }
}
