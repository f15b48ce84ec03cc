//! Between the proxy, where requests wait, and the appliance, whose people are asked.

use std::sync::Arc;

use gig_proxy::hold::{Desk, Held, Ticket, Word};
use gig_web::{
    HeldDesk,
    store::{HeldFacts, shortened},
};
use tokio::sync::oneshot;

/// The appliance's desk, as the proxy asks it.
#[derive(Debug)]
pub(super) struct People(pub(super) Arc<HeldDesk>);

impl Desk for People {
    fn put_up(&self, held: Held) -> Option<Ticket> {
        let (send, word) = oneshot::channel();
        let text = |text: &Arc<str>| text.to_string();
        let facts = HeldFacts {
            sandbox: held.sandbox.to_string(),
            server: held.server.as_ref().map(text).unwrap_or_default(),
            profile: held.profile.as_ref().map(text).unwrap_or_default(),
            // The appliance knows.
            started_by: Vec::new(),
            host: text(&held.host),
            port: held.port,
            protocol: held.protocol.to_owned(),
            // What was cut no rule names: the sign for it is in none.
            method: held.method.map(|text| shortened(&text, LONGEST)),
            path: held.path.map(|text| shortened(&text, LONGEST)),
            policy: text(&held.policy.0),
            policy_version: held.policy.1,
            reason: held.reason.to_string(),
        };
        let tell = move |said: gig_web::Said| {
            let word = match said.allow {
                true => Word::Allow(said.by),
                false => Word::Deny(said.by),
            };
            // Who waited may have gone.
            let _nobody = send.send(word);
        };
        let place = self.0.put_up(&held.id, facts, held.most, Box::new(tell))?;
        Some(Ticket {
            word,
            place: Box::new(place),
        })
    }
}

/// In characters, of what a program chose: a rule names no longer path, and people read none.
const LONGEST: usize = 2048;
